"""Latency that bridges from stdio to Streamable HTTP add to a call, and their memory, in one interleaved run.

Used as `python3 latency.py [options] TINYMCP ECHO_SERVER`; `run.sh` builds and installs the programs. One raw client, a
connection that stays open and one request at a time, calls the same server directly and through each bridge. The
requests differ in their ids only. Samples are taken in turns, a few calls of each way, so that a load on the machine
changes all of them.

A bridge from stdio to HTTP adds the work of HTTP, which every client over HTTP pays, and its own. So there are two
columns: the difference of the medians to the direct call over stdio, and to the direct call over HTTP of the same tool in
the same server. The bars concern the second one and the run on one CPU; with several CPUs, most of the time is the
wake-up of an idle CPU.
"""

import argparse
import json
import os
import re
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "conformance"))

from ports import reserve  # noqa: E402

PROTOCOL = "2025-11-25"
# Calls of one way before the next one has its turn.
TURN = 20
WARM_UP = 300
# Seconds after which an idle connection is not used again; Node closes it after five.
IDLE = 2
# Seconds until a program that does not answer is a failure.
PATIENCE = 60
# Bars: added µs; times as much as the others; share of their memory.
ADDED, TIMES, MEMORY = 40.0, 10.0, 0.1
OTHERS = ("supergateway", "mcp-proxy")
FIRST_ID = 1_000_000


def message(method, params, id=None):
    request = {"jsonrpc": "2.0", "method": method, "params": params}
    if id is not None:
        request = {"jsonrpc": "2.0", "id": id, **{k: request[k] for k in ("method", "params")}}
    return json.dumps(request).encode()


OPENING = message(
    "initialize",
    {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "latency", "version": "1"}},
    0,
)
OPENED = message("notifications/initialized", {})


class Way:
    """A way to the server: the program at its end and a connection."""

    def __init__(self, name, command, tool, **popen):
        self.name, self.samples, self.id = name, [], FIRST_ID
        call = message("tools/call", {"name": tool.name, "arguments": tool.arguments}, FIRST_ID)
        self.before, self.behind = call.split(b"%d" % FIRST_ID)
        self.expected = tool.expected
        self.child = subprocess.Popen(command, stderr=subprocess.DEVNULL, **popen)

    def sample(self):
        """Time of one call in ns."""
        self.id += 1
        request, id = self.request(), b"%d" % self.id
        began = time.perf_counter_ns()
        answer = self.exchange(request)
        self.samples.append(time.perf_counter_ns() - began)
        assert id in answer and self.expected in answer, f"{self.name}: {answer[:1000]}"

    def turn(self, calls):
        self.wake()
        for _ in range(calls):
            self.sample()

    def wake(self):
        pass

    def memory(self):
        """Resident memory in kB, of the program alone."""
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.child.pid}/status").read_text())[1])

    def end(self):
        if self.child.stdin:
            self.child.stdin.close()
        else:
            self.child.terminate()
        try:
            self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()


