"""A server made of a definition, and the processes that it leaves behind."""

import argparse
import ctypes
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "slopes"))

from peers import LEGACY, Served, Stdio  # noqa: E402

# Each freed block of this size or more returns to the system. Otherwise glibc raises its bound when the first such block
# is freed, and later ones stay in a heap that grows by megabytes, because a small block in use follows them.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "131072"}

PR_SET_CHILD_SUBREAPER = 36
# Descriptors of a worker: three pipes, and the one that is readable when it has exited.
PER_WORKER = 4


def arguments(description):
    """The command line that every check has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("programs", type=Path)
    return parser.parse_args()


class Definition:
    """A definition file that is removed at the end."""

    def __init__(self, tools, **members):
        self.folder = tempfile.TemporaryDirectory(prefix="tinymcp-serve-")
        self.path = Path(self.folder.name) / "tools.json"
        self.path.write_text(json.dumps({"server": {"name": "checked"}, "tools": tools, **members}), encoding="utf-8")

    def command(self, programs):
        return [str((programs / "tinymcp").resolve()), "serve", str(self.path)]

    def serve(self, programs, era=LEGACY):
        return Stdio(self.command(programs), era, env=ALLOCATOR)

    def serve_http(self, programs):
        return Served(self.command(programs), ALLOCATOR)


def become_subreaper():
    """Processes whose parent ends become children of this process."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "prctl"


def processes():
    """Pids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(pid, name):
    """A file of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def marked(mark):
    """Living processes with this text in their environment, as `pid command`."""
    found = []
    for pid in processes():
        if mark.encode() in read(pid, "environ"):
            found.append(f"{pid} {read(pid, 'cmdline').replace(bytes(1), b' ').decode(errors='replace')}")
    return found


def children(parent):
    """Children of a process, zombies included, as `pid state name`."""
    found = []
    for pid in processes():
        stat = read(pid, "stat").decode(errors="replace")
        if stat:
            name, rest = stat.rsplit(")", 1)
            state, ppid = rest.split()[:2]
            if int(ppid) == parent:
                found.append(f"{pid} {state} {name.split('(', 1)[1]}")
    return found


def until(check, patience):
    """Waits until the check returns nothing; returns what it still returns after the patience in seconds."""
    end = time.monotonic() + patience
    while left := check():
        if time.monotonic() > end:
            break
        time.sleep(0.02)
    return left


def descriptors(server):
    """Number of descriptors of a server without those of its workers, when it no longer changes."""
    last = None
    while True:
        # A worker that ends meanwhile has some of them.
        now = server.descriptors() - PER_WORKER * len(children(server.pid))
        if now == last:
            return now
        last = now
        time.sleep(0.2)


def reap(parent):
    """Reaps the orphans that this process adopted and that have ended; `parent` is a child of its own."""
    for child in children(os.getpid()):
        pid, state, *_ = child.split()
        if state == "Z" and int(pid) != parent:
            os.waitpid(int(pid), 0)
