#!/usr/bin/env bash
# Race detectors of valgrind on the threads of client, server, HTTP server and hub: the tests `race` and `mixed`, which
# call, cancel, disconnect and restart at random.
#
#   conformance/threads.sh [OPTIONS] [helgrind|drd|all] [CALLS]     all, 800 calls of the client per era
#
#   --only NAME          only client, server, http or hub
#
# Without --only, drd runs on the client alone. The other tests make fewer calls: each costs more, because valgrind runs
# one thread at a time.
#
# Valgrind's tools know the locks of pthread, but Rust's locks use atomics and futexes. The script builds the standard
# library from source with its pthread locks, which it has for other systems; the program's code stays the same.
# threads.supp lists the remaining false reports, each with its reason. The in-memory link passes messages through
# atomics, so the tests use child processes and sockets.
#
# The compiler and the library's source are Debian 12's, from cross/setup. All output is in target/threads. Exit code 1
# if a tool reports anything. On a bare Debian machine, as root, a missing valgrind is installed with apt-get.
set -euo pipefail
cd "$(dirname "$0")/.."

only=
if [ "${1-}" = --only ]; then
    only=${2?}
    shift 2
fi
which=${1-all} calls=${2-800}
[[ "$which" =~ ^(helgrind|drd|all)$ && "$only" =~ ^(client|server|http|hub|)$ ]] ||
    { sed -n '2,20s/^# \{0,1\}//p' "$0"; exit 2; }
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

# The tests, and the server that they start.
export CARGO_TARGET_DIR=$out/pthread RUSTC=$root/rustc RUSTFLAGS=
flags=(--quiet -Zbuild-std=std,panic_abort --target x86_64-unknown-linux-gnu --features hub,http-server)
suites=(${only:-client server http hub})
"$tools/bin/cargo" build "${flags[@]}" --example strict_server
programs=$("$tools/bin/cargo" test "${flags[@]}" "${suites[@]/#/--test=}" --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')

failed=0
run() { # TOOL SUITE CALLS FILTER…
    local log=$out/$1-$2.log program
    program=$(grep "/$2-[^/]*$" <<< "$programs")
    echo "== $1, $2: $3 calls"
    # Notifying after unlocking is not an error.
    [ "$1" = drd ] && advice=--report-signal-unlocked=no || advice=
    if TEST_CALLS=$3 valgrind --tool="$1" --error-exitcode=9 --num-callers=24 --fair-sched=try $advice \
        --suppressions=conformance/threads.supp "$program" "${@:4}" --test-threads 1 > "$log" 2>&1; then
        grep -hE 'test result|ERROR SUMMARY' "$log"
    else
        echo "$1, $2: the end of $log:"
        tail -n 80 "$log"
        failed=1
    fi
}
for tool in helgrind drd; do
    [ "$which" = "$tool" ] || [ "$which" = all ] || continue
    [ "$tool$only" != drd ] || suites=(client)
    for suite in "${suites[@]}"; do
        case $suite in
            client) run $tool client "$calls" race::sixteen_threads_with_a_child mixed:: ;;
            server) run $tool server $((calls / 4)) race:: ;;
            *) run $tool "$suite" $((calls / 8)) race:: ;;
        esac
    done
done
echo "race detectors: ${SECONDS}s"
exit $failed
