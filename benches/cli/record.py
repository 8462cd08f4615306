"""Time that `tinymcp record` adds to a frame, in one run that takes turns with the direct connection.

Used as `python3 record.py [options] TINYMCP ECHO_SERVER`; `run.sh` builds the programs. A raw client calls one server
directly, through `cat` in both directions, and through `tinymcp record`. A call is two frames. Any program between a
client and a server wakes one more process for each frame; `cat` shows the time of that.
"""

import argparse
import os
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "proxy"))
from latency import TURN, WARM_UP, Stdio, Tool  # noqa: E402

# Bar, in µs for each frame.
ADDED = 10.0


def measure(title, ways, calls):
    """Prints the table of one placement. Returns the µs that a recorded frame takes longer than a direct one."""
    for turn in range((WARM_UP + calls) // TURN):
        if turn == WARM_UP // TURN:
            for way in ways:
                way.samples.clear()
        for way in ways:
            way.turn(TURN)
    direct = statistics.median(ways[0].samples) / 1000
    print(f"\n{title}, {calls} calls of each way, µs\n{'':10}{'p10':>8}{'p50':>8}{'p90':>8}{'added to a frame':>18}")
    for way in ways:
        tenths = [time / 1000 for time in statistics.quantiles(way.samples, n=10)]
        added = (tenths[4] - direct) / 2
        print(f"{way.name:10}{tenths[0]:>8.1f}{tenths[4]:>8.1f}{tenths[8]:>8.1f}{added:>18.1f}")
    return added


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--check", action="store_true", help=f"fail if more than {ADDED} µs are added on one CPU")
    parser.add_argument("tinymcp")
    parser.add_argument("echo")
    options = parser.parse_args()
    server, tool = [options.echo, "--inline"], Tool("echo", {"text": "hello"}, '"hello"')
    every = os.sched_getaffinity(0)
    added = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, cpus in (("one CPU", {min(every)}), ("all CPUs", every)):
            os.sched_setaffinity(0, cpus)
            ways = []
            try:
                for name, command in (
                    ("direct", server),
                    ("cat", ["sh", "-c", f"cat | {shlex.join(server)} | cat"]),
                    ("record", [options.tinymcp, "record", f"{folder}/{len(cpus)}.jsonl", "--", *server]),
                ):
                    ways.append(Stdio(name, command, tool))
                added[title] = measure(f"all programs on {title}", ways, options.calls)
            finally:
                for way in ways:
                    way.end()
    if options.check and added["one CPU"] > ADDED:
        sys.exit(f"{added['one CPU']:.1f} µs are added to a frame, the bar is {ADDED}")


main()
