#!/usr/bin/env bash
# Runs the official conformance suite against our client over Streamable HTTP, in both protocol
# eras.
#
#   conformance/client.sh                       builds conformance/fixtures/client and runs every scenario
#   conformance/client.sh --only SCENARIO
#   conformance/client.sh --client PROGRAM      uses this client instead of building one
#
# The suite is pinned in conformance/suite and installed there, into an ignored folder. Each
# scenario runs in the strict form of the suite: its warnings, our exit code and our time count.
# Extensions run in both revisions. The output of the suite stays in suite/out until the next run. Prints
# `ok REVISION SCENARIO` or `FAIL …` per scenario and ends with `N passed, N failed`; the exit code is
# 0 only if nothing failed.
#
# On a bare Debian machine, as root, missing node, npm and python3 are installed with apt-get.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
suite=$here/suite

# Revisions and scenarios. First the one whose rules measure time: nothing else runs beside it, and it is repeated once.
scenarios="
2025-11-25 sse-retry
2025-03-26 auth/2025-03-26-oauth-metadata-backcompat
2025-03-26 auth/2025-03-26-oauth-endpoint-fallback
2025-11-25 initialize
2025-11-25 tools_call
2025-11-25 elicitation-sep1034-client-defaults
2025-11-25 json-schema-2020-12-preservation
2025-11-25 auth/metadata-default
2025-11-25 auth/metadata-var1
2025-11-25 auth/metadata-var2
2025-11-25 auth/metadata-var3
2025-11-25 auth/basic-cimd
2025-11-25 auth/scope-from-www-authenticate
2025-11-25 auth/scope-from-scopes-supported
2025-11-25 auth/scope-omitted-when-undefined
2025-11-25 auth/scope-step-up
2025-11-25 auth/scope-retry-limit
2025-11-25 auth/token-endpoint-auth-basic
2025-11-25 auth/token-endpoint-auth-post
2025-11-25 auth/token-endpoint-auth-none
2025-11-25 auth/pre-registration
2025-11-25 auth/client-credentials-basic
2025-11-25 auth/client-credentials-jwt
2025-11-25 auth/enterprise-managed-authorization
2025-11-25 auth/wif-jwt-bearer
2025-11-25 auth/dpop
2025-11-25 auth/dpop-nonce
2025-11-25 sep-2640-client-no-prefetch
2025-11-25 sep-2640-client-verify-digest
2025-11-25 sep-2640-client-verify-size
2025-11-25 sep-2640-client-verify-frontmatter
2026-07-28 tools_call
2026-07-28 request-metadata
2026-07-28 sep-2322-client-request-state
2026-07-28 http-standard-headers
2026-07-28 http-custom-headers
2026-07-28 http-invalid-tool-headers
2026-07-28 json-schema-ref-no-deref
2026-07-28 json-schema-2020-12-preservation
2026-07-28 auth/metadata-default
2026-07-28 auth/metadata-var1
2026-07-28 auth/metadata-var2
2026-07-28 auth/metadata-var3
2026-07-28 auth/basic-cimd
2026-07-28 auth/scope-from-www-authenticate
2026-07-28 auth/scope-from-scopes-supported
2026-07-28 auth/scope-omitted-when-undefined
2026-07-28 auth/scope-step-up
2026-07-28 auth/scope-retry-limit
2026-07-28 auth/token-endpoint-auth-basic
2026-07-28 auth/token-endpoint-auth-post
2026-07-28 auth/token-endpoint-auth-none
2026-07-28 auth/pre-registration
2026-07-28 auth/resource-mismatch
2026-07-28 auth/offline-access-scope
2026-07-28 auth/offline-access-not-supported
2026-07-28 auth/authorization-server-migration
2026-07-28 auth/iss-supported
2026-07-28 auth/iss-not-advertised
2026-07-28 auth/iss-supported-missing
2026-07-28 auth/iss-wrong-issuer
2026-07-28 auth/iss-unexpected
2026-07-28 auth/iss-normalized
2026-07-28 auth/metadata-issuer-mismatch
2026-07-28 auth/client-credentials-basic
2026-07-28 auth/client-credentials-jwt
2026-07-28 auth/enterprise-managed-authorization
2026-07-28 auth/wif-jwt-bearer
2026-07-28 auth/dpop
2026-07-28 auth/dpop-nonce
2026-07-28 sep-2640-client-no-prefetch
2026-07-28 sep-2640-client-verify-digest
2026-07-28 sep-2640-client-verify-size
2026-07-28 sep-2640-client-verify-frontmatter
"

# shellcheck source=install.sh
. "$here/install.sh"
client_options "$@"
install_suite
if [ -z "$client" ]; then client=$(build_example conformance_client oauth-jwt,skills); fi

out=$suite/out
rm -rf "$out"
mkdir -p "$out"
# The suite splits the command at spaces; a link has none.
ln -s "$client" "$out/client"

# Runs a scenario; its output is in the log, which ends with the numbers of checks by status. Every check must be a success:
# some failures do not change the exit code of the suite. `--force` runs extensions, which belong to no revision.
run_scenario() { # REVISION SCENARIO LOG
    rm -rf "$out/$1-$2"
    (cd "$suite" && timeout 180 env NODE_OPTIONS="--require ./loopback.cjs" conformance client --scenario "$2" \
        --spec-version "$1" --force --timeout 60000 -o "out/$1-$2" --command out/client) \
        >"$3" 2>&1 </dev/null && python3 - "$out/$1-$2" <<'CHECK' >>"$3"
import json, pathlib, sys

files = list(pathlib.Path(sys.argv[1]).rglob("checks.json"))
checks = [check for file in files for check in json.loads(file.read_text())]
counts = {}
for check in checks:
    counts[check["status"]] = counts.get(check["status"], 0) + 1
print(counts)
sys.exit(0 if counts.get("SUCCESS") and not {"FAILURE", "WARNING"} & counts.keys() else 1)
CHECK
}

passed=0
failed=0
while read -r revision scenario; do
    [ -n "$scenario" ] || continue
    [ -z "$only" ] || [ "$only" = "$scenario" ] || continue
    log=$out/$revision-${scenario//\//-}.log
    if run_scenario "$revision" "$scenario" "$log"; then
        printf 'ok %s %s\n' "$revision" "$scenario"
        passed=$((passed + 1))
    elif [ "$scenario" = sse-retry ] && printf 'FLAKY %s %s: %s\n' "$revision" "$scenario" "$(tail -n 1 "$log")" &&
        run_scenario "$revision" "$scenario" "${log%.log}-again.log"; then
        printf 'ok %s %s: %s\n' "$revision" "$scenario" "$(tail -n 1 "${log%.log}-again.log")"
        passed=$((passed + 1))
    else
        printf 'FAIL %s %s: see %s\n' "$revision" "$scenario" "conformance/suite/out/${log##*/}"
        failed=$((failed + 1))
    fi
done <<<"$scenarios"

summary
