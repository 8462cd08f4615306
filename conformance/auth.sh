#!/usr/bin/env bash
# Signs in at an authorization server on Authlib with the program tinymcp, and checks its tokens with a server of this
# library: by their signature and by introspection. Prints a line for each check.
#
#   conformance/auth.sh [--programs FOLDER]     FOLDER has tinymcp and examples/token_server
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=install.sh
. "$here/install.sh"
programs=
while [ $# -gt 0 ]; do
    case $1 in
        --programs) programs=${2?} && shift ;;
        *) usage ;;
    esac
    shift
done
install_packages auth
command -v curl >/dev/null || apt_install curl
if [ -z "$programs" ]; then
    cargo build --quiet --profile conformance --features cli,oauth-jwt,token-jwt --bin tinymcp --example token_server
    programs=${CARGO_TARGET_DIR:-$here/../target}/conformance
fi
exec "$here/auth/.venv/bin/python" "$here/auth/check.py" "$programs"
