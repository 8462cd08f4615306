#!/bin/sh
# Long form of the attacks on the HTTP server: default settings, 500 event streams, 10,000 sessions,
# one trickled byte per second. Takes about three minutes; the exit code is 1 if a row fails.
# `attack.sh NAME` runs the rows whose names contain NAME.
set -eu
cd "$(dirname "$0")/.."
export TEST_LONG=1
exec cargo test --release --features http-server --test attack -- "$@"
