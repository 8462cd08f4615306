#!/usr/bin/env bash
# Size of the validator in bytes: growth of a program that only parses JSON, on this machine, with
# the prebuilt standard library. Built as `cargo build --profile board` and with the flags of
# cross/build for boards (cross/flags.sh). The flags drop the tables for unwinding, a fifth of the
# growth, which are unused if a panic ends the process.
#
#   benches/schema/size.sh [FEATURE…]     only these, of schema, pattern and unicode-pattern; fails when with the flags
#                                         it is above 110 kB without patterns or 330 kB with them
set -euo pipefail
shopt -s inherit_errexit # a failed build in $(…) ends the script, no stale program is measured

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/cross/flags.sh"
target=${CARGO_TARGET_DIR:-$here/size/target}
choose_flags x86_64-unknown-linux-gnu
# Keeps the size independent of the location of the sources.
place="--remap-path-prefix=$root="
unset CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET

build() { # NAME FLAGS FEATURES: the program's size
    RUSTFLAGS="$place $2" CARGO_TARGET_DIR=$target/$1 cargo build --quiet --locked --profile board \
        --manifest-path "$here/size/Cargo.toml" --features "$3"
    stat -c %s "$target/$1/board/schema-size"
}

failed=0
printf '%-8s %-16s %8s %8s %8s\n' flags features bytes added bar
for name in plain flags; do
    flags=
    [ "$name" = plain ] || flags="${place_flags[*]} ${size_flags[*]}"
    parser=$(build "$name" "$flags" '')
    printf '%-8s %-16s %8d %8s %8s\n' "$name" parser "$parser" - -
    while read -r features bar; do
        [ $# -eq 0 ] || [[ " $* " == *" $features "* ]] || continue
        bytes=$(build "$name" "$flags" "$features")
        added=$((bytes - parser))
        verdict=
        if [ "$bar" != - ] && [ "$added" -gt "$bar" ]; then
            verdict=' above the bar'
            [ "$name" = plain ] || failed=1
        fi
        printf '%-8s %-16s %8d %8d %8s%s\n' "$name" "$features" "$bytes" "$added" "$bar" "$verdict"
    done <<'EOF'
schema 110000
pattern 330000
unicode-pattern -
EOF
done
exit "$failed"
