#!/usr/bin/env bash
# Measures how long commands of `tinymcp` take from start to end, beside the Inspector's command line (npm), and the time
# that `tinymcp record` adds to a frame.
#
#   benches/cli/run.sh [--check] [--runs N]           builds the static program and echo_server, installs the Inspector
#   benches/cli/run.sh --programs FOLDER [OPTIONS]    takes tinymcp and examples/echo_server from there
#
# --check fails if a bar is missed: 5 ms for a call, 10 µs for a recorded frame on one CPU. Linux with python3 and node. See
# start.py and record.py.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tinymcp= server= check=() runs=()
while [ $# -gt 0 ]; do
    case $1 in
        --programs) tinymcp=${2?}/tinymcp server=$2/examples/echo_server && shift ;;
        --runs) runs=("$1" "${2?}") && shift ;;
        --check) check=("$1") ;;
        *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
# shellcheck source=../../conformance/install.sh
. "$root/conformance/install.sh"
install_packages clients/inspector
if [ -z "$tinymcp" ]; then
    tinymcp=$("$root/cross/build" --bin --features cli x86_64-musl tinymcp)
    server=$(build_example echo_server '')
fi
inspector=$conformance/clients/inspector/node_modules/.bin/mcp-inspector
python3 "$here/start.py" "${check[@]}" "${runs[@]}" --inspector "$inspector" "$tinymcp" "$server"
python3 "$here/record.py" "${check[@]}" "$tinymcp" "$server"
