#!/bin/sh
# Real MCP clients drive our example server over stdio, in both protocol eras: see clients/run.sh for how, and for options.
exec "$(dirname "$0")/clients/run.sh" stdio "$@"
