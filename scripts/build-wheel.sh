#!/bin/sh
# Builds the wheel: build-wheel.sh PROFILE VENV OUT. PROFILE is dev or release; OUT is emptied first.
#
# maturin has cargo build the wheel's crate by itself. Its dependencies would then have the features
# that this one crate asks for, which are others than in the rest of the workspace, and all of them
# would be compiled once more. So scripts/workspace-cargo.sh stands in for cargo.
set -eu

profile=$1
venv=$2
out=$3
rm -rf "$out"
CARGO=$PWD/scripts/workspace-cargo.sh "$venv/bin/maturin" build --profile "$profile" \
    --manifest-path gpu-receiver/python/Cargo.toml --interpreter "$venv/bin/python" --out "$out"
