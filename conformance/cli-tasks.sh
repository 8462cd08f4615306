#!/usr/bin/env bash
# Runs the tasks of cli-tasks/tasks.txt with `tinymcp` and npm's server-everything. The tasks are from the documents of
# five other command lines. No command of `tinymcp` may be longer than the shortest one of the others.
#
#   conformance/cli-tasks.sh                       builds the program
#   conformance/cli-tasks.sh --programs FOLDER     uses `tinymcp` in this folder
#
# Prints `ok TASK` or `FAIL TASK: …`, and ends with `N passed, N failed`; the exit code is 0 only if nothing failed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=install.sh
. "$here/install.sh"
programs=
case $#/${1-} in
    0/) ;;
    2/--programs) programs=$(cd "$2" && pwd) ;;
    *) usage ;;
esac
install_packages peers
if [ -z "$programs" ]; then
    cargo build --quiet --manifest-path "$here/../Cargo.toml" --features full --bin tinymcp
    programs=$(cd "${CARGO_TARGET_DIR:-$here/../target}/debug" && pwd)
fi
python3 "$here/cli-tasks/run.py" "$programs/tinymcp" \
    "$here/peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
