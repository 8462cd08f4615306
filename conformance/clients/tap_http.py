"""Logging proxy between a client and an HTTP server: logs every message.

Used as `python3 tap.py FOLDER SERVER ARGS…`. It starts `SERVER ARGS… --http 127.0.0.1:0`, reads from the server's
stderr which address it has, listens on another one, prints its own URL as its only line and passes bytes on unchanged
in both directions. It writes FOLDER/wire-PID.log as the tap of stdio does, one record per line: seconds since the
start, a mark, and the text. Marks: `>` the body of a POST, `<` a message from the server, be it a body or the data of
an event, `!` an event of the log itself: `http` first of all, `answer {…}` the head of an answer, `field NAME VALUE` a
field of an event stream that is not data, `hung up on ID` the client closed the connection before the answer of this
request was complete, `signal 15` and `exit N`. When its own input ends it sends the server SIGTERM.

A record is on disk before its bytes are passed on, so the log contains every response that a client has received. The
server's stderr goes to FOLDER/stderr-PID.log, its scratch files to FOLDER, through TMPDIR.
"""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

START = time.monotonic()
# Seconds until the server listens; a board under emulation needs some.
LISTEN_TIMEOUT = 60
# Seconds until the connections of a server that has exited end.
FINAL_TIMEOUT = 10
CHUNK = 65536


