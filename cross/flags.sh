#!/usr/bin/env bash
# What makes programs small beside the profile `board`. cross/build and benches/schema/size.sh source it; run by itself
# it prints the flags for a target, for a toolchain of one's own:
#
#   RUSTFLAGS=$(cross/flags.sh TARGET) cargo build --profile board --target TARGET
#   RUSTFLAGS=$(cross/flags.sh --place TARGET) cargo build --release --target TARGET
#
# --place              only where things lie: as little memory at the same speed, and panics still unwind

flags_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Sets `place_flags` to what rustc is told for a target whatever the profile, and `size_flags` to what it is told beside
# that where a panic ends the process.
choose_flags() { # TARGET
    # At a fixed address there is no table of places to be relocated, and there are no pages that relocating makes the
    # program's own. Sections need not start on pages of their own in the file. What hardly ever runs stands apart.
    place_flags=(
        -C relocation-model=static -C link-arg=-Wl,-z,noseparate-code,--build-id=none
        -C "link-arg=-Wl,-T,$flags_folder/rare.ld"
    )
    # LLD, which rustc brings along for this target, keeps all code in one segment and refuses without-unwinding.ld.
    case $1 in
        x86_64*-gnu) place_flags+=(-C link-arg=-fuse-ld=bfd) ;;
    esac
    size_flags=(
        # Nothing unwinds the stack.
        -C force-unwind-tables=no
        -C "link-arg=-Wl,-T,$flags_folder/without-unwinding.ld"
    )
    # Only what gets smaller by it is inlined; on x86_64 what the profile says is smaller.
    case $1 in
        x86_64*) ;;
        *) size_flags+=(-C llvm-args=-inline-threshold=0) ;;
    esac
    # Runs of instructions that occur several times become functions, of which rustc does as much by itself on aarch64.
    case $1 in
        armv7* | x86_64*) size_flags+=(-C llvm-args=-enable-machine-outliner=always) ;;
    esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    only_place=
    [ "${1-}" != --place ] || { only_place=yes; shift; }
    [ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
    choose_flags "$1"
    [ -n "$only_place" ] || place_flags+=("${size_flags[@]}")
    echo "${place_flags[*]}"
fi
