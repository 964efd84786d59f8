#!/bin/bash
# rustc for crates of this workspace (RUSTC_WORKSPACE_WRAPPER): compiles, and has clippy look at the same crate with the
# same dependencies. `cargo clippy` would want all dependencies once more, as metadata.
#
# Clippy as the compiler would turn off MIR's optimisations and its checks of pointers in what the tests run.
set -euo pipefail

"$@"
args=() skip=
for arg in "${@:2}"; do
    case $skip in
        --out-dir) args+=("${TMPDIR:-/tmp}/headwater-clippy-$$") && skip= && continue ;;
        -C)
            skip=
            # One of clippy's own would be kept beside the compiler's.
            case $arg in incremental=*) unset 'args[-1]' && continue ;; esac
            ;;
    esac
    case $arg in
        --emit=*link*) args+=(--emit=metadata) && looks=1 && continue ;;
        # Cargo would take clippy's metadata for the compiler's.
        --json=*) arg=${arg/,artifacts/} ;;
        -C | --out-dir) skip=$arg ;;
    esac
    args+=("$arg")
done
# Cargo asks the compiler about itself, too.
[ -n "${looks:-}" ] || exit 0
trap 'rm -rf "${TMPDIR:-/tmp}/headwater-clippy-$$"' EXIT
clippy-driver "$1" "${args[@]}"
