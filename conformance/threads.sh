#!/usr/bin/env bash
# The threaded core of the client under race detectors: 16 threads on one connection with cancels and deadlines at
# random (tests/client/race.rs), in both eras.
#
#   conformance/threads.sh [helgrind|drd|tsan|all] [CALLS]     all, 1600 calls per era unless told otherwise
#
# Valgrind's tools understand pthread's locks and nothing else, while Rust's are made of atomics and futexes. So the
# standard library is built from its source with the locks that it has for other systems, on pthread: the program's
# code stays as it is. What they still cannot know stands in threads.supp, each with its reason; the in-memory link
# hands messages over by atomics alone, so they see the connection to a child process only. ThreadSanitizer
# understands atomics, but no fences: library and program are built for it as they are.
#
# The compiler, the library's source and the sanitizer's runtime come from Debian 12 through cross/setup and apt;
# valgrind has to be installed. Everything lies in target/threads. Exit code 1 if a tool reports a race.
set -euo pipefail
cd "$(dirname "$0")/.."

which=${1-all} calls=${2-1600}
case $which in helgrind | drd | tsan | all) ;; *) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
cross/setup
tools=$PWD/cross/.tools
out=${CARGO_TARGET_DIR:-$PWD/target}/threads
triple=x86_64-unknown-linux-gnu
mkdir -p "$out"
export RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=1 CARGO_PROFILE_DEV_OPT_LEVEL=1

# build FOLDER RUSTC RUSTFLAGS: the tests and the echo server of the second kind; prints the test's path
build() {
    local flags=(-Zbuild-std=std,panic_abort --target "$triple" --features client) test
    CARGO_TARGET_DIR=$out/$1 RUSTC=$2 RUSTFLAGS=$3 "$tools/bin/cargo" build --quiet "${flags[@]}" --example echo_server >&2
    test=$(CARGO_TARGET_DIR=$out/$1 RUSTC=$2 RUSTFLAGS=$3 "$tools/bin/cargo" test --quiet "${flags[@]}" --test client \
        --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\/client-[^"]*\)".*/\1/p')
    echo "$test"
}

# The library with pthread's locks: the lists of systems that have futexes, without this one.
with_pthread() {
    local root=$out/sysroot from=$tools/root/usr/lib/rustlib std entry
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
    build pthread "$root/rustc" ''
}

# The runtime belongs to the compiler's LLVM.
with_tsan() {
    local runtime=$out/runtime/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.tsan-x86_64.a
    if [ ! -e "$runtime" ]; then
        mkdir -p "$out/runtime"
        (cd "$out/runtime" && apt-get -q=2 -o APT::Sandbox::User=root download libclang-rt-19-dev >&2 && dpkg-deb -x libclang-rt-19-dev_*.deb .)
    fi
    local link="-Clink-arg=-Wl,--whole-archive,$runtime,--no-whole-archive -Clink-arg=-Wl,--export-dynamic"
    build tsan "$tools/bin/rustc" "-Zsanitizer=thread -Zexternal-clangrt $link -Clink-arg=-lm -Clink-arg=-lc"
}

failed=0
# run NAME TEST COMMAND…
run() {
    local name=$1 test=$2
    shift 2
    echo "== $name, $calls calls"
    if TINYMCP_CALLS=$calls "$@" "$test" --test-threads 1 2>&1 | tee "$out/$name.log" | grep -E '^test |test result' &&
        ! grep -qE 'WARNING: ThreadSanitizer' "$out/$name.log"; then
        grep -E 'ERROR SUMMARY' "$out/$name.log" || true
    else
        echo "$name: see $out/$name.log"
        failed=1
    fi
}

if [ "$which" != tsan ]; then
    program=$(with_pthread)
    for tool in helgrind drd; do
        if [ "$which" = "$tool" ] || [ "$which" = all ]; then
            # Advice about notifying without the lock is not asked for.
            [ "$tool" = drd ] && advice=--report-signal-unlocked=no || advice=
            run "$tool" race::sixteen_threads_with_a_child valgrind --tool=$tool --error-exitcode=9 --fair-sched=try \
                --num-callers=24 --suppressions=conformance/threads.supp $advice "$program"
        fi
    done
fi
if [ "$which" = tsan ] || [ "$which" = all ]; then
    program=$(with_tsan)
    TSAN_OPTIONS="exitcode=9 halt_on_error=0 second_deadlock_stack=1" run tsan race:: "$program"
fi
exit $failed
