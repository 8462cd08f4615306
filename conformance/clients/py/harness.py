"""Runs named checks against one session and prints one line for each, as `harness.mjs` does.

It handles results, timeouts and the wire log. `board.py` has the checks of the board, and `client.py` controls the
client. A failing check also prints, indented, the wire lines that were logged while it ran.
"""

import json
import sys
from pathlib import Path

import anyio

PLAN = Path(__file__).resolve().parent.parent / "plan.json"
# Seconds until an event that must happen; longer than anything takes on a busy machine.
PATIENCE = 60
# Seconds of one check, so that its report names the event.
CHECK_TIMEOUT = 3 * PATIENCE
# Longest run of wire lines shown for one failure, and longest line.
EXCERPT_LINES = 40
EXCERPT_WIDTH = 2000


def same(actual, expected, what):
    assert actual == expected, f"{what}: expected {expected!r}, got {actual!r}"


class Inbox:
    """Queue of items from callbacks, which are awaited one by one in order of arrival."""

    def __init__(self):
        self.sender, self.receiver = anyio.create_memory_object_stream(1000)

    def push(self, thing):
        self.sender.send_nowait(thing)

    async def next(self, what, timeout=PATIENCE):
        with anyio.move_on_after(timeout):
            return await self.receiver.receive()
        raise AssertionError(f"{what}: nothing within {timeout} s")


async def in_time(seconds, body):
    """Repeats a check that compares durations with ten times the duration: other programs may have used the processors."""
    try:
        return await body(seconds)
    except* AssertionError:
        pass
    await body(10 * seconds)


class Session:
    """One session: its name (`py/modern`), its folder of wire logs and its results."""

    def __init__(self, name, out):
        self.name = name
        self.folder = Path(out) / name.replace("/", "-")
        self.folder.mkdir(parents=True, exist_ok=True)

    async def check(self, name, body, timeout=CHECK_TIMEOUT):
        before = self._lines()
        try:
            with anyio.fail_after(timeout):
                await body()
        except Exception as error:  # any failure of any kind is the result of this check
            print(f"FAIL {self.name}/{name}: {reason(error)}")
            now = self._lines()
            during = [line for log, lines in now.items() for line in lines[len(before.get(log, [])) :]]
            for line in during[-EXCERPT_LINES:]:
                print(f"    {line[:EXCERPT_WIDTH]}")
        else:
            print(f"ok {self.name}/{name}")
        sys.stdout.flush()

    async def check_all(self, server, checks):
        """Runs the checks of a server in the order of the plan; those without a function here run elsewhere."""
        for name in json.loads(PLAN.read_text(encoding="utf-8"))[server]["checks"]:
            if body := checks.get(name.replace("-", "_")):
                await self.check(name, body)

    def _lines(self):
        logs = self.folder.glob("wire-*.log")
        return {log.name: log.read_text(errors="replace").split("\n")[:-1] for log in logs}


def reason(error):
    # Task groups wrap the error; the first leaf is reported. The depth is that of our own scopes.
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "the check timed out"
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return " | ".join((kind + str(error)).split("\n"))
