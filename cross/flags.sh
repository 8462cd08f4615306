#!/usr/bin/env bash
# Prints compiler and linker flags that make programs smaller than the profile `board` alone does, for a toolchain of
# your own. Other scripts source this file.
#
#   RUSTFLAGS=$(cross/flags.sh TARGET) cargo build --profile board --target TARGET
#   RUSTFLAGS=$(cross/flags.sh --place TARGET) cargo build --release --target TARGET
#
# --place              only the layout flags: less memory at the same speed, and panics still unwind

flags_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Sets three arrays. `place_flags`: layout, valid for every profile. `optimizer_flags`: smaller code, valid for every
# profile. `size_flags`: `optimizer_flags` and the flags that need panic = "abort".
choose_flags() { # TARGET
    # A fixed load address needs no relocation table, and relocation makes no page private. Sections need not start on
    # a page boundary in the file. rare.ld places rarely executed code apart.
    place_flags=(
        -C relocation-model=static -C link-arg=-Wl,-z,noseparate-code,--build-id=none
        -C "link-arg=-Wl,-T,$flags_folder/rare.ld"
    )
    # LLD is rustc's default linker for this target. It keeps all code in one segment and rejects without-unwinding.ld.
    case $1 in
        x86_64*-gnu) place_flags+=(-C link-arg=-fuse-ld=bfd) ;;
    esac
    optimizer_flags=()
    # Inline only where that shrinks the code. On x86_64 the profile's own threshold gives smaller code.
    case $1 in
        x86_64*) ;;
        *) optimizer_flags+=(-C llvm-args=-inline-threshold=0) ;;
    esac
    # Turn repeated instruction sequences into functions. On aarch64 rustc does that by default.
    case $1 in
        armv7* | x86_64*) optimizer_flags+=(-C llvm-args=-enable-machine-outliner=always) ;;
    esac
    # Drop the unwind tables.
    size_flags=(
        -C force-unwind-tables=no
        -C "link-arg=-Wl,-T,$flags_folder/without-unwinding.ld"
        "${optimizer_flags[@]}"
    )
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    only_place=
    [ "${1-}" != --place ] || { only_place=yes; shift; }
    [ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
    choose_flags "$1"
    [ -n "$only_place" ] || place_flags+=("${size_flags[@]}")
    echo "${place_flags[*]}"
fi
