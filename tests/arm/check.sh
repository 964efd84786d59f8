#!/bin/sh
# Whether the pixel code compiles for 64-bit ARM, which needs no emulator: `make test` runs this, `make test-arm` runs the tests.
set -eu

cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
if ! rustup target list --installed 2>/dev/null | grep -qx "$target"; then
    echo "SKIP: the pixel code is not compiled for ARM: rustup target add $target"
    exit 77
fi
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/arm" cargo check --locked --package headwater-pixels --target "$target"
