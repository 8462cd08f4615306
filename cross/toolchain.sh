# Selects the toolchain of cross/setup by the environment variables of cargo. The other scripts source this file. It does
# not depend on the library.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(dirname "$here")
tools=$here/.tools

# Short names of the targets. Sets `target` (Rust's name), `triple` (the linker's) and `machine` (the emulator's).
choose_target() {
    case $1 in
        armv7 | armv7-unknown-linux-gnueabihf) target=armv7-unknown-linux-gnueabihf triple=arm-linux-gnueabihf machine=arm ;;
        armv7-musl | armv7-unknown-linux-musleabihf) target=armv7-unknown-linux-musleabihf triple=arm-linux-gnueabihf machine=arm ;;
        aarch64 | aarch64-unknown-linux-gnu) target=aarch64-unknown-linux-gnu triple=aarch64-linux-gnu machine=aarch64 ;;
        aarch64-musl | aarch64-unknown-linux-musl) target=aarch64-unknown-linux-musl triple=aarch64-linux-gnu machine=aarch64 ;;
        # This machine, for comparison: its own linker, no emulator.
        x86_64 | x86_64-unknown-linux-gnu) target=x86_64-unknown-linux-gnu triple=x86_64-linux-gnu machine= ;;
        x86_64-musl | x86_64-unknown-linux-musl) target=x86_64-unknown-linux-musl triple=x86_64-linux-gnu machine= ;;
        *) echo "$(basename "$0"): unknown target $1; armv7, aarch64, armv7-musl, aarch64-musl, x86_64, x86_64-musl" >&2; return 2 ;;
    esac
    local name=${target//-/_}
    name=${name^^}
    case $target in
        *musl*) export "CARGO_TARGET_${name}_LINKER=$tools/bin/$triple-musl-gcc" ;;
        x86_64*) export "CARGO_TARGET_${name}_LINKER=gcc" ;;
        *) export "CARGO_TARGET_${name}_LINKER=$tools/bin/$triple-gcc" ;;
    esac
    # The C compiler, for the feature `tls`. That of a board has the headers of glibc, which fit musl as far as ring uses
    # them.
    case $target in
        x86_64*) export "CC_${target//-/_}=gcc" "AR_${target//-/_}=ar" ;;
        *) export "CC_${target//-/_}=$tools/bin/$triple-gcc" "AR_${target//-/_}=$tools/bin/$triple-ar" ;;
    esac
    export RUSTC=$tools/bin/rustc RUSTDOC=$tools/bin/rustdoc
    # Separate folders, because each compiler rebuilds the output of another.
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$repository/target}/cross
    # Root of the board's C library for emulated programs.
    export QEMU_LD_PREFIX=$tools/root/usr/$triple
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET RUSTC_WRAPPER
}
