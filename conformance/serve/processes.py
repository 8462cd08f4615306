"""Processes of calls: however a call or its client ends, nothing stays behind.

Used as `python3 processes.py [--long] [--seed N] FOLDER`. First one session with calls that time out, are cancelled,
print without end, ignore SIGTERM, leave children. Each call must have one response, or none if it was cancelled;
afterwards the server has no child, no more threads and descriptors than before, and the same memory. Then a session
with calls of workers that die, hang, print other things than responses: afterwards it has no other children than idle
workers. Then clients that end while calls of both kinds run: the server must end, too, and all processes that it
started. Then a process that stays although it was killed: other calls must not wait for it.

A process belongs to a run by a variable of its environment. This program adopts orphans, so it sees all of them.
"""

import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from served import Definition, arguments, become_subreaper, children, descriptors, marked, read, reap, until

from peers import notification

SHORT, LONG = 300, 10_000
IN_FLIGHT = 16
# Limits::workers of the command serve. They end after some idle time.
WORKERS = 64
# Calls that run when a client ends, and how many calls there are for each such end.
AT_END, PER_END = 12, 60
# Seconds for processes to end: SIGTERM, a grace period, SIGKILL; and for a server to notice its client's end.
PATIENCE = 60
# kB of anonymous memory by which the last reading may exceed that of the first quarter. Each of the 16 threads keeps 64 KiB
# of a buffer after its first long input, and all of it until its next call. In the long run all have one at the first
# reading.
NOISE, LONG_NOISE = 1536, 512
# Length of the longest arguments.
LONG_TEXT = 300_000

SCRIPTS = {
    "quick": "echo done",
    "fail": "echo wrong >&2; exit 3",
    "sleep": "sleep 1000",
    "fork": "sleep 1000 & sleep 1000 & wait",
    "leave": "sleep 1000 & echo started",
    "detach": "sleep 1000 >/dev/null 2>&1 </dev/null & echo started",
    "deaf": "trap '' TERM INT HUP; while :; do sleep 0.05; done",
    "deaf_child": "sh -c \"trap '' TERM; while :; do sleep 0.05; done\" & sleep 1000",
    "closed": "exec >&- 2>&-; sleep 1000",
    "endless": "exec yes",
    "endless_error": "exec yes >&2",
    "zombie": "sleep 0.01 & exec sleep 1000",
    "lines": "for i in 1 2 3 4 5 6 7 8 9; do echo $i; done",
    "killed": "kill -9 $$",
    "unread": "sleep 0.05",
}
# Scripts that would end by themselves have a long timeout.
ENDING = {"quick", "fail", "detach", "lines", "killed", "unread"}

# Reaction of a worker to a call, by the name of the tool. All are one program, whose processes the tools share.
WORKER = {
    "answer": "finish",
    "refuse": """answer '"error": "wrong"'""",
    "late": """echo '{"id": 0, "result": "late"}'; finish""",
    "reports": """for i in 1 2 3 4 5; do answer "\\"progress\\": $i"; done; finish""",
    "family": "sleep 1000 & finish",
    "then_end": "finish; exit",
    "twice": """finish; answer '"result": "again"'""",
    "nameless": """echo '{"result": "done"}'""",
    "end": "exit 3",
    "crash": "kill -9 $$",
    "garbage": "echo garbage",
    "flood": "exec yes",
    "long_line": "yes | tr -d '\\n'",
    "shut": "exec >&-; sleep 1000",
    "hang": "sleep 1000",
    "deaf_hang": "trap '' TERM INT HUP; while :; do sleep 0.05; done",
    "late_input": "sleep 0.05; finish",
}
ANSWERING = {"answer", "late", "reports", "family", "twice", "late_input"}
# The call may get a worker that is about to end; background programs may end in time.
EITHER = {"leave", "detach", "then_end"}


def tools(mark, random):
    offered = {}
    for name, script in SCRIPTS.items():
        tool = {
            "description": f"The program of {name}",
            "run": ["/bin/sh", "-c", script],
            "env": {"SERVE_CHECK": mark},
            "timeout": 60 if name in ENDING else random.choice([0.05, 0.1, 0.2, 0.4]),
        }
        if name == "unread":
            tool |= {"input": {"text": "string"}, "stdin": "json"}
        if name == "lines":
            tool["output"] = "lines"
        offered[name] = tool
    return offered


