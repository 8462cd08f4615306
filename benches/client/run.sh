#!/bin/sh
# Builds both clients and our echo server, and compares calls to a stdio child in one interleaved
# run.
#
#   benches/client/run.sh [--board] [ROUNDS [MILLISECONDS]]
#
# --board also builds both clients like programs for boards, for size and with panics that end the
# process, and runs them in the same rounds ("z").
#
# 9 rounds of 1000 ms by default; the first build of rmcp takes some minutes. Each round runs both
# clients with 1, 16 and 64 calls in flight against a fresh server. Our client starts all calls from
# one thread, as rmcp's tasks do on its runtime, and once more with one thread per call ("threads").
# Both are built alike and linked statically, so that pages of the C library count as their memory.
# Prints medians and their ratios; the exit code is 1 if a limit is missed. Linux.
set -eu

board=
if [ "${1-}" = --board ]; then
    board=board
    shift
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not make the packages share one target folder.
unset CARGO_TARGET_DIR
triple=$(rustc -vV | sed -n 's/^host: //p')
alike="-C target-feature=+crt-static -C relocation-model=static"

for profile in release $board; do
    RUSTFLAGS=$alike cargo build --profile "$profile" --target "$triple" --manifest-path "$here/Cargo.toml" \
        --features tinymcp --bin tinymcp-client --bin nothing --target-dir "$target/client-bench"
    RUSTFLAGS=$alike cargo build --profile "$profile" --target "$triple" --target-dir "$target/rmcp-client" \
        --manifest-path "$here/rmcp-client/Cargo.toml"
done
cargo build --release --manifest-path "$root/Cargo.toml" --example echo_server --target-dir "$target"

exec python3 -I "$here/compare.py" "${1-9}" "${2-1000}" "$target/client-bench/$triple" "$target/rmcp-client/$triple" \
    "release $board" "$target/release/examples/echo_server" --stdio --inline
