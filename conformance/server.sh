#!/usr/bin/env bash
# Runs the official conformance suite against conformance/fixtures/server, in both revisions on one
# endpoint.
#
#   conformance/server.sh                       builds the server and runs every scenario
#   conformance/server.sh --server PROGRAM      uses this server instead of building one, for example an emulated one
#   conformance/server.sh --mounted             the same endpoint in a program that runs the crate tiny_http
#
# First runs the scored set of each revision with the verdict of the suite, then all other scenarios
# and those of extensions, with warnings as failures. suite/expected.txt lists the scenarios that may
# fail. The suite is pinned in suite/package.json and installed into an ignored folder, with its own
# Node; everything listens on loopback.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
suite=$here/suite
server=
mounted=

# Scenarios of extensions, which belong to no revision.
extensions="
sep-2640-skills-directory
sep-2640-skills-enumeration
sep-2640-skills-manifest
"

case ${1-} in
    --server)
        [ -x "${2-}" ] || { sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2; }
        server=$2
        ;;
    --mounted) mounted=mounted ;;
    '') ;;
    *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac

# shellcheck source=install.sh
. "$here/install.sh"
install_suite
if [ -z "$server" ]; then server=$(build_example conformance_server "http-server,pattern,skills,tasks${mounted:+,tiny_http}"); fi

out=$suite/out
rm -rf "$out"
mkdir -p "$out"
: >"$out/server.log"
"$server" 127.0.0.1:0 $mounted 2>"$out/server.log" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true' EXIT
url=$(url_in "$out/server.log" "$pid")

result=0
for revision in 2025-11-25 2026-07-28; do
    # The output is stored; the exit code is the verdict, for which only scored scenarios count.
    if timeout 900 conformance server --url "$url" --requirements "$revision" -o "$out/scored-$revision" \
        >"$out/scored-$revision.txt" 2>&1; then
        printf '%s\n' "ok scored scenarios of $revision"
    else
        printf '%s\n' "FAIL scored scenarios of $revision: see $out/scored-$revision.txt"
        result=1
    fi
    timeout 900 conformance server --url "$url" --suite all --spec-version "$revision" -o "$out/all-$revision" \
        >"$out/all-$revision.txt" 2>&1 || true
    for scenario in $extensions; do
        timeout 180 conformance server --url "$url" --scenario "$scenario" --force --spec-version "$revision" \
            -o "$out/all-$revision" >"$out/all-$revision-$scenario.txt" 2>&1 || true
    done
    python3 "$suite/report.py" "$revision" "$out/all-$revision" "$suite/expected.txt" || result=1
done
tasks='lifecycle capability-negotiation wire-fields request-state-removal mrtr-input request-headers
    dispatch-and-envelope status-notifications required-task-error mrtr-composition'
for scenario in $tasks; do
    timeout 180 conformance server --url "$url" --scenario "tasks-$scenario" -o "$out/tasks" \
        >"$out/tasks-$scenario.txt" 2>&1 || true
done
python3 "$suite/report.py" 2026-07-28 "$out/tasks" "$suite/expected.txt" || result=1
kill "$pid"
# Only the engine of the library ends at a signal by itself.
wait "$pid" || [ -n "$mounted" ] || { note "the server ended badly"; result=1; }
trap - EXIT
exit "$result"
