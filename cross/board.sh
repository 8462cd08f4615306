#!/usr/bin/env bash
# Runs servers for armv7 under emulation with 16 MiB of memory and calls them from this machine, in both eras of the
# protocol, over stdio and over HTTP.
#
#   cross/board.sh [--client TINYMCP] [PROGRAM]      default: the example echo_server, static with musl
#
# --client TINYMCP     calls with this program instead of building one
#
# The client `tinymcp` on this machine calls the servers too. A server whose handler panics must end without a partial
# line. `tinymcp serve` is measured, idle after a call.
#
# A program that only echoes lines measures the memory of the emulator. The server may use 16 MiB of private memory more
# (RLIMIT_DATA), including stacks and the C library's. Needs python3 and prlimit.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/toolchain.sh"
"$here/setup"

client=
[ "${1-}" != --client ] || { client=$2; shift 2; }
http=
if grep -q -- --http "$repository/examples/echo_server.rs"; then http=--http; fi
floor=$("$here/build" --manifest "$here/floor/Cargo.toml" armv7-musl line-echo)
server=${1:-$("$here/build" ${http:+--features http-server} armv7-musl echo_server)}
panics=$("$here/build" --manifest "$here/echo/Cargo.toml" armv7-musl panics)
serve=$("$here/build" --bin --features serve armv7-musl tinymcp)
if [ -z "$client" ]; then
    (cd "$repository" && cargo build --quiet --features cli --bin tinymcp)
    client=${CARGO_TARGET_DIR:-$repository/target}/debug/tinymcp
fi
exec python3 "$here/board.py" "$tools/bin/qemu-arm" "$floor" "$server" "$panics" "$client" "$serve" $http
