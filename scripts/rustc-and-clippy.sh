#!/bin/bash
# rustc for crates of this workspace (RUSTC_WORKSPACE_WRAPPER): compiles, and has clippy and rustdoc look at the same crate
# with the same dependencies. `cargo clippy` and `cargo doc` would want all dependencies once more, as metadata.
#
# Clippy as the compiler would turn off MIR's optimisations and its checks of pointers in what the tests run.
set -euo pipefail

"$@"
# Cargo asks the compiler about itself, too.
case " $* " in *' --emit='*link*) ;; *) exit 0 ;; esac
look=$(mktemp -d)
trap 'rm -rf "$look"' EXIT
args=() option=
for arg in "${@:2}"; do
    case $option$arg in
        # One of clippy's own would be kept beside the compiler's.
        -Cincremental=*) unset 'args[-1]' ;;
        --out-dir?*) args+=("$look") ;;
        --emit=*) ;;
        # Cargo would take clippy's metadata for the compiler's.
        --json=*) args+=("${arg/,artifacts/}") ;;
        *) args+=("$arg") ;;
    esac
    case $arg in -C | --out-dir) option=$arg ;; *) option= ;; esac
done
case " $* " in
    # Its own tests have all of it in them, and are looked at. The wheel's crate has none.
    *' --test '* | *' headwater_python '* | */config-derive/*) is_seen=false ;;
    *'/src/lib.rs '* | *' src/main.rs '*) is_seen=true ;;
    *) is_seen=false ;;
esac
$is_seen || clippy-driver "$1" "${args[@]}" --emit=metadata
# Documentation is of libraries and programs, not of tests, benches and build scripts.
case " $* " in
    *' --test '* | *' build_script_build '* | *'/examples/'* | *'/benches/'* | *' benches/'*) ;;
    *' --crate-type bin '*) rustdoc "${args[@]}" --document-private-items ;;
    *) rustdoc "${args[@]}" ;;
esac
