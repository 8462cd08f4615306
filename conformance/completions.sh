#!/usr/bin/env bash
# Completes words with real Bash, Zsh and Fish at a terminal, for servers whose names are commands for a shell
# (completions/names.txt), and runs the completed line: no name may be interpreted.
#
#   conformance/completions.sh                     builds the program
#   conformance/completions.sh --programs FOLDER   uses `tinymcp` in this folder
#
# Prints `ok SHELL PLACE` or `FAIL SHELL PLACE NAME: …`, and ends with `N passed, N failed`; the exit code is 0 only if
# nothing failed.
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
for program in python3 zsh fish; do
    command -v "$program" >/dev/null || apt_install "$program"
done
if [ -z "$programs" ]; then
    cargo build --quiet --manifest-path "$here/../Cargo.toml" --features full --bin tinymcp
    programs=$(cd "${CARGO_TARGET_DIR:-$here/../target}/debug" && pwd)
fi
exec python3 "$here/completions/press.py" "$programs"
