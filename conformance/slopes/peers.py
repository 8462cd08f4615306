"""Raw JSON-RPC peers over stdio and HTTP, and the figures of a process from /proc.

Every answer is matched with its request by id: an id that was not asked for, or that comes twice, is an error.
"""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from ports import printed_port  # noqa: E402

META = "io.modelcontextprotocol/"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
# Seconds until a peer that does not answer is a failure.
PATIENCE = 60
CHUNK = 1 << 16
# Seconds after which an idle connection is not used again.
IDLE = 60

# The figures are to show the memory that the program uses. One arena instead of one per thread, and no cache of free
# blocks in each thread: glibc counts cached blocks as used. A cache takes up to 7 blocks of each of 64 sizes, 230 kB,
# and fills for hundreds of thousands of operations; with ten threads that hides 100 bytes per operation.
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}

# Threads that a program starts when it needs them, and most of them by its limits. A pool starts a thread when all
# others are busy, which may happen for the first time after the warm-up.
WORKERS, HANDLERS = 4, 2  # Limits::workers, Limits::handlers
# Limits::http_threads, which the rows of a client set: its pool of 64 threads would grow for minutes. Two more threads
# send notifications and listen.
HTTP_THREADS = 8
LATE = {
    # Workers of a server, handlers of a client; a hub has both. With an upstream over HTTP its client sends by a pool.
    "mcp-worker-": {
        "server": WORKERS,
        "hub": WORKERS + HANDLERS,
        "hub, upstream over HTTP": WORKERS + HANDLERS + HTTP_THREADS + 2,
        "client": HANDLERS + HTTP_THREADS + 2,
    },
    # For messages to a client that does not read, held calls of a hub, subscriptions at a hub's only server.
    "mcp-post": {"server": 1, "hub": 1, "hub, upstream over HTTP": 1},
    "mcp-hub-held": {"hub": 1},
    "mcp-hub-updates": {"hub": 1},
}
# kB of anonymous memory that a thread may take when it starts: the touched part of its stack, and what it keeps.
THREAD = 32


def left_threads(kind, before, now):
    """Names and numbers of threads that were left behind by a program of this kind, a key of the bounds above."""
    grown = [(name, count) for name, count in now.items() if count > max(before[name], LATE.get(name, {}).get(kind, 0))]
    return [f"{before[name]} threads {name} became {count}" for name, count in grown]


def late_threads(kind, before, now):
    """Number of threads that have started since, within the bounds."""
    within = {name: min(count, LATE.get(name, {}).get(kind, 0)) for name, count in now.items()}
    return sum(max(0, count - before[name]) for name, count in within.items())


def request(id, method, params, era=LEGACY, capabilities=None):
    """One request as a dictionary."""
    if era == MODERN:
        meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities or {}}
        params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method, params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def opening(id, capabilities):
    info = {"name": "slopes", "version": "1"}
    return request(id, "initialize", {"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": info})


class Process:
    """A program and the resources that it uses."""

    def __init__(self, command, env=None, **pipes):
        env = {**os.environ, **ALLOCATOR, **(env or {})}
        self.child = subprocess.Popen(command, env=env, **pipes)
        self.pid = self.child.pid

    def status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            return int(re.search(rf"^{name}:\s+(\d+)", file.read(), re.MULTILINE)[1])

    def anonymous(self):
        """Anonymous memory in kB."""
        return self.status("RssAnon")

    def threads(self):
        """Number of threads by name; those of a pool, which are numbered, have one name."""
        names = Counter()
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{thread}/comm", encoding="utf-8") as file:
                    names[file.read().strip().rstrip("0123456789")] += 1
            except (FileNotFoundError, ProcessLookupError):
                pass  # It has ended.
        return names

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def end(self):
        """Ends the program as its user would; its exit status must be 0."""
        if self.child.stdin:
            self.child.stdin.close()
        else:
            self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise AssertionError("the program does not end") from None
        assert code == 0, f"the program ended with {code}"


class Ids:
    """Matches answers with requests."""

    def __init__(self):
        self.last, self.open = 0, {}
        self.answered = 0

    def next(self, note=None):
        self.last += 1
        self.open[self.last] = note
        return self.last

    def settle(self, message):
        """The note of the request that this message answers."""
        id = message.get("id")
        assert id in self.open, f"a response without a request, or a second one: {json.dumps(message)[:300]}"
        self.answered += 1
        return self.open.pop(id)


