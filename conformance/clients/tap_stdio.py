"""Logging proxy between a client and the stdio server that it spawned: logs every line.

Used as `python3 tap.py FOLDER SERVER ARGS…`. It copies bytes unchanged in both directions and writes
FOLDER/wire-PID.log, one record per line: seconds since the start, a mark, and the text. Marks: `>` a line
from the client, `<` a line from the server, `!` an event (`eof` the client closed our input, `signal N` the
client sent a signal, `exit N` the server's exit code, negative for a signal). The server's stderr goes to
FOLDER/stderr-PID.log. It does not interpret the lines; `wire.py` checks them afterwards.

A record is on disk before its bytes are passed on, so the log contains every response that a client has received.
The server's scratch files go to FOLDER, through TMPDIR.
"""

import os
import signal
import subprocess
import sys
import threading
import time

START = time.monotonic()


class Log:
    """The record file; one lock keeps the records of two pumps whole and in order."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.lock = threading.Lock()

    def write(self, mark, text):
        with self.lock:
            stamp = f"{time.monotonic() - START:.3f} {mark} ".encode()
            os.write(self.file, stamp + text + b"\n")


def pump(source, target, log, mark):
    """Copies until the source ends or the target is closed; complete lines are logged before they are sent."""
    rest = b""
    while True:
        chunk = os.read(source, 65536)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            log.write(mark, line)
        while chunk:
            try:
                chunk = chunk[os.write(target, chunk) :]
            except BrokenPipeError:
                return
    if rest:
        log.write(mark, rest)
        log.write("!", b"the last line has no newline")


def main():
    folder, command = sys.argv[1], sys.argv[2:]
    log = Log(os.path.join(folder, f"wire-{os.getpid()}.log"))
    stderr = open(os.path.join(folder, f"stderr-{os.getpid()}.log"), "wb")
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        bufsize=0,
        env=dict(os.environ, TMPDIR=folder),
    )

    def passed_on(number, _frame):
        log.write("!", f"signal {number}".encode())
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, passed_on)

    def from_client():
        pump(0, child.stdin.fileno(), log, ">")
        log.write("!", b"eof")
        child.stdin.close()

    def from_server():
        pump(child.stdout.fileno(), 1, log, "<")

    threading.Thread(target=from_client, daemon=True).start()
    reader = threading.Thread(target=from_server, daemon=True)
    reader.start()
    code = child.wait()
    # A grandchild may hold the pipe open; all bytes of the server have arrived.
    reader.join(60)
    log.write("!", f"exit {code}".encode())
    os._exit(code if code >= 0 else 128 - code)


main()
