#!/usr/bin/env bash
# Checks that parts of the crate compile separately: JSON with records and schemas, the lint, and
# the HTTP server engine. Copies each part into a temporary folder with its own manifest.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp Cargo.lock "$copy"
mkdir "$copy/src"

# check NAME FILES MODULES DEPENDENCIES: compiles the files and folders of src/ with these modules.
check() {
    rm -r "$copy/src"
    mkdir "$copy/src"
    for file in $2; do
        mkdir -p "$copy/src/$(dirname "$file")"
        cp -r "src/$file" "$copy/src/$file"
    done
    printf '#![allow(unused)]\n%s\n' "$3" >"$copy/src/lib.rs"
    {
        printf '[package]\nname = "tinymcp-%s"\nversion = "0.0.0"\nedition = "2024"\n' "$1"
        printf '[features]\ndefault = ["schema", "pattern", "lint", "http-server"]\n'
        printf 'schema = []\npattern = []\nlint = []\nhttp-server = []\nidn = []\nminiserde = []\nunicode-pattern = []\n'
        printf '[lints.rust]\nunexpected_cfgs = "allow"\n[dependencies]\n%s\n' "$4"
    } >"$copy/Cargo.toml"
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/extract cargo check --quiet --manifest-path "$copy/Cargo.toml"
    echo "$1 compiles on its own"
}

# dependency NAME…: prints the lines of these dependencies of our manifest, not optional.
dependency() {
    for name; do
        sed -n "s/, optional = true//; s/^$name = /$name = /p" Cargo.toml | head -n 1
    done
}

data='json record schema limits.rs error.rs'
modules='pub mod error; pub mod json; pub mod limits; pub mod record; pub mod schema;'
crates=$(dependency memchr simdutf8 regex-automata)
check schema "$data" "$modules" "$crates"
check lint "$data lint tool_name.rs" "$modules pub mod lint; mod tool_name;" "$crates"
http='json error.rs limits.rs sync.rs transport/http_server.rs transport/http_server'
# The feature http-server adds sockets to rustix.
check http-engine "$http" "pub mod error; pub mod json; pub mod limits; mod sync; pub mod transport { pub mod http_server; }" \
    "$(dependency memchr simdutf8 mio httparse listenfd rustix signal-hook | sed '/^rustix/s/"event"/"event", "net"/')"
