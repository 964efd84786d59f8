#!/bin/sh
# Stands in for cargo where maturin builds the wheel: builds the crate together with the workspace, so
# that its dependencies are those that `cargo test` (profile dev) compiled, and the program with it.
# For a target that is named, zig compiles C and links, against the C library of version $WHEEL_GLIBC.
set -eu

[ "$1" = rustc ] || exec cargo "$@"
profile=
target=
while [ $# -gt 0 ]; do
    case $1 in
        --profile) profile=$2 ;;
        --target) target=$2 ;;
    esac
    shift
done
set -- --workspace --lib --bins --profile "$profile" --message-format json-render-diagnostics
# With what the tests' own dependencies ask for.
if [ "$profile" = dev ]; then set -- "$@" --tests; fi
# shellcheck disable=SC2086  # Words, as scripts/test.sh has set them.
if [ -z "$target" ]; then exec cargo ${HEADWATER_CARGO_OPTIONS:-} build "$@"; fi

# zig would link its own unwinder. But when Python before 3.14 ends, the C library unwinds the stacks of
# threads that still wait in this library, with libgcc_s: they crash unless Rust has the same unwinder.
arch=${target%%-*}
if [ "$arch" = "$(uname -m)" ]; then
    unwinder=$(cc -print-file-name=libgcc_s.so.1)
else
    unwinder=/usr/$arch-linux-gnu/lib/libgcc_s.so.1
fi
# It may be made for a newer C library than the one that it is linked for here.
export RUSTFLAGS="${RUSTFLAGS:-} -C link-arg=$unwinder -C link-arg=-Wl,--allow-shlib-undefined"
exec cargo-zigbuild zigbuild --locked --target "$target.$WHEEL_GLIBC" "$@"