def workers(mark, random):
    cases = "".join(f"*'\"tool\":\"{name}\"'*) {action};; " for name, action in WORKER.items())
    script = (
        """answer() { echo "{\\"id\\": $id, $1}"; }; finish() { answer '"result": "done"'; }; """
        f"while read -r call; do id=${{call#*:}}; id=${{id%%,*}}; case $call in {cases}esac; done"
    )
    offered = {}
    for name in WORKER:
        offered[name] = {
            "description": f"The worker does {name}",
            "worker": ["/bin/sh", "-c", script.replace("{", "{{").replace("}", "}}")],
            "env": {"SERVE_CHECK": mark},
            "concurrency": IN_FLIGHT,
            "timeout": 60 if name in ANSWERING or name in EITHER else random.choice([0.2, 0.4, 0.8]),
        }
        if name == "late_input":
            offered[name]["input"] = {"text": "string"}
        if name == "then_end":
            # It has its own processes: a call of another tool could get one that is about to end.
            offered[name]["env"]["SERVE_CHECK_OWN"] = "yes"
    return offered


def given(name, random):
    """Arguments of a call."""
    return {"text": "x" * random.choice([0, 10, LONG_TEXT])} if name in ("unread", "late_input") else {}


def check(name, message):
    """Checks a response. Returns whether it is an error."""
    result = message.get("result")
    assert result and result["content"], f"{name}: {str(message)[:300]}"
    failed = bool(result.get("isError"))
    # After failures of its program, a worker starts later.
    paused = failed and "is started again" in result["content"][0]["text"]
    if name in ("quick", "lines", "unread") or (name in ANSWERING and not paused):
        assert not failed, f"{name}: {str(message)[:300]}"
    elif name not in EITHER:
        assert failed, f"{name}: {str(message)[:300]}"
    # Not a line of another call.
    assert failed or name not in WORKER or result["content"][0]["text"] == "done", f"{name}: {str(message)[:300]}"
    return failed


class Session:
    """Calls with cancellations on one server."""

    def __init__(self, server, random):
        self.server, self.random = server, random
        self.cancellations = []  # Time and id.
        self.cancelled = {}  # Id, and the time of its cancellation.
        self.counts = {"results": 0, "errors": 0, "cancelled": 0}

    def call(self, name, cancel=True, arguments=None):
        arguments = given(name, self.random) if arguments is None else arguments
        request = self.server.request("tools/call", {"name": name, "arguments": arguments}, name)
        self.server.write([request])
        if cancel and self.random.random() < 0.3:
            self.cancellations.append((time.monotonic() + self.random.choice([0, 0.01, 0.05, 0.3]), request["id"]))

    def cancel_due(self):
        now = time.monotonic()
        for due in [entry for entry in self.cancellations if entry[0] <= now]:
            self.cancellations.remove(due)
            if due[1] in self.server.ids.open:
                self.server.write([notification("notifications/cancelled", {"requestId": due[1]})])
                self.cancelled[due[1]] = now

    def running(self):
        """Calls that wait for a response."""
        return [id for id in self.server.ids.open if id not in self.cancelled]

    def settle(self, in_flight):
        end = time.monotonic() + 60
        while len(self.running()) > in_flight or (in_flight == 0 and self.cancellations):
            assert time.monotonic() < end, f"no response: {[(id, self.server.ids.open[id]) for id in self.running()]}"
            self.cancel_due()
            self.receive(0.01)

    def receive(self, patience):
        if not self.server.others and not select.select([self.server.child.stdout.fileno()], [], [], patience)[0]:
            return
        for message in self.server.messages():
            if "method" in message:
                continue
            name = self.server.ids.open.get(message.get("id"))
            # A response may have crossed its cancellation.
            self.cancelled.pop(message.get("id"), None)
            self.server.ids.settle(message)
            self.counts["errors" if check(name, message) else "results"] += 1

    def forget_cancelled(self):
        self.counts["cancelled"] += len(self.cancelled)
        for id in self.cancelled:
            del self.server.ids.open[id]
        self.cancelled = {}


