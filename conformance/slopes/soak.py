"""Mixed soak: well-behaved and misbehaving clients together, against one server over HTTP.

Used as `python3 soak.py [--minutes N] [--clients N] [--seed N] [--hub] BIN`, where BIN is the folder of board_server
and hub_proxy. Threads do one thing after another at random: stateless calls, sessions, event streams, cancels,
subscriptions, disconnects at any byte, garbage. Every answer must come once, with the id and the content of its request.
The time is cut into ten phases with a pause after each, in which all connections are closed: anonymous memory may not
grow by more than NOISE from the second pause to the last, descriptors not at all, threads only within the bounds in
peers.py.
"""

import argparse
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from peers import LEGACY, MODERN, Closed, Link, Served, left_threads, notification, opening, request, wait_for_tool

NOISE = 256
PHASES = 10
PINS = 28
SETTLE = 60
# Ids of all clients differ, so that an answer that reaches the wrong one is seen.
SPACE = 1 << 32


class Client:
    """One client with one or two connections, and its random generator."""

    def __init__(self, number, port, seed, prefix):
        self.dice = random.Random(f"{seed} {number}")
        self.id, self.port, self.prefix, self.done = number * SPACE, port, prefix, Counter()
        self.link, self.other = Link(port), Link(port)

    def next(self):
        self.id += 1
        return self.id

    def tool(self, name, meta=None, **arguments):
        params = {"name": self.prefix + name, "arguments": arguments}
        return {**params, "_meta": meta} if meta else params

    def usual(self):
        pin = self.dice.randrange(PINS)
        if self.dice.random() < 0.3:
            value = self.dice.randrange(2)
            return self.tool("gpio_write", pin=pin, value=value), f"pin {pin} is now {value}"
        return self.tool("gpio_read", pin=pin), None

    def post(self, link, method, params, session=None):
        era = LEGACY if session else MODERN
        message = request(self.next(), method, params, era)
        link.post(message, era, session)
        return message["id"]

    def call(self, link, session=None):
        params, text = self.usual()
        id = self.post(link, "tools/call", params, session)
        status, _, messages = link.answer()
        answers = [m for m in messages if "method" not in m]
        assert status == 200 and [m.get("id") for m in answers] == [id], f"{status} to {id}: {messages}"
        result = answers[0]["result"]
        assert not result.get("isError"), result
        said = result["content"][0]["text"]
        assert said == text if text else said in ("0", "1"), f"{said!r} is not the answer to {params}"

    def open(self):
        self.link.post(opening(self.next(), {}))
        status, fields, messages = self.link.answer()
        assert status == 200 and messages[0]["id"] == self.id, f"{status} {messages}"
        session = fields["mcp-session-id"]
        self.link.post(notification("notifications/initialized", {}), session=session)
        assert self.link.answer()[0] == 202
        return session

    # Operations of a client. Each leaves its connections usable or closed.

    def stateless(self):
        for _ in range(self.dice.randrange(1, 10)):
            self.call(self.link)

    def session(self):
        session = self.open()
        for _ in range(self.dice.randrange(0, 10)):
            self.call(self.dice.choice((self.link, self.other)), session)
        if self.dice.random() < 0.8:
            self.link.send("DELETE", [("Mcp-Session-Id", session)])
            assert self.link.answer()[0] == 204

    def stream(self):
        session = self.open() if self.dice.random() < 0.5 else None
        token, times = self.next(), self.dice.randrange(1, 5)
        params = self.tool("blink", {"progressToken": token}, pin=self.dice.randrange(PINS), times=times, intervalMs=1)
        id = self.post(self.link, "tools/call", params, session)
        status, _, messages = self.link.answer()
        *steps, last = messages
        steps = [m["params"] for m in steps if m["method"] == "notifications/progress"]
        assert status == 200 and last["id"] == id and "result" in last, messages
        assert [s["progress"] for s in steps] == list(range(1, times + 1)), messages
        assert {s["progressToken"] for s in steps} == {token}, messages

    def slow(self, session=None):
        token = self.next()
        params = self.tool("blink", {"progressToken": token}, pin=self.dice.randrange(PINS), times=100, intervalMs=1000)
        return self.post(self.link, "tools/call", params, session)

    def cancel(self):
        session = self.open()
        id = self.slow(session)
        assert self.link.head()[0] == 200
        events = self.link.events()
        assert "method" in next(events)
        self.other.post(notification("notifications/cancelled", {"requestId": id}), session=session)
        assert self.other.answer()[0] == 202
        left = [m for m in events if "id" in m]
        assert not left, f"an answer to a cancelled call: {left}"

    def leave(self):
        self.slow()
        if self.dice.random() < 0.5:
            assert self.link.head()[0] == 200
            next(self.link.events())
        self.link.close()

    def listen(self):
        params = {"notifications": {"resourceSubscriptions": [f"gpio://pin/{self.dice.randrange(PINS)}"]}}
        self.post(self.link, "subscriptions/listen", params)
        assert self.link.head()[0] == 200
        assert "acknowledged" in next(self.link.events())["method"]
        self.call(self.other)
        self.link.close()

    def cut(self):
        """A valid request, of which only a part is sent."""
        body = json.dumps(request(self.next(), "tools/call", self.usual()[0], MODERN))
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        data = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        self.link.fresh()
        self.link.raw(data[: self.dice.randrange(len(data))])
        self.link.close()

    def garbage(self):
        """Sends input that is not a request, not JSON or not a message. The server rejects it and may close."""
        self.link.fresh()
        post = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        noise = self.dice.randbytes(self.dice.randrange(1, 2000))
        data = self.dice.choice((
            noise + b"\r\n\r\n",
            post + b"Content-Length: %d\r\n\r\n" % len(noise) + noise,
            post + b"Transfer-Encoding: chunked\r\n\r\n" + noise,
            post + b"Content-Length: 99999999\r\n\r\n" + noise,
            post + b"Content-Length: 17\r\n\r\n[[[[[[[[[[[[[[[[[",
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        ))
        try:
            self.link.raw(data)
            self.link.socket.shutdown(socket.SHUT_WR)
            status, _, _ = self.link.answer()
            assert 400 <= status < 500 or status == 501, f"{status} to garbage"
        except (Closed, ConnectionError):
            pass
        self.link.close()

    ACTIONS = (stateless, session, stream, cancel, leave, listen, cut, garbage)
    WEIGHTS = (30, 20, 10, 5, 5, 5, 10, 15)

    def run(self, until):
        while time.monotonic() < until:
            action = self.dice.choices(self.ACTIONS, self.WEIGHTS)[0]
            try:
                action(self)
            except Exception as error:
                raise AssertionError(f"{action.__name__}: {type(error).__name__}: {str(error)[:400]}") from error
            self.done[action.__name__] += 1
        self.link.close()
        self.other.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--hub", action="store_true")
    parser.add_argument("folder")
    options = parser.parse_args()
    folder = Path(options.folder).resolve()
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        server = [str(folder / "board_server"), "--root", f"{scratch}/board"]
        if options.hub:
            config = Path(scratch) / "servers.json"
            config.write_text(json.dumps({"mcpServers": {"board": {"command": server[0], "args": server[1:]}}}))
            server = [str(folder / "hub_proxy"), str(config)]
        sys.exit(soak(options, server))


