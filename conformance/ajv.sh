#!/usr/bin/env bash
# Our JSON Schema validator beside Ajv 2020 and ajv-formats, pair of schema and value by pair.
#
#   conformance/ajv.sh [PAIRS [SEED]]     PAIRS generated pairs (100000) beside the written ones
#
# The written pairs are every keyword family of ajv/corpus.mjs crossed with its values, and the
# tools of benches/schema/tools.json with mutations of their arguments. Where the two may differ,
# and who is right, is in ajv/explained.mjs. The exit code is 0 only when nothing is unexplained.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=install.sh
. "$here/install.sh"
npm_install ajv

cargo build --quiet --release --manifest-path "$here/schema/Cargo.toml"
target=${CARGO_TARGET_DIR:-$here/schema/target}
exec node "$here/ajv/run.mjs" "$target/release/schema-batch" "$here/../benches/schema/tools.json" "$@"
