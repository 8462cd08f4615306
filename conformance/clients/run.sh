#!/usr/bin/env bash
# Runs real MCP clients against our example server, in both protocol eras. Called by ../stdio.sh and
# ../http.sh:
#
#   conformance/stdio.sh                        builds examples/board_server and runs every client over stdio
#   conformance/http.sh                         the same over HTTP
#   … --only ts1|ts2|py|inspector
#   … --server PROGRAM                          uses this server instead of building one, for example an emulated one
#
# The clients are pinned in the folders of conformance/clients and installed there, into ignored
# folders. clients/plan.json lists the checks, clients/unable.txt the features that a client lacks.
# All messages between client and server stay in clients/out until the next run. Prints `ok NAME` or
# `FAIL NAME: …` per check and ends with `N passed, N failed`; the exit code is 0 only if nothing
# failed.
#
# On a bare Debian machine, as root, missing node, npm and python3 are installed with apt-get.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
transport=$1
shift
clients=(ts1 ts2 py inspector)
server=

usage() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
        --only)
            case ${2-} in
                ts1 | ts2 | py | inspector) clients=("$2") ;;
                *) usage ;;
            esac
            shift 2
            ;;
        --server)
            [ -x "${2-}" ] || usage
            server=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
            shift 2
            ;;
        *) usage ;;
    esac
done

# shellcheck source=../install.sh
. "$here/../install.sh"
install_packages "${clients[@]/#/clients/}"
if [ -z "$server" ]; then server=$(build_example board_server http-server); fi

out=$here/out/$transport
rm -rf "$out"
mkdir -p "$out"

# Runs one client within a time limit: three sessions of 90 s, or two of 180 s, and a margin. After
# a crash, the missing checks are failures.
run_client() {
    case $1 in
        py) timeout 400 "$here/py/.venv/bin/python" "$here/py/client.py" "$transport" "$out" "$server" ;;
        *) timeout 400 node "$here/$1/client.mjs" "$transport" "$out" "$server" ;;
    esac || note "client $1 ended with exit code $?"
    local folder
    for folder in "$out/$1"-*; do
        [ -d "$folder" ] || continue
        python3 "$here/wire.py" "$1/${folder##*/"$1"-}" "$folder"
    done
}

for client in "${clients[@]}"; do
    run_client "$client"
done | python3 "$here/report.py" "$transport" "${clients[@]}"
