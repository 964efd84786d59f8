#!/bin/bash
# What a person runs between two edits: format, clippy and the unit tests of the crates that a change touches.
#
#   scripts/check.sh [BASE]    changed since BASE, a commit of git [default: the upstream branch, else HEAD],
#                              and what is not committed yet
#
# Tests in `tests/` of those crates run too if they are what changed. `make test` does all of it.
set -euo pipefail

cd "$(dirname "$0")/.."
base=${1:-}
if [ -z "$base" ]; then
    upstream=$(git rev-parse --verify --quiet '@{upstream}' || true)
    if [ -n "$upstream" ]; then base=$(git merge-base HEAD "$upstream"); else base=HEAD; fi
fi
changed=$(git diff --name-only "$base" && git ls-files --others --exclude-standard)

# The crate of a file: that of the nearest folder with a Cargo.toml.
crate_of() {
    local folder
    folder=$(dirname "$1")
    until [ -e "$folder/Cargo.toml" ]; do folder=$(dirname "$folder"); done
    sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml"
}

members=$(cargo metadata --no-deps --format-version 1 | grep -o '"name":"headwater[a-z-]*","version"' | cut -d'"' -f4)
crates=() integration=()
while read -r file; do
    # What lies outside every crate belongs to the whole, as do texts: `make test` looks at them.
    case $file in
        *.rs | *.cu | *.proto | */Cargo.toml) ;;
        *) continue ;;
    esac
    name=$(crate_of "$file")
    if ! grep -qx "$name" <<<"$members"; then continue; fi
    crates+=("$name")
    case $file in tests/*.rs | */tests/*.rs) integration+=("$name") ;; esac
done <<<"$changed"
cargo fmt --all --check
if [ ${#crates[@]} -eq 0 ]; then
    echo "no crate has changed since $base"
    exit
fi
mapfile -t crates < <(printf '%s\n' "${crates[@]}" | sort -u)
echo "changed since $base: ${crates[*]}"
packages=("${crates[@]/#/--package=}")
cargo clippy --quiet "${packages[@]}" --all-targets -- -D warnings
# The program's own crate has no library.
targets=(--bins)
[ "${crates[*]}" = headwater ] || targets+=(--lib)
cargo test --quiet "${packages[@]}" "${targets[@]}"
if [ ${#integration[@]} -gt 0 ]; then
    mapfile -t integration < <(printf '%s\n' "${integration[@]}" | sort -u)
    cargo test --quiet "${integration[@]/#/--package=}" --tests
fi
