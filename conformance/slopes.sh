#!/usr/bin/env bash
# Memory slopes: what operations leave behind in server, client and hub, over stdio and HTTP; then a mixed soak of the
# server and of the hub over HTTP. Fails if anonymous memory, threads or descriptors grow, or an answer is wrong.
# The programs run without the allocator's caches, see peers.py.
#
#   conformance/slopes.sh                      short: two minutes on an idle machine
#   conformance/slopes.sh --long               a million calls, 100,000 sessions, 1,000 restarts; soaks of 30 minutes
#   conformance/slopes.sh --only TEXT          only the rows whose names contain TEXT, without the soaks
#   conformance/slopes.sh --programs FOLDER    takes board_server, hub_proxy and slopes_client from there
#
# Linux with glibc or musl; python3 and nothing else. See slopes/slopes.py and slopes/soak.py.
set -euo pipefail
cd "$(dirname "$0")/.."

programs= only= long= minutes=0.2
while [ $# -gt 0 ]; do
    case $1 in
        --long) long=--long minutes=30 ;;
        --only) only=${2?} && shift ;;
        --programs) programs=${2?} && shift ;;
        *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
if [ -z "$programs" ]; then
    cargo build --quiet --profile conformance --features full --example board_server --example hub_proxy --example slopes_client
    programs=${CARGO_TARGET_DIR:-target}/conformance/examples
fi
python3 conformance/slopes/slopes.py $long --only "$only" "$programs"
[ -z "$only" ] || exit 0
for through in '' --hub; do
    python3 conformance/slopes/soak.py $through --minutes "$minutes" "$programs"
done
