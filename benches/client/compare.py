"""Runs the two clients in turn and compares the medians; see run.sh."""

import os
import statistics
import subprocess
import sys

FIGURES = ["calls/s", "p50 µs", "CPU µs/call", "peak KiB", "anonymous", "of files"]
IN_FLIGHT = [1, 16, 64]
# At least the peer's throughput, at most a quarter of its memory.
LEAST_CALLS, MOST_MEMORY = 1.0, 0.25

rounds, milliseconds, ours, peer, profiles, *server = sys.argv[1:]
clients = {}
for profile in profiles.split():
    suffix = "" if profile == "release" else " z"
    for name, path in [("tinymcp", f"{ours}/{profile}/tinymcp-client"), ("rmcp", f"{peer}/{profile}/rmcp-client")]:
        clients[name + suffix] = path
clients["threads"] = clients["tinymcp"]
# Linked like the clients and sends no request: the minimum of memory.
clients["nothing"] = f"{ours}/release/nothing"
samples = {(name, n): [] for name in clients for n in IN_FLIGHT}
for turn in range(int(rounds)):
    for n in IN_FLIGHT:
        # The order alternates, so that neither client always runs on the warmer machine.
        for name in sorted(clients, reverse=turn % 2 == 1):
            command = [clients[name], str(n), milliseconds, *server]
            env = dict(os.environ, CLIENT_BENCH_THREADS="1") if name == "threads" else None
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True, env=env)
            samples[name, n].append([float(word) for word in done.stdout.split()])

missed = 0
print(f"{'in flight':>9} {'client':>14}" + "".join(f"{figure:>14}" for figure in FIGURES))
for n in IN_FLIGHT:
    medians = {name: [statistics.median(column) for column in zip(*samples[name, n])] for name in clients}
    for name, row in medians.items():
        print(f"{n:>9} {name:>14}" + "".join(f"{value:>14.1f}" for value in row))
    for name in clients:
        if name.startswith("rmcp") or name == "nothing":
            continue
        against = "rmcp z" if name.endswith(" z") else "rmcp"
        # Ratios of neighbouring runs, so that a change of the machine's speed affects both.
        pairs = list(zip(samples[name, n], samples[against, n]))
        ratios = [statistics.median(a[k] / b[k] for a, b in pairs) for k in range(len(FIGURES))]
        print(f"{n:>9} {name + '/rmcp':>15}" + "".join(f"{value:>13.3f} " for value in ratios))
        if name == "tinymcp":
            missed += ratios[0] < LEAST_CALLS
            missed += ratios[3] > MOST_MEMORY

print(f"limits: calls/s at least {LEAST_CALLS} of rmcp's, memory at most {MOST_MEMORY}: {missed} missed")
sys.exit(1 if missed else 0)
