#!/usr/bin/env bash
# Plays a small board: our servers for armv7 under emulation, with 16 MiB of memory to be had, against a client that
# runs here, in both eras of the protocol, over standard input and output and over HTTP.
#
#   cross/board.sh [PROGRAM]      the example echo_server, static with musl, or a program of the same kind
#
# Also: our own client on this machine calls the board's servers, and a server built as for boards whose handler panics
# ends, with nothing half written.
#
# What the emulator itself takes is found out with a program that only echoes lines; the server may have 16 MiB of
# private memory more (RLIMIT_DATA), stacks and the C library's included. Needs python3 and prlimit.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/toolchain.sh"
"$here/setup"

# Over HTTP where the library has it.
http=
if grep -q -- --http "$repository/examples/echo_server.rs"; then http=--http; fi
floor=$("$here/build" --manifest "$here/floor/Cargo.toml" armv7-musl line-echo)
server=${1:-$("$here/build" ${http:+--features http-server} armv7-musl echo_server)}
panics=$("$here/build" --manifest "$here/echo/Cargo.toml" armv7-musl panics)
(cd "$repository" && cargo build --quiet --features cli --bin tinymcp)
client=${CARGO_TARGET_DIR:-$repository/target}/debug/tinymcp
exec python3 "$here/board.py" "$tools/bin/qemu-arm" "$floor" "$server" "$panics" "$client" $http
