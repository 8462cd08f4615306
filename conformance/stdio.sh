#!/bin/sh
# Runs real MCP clients against our example server over stdio, in both protocol eras; see
# clients/run.sh.
exec "$(dirname "$0")/clients/run.sh" stdio "$@"
