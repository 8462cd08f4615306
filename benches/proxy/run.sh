#!/usr/bin/env bash
# Measures the latency that bridges from stdio to Streamable HTTP add to a call, and their resident memory, in one
# interleaved run: `tinymcp proxy`, supergateway (npm) and mcp-proxy (PyPI).
#
#   benches/proxy/run.sh                     builds tinymcp and echo_server, installs the others into ignored folders
#   benches/proxy/run.sh --calls N           calls of each way, by default 4,000
#   benches/proxy/run.sh --check             fails if a bar is missed
#   benches/proxy/run.sh --programs FOLDER   takes tinymcp and examples/echo_server from there
#
# Linux with python3, node and npm; on Debian, as root, they are installed with apt-get. See latency.py.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
programs= options=()
while [ $# -gt 0 ]; do
    case $1 in
        --programs) programs=${2?} && shift ;;
        --calls) options+=("$1" "${2?}") && shift ;;
        --check) options+=("$1") ;;
        *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
# shellcheck source=../../conformance/install.sh
. "$root/conformance/install.sh"
install_packages peers ../benches/proxy
if [ -z "$programs" ]; then
    target=$(rustc -vV | sed -n 's/^host: //p')
    programs=${CARGO_TARGET_DIR:-$root/target}/$target/release
    # Only what a proxy needs, linked for little memory: the size of the program is part of its memory.
    RUSTFLAGS=$("$root/cross/flags.sh" --place "$target")
    export RUSTFLAGS
    cd "$root"
    cargo build --quiet --release --target "$target" --no-default-features --features proxy --bin tinymcp
    cargo build --quiet --release --target "$target" --features http-server --example echo_server
fi
exec python3 "$here/latency.py" "${options[@]}" \
    --everything "$conformance/peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js" \
    "$programs/tinymcp" "$programs/examples/echo_server"
