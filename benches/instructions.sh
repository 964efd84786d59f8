#!/bin/bash
# Instructions a photograph takes, counted by callgrind: the same on a busy machine as on a quiet
# one. Compares with benches/instructions.txt and fails where more than 2 % are added; --write
# writes it anew. valgrind knows instructions up to AVX2, so that is what is counted.
set -euo pipefail
cd "$(dirname "$0")/.."
noted=benches/instructions.txt
cargo build --release -p headwater-render --example instructions
program=${CARGO_TARGET_DIR:-target}/release/examples/instructions

count() { # count WHAT PHOTOS: instructions of a whole run
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1 |
        awk '/Collected/ { print $NF }'
}

worse=0
found=
for what in decode recipe; do
    # The difference between two runs leaves out the start and the reading of files.
    few=$(count "$what" 32)
    many=$(count "$what" 64)
    each=$(((many - few) / 32))
    found+="$what $each"$'\n'
    before=$(awk -v what="$what" '$1 == what { print $2 }' "$noted" 2>/dev/null || true)
    echo "$what: $each instructions a photograph${before:+, noted $before}"
    if [ -n "$before" ] && [ "$each" -gt $((before + before / 50)) ]; then worse=1; fi
done
if [ "${1:-}" = --write ]; then printf '%s' "$found" >"$noted"; exit; fi
[ "$worse" -eq 0 ] || { echo "more than 2 % above what is noted in $noted" >&2; exit 1; }
