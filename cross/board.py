"""The client of cross/board.sh: calls a server under emulation in both eras and reports the memory it took.

Usage: board.py EMULATOR FLOOR SERVER PANICS CLIENT TINYMCP [--http]
"""

import http.client
import json
import re
import subprocess
import sys
import tempfile

ROOM = 16 << 20
# Resident memory of an idle server on the board after the first calls, in kB more than the floor's.
MOST_IDLE = 300
# Resident kB of `tinymcp serve` on the board, idle after a call: the bound that must hold, and the goal, for information.
MOST_SERVE, GOAL_SERVE = 590, 500
# With a program of this machine.
DEFINITION = {"tools": {"greet": {"description": "Says hello", "run": ["/bin/echo", "hello"]}}}
# Address at which the emulator places the board's 4 GiB: memory there is the program's, other memory the emulator's.
BOARD = 0x200000000000
MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {name: int(fields[name].split()[0]) for name in ("VmData", "VmHWM", "VmRSS", "RssAnon", "Threads")}


def on_board(pid):
    """Resident part of the program's own memory, and the anonymous part of that, in kB."""
    found, here = {"Rss": 0, "Anonymous": 0}, False
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            name, value = line.split()[:2]
            if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
                here = BOARD <= int(name.split("-")[0], 16) < BOARD + (1 << 32)
            elif here and name[:-1] in found:
                found[name[:-1]] += int(value)
    assert found["Rss"] > 0, "the emulator put the program elsewhere"
    return found["Rss"], found["Anonymous"]


def request(number, method, params, modern):
    params = dict(params, _meta=META) if modern else params
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def greeting(number):
    client = {"name": "board", "version": "1"}
    return request(number, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}, False)


def echo(number, text, modern):
    return request(number, "tools/call", {"name": "echo", "arguments": {"text": text}}, modern)


def text_of(answer):
    return answer["result"]["content"][0]["text"]


class Program:
    """A program under emulation, with a limit of its private memory unless that is None."""

    def __init__(self, command, limit=None):
        before = ["prlimit", f"--data={limit}", "--core=0"] if limit else []
        command = [command[0], "-B", hex(BOARD), *command[1:]]
        self.process = subprocess.Popen(before + command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, *messages):
        self.process.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in messages))
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def call(self, message):
        self.send(message)
        return self.receive()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0, "the server did not end well"


def stdio(emulator, server, limit):
    program = Program([emulator, server, "--stdio"], limit)
    try:
        assert program.call(greeting(0))["result"]["protocolVersion"] == "2025-11-25"
        program.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for modern in (False, True):
            assert text_of(program.call(echo(1, "hello", modern))) == "hello"
        idle = status(program.process.pid)
        resident, anonymous = on_board(program.process.pid)
        more = resident - FLOOR["board"]
        print(f"stdio: idle {resident} kB resident of the board's memory, {more} more than the floor, {anonymous} anonymous")
        assert more <= MOST_IDLE, f"more than {MOST_IDLE} kB above the floor"
        for modern in (False, True):
            tools = program.call(request(2, "tools/list", {}, modern))["result"]["tools"]
            assert "echo" in [tool["name"] for tool in tools]
            # More calls at once than the queue holds.
            program.send(*(echo(1000 + n, f"text {n}", modern) for n in range(400)))
            answers = {answer["id"]: text_of(answer) for answer in (program.receive() for _ in range(400))}
            assert answers == {1000 + n: f"text {n}" for n in range(400)}
            wrong = program.call(request(3, "tools/call", {"name": "echo", "arguments": {"text": 1}}, modern))
            assert wrong["result"]["isError"], wrong
            large = "x" * (1 << 20)
            assert text_of(program.call(echo(4, large, modern))) == large
        program.send({"jsonrpc": "2.0", "id": 5, "method": "nothing", "params": {"text": "y" * (8 << 20)}})
        assert program.receive()["error"]["code"] == -32600
        # A number beyond 32 bits is returned unchanged.
        assert program.call(echo((1 << 53) - 1, "far", True))["id"] == (1 << 53) - 1
        report("stdio", idle, status(program.process.pid), limit)
        program.end()
    finally:
        program.process.kill()


