"""Time that a command of `tinymcp` takes from its start to its end, in one interleaved run.

Used as `python3 start.py [options] TINYMCP ECHO_SERVER`; `run.sh` builds and installs the programs. Each run starts a
process and waits for its exit; its output goes to a file, which is checked afterwards. The runs are taken in turns, so
that a load on the machine changes all of them.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

# Bar of a call, in ms.
BAR = 5.0
# The Inspector takes a second for each run; it has one turn in so many.
RARE = 20
CALL = ["call", "echo", "text=hi"]


class Command:
    """A command line, the text that its output must contain, and its times in ms."""

    def __init__(self, name, expected, words, every=1):
        self.name, self.expected, self.words, self.every, self.times = name, expected, words, every, []

    def run(self, output):
        os.ftruncate(output, 0)
        os.lseek(output, 0, os.SEEK_SET)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ]
        began = time.perf_counter_ns()
        pid = os.posix_spawnp(self.words[0], self.words, os.environ, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        self.times.append((time.perf_counter_ns() - began) / 1e6)
        shown = os.pread(output, 1 << 20, 0).decode()
        if status != 0 or self.expected not in shown:
            sys.exit(f"{self.name}: wait status {status}: {shown}")

    def row(self):
        times = sorted(self.times)
        rank = lambda share: times[min(len(times) - 1, int(len(times) * share))]
        return f"| {self.name} | {len(times)} | {times[0]:.1f} | {statistics.median(times):.1f} | {rank(0.9):.1f} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tinymcp")
    parser.add_argument("server")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--inspector", help="script of the Inspector's command line, for node")
    parser.add_argument("--check", action="store_true", help=f"fail if the median of a call is above {BAR} ms")
    args = parser.parse_args()
    tinymcp, server = args.tinymcp, ["--", args.server]
    call = Command("`tinymcp call`", "hi", [tinymcp, *CALL, *server])
    commands = [
        Command("`tinymcp --version`", "tinymcp", [tinymcp, "--version"]),
        call,
        Command("`tinymcp call --protocol session`", "hi", [tinymcp, *CALL, "--protocol", "session", *server]),
        Command("`tinymcp list`", "echo", [tinymcp, "list", *server]),
    ]
    if args.inspector:
        words = ["node", args.inspector, "--cli", "--format", "json", "--method", "tools/call", "--tool-name", "echo"]
        commands.append(Command("Inspector", "hi", [*words, "--tool-arg", "text=hi", *server], RARE))
    with tempfile.TemporaryFile() as file:
        for number in range(args.runs):
            for command in commands:
                if number % command.every == 0:
                    command.run(file.fileno())
    print("| command | runs | fastest, ms | median, ms | p90, ms |\n|---|---|---|---|---|")
    print("\n".join(command.row() for command in commands))
    if args.check and statistics.median(call.times) > BAR:
        sys.exit(f"the bar is {BAR} ms")


main()
