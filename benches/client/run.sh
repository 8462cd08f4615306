#!/bin/sh
# Builds both clients and our echo server, then compares calls over a stdio child in one interleaved run.
#
#   benches/client/run.sh [--board] [ROUNDS [MILLISECONDS]]
#
# With --board both clients are built once more as programs for boards are, for size and with panics that end the
# process, and run in the same rounds ("z").
#
# 9 rounds of 1000 ms unless told otherwise; the first build of rmcp takes some minutes. Each round runs both clients
# with 1, 16 and 64 calls in flight against a fresh server: ours starts them all from one thread, as rmcp's tasks on its
# runtime; once more with a thread for each ("threads"). Both are built alike, and linked statically, so that their
# memory is their own: pages of the C library belong to every program of a machine. Prints medians and how they
# compare; the exit code is 1 when a limit is missed. Linux.
set -eu

board=
if [ "${1-}" = --board ]; then
    board=board
    shift
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not lead three packages into one folder of artefacts.
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
