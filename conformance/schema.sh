#!/usr/bin/env bash
# The official JSON Schema test suite, drafts 2020-12 and 07 (2019-09 is shown, not promised).
#
#   conformance/schema.sh            fetches the suite once and runs it
#   conformance/schema.sh FILTER     only the tests whose name contains FILTER
#
# The suite is the one in the source package of the Python library jsonschema, at json/tests and
# json/remotes. Every required test must pass. The optional tests in schema/unable.txt, each with
# its reason, must not pass. Prints one line per part; the exit code is 0 only if all results are as
# expected.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=4.26.0
suite=$here/schema/suite

if [ ! -e "$suite/json/tests/.version-$version" ]; then
    printf 'schema.sh: fetching jsonschema %s\n' "$version" >&2
    rm -rf "$suite"
    mkdir -p "$suite"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
        --no-binary :all: --dest "$suite" "jsonschema==$version" 2>/dev/null >&2 ||
        python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --no-binary :all: --dest "$suite" "jsonschema==$version" >&2
    tar -xzf "$suite/jsonschema-$version.tar.gz" -C "$suite" --strip-components=1 "jsonschema-$version/json"
    touch "$suite/json/tests/.version-$version"
fi

cargo build --quiet --release --manifest-path "$here/schema/Cargo.toml"
target=${CARGO_TARGET_DIR:-$here/schema/target}
exec "$target/release/schema-suite" "$suite/json" "$@"
