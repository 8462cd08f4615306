"""Runs the two clients in turn and compares the medians: see run.sh."""

import os
import statistics
import subprocess
import sys

FIGURES = ["calls/s", "p50 µs", "CPU µs/call", "peak KiB", "anonymous", "of files"]
IN_FLIGHT = [1, 16, 64]
# At least the peer's throughput; at most a quarter of its memory.
LEAST_CALLS, MOST_MEMORY = 1.0, 0.25

rounds, milliseconds, ours, peer, *server = sys.argv[1:]
clients = {"tinymcp": ours, "threads": ours, "rmcp": peer}
samples = {(name, n): [] for name in clients for n in IN_FLIGHT}
for turn in range(int(rounds)):
    for n in IN_FLIGHT:
        # Who comes first changes, so that neither always meets the warmer machine.
        for name in sorted(clients, reverse=turn % 2 == 1):
            command = [clients[name], str(n), milliseconds, *server]
            env = dict(os.environ, BENCH_THREADS="1") if name == "threads" else None
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True, env=env)
            samples[name, n].append([float(word) for word in done.stdout.split()])

missed = 0
print(f"{'in flight':>9} {'client':>8}" + "".join(f"{figure:>14}" for figure in FIGURES))
for n in IN_FLIGHT:
    medians = {name: [statistics.median(column) for column in zip(*samples[name, n])] for name in clients}
    for name, row in medians.items():
        print(f"{n:>9} {name:>8}" + "".join(f"{value:>14.1f}" for value in row))
    for name in ["tinymcp", "threads"]:
        # Of each pair of neighbours, so that a change of the machine's pace touches both.
        pairs = list(zip(samples[name, n], samples["rmcp", n]))
        ratios = [statistics.median(a[k] / b[k] for a, b in pairs) for k in range(len(FIGURES))]
        print(f"{n:>9} {name[:4] + '/rmcp':>9}" + "".join(f"{value:>13.3f} " for value in ratios))
        if name == "tinymcp":
            missed += ratios[0] < LEAST_CALLS
            missed += ratios[3] > MOST_MEMORY

print(f"limits: calls/s at least {LEAST_CALLS} of rmcp's, memory at most {MOST_MEMORY}: {missed} missed")
sys.exit(1 if missed else 0)