class Stdio(Way):
    def __init__(self, name, command, tool):
        super().__init__(name, command, tool, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.into, self.out = self.child.stdin.fileno(), self.child.stdout.fileno()
        assert select.select([], [self.into], [], PATIENCE)[1]
        self.exchange(OPENING + b"\n")
        os.write(self.into, OPENED + b"\n")

    def request(self):
        return b"".join((self.before, b"%d" % self.id, self.behind, b"\n"))

    def exchange(self, request):
        os.write(self.into, request)
        answer = os.read(self.out, 65536)
        while not answer.endswith(b"\n"):
            more = os.read(self.out, 65536)
            assert more, f"{self.name} ended: {answer}"
            answer += more
        # A server may report changed lists in between.
        return answer if b'"id"' in answer else self.exchange(b"")


class Http(Way):
    def __init__(self, name, command, tool, port, path="/mcp"):
        super().__init__(name, command, tool, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.port, self.path, self.fields = port, path, b""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end and self.child.poll() is None, f"{name} does not listen"
                time.sleep(0.05)
        head, _, _ = self.exchange(self.post(OPENING)).partition(b"\r\n\r\n")
        session = re.search(rb"mcp-session-id: *(\S+)", head, re.IGNORECASE)
        assert session, f"{name}: {head}"
        self.fields = b"Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n" % (session[1], PROTOCOL.encode())
        status = self.exchange(self.post(OPENED)).split(b" ", 2)[1]
        assert status == b"202", f"{name}: {status}"
        self.head = self.post(b"").removesuffix(b"0\r\n\r\n")

    def connect(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.used = time.monotonic()

    def wake(self):
        if time.monotonic() - self.used > IDLE:
            self.socket.close()
            self.connect()
        self.used = time.monotonic()

    def post(self, body):
        return (
            b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
            b"Accept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s"
            % (self.path.encode(), self.port, self.fields, len(body), body)
        )

    def request(self):
        body = b"".join((self.before, b"%d" % self.id, self.behind))
        return b"".join((self.head, b"%d\r\n\r\n" % len(body), body))

    def exchange(self, request):
        self.socket.sendall(request)
        answer = b""
        while True:
            more = self.socket.recv(65536)
            assert more, f"{self.name} closed the connection: {answer}"
            answer += more
            head = answer.find(b"\r\n\r\n")
            if head < 0:
                continue
            length = re.search(rb"content-length: *(\d+)", answer[:head], re.IGNORECASE)
            if length and len(answer) == head + 4 + int(length[1]):
                return answer
            if not length and (answer.endswith(b"\r\n0\r\n\r\n") or answer[9:12] in (b"202", b"204")):
                return answer


class Tool:
    def __init__(self, name, arguments, expected):
        self.name, self.arguments, self.expected = name, arguments, expected.encode()


def ways(options, server, tool, serves):
    """All ways to a server. `serves` gives the command that serves the same tool over HTTP at a port."""
    def http(name, command, path="/mcp"):
        port = reserve()
        return Http(name, command(port), tool, port, path)

    proxy = [options.tinymcp, "proxy"]
    yield Stdio("direct, stdio", server, tool)
    if serves:
        yield http("direct, HTTP", serves)
    yield Stdio("tinymcp proxy, stdio", [*proxy, "--", *server], tool)
    yield http("tinymcp proxy, HTTP", lambda port: [*proxy, "--http", f"127.0.0.1:{port}", "--", *server])
    quoted = " ".join(server)
    gateway = HERE / "node_modules/supergateway/dist/index.js"
    # Without --stateful it starts a process for each request.
    yield http(
        "supergateway",
        lambda port: [shutil.which("node"), str(gateway), "--stdio", quoted, "--outputTransport", "streamableHttp"]
        + ["--port", str(port), "--stateful", "--logLevel", "none"],
    )
    program = HERE / ".venv/bin/mcp-proxy"
    yield http("mcp-proxy", lambda port: [str(program), "--log-level", "ERROR", "--port", str(port), "--", *server])


def measure(options, title, server, tool, serves=None):
    """Prints the table of one server; returns medians in µs and memory in kB."""
    opened = []
    try:
        for way in ways(options, server, tool, serves):
            opened.append(way)
        for turn in range((WARM_UP + options.calls) // TURN):
            if turn == WARM_UP // TURN:
                for way in opened:
                    way.samples.clear()
            for way in opened:
                way.turn(TURN)
        p50 = {way.name: statistics.median(way.samples) / 1000 for way in opened}
        memory = {way.name: way.memory() for way in opened}
        print(f"\n{title}, {options.calls} calls of each way")
        print(f"{'':22}{'p10 µs':>9}{'p50 µs':>9}{'p90 µs':>9}{'to stdio':>10}{'to HTTP':>9}{'resident kB':>13}")
        for way in opened:
            tenths = [time / 1000 for time in statistics.quantiles(way.samples, n=10)]
            cells = f"{way.name:22}{tenths[0]:>9.1f}{p50[way.name]:>9.1f}{tenths[8]:>9.1f}"
            for base, width in (("direct, stdio", 10), ("direct, HTTP", 9)):
                over_it = base in p50 and not way.name.startswith("direct") and base[-4:] in (way.name[-4:], "tdio")
                over_it = over_it or (base in p50 and way.name in OTHERS)
                cells += f"{p50[way.name] - p50[base]:>{width}.1f}" if over_it else " " * width
            print(f"{cells}{memory[way.name]:>13}")
        for other in OTHERS:
            added = [
                f"{(p50[other] - p50[base]) / (p50['tinymcp proxy, HTTP'] - p50[base]):.1f} times {base[8:]}"
                for base in ("direct, stdio", "direct, HTTP")
                if base in p50
            ]
            print(f"{other} adds to {', '.join(added)}; memory {memory[other] / memory['tinymcp proxy, HTTP']:.1f} times")
        return p50, memory
    finally:
        for way in opened:
            way.end()


def missed(p50, memory):
    """The bars that these figures miss."""
    direct = p50["direct, HTTP"]
    ours = p50["tinymcp proxy, HTTP"] - direct
    if ours > ADDED:
        yield f"{ours:.1f} µs are added, the bar is {ADDED:.0f}"
    for name in OTHERS:
        if (times := (p50[name] - direct) / ours) < TIMES:
            yield f"{name} adds {times:.1f} times as much, the bar is {TIMES:.0f}"
        if (share := memory["tinymcp proxy, HTTP"] / memory[name]) > MEMORY:
            yield f"the proxy has {share:.2f} of the memory of {name}, the bar is {MEMORY}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--everything", metavar="FILE", help="server-everything, to be measured as another server")
    parser.add_argument("tinymcp")
    parser.add_argument("echo")
    options = parser.parse_args()
    echo = Tool("echo", {"text": "hello"}, '"hello"')
    misses = []
    for title, cpus in (("one CPU", {min(os.sched_getaffinity(0))}), ("all CPUs", os.sched_getaffinity(0))):
        os.sched_setaffinity(0, cpus)
        figures = measure(
            options,
            f"echo_server, all programs on {title}",
            [options.echo, "--stdio", "--inline"],
            echo,
            lambda port: [options.echo, "--inline", "--http", f"127.0.0.1:{port}"],
        )
        if title == "one CPU":
            misses += missed(*figures)
    if options.everything:
        server = [shutil.which("node"), options.everything]
        tool = Tool("echo", {"message": "hello"}, "Echo: hello")
        measure(options, "npm server-everything, all programs on all CPUs", server, tool)
    print("\nbars:", "; ".join(misses) or "all reached")
    sys.exit(1 if options.check and misses else 0)


if __name__ == "__main__":
    main()
