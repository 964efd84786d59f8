#!/bin/bash
# What a person runs between two edits: format, the tree's own rules, and clippy and unit tests of the crates that a
# change touches.
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
# A file that was moved has left a crate, and has come to one.
changed=$(git diff --name-only --no-renames "$base" && git ls-files --others --exclude-standard)
members=$(cargo metadata --no-deps --format-version 1 | grep -o '"name":"headwater[a-z-]*","version"' | cut -d'"' -f4)

# The nearest folder with a Cargo.toml.
folder_of() {
    local folder
    folder=$(dirname "$1")
    until [ -e "$folder/Cargo.toml" ]; do folder=$(dirname "$folder"); done
    echo "$folder"
}

unit=() whole=()
while read -r file; do
    case $file in
        # Of all crates: too many to try between two edits.
        Cargo.toml | Cargo.lock | rust-toolchain.toml) echo "$file has changed: run make test, too" && continue ;;
        *.rs | *.cu | *.proto | */Cargo.toml) ;;
        # Texts and scripts are the whole's: `make test` looks at them.
        *) continue ;;
    esac
    folder=$(folder_of "$file")
    name=$(sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml")
    if ! grep -qx "$name" <<<"$members"; then continue; fi
    case ${file#"$folder/"} in
        tests/* | *.proto | generated/*) whole+=("$name") ;;
        *) unit+=("$name") ;;
    esac
done <<<"$changed"
crates=$(printf '%s\n' headwater-tidy "${unit[@]}" "${whole[@]}" | sort -u)

cargo fmt --all --check
echo "changed since $base:" $crates
mapfile -t packages < <(sed 's/^/--package=/' <<<"$crates")
cargo clippy --quiet "${packages[@]}" --all-targets -- -D warnings
for crate in $crates; do
    case " ${whole[*]} " in *" $crate "*) targets=--tests ;; *) targets=--lib ;; esac
    case $crate in
        # Needs Python's library, which Python has: pytest runs its tests.
        headwater-python) continue ;;
        # Has no library.
        headwater) targets=${targets/--lib/--bins} ;;
    esac
    cargo test --quiet --package "$crate" "$targets"
done
