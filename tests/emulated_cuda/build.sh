#!/bin/bash
# Builds the emulated CUDA driver and NVRTC: build.sh OUT_DIR
#
# Prints the folder, in OUT_DIR, that LD_LIBRARY_PATH has to name; its folder `driver` has no NVRTC. It is made once for each state of the
# sources, by $CXX or g++, whose optimiser would take longer than it saves. Several may ask at the
# same time: the first makes it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
arithmetic=$here/../../libs/render-cuda/tests/emulation/arithmetic.h
mkdir -p "$1"
out=$(cd "$1" && pwd)
compiler=${CXX:-g++}
sum=$(cat "$here"/*.cpp "$here"/*.h "$here"/../emulated/*.h "$arithmetic" "$here/build.sh" | sha256sum | cut -c 1-16)
done=$out/emulated-cuda-$sum
# Tests that start together wait for the first instead of compiling it all as well.
exec 9>"$out/emulated-cuda.lock"
flock 9
if [ ! -d "$done" ]; then
    making=$(mktemp -d "$out/emulated-cuda-making.XXXXXX")
    trap 'rm -rf "$making"' EXIT
    options=(-std=c++20 -O0 -fPIC -Wall -Wextra -fvisibility=hidden)
    driver=("$here"/{allocations,blocks,copies,driver,ghost,handles,memory,modules,state,streams}.cpp)
    "$compiler" "${options[@]}" -shared -Wl,-soname,libcuda.so.1,-Bsymbolic-functions -o "$making/libcuda.so.1" \
        "${driver[@]}" -ldl -pthread &
    first=$!
    "$compiler" "${options[@]}" -shared -Wl,-soname,libnvrtc.so -o "$making/libnvrtc.so" \
        "$here/nvrtc.cpp" -ldl
    "$compiler" "${options[@]}" -o "$making/ghost" "$here/ghost_main.cpp"
    wait "$first"
    ln -s libcuda.so.1 "$making/libcuda.so"
    ln -s libnvrtc.so "$making/libnvrtc.so.13"
    mkdir "$making/driver"
    ln -s ../libcuda.so.1 "$making/driver/libcuda.so.1"
    ln -s ../libcuda.so.1 "$making/driver/libcuda.so"
    cp "$here/kernel_abi.h" "$here/kernel_words.h" "$arithmetic" "$making"
    "$compiler" "${options[@]}" -o "$making/selftest" "$here"/selftest*.cpp -L"$making" -lcuda -lnvrtc \
        -Wl,-rpath,'$ORIGIN'
    mv -T "$making" "$done"
fi
echo "$done"
