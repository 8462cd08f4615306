#!/bin/sh
# Builds our echo example, the bare loop, the driver and the rmcp peer, and compares them over stdio
# in one run.
#
#   benches/stdio/run.sh [--without-rmcp] [--without-ours] [options of the driver]
#
# --without-rmcp   leave out the peer, whose first build takes some minutes
# --without-ours   leave out our own server
# --placed         link our server with the flags of cross/flags.sh --place, which keep rare code out of memory
# Options of the driver, most useful first:
#   --only PART         keep the bare loop and the servers whose name contains PART (inline, pool, rmcp)
#   --without-counts    no instruction, allocation and system call counts
#   --rounds N          interleaved rounds, 9 by default; --phase-ms N, length of one phase, 50 by default
#   --json FILE         medians and all samples
#   --check             fail if a limit is missed where it counts, see src/layout.rs
#   --instructions      count the instructions of our servers and measure nothing else; a busy machine does not change
#                       them. Fails if a server that uses no extension contains code of them.
#   --profile FOLDER    measure nothing, write a callgrind profile of each server; for line numbers build with
#                       CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
#
# Linux. The counts need valgrind and strace; without them their rows are dashes. A full run takes
# about two minutes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not make three packages share one target folder.
unset CARGO_TARGET_DIR
# An incremental build has other code: 85 instructions more per call.
export CARGO_INCREMENTAL=0

ours=yes
placed=
rmcp=yes
instructions=
# The kernel maps whole ranges of a program that a linker has just written. Evict it from the page
# cache, so that it is read from the disk as after a boot.
forget() { # PROGRAM…
    for program in "$@"; do
        dd of="$program" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    done
}

count=$#
while [ "$count" -gt 0 ]; do
    case $1 in
    --without-rmcp) rmcp=no ;;
    --without-ours) ours=no ;;
    --placed) placed=yes ;;
    --instructions) instructions=yes && set -- "$@" "$1" ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
done

cargo build --release --manifest-path "$here/Cargo.toml" --target-dir "$target/stdio-bench"
built=$target/stdio-bench/release
forget "$built/floor"
set -- --floor "$built/floor" "$@"

if [ "$ours" = yes ]; then
    folder=$target/release
    if [ -n "$placed" ]; then
        host=$(rustc --print host-tuple)
        folder=$target/placed/$host/release
        RUSTFLAGS=$("$root/cross/flags.sh" --place "$host") cargo build --release --example echo_server \
            --manifest-path "$root/Cargo.toml" --target-dir "$target/placed" --target "$host"
    else
        cargo build --release --example echo_server --manifest-path "$root/Cargo.toml" --target-dir "$target"
    fi
    forget "$folder/examples/echo_server"
    set -- --ours "$folder/examples/echo_server" "$@"
fi
if [ "$ours$instructions" = yesyes ]; then
    symbols=$(nm -C "$folder/examples/echo_server")
    if ! echo "$symbols" | grep -q 'tinymcp::server::dispatch::'; then
        echo "run.sh: the echo server has no symbols to look at" >&2
        exit 1
    fi
    if echo "$symbols" | grep 'tinymcp::[a-z]*::extension::' >&2; then
        echo "run.sh: the echo server uses no extension, but contains these functions" >&2
        exit 1
    fi
fi
if [ "$rmcp" = yes ]; then
    cargo build --release --manifest-path "$here/rmcp-echo/Cargo.toml" --target-dir "$target/rmcp-echo"
    peers=$target/rmcp-echo/release
    forget "$peers/readme" "$peers/tuned"
    set -- --rmcp-readme "$peers/readme" --rmcp-tuned "$peers/tuned" "$@"
fi

exec "$built/driver" "$@"
