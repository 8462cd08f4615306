#!/bin/sh
# Builds our echo example, the bare loops, the driver and the rmcp peer, and compares them over HTTP
# in one run.
#
#   benches/http/run.sh [--without-rmcp] [--without-ours] [options of the driver]
#
# --without-rmcp   leave out the peer, whose first build takes some minutes
# --without-ours   leave out our own server
# Options of the driver, most useful first:
#   --only PART         keep the bare loop and the servers whose name contains PART (inline, pool, rmcp, tiny)
#   --without-counts    no instruction, allocation and system call counts
#   --rounds N          interleaved rounds, 9 by default; --phase-ms N, length of one phase, 50 by default
#   --json FILE         medians and all samples
#   --check             fail if a limit is missed, see src/layout.rs
#   --profile FOLDER    measure nothing, write a callgrind profile of each server; for line numbers build with
#                       CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
#
# Linux. The counts need valgrind and strace; without them their rows are dashes. A full run takes
# about four minutes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not make three packages share one target folder.
unset CARGO_TARGET_DIR

ours=yes
rmcp=yes
count=$#
while [ "$count" -gt 0 ]; do
    case $1 in
    --without-rmcp) rmcp=no ;;
    --without-ours) ours=no ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
done

cargo build --release --manifest-path "$here/Cargo.toml" --target-dir "$target/http-bench"
built=$target/http-bench/release
set -- --floor "$built/floor" --tiny "$built/tiny" "$@"

if [ "$ours" = yes ]; then
    cargo build --release --example echo_server --features http-server --manifest-path "$root/Cargo.toml" \
        --target-dir "$target"
    set -- --ours "$target/release/examples/echo_server" "$@"
fi
if [ "$rmcp" = yes ]; then
    cargo build --release --manifest-path "$here/rmcp-http/Cargo.toml" --target-dir "$target/rmcp-http"
    peers=$target/rmcp-http/release
    set -- --rmcp-axum "$peers/axum" --rmcp-tuned "$peers/tuned" "$@"
fi

exec "$built/driver" "$@"
