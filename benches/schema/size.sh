#!/usr/bin/env bash
# What the validator adds to a program that parses JSON and nothing else, in bytes, for this machine,
# built as cross/build builds for boards: opt-level "z", one unit, stripped, at a fixed address. The
# standard library is the one that comes with the compiler; with it come tables for unwinding, a fifth
# of what is added, which nothing reads where a panic ends the process.
#
#   benches/schema/size.sh     fails above 110 kB without patterns or 330 kB with them
set -euo pipefail
shopt -s inherit_errexit # a failed build in $(…) ends the script, no stale program is measured

here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/size/target}
export RUSTFLAGS="-C force-unwind-tables=no -C relocation-model=static \
-C link-arg=-Wl,-z,noseparate-code,--build-id=none \
--remap-path-prefix=$(cd "$here/../.." && pwd)="

build() { # FEATURES: the program's size
    cargo build --quiet --locked --profile board --manifest-path "$here/size/Cargo.toml" --features "$1"
    stat -c %s "$target/board/schema-size"
}

failed=0
parser=$(build '')
printf '%-16s %8s %8s %8s\n' features bytes added bar
printf '%-16s %8d %8s %8s\n' parser "$parser" - -
while read -r features bar; do
    bytes=$(build "$features")
    added=$((bytes - parser))
    verdict=
    if [ "$bar" != - ] && [ "$added" -gt "$bar" ]; then
        verdict=' above the bar'
        failed=1
    fi
    printf '%-16s %8d %8d %8s%s\n' "$features" "$bytes" "$added" "$bar" "$verdict"
done <<'EOF'
schema 110000
pattern 330000
unicode-pattern -
EOF
exit "$failed"