class Log:
    """The record file; one lock keeps the records of all connections whole and in order."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.lock = threading.Lock()

    def write(self, mark, text, at=None):
        with self.lock:
            stamp = f"{(at or time.monotonic()) - START:.3f} {mark} ".encode()
            os.write(self.file, stamp + text.replace(b"\n", b"\xe2\x90\xa4") + b"\n")

    def event(self, text, at=None):
        self.write("!", text.encode(), at)


class Gone(Exception):
    """One side closed its connection."""


class Head:
    """A start line and its headers."""

    def __init__(self, raw):
        first, *lines = raw.decode("latin-1").split("\r\n")
        self.first = first.split(" ", 2)
        self.fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.fields[name.strip().lower()] = value.strip()

    def get(self, name):
        return self.fields.get(name, "")


class Events:
    """Parses an event stream and logs its messages."""

    def __init__(self, log):
        self.log, self.rest, self.data = log, b"", []

    def feed(self, piece):
        *lines, self.rest = (self.rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            self.line(line)

    def line(self, line):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if line == b"":
            if any(self.data):
                self.log.write("<", b"\n".join(self.data))
            self.data = []
        elif name == b"data":
            self.data.append(value)
        elif name:
            self.log.write("!", b"field " + name + b" " + value)

    def end(self):
        if self.rest or self.data:
            self.log.event("an event stream ends within an event")


class Whole:
    """Collects a JSON body and logs it when it is complete."""

    def __init__(self, log):
        self.log, self.body = log, b""

    def feed(self, piece):
        self.body += piece

    def end(self):
        if self.body:
            self.log.write("<", self.body)


class Connection:
    """A client's connection and ours to the server."""

    def __init__(self, log, client, upstream):
        self.log, self.client = log, client
        self.upstream = socket.create_connection(upstream)
        for end in (self.client, self.upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked = b""

    def serve(self):
        try:
            while self.exchange():
                pass
        except (Gone, ConnectionError, BrokenPipeError):
            pass
        finally:
            self.client.close()
            self.upstream.close()

    def exchange(self):
        """Forwards one request and its response; returns false if the connection has ended."""
        while b"\r\n\r\n" not in self.asked:
            self.more_asked()
        raw, _, self.asked = self.asked.partition(b"\r\n\r\n")
        head = Head(raw)
        if head.get("transfer-encoding"):
            raise SystemExit("the tap does not support chunked requests")
        length = int(head.get("content-length") or 0)
        while len(self.asked) < length:
            self.more_asked()
        body, self.asked = self.asked[:length], self.asked[length:]
        method = head.first[0]
        message = {}
        if method == "POST":
            try:
                message = json.loads(body)
                # One line in the log, however the client wrote it.
                self.log.write(">", json.dumps(message, ensure_ascii=False).encode() if b"\n" in body else body)
            except ValueError:
                self.log.write(">", body)
        about = {"http": method, "session": "mcp-session-id" in head.fields}
        if "last-event-id" in head.fields:
            about["resumes"] = True
        if isinstance(message, dict):
            about.update({name: message[name] for name in ("method", "id") if name in message})
        self.upstream.sendall(raw + b"\r\n\r\n" + body)
        try:
            return self.answer(about)
        except Gone as side:
            if str(side) == "client" and "id" in about and "method" in about:
                self.log.event(f"hung up on {json.dumps(about['id'])}")
            elif str(side) == "server":
                self.log.event(f"the server closed the connection without an answer to {json.dumps(about)}")
            raise

    def more_asked(self):
        """Reads from the client; an idle server may close meanwhile."""
        ready, _, _ = select.select([self.client, self.upstream], [], [])
        if self.client in ready:
            piece = self.client.recv(CHUNK)
            if not piece:
                raise Gone("client")
            self.asked += piece
        elif not self.upstream.recv(1, socket.MSG_PEEK):
            raise Gone("idle")
        else:
            self.log.event("the server sent data without a request")
            raise Gone("idle")

    def more_answered(self):
        """Reads from the server while it watches the client."""
        while True:
            ready, _, _ = select.select([self.upstream, self.client], [], [])
            if self.client in ready:
                try:
                    piece = self.client.recv(CHUNK)
                except ConnectionError:
                    piece = b""
                if not piece:
                    raise Gone("client")
                self.asked += piece
            if self.upstream in ready:
                piece = self.upstream.recv(CHUNK)
                if not piece:
                    raise Gone("server")
                return piece

    def answer(self, about):
        held = b""
        while b"\r\n\r\n" not in held:
            held += self.more_answered()
        raw, _, rest = held.partition(b"\r\n\r\n")
        head = Head(raw)
        kind = head.get("content-type").partition(";")[0]
        about.update(
            status=int(head.first[1]), type=kind, gives="mcp-session-id" in head.fields,
            cache=head.get("cache-control"), buffering=head.get("x-accel-buffering"),
        )
        self.log.event("answer " + json.dumps(about))
        body = Events(self.log) if kind == "text/event-stream" else Whole(self.log)
        sent = raw + b"\r\n\r\n"
        chunks = head.get("transfer-encoding").lower() == "chunked"
        length = head.fields.get("content-length")
        decoder = Chunks() if chunks else Length(int(length or 0)) if length or about["status"] in (202, 204) else UntilEnd()
        while True:
            for piece in decoder.feed(rest):
                body.feed(piece)
            over = decoder.over
            if over:
                body.end()
            try:
                self.client.sendall(sent + rest)
            except ConnectionError:
                raise Gone("client") from None
            if over:
                return "close" not in head.get("connection").lower() and not isinstance(decoder, UntilEnd)
            sent = b""
            try:
                rest = self.more_answered()
            except Gone as side:
                if str(side) == "server" and isinstance(decoder, UntilEnd):
                    body.end()
                    return False
                raise


class Length:
    """A body of known length."""

    def __init__(self, length):
        self.left = length

    def feed(self, piece):
        self.left -= len(piece)
        yield piece

    @property
    def over(self):
        return self.left <= 0


class UntilEnd:
    """A body that ends with its connection."""

    over = False

    def feed(self, piece):
        yield piece


class Chunks:
    """A body in chunks."""

    def __init__(self):
        self.held, self.over = b"", False

    def feed(self, piece):
        self.held += piece
        while b"\r\n" in self.held:
            size, _, rest = self.held.partition(b"\r\n")
            size = int(size.split(b";")[0], 16)
            if len(rest) < size + 2:
                return
            yield rest[:size]
            self.held = rest[size + 2 :]
            if size == 0:
                self.over = True
                return


def listening(stderr, child):
    """Waits until the server has printed its address; returns nothing if it ended instead."""
    deadline = time.monotonic() + LISTEN_TIMEOUT
    while time.monotonic() < deadline and child.poll() is None:
        with open(stderr, "rb") as lines:
            address = re.search(rb"http://127\.0\.0\.1:([0-9]+)/", lines.read())
        if address:
            return "127.0.0.1", int(address[1])
        time.sleep(0.01)
    return None


def main():
    folder, command = sys.argv[1], sys.argv[2:]
    log = Log(os.path.join(folder, f"wire-{os.getpid()}.log"))
    log.event("http")
    printed = os.path.join(folder, f"stderr-{os.getpid()}.log")
    with open(printed, "wb") as stderr:
        child = subprocess.Popen(
            [*command, "--http", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            env=dict(os.environ, TMPDIR=folder),
        )

    def passed_on(number, _frame):
        log.event(f"signal {number}")
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, passed_on)

    connections = []

    def accept():
        while True:
            client, _ = door.accept()
            # The server may have exited; the client then gets a closed connection.
            try:
                connection = Connection(log, client, address)
            except ConnectionError:
                client.close()
                continue
            connections.append(threading.Thread(target=connection.serve, daemon=True))
            connections[-1].start()

    def told():
        while os.read(0, CHUNK):
            pass
        log.event("signal 15")
        child.terminate()

    address = listening(printed, child)
    if address:
        door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=accept, daemon=True).start()
        threading.Thread(target=told, daemon=True).start()
        print(f"http://127.0.0.1:{door.getsockname()[1]}/mcp", flush=True)
    else:
        child.kill()
    code = child.wait()
    ended = time.monotonic()
    # The exit is the last record, so a reader that finds it has all. A client that reads nothing would hold its thread.
    for connection in connections:
        connection.join(FINAL_TIMEOUT)
    log.event(f"exit {code}", ended)
    os._exit(code if code >= 0 else 128 - code)


main()
