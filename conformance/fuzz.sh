#!/usr/bin/env bash
# Fuzz targets of the library, by libFuzzer. The targets are in conformance/fuzz/src, one file each.
#
#   conformance/fuzz.sh                     every target for 30 seconds, one per processor at a time, from a fixed seed,
#                                           so that runs of the same code try the same inputs
#   conformance/fuzz.sh TARGET SECONDS      one target; `all` for every target
#
# Every run starts from the committed seeds in fuzz/corpus and from the inputs in target/fuzz/corpus
# that earlier runs on this machine found. A finding ends its target: the input is stored in
# target/fuzz/found, and the exit code is 1. Run one input
# again with `FUZZ_TARGET=NAME target/fuzz/release/tinymcp-fuzz FILE`.
#
# Needs a C++ compiler, because libFuzzer is compiled from its source. Works with stable Rust.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzz=conformance/fuzz
targets=$(sed -n 's/^    ("\([a-z_]*\)", [a-z_]*::run),$/\1/p' $fuzz/src/main.rs)
target=${1-all} seconds=${2-30}
# 0 selects a random seed.
[ $# -eq 0 ] && seed=1 || seed=0
case "$target" in
all) ;;
*) grep -qx "$target" <<<"$targets" || { sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; echo; echo "targets:" $targets; exit 2; }
   targets=$target ;;
esac
out=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
program=$out/release/tinymcp-fuzz
mkdir -p "$out/found"
CARGO_TARGET_DIR=$out CARGO_INCREMENTAL=0 RUSTC_WRAPPER=$PWD/$fuzz/instrument.sh \
    cargo build --quiet --release --locked --manifest-path $fuzz/Cargo.toml

# Runs one target and prints a line with its figures, or the end of its log.
one() {
    local name=$1 dictionary=() corpus=$out/corpus/$1
    mkdir -p "$corpus"
    [ ! -e "$fuzz/dict/$name" ] || dictionary=(-dict="$fuzz/dict/$name")
    if FUZZ_TARGET=$name "$program" "$corpus" "$fuzz/corpus/$name" -seed=$seed -max_total_time="$seconds" -max_len=4096 \
        -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=1 "${dictionary[@]}" \
        -artifact_prefix="$out/found/$name-" > "$out/$name.log" 2>&1; then
        local done edges
        done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name.log")
        edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$out/$name.log" | tail -1)
        printf '%-14s %10s executions %6s edges\n' "$name" "$done" "$edges"
    else
        tail -40 "$out/$name.log"
        printf '%-14s FOUND: %s\n' "$name" "$(sed -n 's/.*Test unit written to //p' "$out/$name.log")"
        return 1
    fi
}
export -f one
export fuzz out program seconds seed
# xargs ends with 123 if any target failed, after all of them have run.
printf '%s\n' $targets | xargs -P "$(nproc)" -I{} bash -c 'set -u; one {}' || exit 1
