#!/usr/bin/env bash
# Real clients post a body beyond the limit of the server over HTTP, twice, with a normal call after
# each. The client must read the 413 response, and its session must continue. Prints `ok NAME` or
# `FAIL NAME: …`.
#
#   conformance/oversized.sh [SERVER]     builds examples/board_server unless a program is given
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=install.sh
. "$here/install.sh"
install_packages clients/py clients/ts1
server=${1-$(build_example board_server http-server)}

coproc SERVER { exec "$server" --http 127.0.0.1:0 2>&1; }
trap 'kill "$SERVER_PID"' EXIT
url=
while [ -z "$url" ]; do
    IFS= read -r line <&"${SERVER[0]}"
    case $line in *http://*) url=http://${line##*http://} ;; esac
done

failed=0
timeout 300 "$here/clients/py/.venv/bin/python" "$here/clients/py/oversized.py" "$url" || failed=1
timeout 300 node "$here/clients/ts1/oversized.mjs" "$url" || failed=1
exit $failed