def grown(kind, before, now):
    """Resources of which the program uses more than at an earlier pause."""
    faults = left_threads(kind, before[1], now[1])
    if now[0] > before[0] + NOISE:
        faults.append(f"{before[0]} kB of anonymous memory became {now[0]}")
    if now[2] > before[2]:
        faults.append(f"{before[2]} descriptors became {now[2]}")
    return faults


def soak(options, command):
    kind = "hub" if options.hub else "server"
    server = Served(command, {"TINYMCP_SESSIONS": "64"})
    wait_for_tool(server, "board__gpio_read" if options.hub else "gpio_read")
    clients = [Client(n, server.port, options.seed, "board__" if options.hub else "") for n in range(options.clients)]
    faults, lock, pauses = [], threading.Lock(), []

    def run(client, until):
        try:
            client.run(until)
        except Exception as error:
            with lock:
                faults.append(f"client {client.id // SPACE}, {error}")

    print(f"{kind}: {options.clients} clients, {options.minutes} minutes, seed {options.seed}")
    for phase in range(PHASES):
        until = time.monotonic() + options.minutes * 60 / PHASES
        threads = [threading.Thread(target=run, args=(client, until)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            break
        held = pauses[1] if len(pauses) > 1 else None
        deadline = time.monotonic() + SETTLE
        while True:
            figures = (server.anonymous(), server.threads(), server.descriptors())
            # In the first two pauses: until nothing changes any more.
            flat = held and not grown(kind, held, figures)
            if flat or time.monotonic() > (deadline if held else deadline - SETTLE + 2):
                break
            time.sleep(0.1)
        pauses.append(figures)
        count = sum(sum(client.done.values()) for client in clients)
        print(f"  {phase + 1}: {count} actions; {figures[0]} kB, {sum(figures[1].values())} threads, {figures[2]} descriptors", flush=True)
    if not faults:
        faults += grown(kind, pauses[1], pauses[-1])
        server.end()
        total = sum((client.done for client in clients), Counter())
        print("  " + ", ".join(f"{name} {count}" for name, count in sorted(total.items())))
    else:
        server.child.kill()
    for fault in faults:
        print(f"FAIL {fault}")
    return bool(faults)


main()
