#!/usr/bin/env bash
# Runs the official conformance suite against our client over Streamable HTTP, in both protocol
# eras.
#
#   conformance/client.sh                       builds conformance/fixtures/client and runs every scenario
#   conformance/client.sh --only SCENARIO
#   conformance/client.sh --client PROGRAM      uses this client instead of building one
#
# The suite is pinned in conformance/suite and installed there, into an ignored folder. Each
# scenario runs in the strict form of the suite: its warnings, our exit code and our time count. The
# authorization scenarios (auth/*) and the extensions are left out. The output of the suite stays in
# suite/out until the next run. Prints `ok REVISION SCENARIO` or `FAIL …` per scenario and ends with
# `N passed, N failed`; the exit code is 0 only if nothing failed.
#
# On a bare Debian machine, as root, missing node, npm and python3 are installed with apt-get.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
suite=$here/suite

# Revisions and scenarios: all client scenarios of the suite except auth/* and extensions.
scenarios="
2025-11-25 initialize
2025-11-25 tools_call
2025-11-25 elicitation-sep1034-client-defaults
2025-11-25 sse-retry
2025-11-25 json-schema-2020-12-preservation
2026-07-28 tools_call
2026-07-28 request-metadata
2026-07-28 sep-2322-client-request-state
2026-07-28 http-standard-headers
2026-07-28 http-custom-headers
2026-07-28 http-invalid-tool-headers
2026-07-28 json-schema-ref-no-deref
2026-07-28 json-schema-2020-12-preservation
"

# shellcheck source=install.sh
. "$here/install.sh"
client_options "$@"
install_suite
if [ -z "$client" ]; then client=$(build_example conformance_client http-client); fi

out=$suite/out
rm -rf "$out"
mkdir -p "$out"
# The suite splits the command at spaces; a link has none.
ln -s "$client" "$out/client"

passed=0
failed=0
while read -r revision scenario; do
    [ -n "$scenario" ] || continue
    [ -z "$only" ] || [ "$only" = "$scenario" ] || continue
    log=$out/$revision-$scenario.log
    # Every check must be a success: some failures do not change the exit code of the suite.
    if (cd "$suite" && timeout 90 env NODE_OPTIONS="--require ./loopback.cjs" conformance client --scenario "$scenario" \
        --spec-version "$revision" --timeout 30000 -o "out/$revision-$scenario" --command out/client) \
        >"$log" 2>&1 </dev/null && python3 - "$out/$revision-$scenario" <<'CHECK' >>"$log"; then
import json, pathlib, sys

files = list(pathlib.Path(sys.argv[1]).rglob("checks.json"))
checks = [check for file in files for check in json.loads(file.read_text())]
counts = {}
for check in checks:
    counts[check["status"]] = counts.get(check["status"], 0) + 1
print(counts)
sys.exit(0 if counts.get("SUCCESS") and not {"FAILURE", "WARNING"} & counts.keys() else 1)
CHECK
        printf 'ok %s %s\n' "$revision" "$scenario"
        passed=$((passed + 1))
    else
        printf 'FAIL %s %s: see %s\n' "$revision" "$scenario" "conformance/suite/out/$revision-$scenario.log"
        failed=$((failed + 1))
    fi
done <<<"$scenarios"

summary
