"""Endurance of `tinymcp proxy`: many clients of both protocols use one stdio server; clients and server are killed.

Used as `python3 endurance.py [--long] [--seed N] [--resident KB] FOLDER COMMAND…`. FOLDER has the program tinymcp, COMMAND starts a
server of the session protocol with the tools `echo` and `get-sum`: npm's server-everything. A proxy serves it over
HTTP. The clients are threads of several processes; every second one of these processes is killed and replaced, and at
even steps of the run the server is killed. Each response must be the one of its request. A call that is in flight at
the server's end, or comes before its restart, must end with an error. Afterwards the proxy has one child, as many
descriptors and threads as before, and the same memory; after SIGTERM no process is left.
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import threading
import time
from multiprocessing.sharedctypes import RawValue
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))

from served import children, marked, read, until  # noqa: E402
from peers import LEGACY, MODERN, Closed, Link, Served, notification, opening, request  # noqa: E402

# Calls, clients, number of times that the server is killed.
SHORT = (20_000, 100, 10)
LONG = (1_000_000, 500, 200)
PROCESSES = 20
# Seconds for the server to start again, and for the last threads and sockets to end.
PATIENCE = 60
# Seconds that the server is connected before it is killed. The proxy waits a minute after five ends within two seconds each.
UPTIME = 3
# Growth of the proxy's anonymous memory in kB, from the first quarter of the run to the end.
NOISE = 1024
# Responses that end a call without a result.
ENDED = re.compile(r"is down|still connecting|too many calls wait|closed|exited|killed|was lost|ended")
BUSY = 503


class Client:
    """Calls of one client, one at a time."""

    def __init__(self, port, choice):
        self.choice, self.id = choice, 0
        self.era = choice.choice([LEGACY, MODERN])
        self.link, self.session = Link(port), None
        if self.era == LEGACY:
            self.link.post(opening(0, {}))
            status, fields, _ = self.link.answer()
            assert status == 200, status
            self.session = fields["mcp-session-id"]
            self.link.post(notification("notifications/initialized", {}), LEGACY, self.session)
            assert self.link.answer()[0] == 202

    def call(self):
        """One call; returns the text of an error, or nothing."""
        self.id += 1
        id, word = f"{os.getpid()}-{threading.get_ident()}-{self.id}", "x" * self.choice.randrange(200)
        if self.choice.random() < 0.5:
            name, given, expected = "echo", {"message": id + word}, f"Echo: {id}{word}"
        else:
            a, b = self.choice.randrange(10**6), self.choice.randrange(10**6)
            name, given, expected = "get-sum", {"a": a, "b": b}, str(a + b)
        params = {"name": name, "arguments": given}
        while True:
            self.link.post(request(id, "tools/call", params, self.era), self.era, self.session)
            status, _, messages = self.link.answer()
            if status != BUSY:
                break
            time.sleep(0.05)
        found = [message for message in messages if "method" not in message]
        assert len(found) == 1 and found[0].get("id") == id, f"{status} {str(messages)[:500]}"
        result = found[0].get("result", {"isError": True, "content": [{"text": json.dumps(found[0].get("error"))}]})
        text = result["content"][0]["text"]
        if result.get("isError"):
            assert ENDED.search(text), text
            return text
        assert expected in text, f"{text[:300]} instead of {expected[:300]}"
        return None


def process(port, seed, threads, calls, errors):
    """One process of clients, which counts its calls and its errors in shared memory until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    texts, lock = collections.Counter(), threading.Lock()

    def run(n):
        choice = random.Random(f"{seed} {n}")
        try:
            client = Client(port, choice)
            while True:
                error = client.call()
                with lock:
                    calls.value += 1
                    errors.value += error is not None
                if error:
                    # As a patient client does. The server may be connecting.
                    time.sleep(0.1)
        except (AssertionError, Closed, OSError) as failure:
            print(f"FAIL a client: {failure!r}"[:1000], flush=True)
            os._exit(1)

    started = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