def left_children(server, mark, kind):
    """Processes that belong to no running call."""
    if kind is tools:
        return children(server.pid) or marked(mark)
    # Workers stay. They are shells; an orphan becomes a child of the server.
    return [child for child in children(server.pid) if child.split()[1:] not in (["S", "sh"], ["R", "sh"])]


def warm_up(session, kind):
    """Lets each thread allocate the memory that it keeps."""
    for _ in range(2):
        for name in SCRIPTS if kind is tools else WORKER:
            session.call(name, cancel=False)
    session.settle(0)
    name = "unread" if kind is tools else "late_input"
    for _ in range(3):
        for _ in range(2 * IN_FLIGHT):
            session.call(name, cancel=False, arguments={"text": "x" * LONG_TEXT})
        session.settle(0)


def one_session(options, random, kind):
    mark = f"session-{os.getpid()}-{random.getrandbits(64):x}"
    definition = Definition(kind(mark, random))
    server = definition.serve(options.programs)
    session, names = Session(server, random), list(SCRIPTS if kind is tools else WORKER)
    count = LONG if options.long else SHORT

    def idle():
        session.settle(0)
        left = until(lambda: left_children(server, mark, kind), PATIENCE)
        assert not left, f"left behind: {left}"
        reap(server.pid)

    warm_up(session, kind)
    idle()
    before = server.anonymous(), server.threads(), descriptors(server)
    readings = []
    began = time.monotonic()
    for n in range(count):
        session.call(random.choice(names))
        session.settle(IN_FLIGHT - 1)
        if (n + 1) % (count // 4) == 0:
            idle()
            readings.append(server.anonymous())
    idle()
    # Responses of cancelled calls would have come before this one.
    server.ids.open = {id: name for id, name in server.ids.open.items() if id in session.cancelled}
    session.call(names[0], cancel=False)
    session.settle(0)
    session.forget_cancelled()
    left = until(lambda: grown(before[1], server.threads()), PATIENCE)
    assert not left, f"left behind: {left}"
    left = until(lambda: descriptors(server) > before[2], PATIENCE)
    assert not left, f"{before[2]} descriptors became {descriptors(server)}"
    growth = readings[-1] - readings[0]
    noise = LONG_NOISE if options.long else NOISE
    assert growth <= noise, f"anonymous memory grew by {growth} kB: {before[0]}, {readings}"
    server.end()
    assert not until(lambda: marked(mark), PATIENCE), marked(mark)
    counts = ", ".join(f"{number} {what}" for what, number in session.counts.items())
    print(
        f"processes  {count} calls of {kind.__name__}: {counts}; memory {readings[0]} to {readings[-1]} kB; "
        f"{time.monotonic() - began:.0f} s"
    )


def grown(before, now):
    """Threads that were started since and still run; workers only beyond their bound."""
    bounds = {"mcp-worker-": WORKERS}
    return [f"{count} threads {name}" for name, count in now.items() if count > max(before[name], bounds.get(name, 0))]


CLIENT = """
import json, os, signal, subprocess, sys, time
calls, command = json.loads(sys.argv[1]), sys.argv[2:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
server.stdin.write("".join(json.dumps(call) + "\\n" for call in calls).encode())
server.stdin.flush()
print(server.pid, flush=True)
order = sys.stdin.readline().strip()
if order == "close": server.stdin.close(); server.wait(); os._exit(0)
if order == "close_both": server.stdin.close(); server.stdout.close(); server.wait(); os._exit(0)
if order == "terminate": server.terminate(); server.wait(); os._exit(0)
signal.pause()
"""
ENDS = ["kill", "kill_held", "close", "close_both", "terminate"]


def client_end(options, random, end):
    """One client that ends while its calls run."""
    mark = f"client-{os.getpid()}-{random.getrandbits(64):x}"
    offered = tools(mark, random) | workers(mark, random)
    for name in offered:
        offered[name]["timeout"] = 600
    definition = Definition(offered)
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    calls = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    for id in range(1, AT_END + 1):
        name = random.choice([name for name in offered if "input" not in offered[name]])
        calls.append({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}}})
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CLIENT, json.dumps(calls), *definition.command(options.programs)]
    client = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    server = int(client.stdout.readline())
    # The calls have begun.
    assert until(lambda: not marked(mark), PATIENCE) is False, "no call has begun"
    time.sleep(random.choice([0, 0.02, 0.2]))
    held = []
    if end == "kill_held":
        # Another process keeps the pipes open, as the other children of a host may do.
        held = [os.open(f"/proc/{server}/fd/{fd}", flags) for fd, flags in [(0, os.O_WRONLY), (1, os.O_RDONLY)]]
    if end.startswith("kill"):
        client.kill()
    else:
        client.stdin.write(f"{end}\n")
        client.stdin.flush()
    client.wait(PATIENCE * 2)
    left = until(lambda: marked(mark) or alive(server), PATIENCE)
    for descriptor in held:
        os.close(descriptor)
    assert not left, f"{end}: left behind: {left}"


