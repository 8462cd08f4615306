"""Counts the checks of one run of the official suite.

    report.py REVISION FOLDER EXPECTED

Prints one line per check that is neither a success nor a note, and a summary. Warnings count as failures: the suite
itself ignores them. Ends with 1 when a scenario fails that EXPECTED does not name, or passes that it does name.
"""

import json
import pathlib
import re
import sys

revision, folder, expected = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
allowed = {
    line.split()[1]
    for line in expected.read_text().splitlines()
    if line.strip() and not line.startswith("#") and line.split()[0] == revision
}
counts, failed, seen = {}, set(), set()
for path in sorted(folder.glob("**/checks.json")):
    scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name)
    seen.add(scenario)
    for check in json.loads(path.read_text()):
        status = check["status"]
        counts[status] = counts.get(status, 0) + 1
        if status in ("FAILURE", "WARNING"):
            failed.add(scenario)
        if status not in ("SUCCESS", "INFO"):
            print(f"{status} {revision} {scenario} {check['id']}: {check.get('errorMessage', '')}")
for scenario in sorted(allowed - failed):
    print(f"UNEXPECTED {revision} {scenario} passes: take it out of {expected.name}")
bad = (failed - allowed) | (allowed - failed)
kinds = ", ".join(f"{n} {name.lower()}" for name, n in sorted(counts.items()))
print(f"{revision}: {len(seen)} scenarios, {len(failed)} failed; checks: {kinds}")
sys.exit(1 if bad or not seen else 0)