class Clients:
    """The processes of clients and their counts. A killed process is replaced by one with the same counts."""

    def __init__(self, port, choice, clients):
        self.port, self.choice, self.threads = port, choice, clients // PROCESSES
        # Without locks, because a process may be killed while it holds one. Each has one writer.
        self.counts = [(RawValue("q", 0), RawValue("q", 0)) for _ in range(PROCESSES)]
        self.processes = [self.start(n) for n in range(PROCESSES)]
        self.killed = 0

    def start(self, n):
        given = (self.port, self.choice.random(), self.threads, *self.counts[n])
        started = multiprocessing.Process(target=process, args=given, daemon=True)
        started.start()
        return started

    def calls(self):
        return sum(calls.value for calls, _ in self.counts)

    def errors(self):
        return sum(errors.value for _, errors in self.counts)

    def check(self):
        ended = [p for p in self.processes if p.exitcode is not None]
        assert not ended, "a process of clients ended by itself"

    def kill(self):
        n = self.choice.randrange(PROCESSES)
        self.check()
        self.processes[n].kill()
        self.processes[n].join()
        self.processes[n] = self.start(n)
        self.killed += 1

    def end(self):
        for p in self.processes:
            p.kill()
            p.join()


def server_of(proxy):
    """The pid of the server, if it runs."""
    found = [child.split() for child in children(proxy.pid)]
    return next((int(pid) for pid, state, *_ in found if state != "Z"), None)


def uptime(link):
    """Seconds that the server has been connected."""
    link.send("GET", [], path="/status")
    (status,) = link.answer()[2][0]["servers"]
    return status["seconds"] if status["state"] == "running" else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resident", type=int, default=8192, help="largest resident memory of the proxy in kB")
    parser.add_argument("programs", type=Path)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    choice = random.Random(options.seed)
    calls, count, deaths = LONG if options.long else SHORT
    mark = f"endurance-{os.getpid()}"
    os.environ["BRIDGE_ENDURANCE"] = mark
    program = str((options.programs / "tinymcp").resolve())
    proxy = Served([program, "proxy", "--status", "/status"], behind=["--", *options.command])
    try:
        link = Link(proxy.port)
        link.post(request(0, "tools/call", {"name": "echo", "arguments": {"message": "x"}}, MODERN), MODERN)
        assert "result" in link.answer()[2][0], "the server does not start"
        threads, before = proxy.threads(), proxy.descriptors()
        began, next_kill, dead, readings = time.monotonic(), time.monotonic() + 1, 0, []
        clients, largest = Clients(proxy.port, choice, count), 0
        while clients.calls() < calls or dead < deaths:
            time.sleep(0.05)
            clients.check()
            done = clients.calls()
            largest = max(largest, proxy.status("VmRSS"))
            if done > len(readings) * calls // 4:
                readings.append(proxy.anonymous())
            is_next = dead < deaths and done > dead * calls // deaths and uptime(link) >= UPTIME
            # It may have been killed a moment ago.
            if is_next and (pid := server_of(proxy)):
                try:
                    os.kill(pid, signal.SIGKILL)
                    dead += 1
                except ProcessLookupError:
                    pass
            if time.monotonic() > next_kill:
                clients.kill()
                next_kill += 1
            assert proxy.child.poll() is None, f"the proxy ended with {proxy.child.poll()}"
        seconds, errors = time.monotonic() - began, clients.errors()
        clients.end()
        # The proxy may not have noticed the last death yet, so the process counts, too.
        left = until(lambda: server_of(proxy) is None or uptime(link) == 0, 2 * PATIENCE)
        assert not left, "the server does not run"
        left = until(lambda: proxy.descriptors() > before, PATIENCE)
        assert not left, f"{before} descriptors became {proxy.descriptors()}"
        readings.append(proxy.anonymous())
        assert len(children(proxy.pid)) == 1, f"children: {children(proxy.pid)}"
        more = sum((proxy.threads() - threads).values())
        proxy.end()
        left = until(lambda: [line for line in marked(mark) if line.split()[0] != str(os.getpid())], PATIENCE)
        assert not left, f"left behind: {left}"
    finally:
        if proxy.child.poll() is None:
            proxy.child.kill()
    assert dead == deaths, f"the server was killed {dead} times"
    growth = readings[-1] - readings[1]
    print(
        f"endurance  {clients.calls()} calls of {count} clients, {errors} of them ended by {dead} deaths of the server, "
        f"{clients.killed} processes of clients killed; resident {largest} kB, anonymous {readings} kB, "
        f"{more} more threads; {seconds:.0f} s"
    )
    assert errors <= deaths * count * 20, f"{errors} calls ended"
    assert growth <= NOISE, f"anonymous memory grew by {growth} kB"
    assert largest <= options.resident, f"{largest} kB are resident, the bar is {options.resident}"


main()
