#!/bin/sh
# Holds the patterns of JSON Schema against V8: patterns from schemas in use, and generated ones
# (how many, and the seed, may be given). Fails on any disagreement that is not explained here:
#
# - V8 runs backreferences and lookbehind, and ^, \b or \B inside a negative lookahead that does
#   not stand at the start; we refuse them. The end of the output counts what was refused, and why.
# - We take what V8 takes only without the flag u: escaped punctuation, { } ] as characters, sets
#   beside a hyphen, repeated lookaheads. Verdicts are then compared with V8 without the flag, on
#   texts without characters beyond U+FFFF.
#
# - V8 finds empty matches between the halves of a surrogate pair even with u, where ECMA-262 has
#   no place to look; those are not compared.
#
# Needs node and cargo.
set -eu
cd "$(dirname "$0")/pattern"
node cases.mjs "${1:-20000}" "${2:-1}" | cargo run --quiet --release
