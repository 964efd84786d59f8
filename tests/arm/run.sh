#!/bin/sh
# 64-bit ARM, in an emulator: run.sh WHEELS. First every NEON twin against the plain operation. Then the
# programs of both wheels in WHEELS make one epoch of the photographs, which is the same to the last byte, and the one
# for ARM starts in an image for ARM, which needs root.
# Needs gcc-aarch64-linux-gnu and qemu-user-static, which `scripts/install-system.sh arm` installs.
set -eu

wheels=$(cd "$1" && pwd)
cd "$(dirname "$0")"
target=aarch64-unknown-linux-gnu
emulator="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

twins() {
    rustup target add "$target"
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target}/arm"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator"
    # The operations.
    cargo test --locked --target "$target" --manifest-path ../../Cargo.toml --package headwater-pixels --test all
    # Those of the JPEG decoder: inverse DCT, upsampling, colours, and streams that take turns.
    cargo test --locked --target "$target" --manifest-path ../../Cargo.toml --package headwater-jpeg --lib -- \
        pixels:: entropy::tests::interleaved_streams_give
}

program() { # program ARCH: takes the program out of that processor's wheel, and says where it is
    python3 -m zipfile -e "$wheels"/headwater-*"$1".whl "$work/$1"
    chmod +x "$work/$1"/headwater-*.data/scripts/headwater
    echo "$work/$1"/headwater-*.data/scripts/headwater
}

epoch() { # epoch ARCH COMMAND..: one epoch, and its line with the hash of all batches
    arch=$1
    shift
    env -i PATH="$PATH" "$@" run --dataset "photos=$PWD/../data/photos/photos-000003.tar" \
        --batch 8 --epochs 1 --seed 20 --threads 2 \
        --set "storage.index_dir=$work/index-$arch" >"$work/report-$arch"
    grep '^epoch 0: .* hash ' "$work/report-$arch"
}

image() { # image PROGRAM: its version, said in an image by an ordinary user
    ../../scripts/image.py augment --binary "$1" --tree "$work/image" >&2
    cp "$(command -v qemu-aarch64-static)" "$work/image/"
    env -i "$(command -v chroot)" --userspec=65532:65532 "$work/image" /qemu-aarch64-static /usr/bin/headwater --version
}

twins
here=$(program x86_64)
there=$(program aarch64)
expected=$(epoch x86_64 "$here")
echo "x86_64   $expected"
# shellcheck disable=SC2086  # The emulator and its options.
emulated=$(epoch aarch64 $emulator "$there")
echo "aarch64  $emulated"
if [ "$emulated" != "$expected" ]; then
    echo "the epoch is another one on aarch64" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "SKIP: chroot needs root: the image for ARM is not started"
    exit
fi
version=$(image "$there")
echo "image    $version"
if [ "$version" != "$("$here" --version)" ]; then
    echo "the image for ARM does not start" >&2
    exit 1
fi
