"""The client of cross/resident: calls servers over stdio and reports the memory they took.

Usage: resident.py NAME FLOOR SERVER [NAME FLOOR SERVER …] [--serve TINYMCP]
"""

import json
import os
import subprocess
import sys
import tempfile

# Both in kB: over the floor's, and over idle for a payload of 1 MiB.
MOST_IDLE = 300
MOST_PEAK = 5 * 1024
# Resident kB of `tinymcp serve`: the bound that must hold, and the goal, for information.
MOST_SERVE, GOAL_SERVE = 780, 500
# Number of starts for each median: the pages that the kernel maps around a fault depend on its other work.
STARTS = 5


def fields(path):
    with open(path) as file:
        lines = (line.split() for line in file)
        return {parts[0].rstrip(":"): int(parts[1]) for parts in lines if len(parts) > 1 and parts[1].isdigit()}


def forget(path):
    """Has the program's pages read from the disk again, as after the start of the machine: of those that a linker has
    just written the kernel maps whole stretches, whether they were asked for or not."""
    with open(path, "rb") as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Program:
    def __init__(self, path, *arguments):
        forget(path)
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.folder = f"/proc/{self.process.pid}"

    def call(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the program is gone"
        return json.loads(line)

    def memory(self):
        rollup = fields(f"{self.folder}/smaps_rollup")
        return rollup["Rss"], rollup["Anonymous"]

    def open(self):
        client = {"name": "resident", "version": "1"}
        opened = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.call({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opened})
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def peak(self):
        return fields(f"{self.folder}/status")["VmHWM"]

    def forget_peak(self):
        with open(f"{self.folder}/clear_refs", "w") as file:
            file.write("5")

    def threads(self):
        return len(os.listdir(f"{self.folder}/task"))

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0, "the program did not end well"


def tool(number, name, arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def echo(number, text):
    return tool(number, "echo", {"text": text})


def floor(path):
    program = Program(path)
    program.call({"echo": 1})
    resident, anonymous = program.memory()
    program.end()
    return resident, anonymous


def server(path):
    program = Program(path)
    program.open()
    answer = program.call(echo(1, "hello"))
    assert answer["result"]["content"][0]["text"] == "hello", answer
    resident, anonymous = program.memory()
    threads = program.threads()
    program.forget_peak()
    text = "x" * (1 << 20)
    assert program.call(echo(2, text))["result"]["content"][0]["text"] == text
    peak = program.peak() - resident
    program.end()
    return resident, anonymous, threads, peak


ANSWER = """while read -r call; do id=${{call#*:}}; echo '{{"id": '${{id%%,*}}', "result": "hello"}}'; done"""
DEFINITION = {
    "tools": {
        "greet": {"description": "Says hello", "run": ["/bin/echo", "hello"]},
        "echo": {"description": "Says hello", "input": {"text": "string"}, "worker": ["/bin/sh", "-c", ANSWER]},
    }
}


def serve(path, file, calls):
    """Memory of `tinymcp serve`, without its programs, idle after these calls."""
    program = Program(path, "serve", file)
    program.open()
    for call in calls:
        answer = program.call(call)
        assert answer["result"]["content"][0]["text"].strip() == "hello", answer
    resident, anonymous = program.memory()
    threads = program.threads()
    program.end()
    return resident, anonymous, threads


def medians(rows):
    return [sorted(column)[len(column) // 2] for column in zip(*rows)]


print(f"{'library':<9} {'program':<11} {'bytes':>9} {'resident kB':>11} {'anonymous':>9} {'above floor':>11} {'threads':>7} {'1 MiB echo, kB over idle':>24}")
failed = False
programs, tinymcp = sys.argv[1:], None
if "--serve" in programs:
    *programs, _, tinymcp = programs
for name, floor_path, server_path in zip(*[iter(programs)] * 3):
    low = medians([floor(floor_path) for _ in range(STARTS)])
    print(f"{name:<9} {'line echo':<11} {os.path.getsize(floor_path):>9} {low[0]:>11} {low[1]:>9}")
    resident, anonymous, threads, peak = medians([server(server_path) for _ in range(STARTS)])
    above = resident - low[0]
    failed |= above > MOST_IDLE or peak > MOST_PEAK
    size = os.path.getsize(server_path)
    print(f"{name:<9} {'server':<11} {size:>9} {resident:>11} {anonymous:>9} {above:>11} {threads:>7} {peak:>24}")
if tinymcp:
    size = os.path.getsize(tinymcp)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(DEFINITION, file)
        file.flush()
        for kind, call in [("a program", tool(1, "greet", {})), ("a worker", echo(1, "hello"))]:
            resident, anonymous, threads = medians([serve(tinymcp, file.name, [call]) for _ in range(STARTS)])
            failed |= resident > MOST_SERVE
            print(
                f"tinymcp serve of {size} bytes, idle after a call of {kind}: {resident} kB resident, {anonymous} "
                f"anonymous, {threads} threads; the goal is {GOAL_SERVE} kB"
            )
sys.exit(failed)
