#!/bin/sh
# Builds `tinymcp`, the bare loops and the driver, and measures `tinymcp serve` in one run: start to the first response,
# calls of a co-process, calls that start a program.
#
#   benches/serve/run.sh [--tinymcp PROGRAM] [options of the driver]
#
# --tinymcp PROGRAM   measure this program, such as one of cross/build; otherwise a release build is measured
# Options of the driver:
#   --starts N, --calls N, --spawns N    400 starts, 10,000 calls of a co-process, 1,000 calls that start a program
#   --without-counts                     no system call, instruction and allocation counts
#   --check                              fail if a bar is missed
#
# Linux. The counts need valgrind and strace; without them they are dashes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# An override must not make the packages share one target folder.
unset CARGO_TARGET_DIR

case " $* " in
*" --tinymcp "*) ;;
*)
    # The features that the manual installs.
    cargo build --quiet --release --manifest-path "$root/Cargo.toml" --features serve,http-server,lint,pattern \
        --bin tinymcp --target-dir "$target"
    set -- --tinymcp "$target/release/tinymcp" "$@"
    ;;
esac
cargo build --quiet --release --manifest-path "$here/Cargo.toml" --target-dir "$target/serve-bench"
exec "$target/serve-bench/release/driver" --floor "$target/serve-bench/release/floor" "$@"
