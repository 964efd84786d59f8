#!/bin/sh
# Compiles the pixel code for 64-bit ARM and runs its tests in an emulator: every NEON twin against the plain
# operation. Needs gcc-aarch64-linux-gnu and qemu-user-static, which `scripts/install-system.sh arm` installs.
set -eu

cd "$(dirname "$0")"
target=aarch64-unknown-linux-gnu
rustup target add "$target"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target}/arm"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
cargo test --locked --target "$target" --test twins
