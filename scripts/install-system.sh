#!/bin/sh
# Installs the system packages that are missing: a C compiler and make for libjpeg-turbo, cmake and
# nasm for its fast paths, and Python's venv. Does nothing where all are there.
set -eu

missing=
need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

need cc gcc
need make make
need cmake cmake
need nasm nasm
need python3 python3
# Hosts of their own for tests that pull cables.
need ip iproute2
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"

if [ -n "$missing" ]; then
    echo "installing:$missing"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "no apt-get here: install$missing by hand" >&2
        exit 1
    fi
    as_root=
    if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    # shellcheck disable=SC2086  # The list is words.
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is missing: install Rust with rustup (rust-toolchain.toml names the version)" >&2
    exit 1
fi