def over_http(emulator, server, limit):
    program = subprocess.Popen(
        ["prlimit", f"--data={limit}", "--core=0", emulator, server, "--http", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
    )
    try:
        port = int(re.search(rb"127\.0\.0\.1:(\d+)", program.stderr.readline()).group(1))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def post(message, headers):
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
            connection.request("POST", "/mcp", json.dumps(message), headers)
            answer = connection.getresponse()
            body = answer.read().decode()
            if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                body = [line[5:] for line in body.splitlines() if line.startswith("data:")][-1]
            return answer, json.loads(body) if body.strip() else None

        def modern(message, name=None):
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
            return post(message, headers | ({"Mcp-Name": name} if name else {}))[1]

        answer, greeted = post(greeting(0), {})
        assert greeted["result"]["protocolVersion"] == "2025-11-25", greeted
        session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
        post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        assert text_of(post(echo(1, "hello", False), session)[1]) == "hello"
        assert text_of(modern(echo(1, "hello", True), "echo")) == "hello"
        idle = status(program.pid)
        large = "x" * (1 << 20)
        for n in range(100):
            assert text_of(post(echo(2 + n, f"text {n}", False), session)[1]) == f"text {n}"
            assert text_of(modern(echo(2 + n, f"text {n}", True), "echo")) == f"text {n}"
        assert text_of(post(echo(200, large, False), session)[1]) == large
        assert text_of(modern(echo(200, large, True), "echo")) == large
        report("http", idle, status(program.pid), limit)
        our_client("--url", f"http://127.0.0.1:{port}/mcp")
        program.terminate()
        assert program.wait(60) == 0, "the server did not end well"
    finally:
        program.kill()


def our_client(*where):
    """Calls the server with the program `tinymcp`."""
    for protocol in ("session", "stateless"):
        command = [client, "call", "echo", '{"text": "from here"}', "--protocol", protocol, *where]
        answer = json.loads(subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True).stdout)
        assert answer["content"][0]["text"] == "from here", answer
    print(f"tinymcp call … {where[0]}: answered in both protocols")


def panics(emulator, server):
    """A panic ends the process: earlier responses are complete, and the client sees the end at once."""
    program = Program([emulator, server])
    program.call(greeting(0))
    # No more than a pipe holds, as nothing is read meanwhile.
    program.send(*(echo(n, "x" * 500, False) for n in range(1, 51)))
    assert [program.receive()["id"] for _ in range(50)] == list(range(1, 51))
    program.send(request(51, "tools/call", {"name": "panic", "arguments": {}}, False))
    assert program.process.stdout.read() == b"", "half a message"
    # SIGABRT or SIGILL, as the standard library ends it.
    assert program.process.wait(60) < 0, "the process did not die of its panic"
    print("panic: the process ended, nothing half was written")


def serve(emulator, tinymcp):
    """Memory of `tinymcp serve`, without its programs."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(DEFINITION, file)
        file.flush()
        program = Program([emulator, tinymcp, "serve", file.name])
        try:
            greeted = program.call(request(1, "tools/call", {"name": "greet", "arguments": {}}, True))
            assert text_of(greeted) == "hello\n", greeted
            resident, anonymous = on_board(program.process.pid)
            print(
                f"tinymcp serve: idle {resident} kB resident of the board's memory, {anonymous} anonymous; the goal is "
                f"{GOAL_SERVE} kB"
            )
            assert resident <= MOST_SERVE, f"more than {MOST_SERVE} kB"
            program.end()
        finally:
            program.process.kill()


def report(name, idle, end, limit):
    room = (limit - FLOOR["VmData"] * 1024) >> 10
    print(
        f"{name}: with what the emulator takes for it, idle {idle['VmRSS'] - FLOOR['VmRSS']} kB more resident than the "
        f"floor, {idle['RssAnon'] - FLOOR['RssAnon']} kB of it anonymous, {idle['Threads']} threads; "
        f"in the end {end['VmHWM'] - FLOOR['VmHWM']} kB at most, {end['VmData'] - FLOOR['VmData']} of {room} kB private"
    )


def measure(emulator, floor):
    program = Program([emulator, floor])
    program.call({"echo": 1})
    found = status(program.process.pid)
    found["board"], _ = on_board(program.process.pid)
    program.end()
    return found


emulator, floor, server, panicking, client, tinymcp = sys.argv[1:7]
FLOOR = measure(emulator, floor)
limit = FLOOR["VmData"] * 1024 + ROOM
stdio(emulator, server, limit)
our_client("--", emulator, server, "--stdio")
panics(emulator, panicking)
serve(emulator, tinymcp)
if "--http" in sys.argv:
    over_http(emulator, server, limit)
