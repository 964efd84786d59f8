#!/bin/sh
# Builds wheels: build-wheel.sh VENV OUT [ARCH..]. OUT is emptied first. A wheel holds the library and,
# in its scripts folder, the program `headwater`.
#
# Without ARCH: one wheel for this machine, of profile dev, out of what `cargo test` has compiled. With
# ARCH (x86_64, aarch64): one manylinux wheel for each, of profile wheel, cross-compiled by zig, and with the licences
# of all that is linked into it.
#
# maturin has cargo build the wheel's crate by itself. Its dependencies would then have the features
# that this one crate asks for, which are others than in the rest of the workspace, and all of them
# would be compiled once more. So scripts/workspace-cargo.sh stands in for cargo.
set -eu

cd "$(dirname "$0")/.."
venv=$(cd "$1" && pwd)
out=$2
shift 2
target=${CARGO_TARGET_DIR:-$PWD/target}
# maturin packs what is in this folder. It reads a link's file after it has had cargo build it.
scripts=gpu-receiver/python/headwater._native.data/scripts
licences=gpu-receiver/python
trap 'rm -rf "${scripts%/*}" "$licences/LICENSE" "$licences/THIRD-PARTY-NOTICES.txt"' EXIT
export CARGO="$PWD/scripts/workspace-cargo.sh"
# cargo-zigbuild looks for the `python3` that has zig.
export PATH="$venv/bin:$PATH"
# The oldest C library that Rust's own library still runs on.
export WHEEL_GLIBC=2.17

pack() { # pack FOLDER-OF-THE-PROGRAM OPTION..: builds and packs
    mkdir -p "$scripts"
    ln -sf "$1/headwater" "$scripts/headwater"
    shift
    maturin build --manifest-path gpu-receiver/python/Cargo.toml --out "$out" "$@"
}

rm -rf "$out"
cp LICENSE "$licences/"
if [ $# -gt 0 ]; then
    scripts/notices.py --out "$licences/THIRD-PARTY-NOTICES.txt"
fi
if [ $# -eq 0 ]; then
    # Hardly compressed: it is installed once, on this machine.
    pack "$target/debug" --profile dev --interpreter "$venv/bin/python" --compression-level 1
fi
for arch in "$@"; do
    triple=$arch-unknown-linux-gnu
    tag=manylinux_$(echo "$WHEEL_GLIBC" | tr . _)_$arch
    rustup target add "$triple"
    pack "$target/$triple/wheel" --profile wheel --target "$triple" --compatibility "${tag%_"$arch"}"
    # maturin has looked at the library, auditwheel looks at the program too.
    python scripts/check-wheel.py "$tag" "$out"/headwater-*"$arch".whl
done
