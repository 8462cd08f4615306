#!/usr/bin/env bash
# Checks `tinymcp proxy` as a bridge: npm's server-everything, which speaks the session protocol over stdio only, is
# served over HTTP to many clients of both protocols, while clients and the server are killed.
#
#   conformance/bridge.sh                     short: 20,000 calls of 100 clients, the server is killed 10 times
#   conformance/bridge.sh --long              1,000,000 calls of 500 clients, the server is killed 200 times
#   conformance/bridge.sh --seed N            repeats the random choices of a run
#   conformance/bridge.sh --programs FOLDER   takes tinymcp from there
#
# Linux with python3, node and npm; on Debian, as root, they are installed with apt-get. See bridge/endurance.py.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD/conformance
programs= long= seed=$((RANDOM * 32768 + RANDOM))
while [ $# -gt 0 ]; do
    case $1 in
        --long) long=--long ;;
        --seed) seed=${2?} && shift ;;
        --programs) programs=${2?} && shift ;;
        *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
# shellcheck source=install.sh
. "$here/install.sh"
install_packages peers
if [ -z "$programs" ]; then
    # Only what a proxy needs: its size is a part of the memory that is compared with the bar.
    cargo build --quiet --release --no-default-features --features proxy --bin tinymcp
    programs=${CARGO_TARGET_DIR:-target}/release
fi
echo "seed $seed"
python3 "$here/bridge/endurance.py" $long --seed "$seed" "$programs" \
    node "$here/peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
