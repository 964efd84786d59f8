#!/bin/bash
# Builds the emulated verbs: build.sh OUT_DIR
#
# Prints the folder, in OUT_DIR, that LD_LIBRARY_PATH has to name. It is made once for each state of the
# sources, by $CXX or g++. Several may ask at the same time: the first makes it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
compiler=${CXX:-g++}
sum=$(cat "$here"/*.cpp "$here"/*.h "$here"/../emulated/*.h "$here/build.sh" | sha256sum | cut -c 1-16)
done=$out/emulated-verbs-$sum
# Tests that start together wait for the first instead of compiling it all as well.
exec 9>"$out/emulated-verbs.lock"
flock 9
if [ ! -d "$done" ]; then
    making=$(mktemp -d "$out/emulated-verbs-making.XXXXXX")
    trap 'rm -rf "$making"' EXIT
    options=(-std=c++20 -O0 -fPIC -Wall -Wextra -fvisibility=hidden)
    # Symbols of a version that is not rdma-core's: UCX or perftest, linked against that, refuse it.
    "$compiler" "${options[@]}" -shared -Wl,-soname,libibverbs.so.1 -Wl,--default-symver \
        -o "$making/libibverbs.so.1" "$here"/{completions,device,pairs,receiving,sending,state,wire}.cpp -pthread
    "$compiler" "${options[@]}" -o "$making/selftest" "$here"/selftest*.cpp "$making/libibverbs.so.1" \
        -Wl,-rpath,'$ORIGIN' -pthread
    mv -T "$making" "$done"
fi
echo "$done"
