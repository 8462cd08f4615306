"""Processes of calls over HTTP: however a call or its client ends, nothing stays behind.

Used as `python3 remote.py [--long] [--seed N] FOLDER`. Several clients call programs and workers in both eras of the
protocol. They wait for the response, cancel the call, or end: they close the connection, its sending side, or reset it.
Each call must have a response, unless its client ended or cancelled it. Afterwards the server has no other children
than idle workers, no more threads and descriptors than before, and the same memory. Then the server gets SIGTERM while
calls run: it must end, and all processes that it started.
"""

import atexit
import os
import random
import signal
import socket
import struct
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from processes import AT_END, LONG, LONG_NOISE, NOISE, PATIENCE, SCRIPTS, SHORT, WORKER
from processes import check, given, grown, tools, workers
from served import Definition, arguments, become_subreaper, children, descriptors, marked, reap, until

from peers import LEGACY, MODERN, Closed, Link, notification, opening, request

CLIENTS = 16
ENDS = 4
# The end of a call: mostly its response.
WAIT, CANCEL, CLOSE, CLOSE_SENDING, RESET = range(5)


class Client:
    """Calls over one connection at a time, with a session or without."""

    def __init__(self, port, choice, era):
        self.port, self.choice, self.era, self.id = port, choice, era, 0
        self.link, self.session, self.counts = Link(port), None, Counter()
        if era == LEGACY:
            self.link.post(opening(0, {}))
            self.session = self.link.answer()[1]["mcp-session-id"]
            self.link.post(notification("notifications/initialized", {}), LEGACY, self.session)
            self.link.answer()

    def call(self, name, end):
        self.id += 1
        params = {"name": name, "arguments": given(name, self.choice)}
        self.link.post(request(self.id, "tools/call", params, self.era), self.era, self.session)
        if end == CANCEL and self.era == LEGACY:
            self.pause()
            other = Link(self.port)
            cancelled = notification("notifications/cancelled", {"requestId": self.id})
            other.post(cancelled, LEGACY, self.session)
            assert other.answer()[0] == 202
            other.close()
        elif end not in (WAIT, CANCEL):
            self.pause()
            if end == CLOSE_SENDING:
                self.link.socket.shutdown(socket.SHUT_WR)
                self.pause()
            if end == RESET:
                self.link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.link.fresh()
            self.counts["ended"] += 1
            return
        messages = [message for message in self.link.answer()[2] if "method" not in message]
        if messages:
            assert len(messages) == 1 and messages[0]["id"] == self.id, messages
            self.counts["errors" if check(name, messages[0]) else "results"] += 1
        else:
            assert end == CANCEL, f"{name}: no response"
            self.counts["cancelled"] += 1

    def pause(self):
        time.sleep(self.choice.choice([0, 0.01, 0.05, 0.3]))

    def end(self):
        if self.session:
            self.link.send("DELETE", [("Mcp-Session-Id", self.session), ("MCP-Protocol-Version", LEGACY)])
            self.link.answer()
        self.link.close()


def clients(port, choice, count):
    """Makes this many calls from several clients. Returns the numbers of their ends."""

    def run(seed):
        own = random.Random(seed)
        client = Client(port, own, own.choice([LEGACY, MODERN]))
        for _ in range(-(-count // CLIENTS)):
            name = own.choice([*SCRIPTS, *WORKER])
            client.call(name, own.choice([WAIT] * 6 + [CANCEL, CLOSE, CLOSE_SENDING, RESET]))
        client.end()
        return client.counts

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(run, [choice.random() for _ in range(CLIENTS)]), Counter())


def unexplained(server, mark):
    """Processes that are not idle workers. Those are shells, and may have one child."""
    own = [child.split() for child in children(server.pid)]
    shells = {pid for pid, *rest in own if rest in (["S", "sh"], ["R", "sh"])}
    left = [" ".join(child) for child in own if child[0] not in shells]
    family = {pid for shell in shells for pid, *_ in map(str.split, children(int(shell)))}
    return left + [line for line in marked(mark) if line.split()[0] not in shells | family]


def session(options, choice):
    mark = f"remote-{os.getpid()}-{choice.getrandbits(64):x}"
    definition = Definition(tools(mark, choice) | workers(mark, choice))
    server = definition.serve_http(options.programs)
    # After a failure; a server over HTTP does not notice the end of this program.
    atexit.register(server.child.kill)

    def idle():
        left = until(lambda: unexplained(server, mark), PATIENCE)
        assert not left, f"left behind: {left}"
        reap(server.pid)

    count, began = LONG if options.long else SHORT, time.monotonic()
    clients(server.port, choice, SHORT)
    idle()
    before, readings, counts = (server.threads(), descriptors(server)), [], Counter()
    for _ in range(4):
        counts += clients(server.port, choice, count // 4)
        idle()
        readings.append(server.anonymous())
    left = until(lambda: grown(before[0], server.threads()), PATIENCE)
    assert not left, f"left behind: {left}"
    left = until(lambda: descriptors(server) > before[1], PATIENCE)
    assert not left, f"{before[1]} descriptors became {descriptors(server)}"
    growth, noise = readings[-1] - readings[0], LONG_NOISE if options.long else NOISE
    assert growth <= noise, f"anonymous memory grew by {growth} kB: {readings}"
    server.end()
    assert not until(lambda: marked(mark), PATIENCE), marked(mark)
    ends = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
    memory = f"memory {readings[0]} to {readings[-1]} kB"
    print(f"remote     {sum(counts.values())} calls: {ends}; {memory}; {time.monotonic() - began:.0f} s")


def server_end(options, choice):
    """A server that ends while calls run."""
    mark = f"remote-{os.getpid()}-{choice.getrandbits(64):x}"
    offered = tools(mark, choice) | workers(mark, choice)
    for tool in offered.values():
        tool["timeout"] = 600
    definition = Definition(offered)
    server = definition.serve_http(options.programs)
    # After a failure; a server over HTTP does not notice the end of this program.
    atexit.register(server.child.kill)
    links = [Link(server.port) for _ in range(AT_END)]
    for id, link in enumerate(links):
        name = choice.choice([name for name in offered if "input" not in offered[name]])
        link.post(request(id, "tools/call", {"name": name, "arguments": {}}, MODERN), MODERN)
    assert until(lambda: not marked(mark), PATIENCE) is False, "no call has begun"
    time.sleep(choice.choice([0, 0.02, 0.2]))
    server.child.send_signal(signal.SIGTERM)
    assert server.child.wait(PATIENCE * 2) == 0, "the server did not end well"
    left = until(lambda: marked(mark), PATIENCE)
    assert not left, f"left behind: {left}"
    for link in links:
        link.close()


def main():
    options = arguments(__doc__)
    become_subreaper()
    choice = random.Random(options.seed)
    session(options, choice)
    began = time.monotonic()
    for _ in range(ENDS):
        server_end(options, choice)
    print(f"remote     {ENDS} servers ended while {AT_END} calls ran: nothing left; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
