#!/usr/bin/env bash
# Runs real MCP clients against our servers, in both protocol eras. Called by ../stdio.sh and
# ../http.sh:
#
#   conformance/stdio.sh                        builds examples/board_server and tinymcp, runs every client over stdio
#   conformance/http.sh                         the same over HTTP
#   … --only ts1|ts2|py|inspector
#   … --server board|serve                      one of the servers: board_server, or `tinymcp serve` with the files of
#                                               examples/serve and clients/definition
#   … --server board|serve=PROGRAM              uses this program instead of building one, for example an emulated one
#   … --server proxy=FOLDER                     tinymcp and examples/board_server from there: the board behind the proxy
#
# The clients are pinned in the folders of conformance/clients and installed there, into ignored
# folders. clients/plan.json lists the checks, clients/unable.txt the features that a client lacks.
# All messages between client and server stay in clients/out until the next run. Prints `ok NAME` or
# `FAIL NAME: …` per check and ends with `N passed, N failed` for each server; the exit code is 0
# only if nothing failed.
#
# On a bare Debian machine, as root, missing node, npm, python3, git and jq are installed with apt-get.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
transport=$1
shift
clients=(ts1 ts2 py inspector)
servers=(board serve)
program=

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
            case ${2-} in
                board | serve) servers=("$2") ;;
                board=* | serve=*)
                    servers=("${2%%=*}")
                    program=${2#*=}
                    [ -x "$program" ] || usage
                    program=$(cd "$(dirname "$program")" && pwd)/$(basename "$program")
                    ;;
                proxy=*)
                    servers=(proxy)
                    program=$(cd "${2#*=}" && pwd)
                    ;;
                *) usage ;;
            esac
            shift 2
            ;;
        *) usage ;;
    esac
done

# shellcheck source=../install.sh
. "$here/../install.sh"
install_packages "${clients[@]/#/clients/}"

# Sets the command of a server; the taps of HTTP add the address.
command_of() {
    case $1 in
        board)
            command=("${program:-$(build_example board_server http-server)}")
            if [ "$transport" = stdio ]; then command+=(--stdio); fi
            ;;
        proxy)
            # What follows are options of the proxy.
            command=(sh -c 'exec "$0/tinymcp" proxy "$@" -- "$0/examples/board_server" --stdio' "$program")
            # The proxy has its own name, and its server's key precedes the names of loggers.
            export BOARD_NAME=tinymcp BOARD_LOGGER=board_server/gpio
            ;;
        serve)
            command -v git >/dev/null && command -v jq >/dev/null || apt_install git jq
            command=(python3 -I -S "$here/serve_copy.py" "${program:-$(build_tinymcp)}")
            ;;
    esac
}

# Runs one client within a time limit: three sessions of ten minutes and a margin. After a crash, the missing checks are
# failures.
run_client() {
    local arguments=("$transport" "$out" "$tested" "${command[@]}")
    case $1 in
        py) timeout 1900 "$here/py/.venv/bin/python" "$here/py/client.py" "${arguments[@]}" ;;
        *) timeout 1900 node "$here/$1/client.mjs" "${arguments[@]}" ;;
    esac || note "client $1 ended with exit code $?"
    local folder
    for folder in "$out/$1"-*; do
        [ -d "$folder" ] || continue
        python3 "$here/wire.py" "$tested" "$1/${folder##*/"$1"-}" "$folder"
    done
}

failed=0
for server in "${servers[@]}"; do
    command_of "$server"
    # The checks of the server.
    tested=${server/#proxy/board}
    out=$here/out/$transport-$server
    rm -rf "$out"
    mkdir -p "$out"
    # At the same time, because clients mostly wait.
    for client in "${clients[@]}"; do
        run_client "$client" >"$out/$client.txt" &
    done
    wait
    for client in "${clients[@]}"; do
        cat "$out/$client.txt"
    done | python3 "$here/report.py" "$tested" "$transport" "${clients[@]}" || failed=1
done
exit $failed
