#!/usr/bin/env bash
# Real MCP clients drive our example server, in both protocol eras. Called by ../stdio.sh and ../http.sh:
#
#   conformance/stdio.sh                        builds examples/board_server and runs every client over stdio
#   conformance/http.sh                         the same over HTTP
#   … --only ts1|ts2|py|inspector
#   … --server PROGRAM                          takes a server that is already there, an emulated one for example
#
# The clients are pinned in the folders of conformance/clients and installed there, into ignored folders. What is
# checked is listed in clients/plan.json, what a client cannot do in clients/unable.txt. Every message between client
# and server is kept in clients/out until the next run. Prints `ok NAME` or `FAIL NAME: …` per check and ends with
# `N passed, N failed`; the exit code is 0 only when nothing failed.
#
# On a bare Debian machine, as root, missing node, npm and python3 are installed with apt-get.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
transport=$1
shift
clients=(ts1 ts2 py inspector)
server=

usage() {
    sed -n '2,14s/^# \{0,1\}//p' "$0"
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

note() { printf '%s\n' "$transport.sh: $*" >&2; }

# Installs Debian packages when that is possible here.
apt_install() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        note "missing: $* (not root, or no apt-get: install them yourself)"
        exit 1
    fi
    note "installing $*"
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >&2
}

wants() {
    local client
    for client in "${clients[@]}"; do
        case " $* " in *" $client "*) return 0 ;; esac
    done
    return 1
}

# Installs the locked packages of one folder, unless that very lock is installed already.
npm_install() {
    local folder=$1
    shift
    if ! cmp -s "$folder/package-lock.json" "$folder/node_modules/.installed-lock"; then
        note "installing the packages of ${folder#"$here"/}"
        (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error "$@" >&2)
        cp "$folder/package-lock.json" "$folder/node_modules/.installed-lock"
    fi
}

# The Inspector needs 22.19; every JavaScript client then runs on the same one.
node_is_new() {
    node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 19) ? 0 : 1)'
}

command -v python3 >/dev/null || apt_install python3
if wants ts1 ts2 inspector; then
    command -v node >/dev/null && command -v npm >/dev/null || apt_install nodejs npm
    if ! node_is_new; then
        npm_install "$here/node"
        PATH=$here/node/node_modules/.bin:$PATH
        export PATH
    fi
    for client in ts1 ts2 inspector; do
        if wants "$client"; then npm_install "$here/$client" --ignore-scripts; fi
    done
fi
if wants py; then
    if ! cmp -s "$here/py/requirements.txt" "$here/py/.venv/installed.txt"; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
        note "installing the packages of py"
        rm -rf "$here/py/.venv"
        python3 -m venv "$here/py/.venv"
        "$here/py/.venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
            -r "$here/py/requirements.txt" >&2
        cp "$here/py/requirements.txt" "$here/py/.venv/installed.txt"
    fi
fi

if [ -z "$server" ]; then
    # Cargo itself says where the program is: target folder and target may be set in many ways.
    server=$(cargo build --manifest-path "$here/../../Cargo.toml" --release --example board_server --features http-server \
        --message-format=json-render-diagnostics | python3 -c '
import json, sys
found = [json.loads(line) for line in sys.stdin]
print([m["executable"] for m in found if m.get("target", {}).get("name") == "board_server"][-1])')
fi

out=$here/out/$transport
rm -rf "$out"
mkdir -p "$out"

# Runs one client within a time limit: three sessions of 90 s, or two of 180 s, and a little. A crash shows as
# checks that were never reported.
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
