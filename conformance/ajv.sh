#!/usr/bin/env bash
# Compares our JSON Schema validator with Ajv 2020 and ajv-formats on pairs of schema and value.
#
#   conformance/ajv.sh [PAIRS [SEED]]     PAIRS generated pairs (100000) beside the written ones
#
# The written pairs are every keyword family of ajv/corpus.mjs crossed with its values, and the
# tools of benches/schema/tools.json with mutations of their arguments. ajv/explained.mjs lists the
# known differences and the reasons. The exit code is 0 only if every difference is explained.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=install.sh
. "$here/install.sh"
npm_install ajv

cargo build --quiet --release --manifest-path "$here/schema/Cargo.toml"
target=${CARGO_TARGET_DIR:-$here/schema/target}
exec node "$here/ajv/run.mjs" "$target/release/schema-batch" "$here/../benches/schema/tools.json" "$@"