PTRACE_SEIZE = 0x4206
# Seconds for calls beside the stuck process. A call that waits for it as long as the server does may need all of them.
BESIDE = 30


def stuck(options, random):
    """An orphan that is killed and does not exit: it has a tracer that does not wait for it."""
    mark = f"stuck-{os.getpid()}-{random.getrandbits(64):x}"
    offered = tools(mark, random)
    # The folder of a program is that of its definition.
    script = "setsid sleep 1000 <&- >&- 2>&- & until [ -e go ]; do sleep 0.05; done"
    leave = offered["leave"] | {"run": ["/bin/sh", "-c", script], "timeout": 60}
    definition = Definition({"quick": offered["quick"], "leave": leave})
    go = definition.path.with_name("go")
    server = definition.serve(options.programs)
    session = Session(server, random)
    session.call("leave", cancel=False)
    orphan = []

    def started():
        orphan[:] = [int(line.split()[0]) for line in marked(mark) if line.split()[1:] == ["sleep", "1000"]]
        return not orphan

    assert not until(started, PATIENCE), "no process that leaves its group"
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(PTRACE_SEIZE, orphan[0], None, None) != 0:
        print(f"processes  no stuck process: ptrace: {os.strerror(ctypes.get_errno())}")
    else:
        go.touch()
        # Killed, and not reaped.
        assert not until(lambda: b") Z " not in read(orphan[0], "stat"), PATIENCE), "the orphan is not killed"
        began = time.monotonic()
        for _ in range(20):
            session.call("quick", cancel=False)
            session.settle(1)
        session.settle(0)
        seconds = time.monotonic() - began
        assert seconds < BESIDE, f"calls beside a stuck process took {seconds:.0f} s"
        os.waitpid(orphan[0], 0)
        print(f"processes  20 calls beside a stuck process: {seconds:.1f} s")
    go.touch()
    # The next end of a program reaps it.
    session.call("quick", cancel=False)
    session.settle(0)
    left = until(lambda: children(server.pid), PATIENCE)
    assert not left, f"left behind: {left}"
    server.end()


def alive(pid):
    """Whether a process runs. Reaps it first if it is a zombie child of this program."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
        return f"server {pid}"
    except ProcessLookupError:
        return ""


def main():
    options = arguments(__doc__)
    become_subreaper()
    choice = random.Random(options.seed)
    for kind in (tools, workers):
        one_session(options, choice, kind)
    count, began = max((LONG if options.long else SHORT) // PER_END, len(ENDS)), time.monotonic()
    # Servers wait for their calls, so that several clients can end at once.
    with ThreadPoolExecutor(len(ENDS)) as pool:
        ends = [(random.Random(choice.random()), ENDS[n % len(ENDS)]) for n in range(count)]
        for _ in pool.map(lambda end: client_end(options, *end), ends):
            pass
    print(f"processes  {count} clients ended while {AT_END} calls ran: nothing left; {time.monotonic() - began:.0f} s")
    stuck(options, choice)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
