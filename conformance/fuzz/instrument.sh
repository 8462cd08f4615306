#!/bin/sh
# Compiler wrapper of ../fuzz.sh: adds the coverage counters of libFuzzer to the library and the modules of the program
# only, so that the oracles run at full speed.
case " $* " in
*" --crate-name tinymcp "* | *" --crate-name definition_files "*)
    exec "$@" --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$@" ;;
esac
