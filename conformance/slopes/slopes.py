"""Memory slopes: what each kind of operation leaves behind in a server and in a hub, over stdio and HTTP.

Used as `python3 slopes.py [--long] [--only TEXT] BIN`, where BIN is the folder of board_server, hub_proxy and
slopes_client. Each row runs one kind of operation in a process of its own: a warm-up, then the operations that
count. It reads anonymous memory (RssAnon) after either, and prints the growth in bytes per 10,000 operations. A row
fails if memory grew by more than NOISE, if descriptors or threads were left behind, or if an answer was wrong.
Threads that start late count as left behind only beyond the bounds in peers.py; within them, each may take THREAD kB.

`--long` runs the figures of the long run: a million calls through the hub, 100,000 sessions, 1,000 restarts.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import HTTP_THREADS, LATE, LEGACY, MODERN, THREAD, Link, Process, Served, Stdio
from peers import late_threads, left_threads, notification, opening, request, wait_for_tool

# kB by which the anonymous memory of a program may differ between two readings although it keeps nothing: pages that
# the allocator has not given back, stacks of workers that ran for the first time.
NOISE = 128
LONG_NOISE = 256
# Seconds for the last threads and sockets of the operations to end.
SETTLE = 60
BATCH = 16
PINS = 28


class Board:
    """Tools of the board, under their names at a hub if there is one."""

    def __init__(self, hub):
        self.tool = (lambda name: f"board__{name}") if hub else (lambda name: name)

    def call(self, name, **arguments):
        return {"name": self.tool(name), "arguments": arguments}

    def usual(self, n):
        """Calls whose tools and shapes alternate."""
        if n % 2 == 0:
            return self.call("gpio_write", pin=n % PINS, value=n // 2 % 2)
        return self.call("gpio_read", pin=n % PINS)

    def failing(self, n):
        return [
            ("tools/call", self.call("gpio_read", pin=99 + n % 7)),
            ("tools/call", self.call("gpio_read", pin="x" * (n % 40))),
            ("tools/call", {"name": f"no_such_tool_{n}"}),
            ("resources/read", {"uri": f"file:///missing-{n}.txt"}),
            (f"no/such/{n}", {}),
        ][n % 5]


def good(answers):
    """Checks that every request got the response of its note."""
    for note, message in answers:
        if note == "result":
            assert "result" in message and not message["result"].get("isError"), message
        elif note == "failure":
            assert "error" in message or message["result"].get("isError"), message


# Operations over stdio. Each runs `count` of them on one server.


def batches(count):
    done = 0
    while done < count:
        size = min(BATCH, count - done)
        yield range(done, done + size)
        done += size


def stdio_calls(peer, board, count):
    for batch in batches(count):
        good(peer.exchange([peer.request("tools/call", board.usual(n)) for n in batch]))


def stdio_single_calls(peer, board, count):
    """One call at a time: a hub opens connections to a server over HTTP for calls at the same time, whenever that is."""
    for n in range(count):
        good(peer.exchange([peer.request("tools/call", board.usual(n))]))


def stdio_failures(peer, board, count):
    for batch in batches(count):
        malformed = [b'{"jsonrpc":"2.0","id":1,"method":"ping"\n', b"[]\n", b'{"jsonrpc":"2.0","method":1}\n']
        lines = [peer.request(*board.failing(n), note="failure") for n in batch]
        good(peer.exchange([malformed[batch.start // BATCH % 3], *lines]))


def stdio_cancels(peer, board, count):
    for batch in batches(count):
        calls = [peer.request("tools/call", board.call("blink", pin=n % PINS, times=100, intervalMs=1000)) for n in batch]
        peer.write(calls)
        for call in calls:
            del peer.ids.open[call["id"]]
        peer.write([notification("notifications/cancelled", {"requestId": call["id"]}) for call in calls])
        good(peer.exchange([peer.request("tools/call", board.call("gpio_read", pin=0))]))


def stdio_subscriptions(peer, board, count):
    for batch in batches(count):
        uris = [f"gpio://pin/{n}" for n in range(batch.start % 12, batch.start % 12 + len(batch))]
        good(peer.exchange([peer.request("resources/subscribe", {"uri": uri}) for uri in uris]))
        heard = []
        good(peer.exchange([peer.request("tools/call", board.call("gpio_write", pin=int(uris[0][11:]), value=1))], heard.append))
        good(peer.exchange([peer.request("resources/unsubscribe", {"uri": uri}) for uri in uris]))


def stdio_questions(peer, board, count):
    def answer(message):
        if message["method"] == "elicitation/create":
            asked.append(message)
            peer.write([{"jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"}}])

    for _ in range(count):
        asked = []
        good(peer.exchange([peer.request("tools/call", board.call("erase_pins"))], answer))
        assert len(asked) == 1, f"{len(asked)} questions"


# Operations over HTTP.


class Web:
    """A few connections to one server, and ids of its own."""

    def __init__(self, served, links=8):
        self.links = [Link(served.port) for _ in range(links)]
        self.id = 0

    def next(self):
        self.id += 1
        return self.id

    def open(self, link):
        link.post(opening(self.next(), {}))
        status, fields, _ = link.answer()
        assert status == 200, status
        session = fields["mcp-session-id"]
        link.post(notification("notifications/initialized", {}), session=session)
        assert link.answer()[0] == 202
        return session

    def end(self, link, session):
        link.send("DELETE", [("Mcp-Session-Id", session)])
        assert link.answer()[0] == 204

    def call(self, link, method, params, session=None):
        era = LEGACY if session else MODERN
        message = request(self.next(), method, params, era)
        link.post(message, era, session)
        return message["id"]

    def close(self):
        for link in self.links:
            link.close()


def answered(link, id):
    """The result of request `id`, which is the only answer."""
    status, _, messages = link.answer()
    found = [message for message in messages if "method" not in message]
    assert status == 200 and [m.get("id") for m in found] == [id], f"{status} {messages}"
    assert "result" in found[0] and not found[0]["result"].get("isError"), found
    return messages


def http_calls(web, board, count, sessions=False):
    open = [web.open(link) for link in web.links] if sessions else [None] * len(web.links)
    for start in range(0, count, len(web.links)):
        asked = []
        for n, (link, session) in enumerate(zip(web.links, open), start):
            asked.append((link, web.call(link, "tools/call", board.usual(n), session)))
        for link, id in asked:
            answered(link, id)
    for link, session in zip(web.links, open):
        if session:
            web.end(link, session)


def http_session_calls(web, board, count):
    http_calls(web, board, count, sessions=True)


def http_sessions(web, board, count):
    for n in range(count):
        link = web.links[n % len(web.links)]
        session = web.open(link)
        answered(link, web.call(link, "tools/call", board.usual(n), session))
        # One session in four is abandoned: the server evicts the one that has been idle for longest.
        if n % 4:
            web.end(link, session)


def http_failures(web, board, count):
    for n in range(count):
        link = web.links[n % len(web.links)]
        kind = n % 8
        if kind < 5:
            web.call(link, *board.failing(n))
            _, _, messages = link.answer()
            assert "error" in messages[0] or messages[0]["result"].get("isError"), messages
            continue
        json_type = ("Content-Type", "application/json")
        if kind == 5:
            link.send("POST", [json_type], b'{"jsonrpc":"2.0","id":1,')
        elif kind == 6:
            link.send("POST", [json_type], b"{}", path=f"/other/{n}")
        else:
            link.send("POST", [json_type, ("Mcp-Session-Id", f"{n:032x}")], json.dumps(request(1, "ping", {})).encode())
        status, _, _ = link.answer()
        assert status == (400, 404, 404)[kind - 5], status


def http_disconnects(web, board, count):
    """The client closes the connection during a call, half of the calls after their first event."""
    for n in range(count):
        link = web.links[n % len(web.links)]
        arguments = board.call("blink", pin=n % PINS, times=100, intervalMs=1000)
        web.call(link, "tools/call", {**arguments, "_meta": {"progressToken": n}})
        if n % 2:
            assert link.head()[0] == 200
            next(link.events())
        link.close()


def http_cancels(web, board, count):
    """Calls of a session that are cancelled by a notification on another connection, after their first event."""
    session = web.open(web.links[0])
    for n in range(count):
        link, other = web.links[n % len(web.links)], web.links[(n + 1) % len(web.links)]
        arguments = board.call("blink", pin=n % PINS, times=100, intervalMs=1000)
        id = web.call(link, "tools/call", {**arguments, "_meta": {"progressToken": n}}, session)
        assert link.head()[0] == 200
        events = link.events()
        assert "method" in next(events)
        other.post(notification("notifications/cancelled", {"requestId": id}), session=session)
        assert other.answer()[0] == 202
        left = [message for message in events if "id" in message]
        assert not left, f"an answer to a cancelled call: {left}"
    web.end(web.links[0], session)


def http_streams(web, board, count):
    for n in range(count):
        link = web.links[n % len(web.links)]
        arguments = board.call("blink", pin=n % PINS, times=2, intervalMs=1)
        messages = answered(link, web.call(link, "tools/call", {**arguments, "_meta": {"progressToken": n}}))
        assert [m["params"]["progress"] for m in messages[:-1]] == [1, 2], messages


def http_subscriptions(web, board, count):
    for n in range(count):
        link = web.links[n % len(web.links)]
        # As subscriptions/listen of 2026-07-28, and as a GET of a session, in turn.
        if n % 2:
            params = {"notifications": {"resourceSubscriptions": [f"gpio://pin/{n % PINS}"]}}
            web.call(link, "subscriptions/listen", params)
            assert link.head()[0] == 200
            next(link.events())
            link.close()
            continue
        session = web.open(link)
        good([("result", call_in(web, link, session, "resources/subscribe", {"uri": f"gpio://pin/{n % PINS}"}))])
        stream = web.links[(n + 1) % len(web.links)]
        stream.send("GET", [("Mcp-Session-Id", session), ("Accept", "text/event-stream")])
        assert stream.head()[0] == 200
        stream.close()
        web.end(link, session)


def call_in(web, link, session, method, params):
    id = web.call(link, method, params, session)
    return answered(link, id)[-1]


# Operations of the library's client, in a program of their own.


class Controlled(Process):
    """A program that runs operations by command: `NAME COUNT` in, `NAME` out when they are done."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        env = {"TINYMCP_HTTP_THREADS": str(HTTP_THREADS)}
        super().__init__(command, env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def run(self, name, count):
        self.child.stdin.write(f"{name} {count}\n".encode())
        self.child.stdin.flush()
        line = self.child.stdout.readline().decode().strip()
        assert line == name, f"{name}: {line or 'the program ended'}"


class Rows:
    """Runs rows and prints them."""

    def __init__(self, only, long):
        self.only, self.noise, self.failed, self.began = only, LONG_NOISE if long else NOISE, 0, time.monotonic()
        print(f"{'operations':44} {'count':>8} {'kB before':>9} {'kB after':>9} {'bytes per 10,000':>17}  {'noise':>9} {'s':>5}")

    def row(self, name, start, run, warm, count):
        """`start` returns the process and an argument for `run`, which also gets a number of operations."""
        if self.only not in name:
            return
        try:
            self.measure(name, start, run, warm, count)
        except Exception as error:
            self.failed += 1
            print(f"{name:44} FAIL: {type(error).__name__}: {str(error)[:400]}", flush=True)

    def measure(self, name, start, run, warm, count):
        began = time.monotonic()
        process, use, close = start()
        try:
            run(use, warm)
            held = (process.descriptors(), process.threads())
            before = process.anonymous()
            run(use, count)
            # The bounds of its kind of program, or those for the row's own kind.
            kind = name.split(":")[0]
            kind = kind if kind in LATE["mcp-worker-"] else re.match(r"\w+", kind)[0]
            after, left, allowed = self.settled(process, before, held, kind)
        except BaseException:
            process.child.kill()
            raise
        close()
        process.end()
        slope, noise = (after - before) * 1024 * 10_000 // count, allowed * 1024 * 10_000 // count
        print(f"{name:44} {count:8} {before:9} {after:9} {slope:17}  {noise:9} {time.monotonic() - began:5.1f}", flush=True)
        assert after - before <= allowed, f"anonymous memory grew by {after - before} kB, more than {allowed}"
        assert not left, left

    def settled(self, process, before, held, kind):
        """Memory when it is within the bound and all else is as before, or else after a while; and that bound."""
        deadline = time.monotonic() + SETTLE
        while True:
            now, left = process.anonymous(), []
            descriptors, threads = process.descriptors(), process.threads()
            if descriptors > held[0]:
                left.append(f"{held[0]} descriptors became {descriptors}")
            left += left_threads(kind, held[1], threads)
            allowed = self.noise + THREAD * late_threads(kind, held[1], threads)
            if (now - before <= allowed and not left) or time.monotonic() > deadline:
                return now, "; ".join(left), allowed
            time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("folder")
    options = parser.parse_args()
    folder = Path(options.folder).resolve()
    scratch = tempfile.TemporaryDirectory(prefix="slopes-")
    board_server = [str(folder / "board_server"), "--root", str(Path(scratch.name) / "board")]
    config = Path(scratch.name) / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"board": {"command": board_server[0], "args": board_server[1:]}}}))
    hub_proxy = [str(folder / "hub_proxy"), str(config)]
    rows = Rows(options.only, options.long)

    def stdio(command, board, era=LEGACY, capabilities=None, env=None):
        def start():
            peer = Stdio(command, era, capabilities, env)
            peer.wait_for_tool(board.tool("gpio_read"))
            return peer, peer, lambda: None

        return start

    def http(command, tool):
        def start():
            # Few sessions: abandoned ones must be evicted within the warm-up.
            served = Served(command, {"TINYMCP_SESSIONS": "64"})
            wait_for_tool(served, tool)
            web = Web(served)
            return served, web, web.close

        return start

    def client(*arguments):
        def start():
            process = Controlled([str(folder / "slopes_client"), *arguments])
            return process, process, lambda: None

        return start

    # Counts of calls, and of what takes longer.
    scale = 20 if options.long else 1
    for kind, command in (("server", board_server), ("hub", hub_proxy)):
        # A million calls and 100,000 sessions in the long run.
        board, most = Board(kind == "hub"), 100 if options.long and kind == "hub" else scale

        def bound(run, board=board):
            return lambda peer, count: run(peer, board, count)

        rows.row(f"{kind}, stdio: calls in a session", stdio(command, board), bound(stdio_calls), 5_000, 10_000 * most)
        rows.row(f"{kind}, stdio: calls without", stdio(command, board, MODERN), bound(stdio_calls), 5_000, 10_000 * scale)
        rows.row(f"{kind}, stdio: failures", stdio(command, board), bound(stdio_failures), 5_000, 10_000 * scale)
        rows.row(f"{kind}, stdio: cancelled calls", stdio(command, board), bound(stdio_cancels), 1_000, 2_000 * scale)
        rows.row(f"{kind}, stdio: subscriptions", stdio(command, board), bound(stdio_subscriptions), 2_000, 5_000 * scale)
        asking = stdio(command, board, capabilities={"elicitation": {}})
        rows.row(f"{kind}, stdio: questions", asking, bound(stdio_questions), 500, 1_000 * scale)
        rows.row(f"{kind}, HTTP: calls in sessions", http(command, board.tool("gpio_read")), bound(http_session_calls), 5_000, 8_000 * scale)
        rows.row(f"{kind}, HTTP: calls without", http(command, board.tool("gpio_read")), bound(http_calls), 5_000, 10_000 * most)
        most = 50 if options.long else 1
        rows.row(f"{kind}, HTTP: sessions", http(command, board.tool("gpio_read")), bound(http_sessions), 1_000, 2_000 * most)
        rows.row(f"{kind}, HTTP: failures", http(command, board.tool("gpio_read")), bound(http_failures), 4_000, 8_000 * scale)
        rows.row(f"{kind}, HTTP: calls left by their client", http(command, board.tool("gpio_read")), bound(http_disconnects), 500, 1_000 * scale)
        rows.row(f"{kind}, HTTP: cancelled calls", http(command, board.tool("gpio_read")), bound(http_cancels), 500, 1_000 * scale)
        rows.row(f"{kind}, HTTP: event streams", http(command, board.tool("gpio_read")), bound(http_streams), 500, 1_000 * scale)
        rows.row(f"{kind}, HTTP: subscriptions", http(command, board.tool("gpio_read")), bound(http_subscriptions), 500, 1_000 * scale)

    served = Served(board_server)
    url = f"http://127.0.0.1:{served.port}/mcp"
    remote = Path(scratch.name) / "remote.json"
    remote.write_text(json.dumps({"mcpServers": {"board": {"url": url}}}))
    board = Board(True)
    behind = stdio([hub_proxy[0], str(remote)], board, env={"TINYMCP_HTTP_THREADS": str(HTTP_THREADS)})
    rows.row("hub, upstream over HTTP: calls", behind, lambda peer, count: stdio_single_calls(peer, board, count), 4_000, 16_000 * scale)

    def controlled(name):
        return lambda process, count: process.run(name, count)

    if (folder / "slopes_client").exists():
        for over, arguments in (("stdio", ["--", *board_server]), ("HTTP", [url])):
            for name, warm, count in (
                ("calls", 5_000, 10_000 * scale),
                ("failures", 2_000, 5_000 * scale),
                ("cancels", 500, 1_000 * scale),
                ("subscriptions", 500, 1_000 * scale),
                ("connections", 50, 100 * scale),
            ):
                rows.row(f"client, {over}: {name}", client(*arguments), controlled(name), warm, count)
        restarts = 1_000 if options.long else 50
        rows.row("hub: restarts of a child", client("--hub", "--", *board_server), controlled("restarts"), 20, restarts)
    served.end()
    scratch.cleanup()
    print(f"{rows.failed} failed, {time.monotonic() - rows.began:.0f} s")
    sys.exit(rows.failed > 0)


main()
