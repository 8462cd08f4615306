#!/bin/sh
# Builds both clients and our echo server, then compares calls over a stdio child in one interleaved run.
#
#   benches/client/run.sh [ROUNDS [MILLISECONDS]]
#
# 9 rounds of 1000 ms unless told otherwise; the first build of rmcp takes some minutes. Each round runs both clients
# with 1, 16 and 64 calls in flight against a fresh server. Prints medians and how they compare; the exit code is 1
# when a limit is missed. Linux.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not lead three packages into one folder of artefacts.
unset CARGO_TARGET_DIR

cargo build --release --manifest-path "$here/Cargo.toml" --features tinymcp --target-dir "$target/client-bench"
cargo build --release --manifest-path "$here/rmcp-client/Cargo.toml" --target-dir "$target/rmcp-client"
cargo build --release --manifest-path "$root/Cargo.toml" --example echo_server --target-dir "$target"

exec python3 -I "$here/compare.py" "${1-9}" "${2-1000}" \
    "$target/client-bench/release/tinymcp-client" "$target/rmcp-client/release/rmcp-client" \
    "$target/release/examples/echo_server" --stdio --inline
