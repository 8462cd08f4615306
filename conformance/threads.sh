#!/usr/bin/env bash
# The threaded core of the client under race detectors: 16 threads on one connection with cancels and deadlines at
# random (tests/client/race.rs, mixed.rs), in both eras.
#
#   conformance/threads.sh [helgrind|drd|all] [CALLS]     all, 800 calls per era unless told otherwise
#
# Valgrind's tools understand pthread's locks and nothing else, while Rust's are made of atomics and futexes. So the
# standard library is built from its source with the locks that it has for other systems, on pthread: the program's
# code stays as it is. What they still cannot know stands in threads.supp, each with its reason; the in-memory link
# hands messages over by atomics alone, so they see the connection to a child process only.
#
# The compiler and the library's source come from Debian 12 through cross/setup. Everything lies in target/threads. Two
# and a half minutes of processor time, most of it for the compiler. Exit code 1 if a tool reports anything.
#
# On a bare Debian machine, as root, a missing valgrind is installed with apt-get.
set -euo pipefail
cd "$(dirname "$0")/.."

which=${1-all} calls=${2-800}
case $which in helgrind | drd | all) ;; *) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
# shellcheck source=install.sh
. conformance/install.sh
command -v valgrind >/dev/null || apt_install valgrind
cross/setup
tools=$PWD/cross/.tools
out=${CARGO_TARGET_DIR:-$PWD/target}/threads
mkdir -p "$out"
export RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only CARGO_PROFILE_DEV_OPT_LEVEL=0

# The library with pthread's locks: the lists of systems that have futexes, without this one.
root=$out/sysroot from=$tools/root/usr/lib/rustlib
if [ ! -e "$root/made" ]; then
    rm -rf "$root"
    mkdir -p "$root/lib/rustlib/src/rust"
    for entry in "$from"/*; do
        [ "${entry##*/}" = src ] || ln -s "$entry" "$root/lib/rustlib/"
    done
    cp -r "$from"/src/rust/{library,Cargo.lock,Cargo.toml} "$root/lib/rustlib/src/rust/"
    std=$root/lib/rustlib/src/rust/library/std/src/sys
    sed -i '/^ *target_os = "linux",$/d' "$std"/sync/{mutex,condvar,rwlock,once,thread_parking}/mod.rs \
        "$std"/pal/unix/sync/mod.rs
    printf '#!/bin/sh\nexec %s --sysroot %s "$@"\n' "$tools/bin/rustc" "$root" > "$root/rustc"
    chmod +x "$root/rustc"
    touch "$root/made"
fi

# The test, and the echo server that it starts.
export CARGO_TARGET_DIR=$out/pthread RUSTC=$root/rustc RUSTFLAGS=
flags=(--quiet -Zbuild-std=std,panic_abort --target x86_64-unknown-linux-gnu --features client)
"$tools/bin/cargo" build "${flags[@]}" --example echo_server
program=$("$tools/bin/cargo" test "${flags[@]}" --test client --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\/client-[^"]*\)".*/\1/p')

failed=0
for tool in helgrind drd; do
    [ "$which" = "$tool" ] || [ "$which" = all ] || continue
    echo "== $tool, $calls calls in either era"
    # Advice about notifying without the lock is not asked for.
    [ "$tool" = drd ] && advice=--report-signal-unlocked=no || advice=
    if TEST_CALLS=$calls valgrind --tool=$tool --error-exitcode=9 --num-callers=24 --fair-sched=try $advice \
        --suppressions=conformance/threads.supp "$program" race::sixteen_threads_with_a_child mixed:: --test-threads 1 \
        > "$out/$tool.log" 2>&1; then
        grep -hE 'test result|ERROR SUMMARY' "$out/$tool.log"
    else
        echo "$tool: see $out/$tool.log"
        failed=1
    fi
done
exit $failed
