#!/usr/bin/env bash
# Checks `tinymcp proxy` as a bridge, with real clients and servers.
#
#   endurance   npm's server-everything, which speaks the session protocol over stdio only, is served over HTTP to many
#               clients of both protocols, while clients and the server are killed
#   pairs       clients of both protocols use servers of the other and of the same one, over every transport
#   board       board_server behind the proxy passes all checks of stdio.sh and http.sh
#   configs     files of VS Code, Claude Code and mcp-proxy start five servers as they are
#   flags       command lines of supergateway, mcp-proxy and the manual: names, reload, pages, logs
#
#   conformance/bridge.sh                     short: 20,000 calls of 100 clients, the server is killed 10 times; one
#                                             client of each protocol; the board over HTTP only
#   conformance/bridge.sh --long              1,000,000 calls of 500 clients, the server is killed 200 times; the static
#                                             program for boards, whose memory has the bar; all clients
#   conformance/bridge.sh --only endurance|pairs|board|configs|flags
#   conformance/bridge.sh --only pairs --pair everything/stdio/ts2     this server, transport and client alone
#   conformance/bridge.sh --seed N            repeats the random choices of a run
#   conformance/bridge.sh --programs FOLDER   takes tinymcp and examples/board_server from there
#
# Linux with python3, node, npm and git; on Debian, as root, they are installed with apt-get. See bridge/*.py.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD/conformance
programs= only= pair= long= seed=$((RANDOM * 32768 + RANDOM))
while [ $# -gt 0 ]; do
    case $1 in
        --long) long=--long ;;
        --only) only=${2?} && shift ;;
        --pair) pair=${2?} && shift ;;
        --seed) seed=${2?} && shift ;;
        --programs) programs=${2?} && shift ;;
        *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
# shellcheck source=install.sh
. "$here/install.sh"
given=$programs
if [ -z "$programs" ]; then
    programs=${CARGO_TARGET_DIR:-target}/conformance
    # Only what a proxy needs: its size is a part of the memory that is compared with the bar.
    cargo build --quiet --profile conformance --no-default-features --features proxy --bin tinymcp
    mkdir -p "$programs/proxy"
    cp "$programs/tinymcp" "$programs/proxy"
    cargo build --quiet --profile conformance --features full --bin tinymcp --example board_server
fi
for check in ${only:-endurance pairs board configs flags}; do
    case $check in
        endurance)
            install_packages peers
            # A program with all commands has about 2 MB more code than one for the proxy only, which has the bar.
            proxy=${given:-$programs/proxy} resident=$given
            if [ -n "$long" ]; then
                resident=
                cross/setup
                proxy=$(dirname "$(cross/build --bin --features proxy x86_64-musl tinymcp)")
            fi
            echo "seed $seed"
            python3 "$here/bridge/endurance.py" $long --seed "$seed" ${resident:+--resident 10240} "$proxy" \
                node "$here/peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
            ;;
        pairs)
            if [ -n "$pair" ]; then
                install_packages peers "clients/${pair##*/}"
            else
                install_packages peers clients/py clients/ts1 clients/ts2
            fi
            python3 "$here/bridge/pairs.py" $long ${pair:+--only "$pair"} "$programs/tinymcp"
            ;;
        board)
            [ -z "$long" ] || "$here/stdio.sh" --server "proxy=$programs"
            "$here/http.sh" --server "proxy=$programs"
            ;;
        configs)
            install_packages peers bridge
            command -v git >/dev/null || apt_install git
            python3 "$here/bridge/configs.py" "$programs/tinymcp"
            ;;
        flags)
            install_packages peers bridge
            python3 "$here/bridge/flags.py" "$programs/tinymcp"
            ;;
        *) usage ;;
    esac
done
