#!/bin/sh
# The attack table of the HTTP server in its long form: default settings, 500 event streams, 10,000 sessions,
# bytes that trickle one a second. About three minutes; exit code 1 if a row fails. `attack.sh NAME` runs the
# rows whose names contain NAME.
set -eu
cd "$(dirname "$0")/.."
export TEST_LONG=1
exec cargo test --release --features http-server --test attack -- "$@"
