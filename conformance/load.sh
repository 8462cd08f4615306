#!/bin/sh
# A million calls over 64 kept connections, including event streams. Checks that each call has
# exactly one response, that memory is flat, and that no descriptor remains. Half of the connections
# use sessions, half are stateless.
#
#   conformance/load.sh [--calls N] [--connections N] [--listeners N]
#
# Builds examples/board_server and the load program of benches/http. Linux. A million calls take about a minute.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not make two packages share one target folder.
unset CARGO_TARGET_DIR
cargo build --quiet --release --manifest-path "$root/benches/http/Cargo.toml" --target-dir "$target/http-bench" --bin soak
cargo build --quiet --profile conformance --manifest-path "$root/Cargo.toml" --target-dir "$target" \
    --example board_server --features http-server
exec "$target/http-bench/release/soak" "$@" "$target/conformance/examples/board_server"
