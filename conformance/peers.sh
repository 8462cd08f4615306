#!/usr/bin/env bash
# Runs our client against real servers: the reference servers (everything, filesystem, memory), one
# on the Python SDK and one on rmcp; and a client on rmcp against our server, for tasks and skills.
#
#   conformance/peers.sh                        builds conformance/fixtures/peer_client and runs it against every server
#   conformance/peers.sh --only RUN             one run, everything/http for example
#   conformance/peers.sh --client PROGRAM       uses this client instead of building one
#
# A run is SERVER/TRANSPORT, with the era if the server supports both; `auto` detects it.
# conformance/fixtures/peer_client contains the expectations for each server. The servers are pinned
# in conformance/peers and clients/py and installed there, into ignored folders. Prints `ok RUN
# CHECK` or `FAIL RUN CHECK: …` and ends with `N passed, N failed`; the exit code is 0 only if
# nothing failed. The output of servers and client stays in peers/out until the next run.
#
# On a bare Debian machine, as root, missing node, npm and python3 are installed with apt-get.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
peers=$here/peers

# shellcheck source=install.sh
. "$here/install.sh"
client_options "$@"
install_packages clients/py peers
if [ -z "$client" ]; then client=$(build_example peer_client http-client,skills); fi

out=$peers/out
rm -rf "$out"
mkdir -p "$out"
server_pid=
stop_server() {
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
    [ -z "$server_pid" ] || wait "$server_pid" 2>/dev/null || true
    server_pid=
}
trap stop_server EXIT

modules=$peers/node_modules/@modelcontextprotocol
everything=(node "$modules/server-everything/dist/index.js")
# The server requires a folder at the start; the roots of the client replace it.
filesystem=(node "$modules/server-filesystem/dist/index.js" .)
memory=(node "$modules/server-memory/dist/index.js")
python=("$here/clients/py/.venv/bin/python" "$peers/server.py")

# A fast build: the speed of the program does not matter.
built() {
    cargo build --quiet --manifest-path "$peers/rmcp/Cargo.toml" --message-format=json-render-diagnostics | python3 -c '
import json, sys
found = [json.loads(line) for line in sys.stdin]
print(*[m["executable"] for m in found if m.get("target", {}).get("name") == sys.argv[1] and m.get("executable")])' "$1"
}
case $only in
    "" | rmcp/*) rmcp=("$(built rmcp-peer)") ;;
    *) rmcp=(false) ;;
esac

case $only in
    "" | rmcp-client/*)
        rmcp_client=$(built rmcp-client)
        ours=("$(build_example conformance_server http-server,skills,tasks)")
        ;;
    *) ours=(false) rmcp_client=false ;;
esac

# One server listens at a time.
reserve_ports 1
port=${ports[0]}

passed=0
failed=0

# A run: its name, the expectations of the client, the era, and the server.
run() {
    local name=$1 folder=$out/${1//\//-} status=0 line
    shift
    mkdir -p "$folder"
    (cd "$folder" && timeout 300 env MEMORY_FILE_PATH="$folder/memory.jsonl" "$client" "$@") \
        >"$folder/checks.txt" 2>"$folder/client.log" </dev/null || status=$?
    while read -r line; do
        printf '%s\n' "${line/ / $name }"
        case $line in
            ok*) passed=$((passed + 1)) ;;
            *) failed=$((failed + 1)) ;;
        esac
    done <"$folder/checks.txt"
    # A client that did not end has not reported its remaining checks.
    if [ "$status" -ne 0 ] && ! grep -q '^FAIL' "$folder/checks.txt"; then
        printf 'FAIL %s ended with exit code %s: see %s\n' "$name" "$status" "conformance/peers/out/${name//\//-}"
        failed=$((failed + 1))
    fi
}

wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }

over_stdio() {
    local name=$1 peer=$2 era=$3
    shift 3
    if wanted "$name"; then run "$name" "$peer" "$era" -- "$@"; fi
}

# The port is passed in both ways that servers use: as the last argument and in the environment.
over_http() {
    local name=$1 peer=$2 era=$3
    shift 3
    wanted "$name" || return 0
    mkdir -p "$out/${name//\//-}"
    PORT=$port NODE_OPTIONS="--require $here/suite/loopback.cjs" "$@" "$port" \
        >"$out/${name//\//-}/server.log" 2>&1 </dev/null &
    server_pid=$!
    wait_for_port "$port"
    run "$name" "$peer" "$era" "http://127.0.0.1:$port/mcp"
    stop_server
}

over_stdio everything/stdio everything auto "${everything[@]}"
over_http everything/http everything auto "${everything[@]}" streamableHttp
over_stdio filesystem/stdio filesystem auto "${filesystem[@]}"
over_stdio memory/stdio memory auto "${memory[@]}"
for era in auto legacy modern; do
    over_stdio "python/stdio/$era" python "$era" "${python[@]}"
    over_http "python/http/$era" python "$era" "${python[@]}"
    over_stdio "rmcp/stdio/$era" rmcp "$era" "${rmcp[@]}"
    over_http "rmcp/http/$era" rmcp "$era" "${rmcp[@]}"
done
client=$rmcp_client
for era in legacy modern; do
    over_stdio "rmcp-client/stdio/$era" tinymcp "$era" "${ours[@]}" stdio
    # shellcheck disable=SC2016
    over_http "rmcp-client/http/$era" tinymcp "$era" bash -c 'exec "$0" "127.0.0.1:$1"' "${ours[@]}"
done

summary
