#!/bin/bash
# Builds the faulty files: build.sh OUT_DIR
#
# Prints the folder, in OUT_DIR, that holds libfaulty_files.so, which LD_PRELOAD has to name. It is made
# once for each state of the sources, by $CC or cc. Several may ask at the same time: the first makes it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
compiler=${CC:-cc}
sum=$(cat "$here"/*.[ch] "$here/build.sh" | sha256sum | cut -c 1-16)
done=$out/faulty-files-$sum
# Tests that start together wait for the first instead of compiling it all as well.
exec 9>"$out/faulty-files.lock"
flock 9
if [ ! -d "$done" ]; then
    making=$(mktemp -d "$out/faulty-files-making.XXXXXX")
    trap 'rm -rf "$making"' EXIT
    "$compiler" -std=c11 -O1 -fPIC -Wall -Wextra -shared -o "$making/libfaulty_files.so" "$here/faulty_files.c" -ldl
    mv -T "$making" "$done"
fi
echo "$done"
