#!/usr/bin/env bash
# What makes programs small beside the profile `board`. cross/build and benches/schema/size.sh source it; run by itself
# it prints the flags for a target, for a toolchain of one's own:
#
#   RUSTFLAGS=$(cross/flags.sh TARGET) cargo build --profile board --target TARGET

# Whatever the profile: at a fixed address there is no table of places to be relocated, and there are no pages that
# relocating makes the program's own. Sections need not start on pages of their own in the file.
# What hardly ever runs stands apart (rare.ld).
place_flags=(-C relocation-model=static -C link-arg=-Wl,-z,noseparate-code,--build-id=none
    -C "link-arg=-Wl,-T,$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/rare.ld")

# Sets `size_flags` to what rustc is told beside that for a target, where a panic ends the process.
choose_size_flags() { # TARGET
    size_flags=(
        # Nothing unwinds the stack.
        -C force-unwind-tables=no
        -C "link-arg=-Wl,-T,$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/without-unwinding.ld"
    )
    # Only what gets smaller by it is inlined; on x86_64 what the profile says is smaller.
    case $1 in
        x86_64*) ;;
        *) size_flags+=(-C llvm-args=-inline-threshold=0) ;;
    esac
    # Runs of instructions that occur several times become functions, of which rustc does as much by itself on aarch64.
    case $1 in
        armv7* | x86_64*) size_flags+=(-C llvm-args=-enable-machine-outliner=always -C llvm-args=-machine-outliner-reruns=2) ;;
    esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    [ $# -eq 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
    choose_size_flags "$1"
    echo "${place_flags[*]} ${size_flags[*]}"
fi
