#!/bin/sh
# Stands in for cargo where maturin builds the wheel: builds the crate together with the workspace, so
# that its dependencies are those that `cargo test` (profile dev) or `make build` (release) compiled.
set -eu

[ "$1" = rustc ] || exec cargo "$@"
profile=
while [ $# -gt 0 ]; do
    if [ "$1" = --profile ]; then profile=$2; fi
    shift
done
case $profile in
    # With what the tests' own dependencies ask for.
    dev) tests=--tests ;;
    *) tests= ;;
esac
# shellcheck disable=SC2086  # None, or a word.
exec cargo build --workspace --lib --bins $tests --profile "$profile" \
    --message-format json-render-diagnostics
