"""Computes the result of a run from the output of the clients.

Used as `… | python3 report.py board|serve stdio|http CLIENT…`. Reads `ok NAME` and `FAIL NAME: …` lines with their
indented excerpts from stdin, prints them, and compares them with `plan.json` (every session of the named clients
must report every check once) and with `unable.txt` (a check of a feature that a client lacks must fail with the text
in that file). The last line is `N passed, N failed`; the exit code is 1 if a check failed.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULT = re.compile(r"(ok|FAIL) ([a-z0-9]+/[a-z]+/[a-z-]+)(?:: (.*))?")


def planned(server, transport, clients):
    """Names of all checks of the named clients, in the plan's order."""
    plan = json.loads((HERE / "plan.json").read_text())
    return [
        f"{client}/{session}/{check}"
        for client in clients
        for session in plan["sessions"][client]
        for check in [*plan["checks"], *plan[transport], *plan[server]["checks"]]
    ]


def unable(transport, names):
    """Check name to (words, reason), for those of `names` that `unable.txt` lists."""
    listed = {}
    for line in (HERE / "unable.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern, words, reason = (part.strip() for part in line.split("|"))
        pattern, _, only = pattern.partition(" over ")
        if only not in ("", transport):
            continue
        client, session, check = pattern.split("/")
        for name in names:
            parts = name.split("/")
            if parts[0] == client and parts[2] == check and session in ("*", parts[1]):
                listed[name] = (words, reason)
    return listed


def main():
    server, transport, *clients = sys.argv[1:]
    names = planned(server, transport, clients)
    listed = unable(transport, names)
    waiting = dict.fromkeys(names)
    passed, failed = 0, []

    def fail(name, message):
        failed.append(name)
        print(f"FAIL {name}: {message}", flush=True)

    shown = True
    for line in sys.stdin:
        line = line.rstrip("\n")
        found = RESULT.fullmatch(line)
        if not found:
            # The excerpt of an expected failure says nothing; everything else is passed on.
            if shown or not line.startswith("    "):
                print(line, flush=True)
            continue
        verdict, name, message = found.groups()
        shown = True
        if name not in waiting:
            fail(name, "reported twice, or not in the plan")
            continue
        del waiting[name]
        words, reason = listed.get(name, (None, None))
        if words is None and verdict == "ok":
            passed += 1
            print(line, flush=True)
        elif words is None:
            fail(name, message)
        elif verdict == "ok":
            fail(name, f"passed, although unable.txt lists it ({reason})")
        elif words not in message:
            fail(name, f"differs from the failure in unable.txt: {message}")
        else:
            passed += 1
            shown = False
            print(f"ok {name} (the client cannot: {reason})", flush=True)
    for name in waiting:
        fail(name, "never reported")
    print(f"{passed} passed, {len(failed)} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


main()
