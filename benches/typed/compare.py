#!/usr/bin/env python3
"""Compares one server with five tools on record!, miniserde, serde, and on rmcp with serde; and a program that
sends each line back, which shows what the standard library alone takes (cross/floor).

    benches/typed/compare.py [--without-rmcp] [--without-clean] [--target FOLDER]

--without-rmcp    leave out the peer, whose build takes minutes
--without-clean   build without deleting the target folders first; compile times are dashes then
--target FOLDER   folder for the builds, by default target/typed-bench of the repository

Lines are code lines without comments and blank lines. Compile times are processor seconds of a build from an
empty target folder, with everything that it needs downloaded. Memory is that of a server after 400 calls.
The rows `small` are a program as boards run it: static with musl, and with a standard library that is compiled for
size (cross/build); all with the compiler of cross/setup-newer, as rmcp does not compile with that of cross/setup.
The tools run on the thread that reads, as rmcp's synchronous functions do. Instructions are counted by
valgrind: the difference between runs with 1100 and with 100 calls, for each call, in all threads. Latency is
the median time from the write of a call to its response, without the time to encode or decode them here, of
rounds in which the servers take turns. All run on one processor: between two, most of the time would be that of
waking the other one, which depends on the machine's other work. Needs valgrind and what cross/setup needs.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CROSS = HERE.parent.parent / "cross"
SERVERS = {
    # Name: package folder, cargo features, program.
    "record!": (HERE, [], "record"),
    "miniserde": (HERE, ["miniserde"], "miniserde"),
    "serde": (HERE, ["serde"], "serde"),
    "rmcp": (HERE / "rmcp-typed", [], "rmcp-typed"),
    "lines only": (CROSS / "floor", [], "line-echo"),
}
ONE_TOOL = {"record!": "one-record", "miniserde": "one-miniserde", "serde": "one-serde"}
CALLS = [
    ("add", {"a": 20, "b": 22}),
    ("set_pin", {"pin": 17, "level": "low", "hold_ms": 250}),
    ("search", {"query": "lamp", "tags": ["a", "b"], "limit": 3}),
    ("stats", {"values": [1.5, 2.5, 3.5, 4.5]}),
    ("note", {"text": "hello", "by": "alice"}),
]


class Server:
    """A process that is called over its standard streams, in a session."""

    def __init__(self, command, sends_back=False):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.next = 0
        self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        if sends_back:
            self.process.stdout.readline()

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.next += 1
        self.send({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        return json.loads(self.process.stdout.readline())

    def call(self, number):
        name, arguments = CALLS[number % len(CALLS)]
        answer = self.request("tools/call", {"name": name, "arguments": arguments})
        if answer.get("result", {}).get("isError"):
            sys.exit(f"{name}: {answer}")
        return answer

    def round(self, calls):
        """Makes calls and returns the time of each in nanoseconds."""
        messages = []
        for number in range(calls):
            self.next += 1
            name, arguments = CALLS[number % len(CALLS)]
            params = {"name": name, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params}
            messages.append(json.dumps(message).encode() + b"\n")
        to, out = self.process.stdin.fileno(), self.process.stdout.fileno()
        times = []
        for message in messages:
            begin = time.perf_counter_ns()
            os.write(to, message)
            response = os.read(out, 65536)
            while not response.endswith(b"\n"):
                response += os.read(out, 65536)
            times.append(time.perf_counter_ns() - begin)
        return times

    def memory(self):
        rollup = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return {name: int(re.search(rf"^{name}: +(\d+)", rollup, re.M)[1]) for name in ("Rss", "Anonymous")}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def start(name, program):
    return Server([str(program)], sends_back=name == "lines only")


def build(name, profile, target, program=None):
    """Builds a program and returns its path and the processor seconds."""
    package, features, own = SERVERS[name]
    program = program or own
    command = ["cargo", "build", "--quiet", "--manifest-path", str(package / "Cargo.toml"), "--profile", profile]
    command += ["--target-dir", str(target), "--bin", program]
    if features:
        command += ["--features", ",".join(features)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return target / profile / program, seconds


def build_small(name, target):
    """Builds a program as boards run it, and returns its path."""
    package, features, program = SERVERS[name]
    command = [str(CROSS / "build"), "--newer", "--manifest", str(package / "Cargo.toml")]
    command += ["--features", ",".join(features), "x86_64-musl", program]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
    built = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(built.stdout.strip())


def code_lines(name):
    package, _, program = SERVERS[name]
    source = package / "src" / f"bin/{program}.rs"
    if not source.exists():
        source = package / "src" / "main.rs"
    lines = [line.strip() for line in source.read_text().splitlines()]
    return sum(1 for line in lines if line and not line.startswith("//"))


def instructions(name, program):
    """Instructions of one call, in all threads."""

    def count(calls):
        with tempfile.NamedTemporaryFile() as log:
            command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
            command += [f"--log-file={log.name}", str(program)]
            server = Server(command, sends_back=name == "lines only")
            for number in range(calls):
                server.call(number)
            server.end()
            return int(re.search(r"I +refs: +([\d,]+)", pathlib.Path(log.name).read_text())[1].replace(",", ""))

    return (count(1100) - count(100)) / 1000


def latencies(programs, rounds=9, calls=1000):
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cpus)})
    servers = {name: start(name, program) for name, program in programs.items()}
    times = {name: [] for name in programs}
    for _ in range(rounds):
        for name, server in servers.items():
            times[name] += server.round(calls)
    for server in servers.values():
        server.end()
    os.sched_setaffinity(0, cpus)
    return {name: statistics.median(all_times) / 1000 for name, all_times in times.items()}


def memory(name, program):
    server = start(name, program)
    for number in range(400):
        server.call(number)
    used = server.memory()
    server.end()
    return used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-rmcp", action="store_true")
    parser.add_argument("--without-clean", action="store_true")
    parser.add_argument("--target", type=pathlib.Path, default=HERE.parent.parent / "target" / "typed-bench")
    options = parser.parse_args()
    os.environ.pop("CARGO_TARGET_DIR", None)
    names = [name for name in SERVERS if not (options.without_rmcp and name == "rmcp")]
    rows, programs = {}, {}
    for name in names:
        target = options.target / name.strip("!")
        if not options.without_clean:
            shutil.rmtree(target, ignore_errors=True)
        programs[name], seconds = build(name, "release", target)
        board, _ = build(name, "board", target)
        one = build(name, "board", target, ONE_TOOL[name])[0] if name in ONE_TOOL else None
        used = memory(name, programs[name])
        small = build_small(name, target)
        small_used = memory(name, small)
        rows[name] = {
            "code lines": code_lines(name),
            "compile time from clean, processor seconds": "–" if options.without_clean else round(seconds, 1),
            "program, profile release, bytes": programs[name].stat().st_size,
            "program, profile board, bytes": board.stat().st_size,
            "one tool, profile board, bytes": one.stat().st_size if one else "–",
            "small program, bytes": small.stat().st_size,
            "resident memory, KiB": used["Rss"],
            "anonymous memory, KiB": used["Anonymous"],
            "small, resident memory, KiB": small_used["Rss"],
            "small, anonymous memory, KiB": small_used["Anonymous"],
        }
    for name, median in latencies(programs).items():
        rows[name]["latency p50, one processor, µs"] = round(median, 1)
    for name, program in programs.items():
        rows[name]["instructions of a call"] = round(instructions(name, program))
    print("| |" + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    for label in rows[names[0]]:
        print(f"| {label} | " + " | ".join(str(rows[name][label]) for name in names) + " |")


if __name__ == "__main__":
    main()
