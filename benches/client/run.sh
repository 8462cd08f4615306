#!/bin/sh
# Builds both clients and our echo server, then compares calls over a stdio child in one interleaved run.
#
#   benches/client/run.sh [ROUNDS [MILLISECONDS]]
#
# 9 rounds of 1000 ms unless told otherwise; the first build of rmcp takes some minutes. Each round runs both clients
# with 1, 16 and 64 calls in flight against a fresh server: ours starts them all from one thread, as rmcp's tasks on its
# runtime; once more with a thread for each ("threads"). Both are built alike, and linked statically, so that their
# memory is their own: pages of the C library belong to every program of a machine. Prints medians and how they
# compare; the exit code is 1 when a limit is missed. Linux.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not lead three packages into one folder of artefacts.
unset CARGO_TARGET_DIR
triple=$(rustc -vV | sed -n 's/^host: //p')
alike="-C target-feature=+crt-static -C relocation-model=static"

RUSTFLAGS=$alike cargo build --release --target "$triple" --manifest-path "$here/Cargo.toml" --features tinymcp \
    --target-dir "$target/client-bench"
RUSTFLAGS=$alike cargo build --release --target "$triple" --manifest-path "$here/rmcp-client/Cargo.toml" \
    --target-dir "$target/rmcp-client"
cargo build --release --manifest-path "$root/Cargo.toml" --example echo_server --target-dir "$target"

exec python3 -I "$here/compare.py" "${1-9}" "${2-1000}" \
    "$target/client-bench/$triple/release/tinymcp-client" "$target/rmcp-client/$triple/release/rmcp-client" \
    "$target/release/examples/echo_server" --stdio --inline
