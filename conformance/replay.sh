#!/usr/bin/env bash
# Records sessions with all servers of conformance/peers (the reference servers, one on the Python SDK, one on rmcp) and with
# board_server, and replays each both ways: the recording as a server must give the same output, and the server must answer
# the recorded client as before. Each session is recorded over standard input and output and over HTTP.
#
#   conformance/replay.sh                       builds the programs
#   conformance/replay.sh --programs FOLDER     uses `tinymcp` and examples/board_server in this folder
#
# The commands of each session are in replay/SERVER.txt. Prints `ok` or `FAIL` for each, and ends with `N passed, N
# failed`; the exit code is 0 only if nothing failed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=install.sh
. "$here/install.sh"
programs=
case $#/${1-} in
    0/) ;;
    2/--programs) programs=$(cd "$2" && pwd) ;;
    *) usage ;;
esac
install_packages clients/py peers
if [ -z "$programs" ]; then
    cargo build --quiet --manifest-path "$here/../Cargo.toml" --features full --bin tinymcp --example board_server
    programs=$(cd "${CARGO_TARGET_DIR:-$here/../target}/debug" && pwd)
fi
tinymcp=$programs/tinymcp modules=$here/peers/node_modules/@modelcontextprotocol
cargo build --quiet --manifest-path "$here/peers/rmcp/Cargo.toml" --target-dir "$here/peers/rmcp/target" --bin rmcp-peer
folder=$(mktemp -d)
recorder=
finish() {
    [ -z "$recorder" ] || kill "$recorder" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
printf 'a file\n' >note.txt
passed=0
failed=0

report() { # STATUS NAME
    if [ "$1" -eq 0 ]; then
        printf 'ok %s\n' "$2"
        passed=$((passed + 1))
    else
        printf 'FAIL %s\n' "$2"
        tail -n 5 errors
        failed=$((failed + 1))
    fi
}

run_lines() { # OUTPUT SERVER…: runs the commands of the session
    local output=$1
    shift
    "$tinymcp" run lines --protocol "$protocol" --answer zone=north "$@" >"$output" 2>>errors
}

# Starts `tinymcp record` over HTTP, and waits for its server; sets its process and its URL. It serves after five seconds
# even if its server has not started, as may happen on a busy machine, and then has no instructions of the server: it is
# started again.
record_http() { # FILE COMMAND…
    local file=$1 try
    shift
    for try in 1 2 3 4; do
        [ "$try" = 1 ] || end_recorder || true
        url=
        "$tinymcp" record "$file" --http 127.0.0.1:0 -- "$@" >/dev/null 2>reports &
        recorder=$!
        for _ in $(seq 1200); do
            url=$(sed -n 's/.*serving \(http.*\)/\1/p' reports)
            [ -z "$url" ] || break
            kill -0 "$recorder" 2>/dev/null || break 2
            sleep 0.05
        done
        ! sed -n '/connected to\|serving http/{p;q}' reports | grep -q 'connected to' || return 0
    done
    cat reports >>errors
    return 1
}

end_recorder() {
    local status=0
    kill "$recorder" && wait "$recorder" || status=$?
    recorder=
    return "$status"
}

session() { # NAME PROTOCOL COMMAND…
    local name=$1 protocol=$2 way status url
    shift 2
    sed "s|FOLDER|$folder|" "$here/replay/$name.txt" >lines
    for way in stdio HTTP; do
        rm -f memory.jsonl
        : >errors
        status=0
        if [ "$way" = stdio ]; then
            run_lines recorded -- "$tinymcp" record recording -- "$@" || status=$?
        else
            record_http recording "$@" && run_lines recorded --url "$url" || status=$?
            end_recorder || status=$?
        fi
        report "$status" "$name, $protocol, $way: recorded"
        status=0
        run_lines replayed -- "$tinymcp" replay recording || status=$?
        cmp recorded replayed >>errors || status=1
        report "$status" "$name, $protocol, $way: the recording as a server"
        status=0
        rm -f memory.jsonl
        if [ "$way" = stdio ]; then
            "$tinymcp" replay recording --client -- "$@" >>errors 2>&1 || status=$?
        else
            # The same server behind the same proxy. Between it and `replay` is a proxy without a title.
            record_http again "$@" && "$tinymcp" replay recording --client --ignore /result/serverInfo \
                --ignore /result/_meta --url "$url" >>errors 2>&1 || status=$?
            end_recorder || status=$?
        fi
        report "$status" "$name, $protocol, $way: the recording as a client"
    done
}

export MEMORY_FILE_PATH=$folder/memory.jsonl
session everything session node "$modules/server-everything/dist/index.js"
session filesystem session node "$modules/server-filesystem/dist/index.js" "$folder"
session memory session node "$modules/server-memory/dist/index.js"
for protocol in session stateless; do
    session board "$protocol" "$programs/examples/board_server"
    session python "$protocol" "$here/clients/py/.venv/bin/python" "$here/peers/server.py"
    session rmcp "$protocol" "$here/peers/rmcp/target/debug/rmcp-peer"
done
summary
