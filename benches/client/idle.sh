#!/bin/sh
# Memory of a host per idle server: a hub with this many echo servers as children, each listed and
# called once. Release build, linked dynamically against the system's C library, as hosts are.
#
#   benches/client/idle.sh [CHILDREN]     50 by default
#
# Prints the memory of each child after the first. Linux.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
unset CARGO_TARGET_DIR
cargo build --quiet --release --manifest-path "$here/Cargo.toml" --features hub --bin idle-host --target-dir "$target/client-bench"
cargo build --quiet --release --manifest-path "$root/Cargo.toml" --example echo_server --target-dir "$target"
exec "$target/client-bench/release/idle-host" "${1-50}" "$target/release/examples/echo_server" --stdio