class Stdio(Process):
    """A server over its standard input and output."""

    def __init__(self, command, era=LEGACY, capabilities=None, env=None):
        pipe = subprocess.PIPE
        super().__init__(command, env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.era, self.capabilities, self.ids, self.rest, self.others = era, capabilities or {}, Ids(), b"", []
        for end in (self.child.stdin, self.child.stdout):
            os.set_blocking(end.fileno(), False)
        if era == LEGACY:
            self.exchange([opening(self.ids.next("initialize"), self.capabilities)])
            self.write([notification("notifications/initialized", {})])

    def wait_for_tool(self, name):
        """Waits until a tool can be called: a hub may serve before its children are connected."""
        began = time.monotonic()
        while "result" not in self.exchange([self.request("tools/call", {"name": name, "arguments": {"pin": 0}})])[0][1]:
            assert time.monotonic() - began < PATIENCE, f"no tool {name}"
            time.sleep(0.1)

    def request(self, method, params, note="result"):
        return request(self.ids.next(note), method, params, self.era, self.capabilities)

    def write(self, messages):
        self.send(b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages))

    def send(self, data):
        """Writes everything and reads meanwhile, so that neither side blocks forever."""
        view, out, into = memoryview(data), self.child.stdin.fileno(), self.child.stdout.fileno()
        while view:
            readable, writable, _ = select.select([into], [out], [], PATIENCE)
            assert readable or writable, "the server does not read"
            if readable:
                self.pull()
            if writable:
                view = view[os.write(out, view[:CHUNK]) :]

    def pull(self):
        data = os.read(self.child.stdout.fileno(), CHUNK)
        assert data, "the server closed its output"
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.others.extend(json.loads(line) for line in lines)

    def messages(self):
        """The messages that have arrived; waits for at least one."""
        while not self.others:
            readable, _, _ = select.select([self.child.stdout.fileno()], [], [], PATIENCE)
            assert readable, f"no answer; open are {list(self.ids.open)[:5]}"
            self.pull()
        came, self.others = self.others, []
        return came

    def exchange(self, messages, heard=None):
        """Sends these and waits until every open request has its answer. `heard` gets all other messages."""
        self.write(messages)
        answers = []
        while self.ids.open:
            for message in self.messages():
                if "method" in message:
                    if heard:
                        heard(message)
                elif message.get("id") is None and "error" in message:
                    answers.append((None, message))
                else:
                    answers.append((self.ids.settle(message), message))
        return answers


class Served(Process):
    """A server over HTTP."""

    def __init__(self, command, env=None, behind=()):
        # A file, because nobody reads a pipe while the server runs.
        with tempfile.TemporaryFile() as printed:
            super().__init__([*command, "--http", "127.0.0.1:0", *behind], env, stderr=printed)
            self.port = printed_port(lambda: os.pread(printed.fileno(), CHUNK, 0).decode(errors="replace"), self.child)


def wait_for_tool(served, name):
    """Waits until a tool can be called: a hub may listen before its children are connected."""
    link, began = Link(served.port), time.monotonic()
    while True:
        link.post(request(0, "tools/call", {"name": name, "arguments": {"pin": 0}}, MODERN), MODERN)
        message = link.answer()[2][0]
        if "result" in message:
            return link.close()
        assert time.monotonic() - began < PATIENCE, message
        time.sleep(0.1)


class Closed(Exception):
    """The server closed the connection before the answer was complete."""


class Link:
    """One connection to a server over HTTP; opened again when the server closed it while idle."""

    def __init__(self, port):
        self.port, self.socket, self.data, self.used = port, None, b"", 0
        self.fresh()

    def fresh(self):
        self.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data, self.used = b"", time.monotonic()

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def send(self, method, fields, body=b"", path="/mcp", host="localhost"):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in fields)]
        if method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def raw(self, data):
        # The server closes a connection that has been idle for two minutes.
        if self.socket is None or time.monotonic() - self.used > IDLE:
            self.fresh()
        self.used = time.monotonic()
        self.socket.sendall(data)

    def post(self, message, era=LEGACY, session=None, extra=()):
        fields = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"), *extra]
        if era == MODERN:
            fields += [("MCP-Protocol-Version", MODERN), ("Mcp-Method", message["method"])]
            name = message["params"].get("name") or message["params"].get("uri")
            if name and message["method"] in ("tools/call", "resources/read", "prompts/get"):
                fields.append(("Mcp-Name", name))
        elif session:
            fields += [("Mcp-Session-Id", session), ("MCP-Protocol-Version", LEGACY)]
        self.send("POST", fields, json.dumps(message).encode())

    def more(self):
        data = self.socket.recv(CHUNK)
        if not data:
            raise Closed
        self.data += data

    def until(self, mark):
        while mark not in self.data:
            self.more()
        head, self.data = self.data.split(mark, 1)
        return head

    def take(self, count):
        while len(self.data) < count:
            self.more()
        piece, self.data = self.data[:count], self.data[count:]
        return piece

    def head(self):
        """Status and fields of the next answer."""
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        return int(first.split(" ")[1]), fields

    def chunks(self):
        """The pieces of a body without a length."""
        while size := int(self.until(b"\r\n"), 16):
            yield self.take(size)
            self.take(2)
        self.take(2)

    def events(self):
        """The messages of an event stream."""
        rest = b""
        for piece in self.chunks():
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                data = b"\n".join(line[5:] for line in event.split(b"\n") if line.startswith(b"data:"))
                if data.strip():
                    yield json.loads(data)

    def answer(self):
        """Status, fields and messages of the next answer, whole."""
        status, fields = self.head()
        if fields.get("content-type") == "text/event-stream":
            messages = list(self.events())
        else:
            length = int(fields.get("content-length", 0)) if status not in (204, 304) else 0
            body = self.take(length)
            messages = [json.loads(body)] if body else []
        if fields.get("connection") == "close":
            self.close()
        return status, fields, messages
