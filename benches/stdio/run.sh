#!/bin/sh
# Builds our echo example, the bare loop, the driver and the rmcp peer, then compares them over stdio in one run.
#
#   benches/stdio/run.sh [--without-rmcp] [--without-ours] [options of the driver]
#
# --without-rmcp   leave out the peer: its first build takes some minutes, the rest seconds
# --without-ours   leave out our own server
# --placed         ours is linked as cross/flags.sh --place tells, so that what hardly ever runs is not resident
# Options of the driver, most useful first:
#   --only PART         keep the bare loop and the servers whose name contains PART (inline, pool, rmcp)
#   --without-counts    no instruction, allocation and system call counts
#   --rounds N          interleaved rounds, 9 unless told otherwise; --phase-ms N, length of one phase, 50
#   --json FILE         medians and all samples
#   --check             fail when a limit is missed where it counts, see src/limits.rs
#   --profile FOLDER    measure nothing, leave a callgrind profile of each server; for line numbers build with
#                       CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
#
# Linux. The counts need valgrind and strace; without them their rows are dashes. A full run takes about two minutes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not lead three packages into one folder of artefacts.
unset CARGO_TARGET_DIR

ours=yes
placed=
rmcp=yes
# Of a program that a linker has just written the kernel maps whole stretches, whether they were asked for or not: have it
# read from the disk, as after the start of the machine.
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
if [ "$rmcp" = yes ]; then
    cargo build --release --manifest-path "$here/rmcp-echo/Cargo.toml" --target-dir "$target/rmcp-echo"
    peers=$target/rmcp-echo/release
    forget "$peers/readme" "$peers/tuned"
    set -- --rmcp-readme "$peers/readme" --rmcp-tuned "$peers/tuned" "$@"
fi

exec "$built/driver" "$@"
