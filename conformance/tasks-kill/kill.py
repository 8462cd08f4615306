"""Kills of a server whose tasks are in a file.

Used as `python3 kill.py --kills N [--time SECONDS] --seed N PROGRAM`. A round starts the server, asks for the state of
earlier tasks, calls tools as tasks, and kills the server at a random moment: while it starts, while it stores a task or a
result, or while it compacts the file. Responses that the server had written before count as received.

Invariants after each start:

- The server starts, so the file can be read.
- `tasks/get` finds each task whose id was received, until its lifetime has ended.
- A result that was received once stays the same, and belongs to its call.
- The tool `once`, which is not idempotent, ran at most once for each call; `again` at most three times.

Rounds with a torn write simulate a power cut: the end of the file is cut or damaged, but only bytes of a line that the
server had not acknowledged, because it synchronizes a line before it answers.
"""

import argparse
import collections
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Rounds with one file. The next ones start with an empty file.
ROUNDS = 25
# Time for responses that must arrive. Longer means that the server hangs.
HANG = 30
# Lifetime of results in half of the files, in milliseconds: the shortest that the server accepts. Elsewhere it is the
# default of one hour.
SHORT = 1000
# Maximum number of starts of an idempotent task.
MAX_RUNS = 3
FINAL = {"completed", "failed", "cancelled"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


class Killed(Exception):
    pass


class Task:
    def __init__(self, tool, number):
        self.tool, self.number = tool, number
        # The last state that is final, and the time before which the task must be known.
        self.state, self.known_until = None, None


class Server:
    """One process. Messages are lines of JSON."""

    def __init__(self, program, store, runs, ttl):
        env = {**os.environ, "TINYMCP_TASKS": "65536", "TINYMCP_TASK_WORKERS": "3"}
        if ttl:
            env["TINYMCP_TASK_TTL_MS"] = str(ttl)
        self.process = subprocess.Popen(
            [program, store, runs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        self.buffer, self.last_id, self.responses = b"", 0, {}

    def send(self, requests):
        """Sends requests at once and returns their ids."""
        lines, ids = [], []
        for method, params in requests:
            self.last_id += 1
            ids.append(self.last_id)
            message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": {"_meta": META, **params}}
            lines.append(json.dumps(message) + "\n")
        try:
            self.process.stdin.write("".join(lines).encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None
        return ids

    def ended(self):
        self.process.kill()
        return AssertionError(f"the server ended: {self.process.stderr.read().decode(errors='replace')}")

    def read(self, until):
        """Reads what arrives before this time. Returns whether the output is still open."""
        left = max(until - time.monotonic(), 0)
        if not select.select([self.process.stdout], [], [], left)[0]:
            return True
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.responses[message["id"]] = message
        return bool(chunk)

    def wait(self, ids):
        """Returns the responses to these requests."""
        until = time.monotonic() + HANG
        while not all(id in self.responses for id in ids):
            if not self.read(until):
                raise self.ended()
            assert time.monotonic() < until, "the server does not respond"
        return [self.responses[id] for id in ids]

    def read_for(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.read(until):
                raise self.ended()

    def kill(self):
        """Kills the process, and reads what it had written."""
        self.process.send_signal(signal.SIGKILL)
        while self.read(time.monotonic() + HANG):
            pass
        self.process.wait()
        stderr = self.process.stderr.read().decode(errors="replace")
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        assert "panicked" not in stderr, stderr


class Life:
    """One file, from the first to the last round."""

    def __init__(self, program, folder, rng, counts):
        self.program, self.folder, self.rng, self.counts = program, folder, rng, counts
        self.store, self.runs = folder / "tasks", folder / "runs"
        self.ttl = SHORT if rng.random() < 0.5 else None
        self.tasks, self.number = {}, 0

    def round(self):
        server = Server(self.program, self.store, self.runs, self.ttl)
        self.started = time.monotonic()
        asked, called = {}, {}
        try:
            if self.rng.random() < 0.2:
                # While it reads the file and starts tasks again.
                server.read_for(self.rng.random() * 0.01)
            else:
                asked = self.ask(server)
                if self.ttl and self.rng.random() < 0.06:
                    # Lifetimes end, and the file is compacted.
                    server.read_for(self.ttl / 1000 + 0.1)
                    asked |= self.ask(server)
                for _ in range(self.rng.randrange(1, 4)):
                    called.update(self.call(server))
                    server.read_for(self.rng.random() * 0.02)
        finally:
            server.kill()
        self.receive(server, asked, called)
        self.check_runs()
        if self.rng.random() < 1 / 3:
            self.tear()

    def ask(self, server):
        """Requests the states of all tasks. Returns the tasks by the ids of the requests."""
        tasks = list(self.tasks)
        asked = dict(zip(server.send(("tasks/get", {"taskId": task}) for task in tasks), tasks))
        server.wait(asked)
        return asked

    def call(self, server):
        calls = []
        for _ in range(self.rng.randrange(1, 8)):
            self.number += 1
            tool = self.rng.choice(["once", "again"])
            arguments = {"number": self.number, "time": self.rng.choice([0, 0, 200, 200, 3000, 10_000_000])}
            # The store keeps the whole request, so this makes lines long enough for a compaction.
            meta = {**META, "com.example/padding": "x" * self.rng.randrange(6000)}
            calls.append((Task(tool, self.number), ("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})))
        ids = server.send(request for _, request in calls)
        states = [("tasks/get", {"taskId": id}) for id in list(self.tasks)[-3:]]
        if states:
            server.send(states)
        return dict(zip(ids, (task for task, _ in calls)))

    def receive(self, server, asked, called):
        now = time.monotonic()
        lifetime = (self.ttl or 3_600_000) / 1000
        for id, message in server.responses.items():
            if id in called:
                assert message.get("result", {}).get("resultType") == "task", f"not a task: {message}"
                task = called[id]
                task.known_until = self.started + lifetime
                self.tasks[message["result"]["taskId"]] = task
                self.counts["accepted"] += 1
        for id, message in server.responses.items():
            if id in called:
                continue
            result = message.get("result")
            if result is None:
                # Only the tasks of earlier rounds or of this one are requested, by their ids.
                assert message["error"]["code"] == -32602, message
                task_id = asked.get(id)
                if task_id is None:
                    assert self.ttl, f"a task is lost: {message}"
                    continue
                task = self.tasks.pop(task_id, None)
                if task is not None:
                    assert task.known_until < now, f"the task {task_id} of call {task.number} is lost"
                    self.counts["expired"] += 1
                continue
            self.state(result)

    def state(self, result):
        task = self.tasks[result["taskId"]]
        task.known_until = self.started + (self.ttl or 3_600_000) / 1000
        status = result["status"]
        final = {"status": status, "result": result.get("result"), "error": result.get("error")}
        if task.state is not None:
            assert final == task.state, f"call {task.number} of {task.tool}: {task.state}, and then {final}"
        if status in FINAL and task.state is None:
            task.state = final
            self.counts[f"{task.tool} {status}"] += 1
        if status == "completed":
            text = result["result"]["content"][0]["text"]
            assert text == str(task.number), f"call {task.number} has the result {text}"
        if status == "failed":
            message = result["error"]["message"]
            assert message == "The server was restarted before the task was over", message

    def check_runs(self):
        runs = collections.Counter(self.runs.read_text().splitlines()) if self.runs.exists() else {}
        for line, count in runs.items():
            most = 1 if line.startswith("once ") else MAX_RUNS
            assert count <= most, f"{line} ran {count} times"

    def tear(self):
        """Damages the end of the file as a power cut during a write does."""
        if not self.store.exists():
            # Nothing is written before the names of the store and of its lock file are on the disk.
            return
        bytes = self.store.read_bytes()
        start = bytes.rfind(b"\n", 0, len(bytes) - 1) + 1 if bytes else 0
        last = bytes[start:]
        if self.is_acknowledged(last):
            # The next line was being written.
            next = b'0123456789abcdef {"accept":"torn","task":{"request":{}}}\n'
            tail = last + next[: self.rng.randrange(1, len(next))]
        else:
            tail = last[: self.rng.randrange(len(last))]
        if len(tail) > len(last) and self.rng.random() < 0.5:
            tail = last + bytes_of(self.rng, len(tail) - len(last))
        self.store.write_bytes(bytes[:start] + tail)
        self.counts["torn"] += 1

    def is_acknowledged(self, line):
        """Whether the client may have seen the content of a line; it has not seen an incomplete line."""
        if not line.endswith(b"\n"):
            return not line
        try:
            document = json.loads(line.partition(b" ")[2])
        except ValueError:
            # Left by an earlier round.
            return False
        if "accept" in document:
            # A task that runs again is stored again before its handler starts, with the same id.
            return document["accept"] in self.tasks or document["task"].get("run", 0) > 0
        if "finish" in document:
            task = self.tasks.get(document["finish"])
            return task is not None and task.state is not None
        return False


def bytes_of(rng, count):
    return bytes(rng.randrange(256) for _ in range(count))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--time", type=float, default=0, help="seconds after which no further round starts; 0 for none")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("program")
    options = parser.parse_args()
    rng, counts, began = random.Random(options.seed), collections.Counter(), time.monotonic()
    program = str(Path(options.program).resolve())
    done = 0
    with tempfile.TemporaryDirectory(prefix="tinymcp-tasks-") as scratch:
        while done < options.kills:
            folder = Path(scratch) / "life"
            folder.mkdir()
            life = Life(program, folder, rng, counts)
            for number in range(ROUNDS):
                if done == options.kills or options.time and time.monotonic() - began > options.time:
                    break
                try:
                    life.round()
                except AssertionError as error:
                    kept = Path(tempfile.mkdtemp(prefix="tinymcp-tasks-failed-"))
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
                    sys.exit(f"kill {done}, round {number} of its file, copy in {kept}: {error}")
                done += 1
            else:
                shutil.rmtree(folder)
                continue
            shutil.rmtree(folder)
            break
    figures = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"tasks      {done} kills: {figures}; {time.monotonic() - began:.0f} s")
    assert done >= min(options.kills, 50), "too few kills in this time"
    for what in ("accepted", "torn", "expired", "once completed", "once failed", "again completed"):
        assert counts[what], f"no task was {what}: the rounds show too little"


main()
