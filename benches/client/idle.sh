#!/bin/sh
# Memory of a host for each server that it has and does not use: a hub with so many echo servers as children, each
# listed and called once. Release, linked against the system's C library, as a host is.
#
#   benches/client/idle.sh [CHILDREN]     50 unless told otherwise
#
# Prints what each takes beside the first. Linux.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
unset CARGO_TARGET_DIR
cargo build --quiet --release --manifest-path "$here/Cargo.toml" --features hub --bin idle-host --target-dir "$target/client-bench"
cargo build --quiet --release --manifest-path "$root/Cargo.toml" --example echo_server --target-dir "$target"
exec "$target/client-bench/release/idle-host" "${1-50}" "$target/release/examples/echo_server" --stdio
