#!/bin/bash
# Everything that only a GPU can show: tests/gpu/run.sh [HEADWATER [PHOTOS [OUT]]]
#
# HEADWATER is a built program (default: out/gpu/headwater, else target/release/headwater, else
# target/debug/headwater), PHOTOS a folder of images or shards (default: the tests' own). Needs no cargo
# and no network; the driver must be there, and NVRTC, which is looked for beside the CUDA toolkit, in
# Python's packages and in out/gpu/lib. What is printed also goes to OUT/report.md (default: $OUT,
# else out/gpu), as text for docs/benchmarks/gpu.md. Exit status 1 where bytes differ, the processor has
# done the GPU's work, memory grows or a tool complains.
#
# Beside NVIDIA DALI the whole back end is measured where Python has it, or where its wheels were carried
# to out/gpu/wheels: whole, or in pieces NAME.whl.000, NAME.whl.001 and so on (`split -a 3 -d`).
#
# HEADWATER_GPU_SECONDS (300): length of each run that watches memory. HEADWATER_GPU_ONLY: steps, of
# `parity speed nvjpeg dali sanitizer memory nvjpeg-memory receiver`; default all. The last one needs
# Python with PyTorch and this package's wheel, and shards in PHOTOS. In short, to see that all of this works
# where there is no GPU to be measured: HEADWATER_GPU_IMAGES (64) are compared, HEADWATER_GPU_ROUNDS (50) of
# kernels are timed,
# HEADWATER_GPU_SPEED_SECONDS (10) is the length of each measurement, memory is looked at each
# HEADWATER_GPU_LOOK_SECONDS (1), of the process it may grow by HEADWATER_GPU_GROWTH_MIB (64).
set -uo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
program=${1:-}
photos=${2:-$top/tests/data/photos}
out=${3:-${OUT:-$top/out/gpu}}
seconds=${HEADWATER_GPU_SECONDS:-300}
images=${HEADWATER_GPU_IMAGES:-64}
rounds=${HEADWATER_GPU_ROUNDS:-50}
speed_seconds=${HEADWATER_GPU_SPEED_SECONDS:-10}
look_seconds=${HEADWATER_GPU_LOOK_SECONDS:-1}
growth_mib=${HEADWATER_GPU_GROWTH_MIB:-64}
only=${HEADWATER_GPU_ONLY:-parity speed nvjpeg dali sanitizer memory nvjpeg-memory receiver}
failed=0

for built in "$top/out/gpu/headwater" "$top/target/release/headwater" "$top/target/debug/headwater"; do
    [ -n "$program" ] || [ ! -x "$built" ] || program=$built
done
[ -n "$program" ] || { echo "no program: give its path, or carry it to out/gpu/headwater" >&2; exit 2; }
mkdir -p "$out"

# Folders of CUDA's libraries that the loader would not find on its own.
libraries() {
    local folder
    for folder in "$top/out/gpu/lib" /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 \
        /usr/local/nvidia/lib64; do
        [ -d "$folder" ] && printf '%s:' "$folder"
    done
    python3 - 2>/dev/null <<'PYTHON'
import glob, os
try:
    import nvidia
    for root in nvidia.__path__:
        for name in glob.glob(os.path.join(root, "*", "lib")):
            print(name, end=":")
except ImportError:
    pass
PYTHON
}
LD_LIBRARY_PATH=$(libraries)${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH PATH=$PATH:/usr/local/cuda/bin

# The kernels are compiled once for all steps; nobody's cache is used or left behind.
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

# Python's packages that were carried along.
carried() {
    local wheels=$top/out/gpu/wheels first
    ls "$wheels"/*.whl* >/dev/null 2>&1 || return 0
    mkdir -p "$cache/wheels"
    for first in "$wheels"/*.whl.000; do
        [ -e "$first" ] && cat "${first%000}"[0-9][0-9][0-9] >"$cache/wheels/$(basename "${first%.000}")"
    done
    find "$wheels" -name '*.whl' -exec cp {} "$cache/wheels/" \;
    python3 -m pip install --quiet --no-index --no-deps --no-compile --target "$cache/python" \
        "$cache"/wheels/*.whl && export PYTHONPATH=$cache/python:${PYTHONPATH:-}
}

# bench FLAGS..: on the GPU alone.
bench() {
    "$program" --log warn --set augment.cuda_cache_dir="$cache" bench gpu --photos "$photos" "$@"
}

# step NAME COMMAND..: one that fails fails the whole, and the others run all the same.
step() {
    local name=$1
    shift
    case " $only " in *" $name "*) ;; *) return ;; esac
    printf '\n# %s\n\n' "$name"
    "$@" && return
    echo "FAILED: $name"
    failed=1
}

parity() { bench --only parity --images "$images"; }

speed() {
    local dtype status=0
    bench --only kernels,receiver,decode,back-end,processor --rounds "$rounds" --seconds "$speed_seconds" ||
        status=1
    for dtype in fp8_e4m3 mxfp8_e4m3; do
        printf '\n%s\n' "$dtype"
        HEADWATER_RECIPE__DTYPE=$dtype bench --only back-end --seconds "$speed_seconds" || status=1
    done
    return "$status"
}

# How busy the JPEG engines are is asked once a second meanwhile.
nvjpeg() {
    local watch status
    nvidia-smi dmon -s u -d 1 >"$out/engines.txt" 2>/dev/null &
    watch=$!
    bench --only nvjpeg --images "$images" --seconds "$speed_seconds"
    status=$?
    kill "$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
    echo
    engines "$out/engines.txt"
    return "$status"
}

# What `nvidia-smi dmon -s u` says of the JPEG engines, in a column of its own where the driver has it.
engines() {
    awk '$1 == "#" && !column { for (i = 2; i <= NF; i++) if ($i == "jpg") column = i - 1 }
        $1 != "#" && column && $column ~ /^[0-9]+$/ { if ($column > most) most = $column; if ($column > 95) full++; n++ }
        END {
            if (!n) { print "JPEG engines: NOT RUN: nvidia-smi dmon has no column `jpg`"; exit }
            printf "JPEG engines: busy %d %% at most, over 95 %% in %d of %d s\n", most, full, n
        }' "$1"
}

dali() {
    local has='import numpy, nvidia.dali; print(nvidia.dali.__version__)'
    if ! python3 -c "$has" >/dev/null 2>&1; then
        echo 'NOT RUN: Python has no nvidia.dali. With a network: pip install numpy nvidia-dali-cuda120.'
        echo 'Without: pip download the two elsewhere (--only-binary=:all:, this Python and platform), cut what is'
        echo 'too large to be carried (split -b 50M -a 3 -d NAME.whl NAME.whl.), put all into out/gpu/wheels.'
        return 0
    fi
    python3 "$top/benches/peers/dali_gpu.py" --threads "$(nproc)" --seconds "$speed_seconds" "$photos" -- \
        "$program" --log warn --set augment.cuda_cache_dir="$cache"
}

sanitizer() {
    local tool
    if ! command -v compute-sanitizer >/dev/null; then
        echo 'NOT RUN: no compute-sanitizer in PATH'
        return 0
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        echo "- $tool"
        # A sanitizer slows kernels down by some hundred times: two images, one stream.
        timeout 600 compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
            "$program" --log warn --set augment.cuda_cache_dir="$cache" --set augment.threads=1 \
            --set augment.cuda_memory_bytes=268435456 \
            bench gpu --photos "$photos" --only parity --images 2 >"$out/$tool.txt" 2>&1
        local status=$?
        grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|=========.*(Error|Invalid|Race)' "$out/$tool.txt" | head -n 5
        [ "$status" -eq 0 ] || { tail -n 5 "$out/$tool.txt"; echo "$tool: status $status"; return 1; }
    done
}

memory() { watch_memory "$out/memory.txt"; }

nvjpeg_memory() {
    bench --only nvjpeg --images 1 --seconds 1 | grep '^NOT RUN' && return 0
    HEADWATER_RECIPE__DECODER=nvjpeg watch_memory "$out/nvjpeg-memory.txt"
}

# watch_memory FILE: memory in use, once a second while the back end runs: of the GPU by
# everybody, of the process alone.
watch_memory() {
    local run file=$1
    : >"$file"
    bench --only back-end --seconds "$seconds" &
    run=$!
    while kill -0 "$run" 2>/dev/null; do
        local child
        child=$(pgrep -P "$run" | head -n 1)
        echo "$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1)" \
            "$(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/${child:-$run}/status" 2>/dev/null)" \
            >>"$file"
        sleep "$look_seconds"
    done
    wait "$run" || return 1
    # After the first fifth everything has its size.
    awk -v look="$look_seconds" -v growth="$growth_mib" 'NF == 2 { n++; gpu[n] = $1; rss[n] = $2 }
        END {
            first = int(n / 5) + 1
            if (n <= first) { print "too short to judge memory"; exit 1 }
            for (i = first; i <= n; i++) { if (gpu[i] > gmax) gmax = gpu[i]; if (rss[i] > rmax) rmax = rss[i] }
            printf "%d s: GPU memory %d MiB, %d MiB at most; resident %d MiB, %d MiB at most\n",
                n * look, gpu[first], gmax, rss[first], rmax
            exit gmax - gpu[first] > 16 || rmax - rss[first] > growth
        }' "$file"
}

# Batches on the GPU in PyTorch's hands.
receiver() {
    local shards=("$photos"/*.tar) status=0
    if [ ! -e "${shards[0]}" ]; then
        echo "NOT RUN: no shards in $photos"
        return 0
    fi
    python3 "$top/tests/gpu/torch_batches.py" "$program" "${shards[0]}" || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

everything() {
    carried || failed=1
    echo "# machine"
    echo
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv || failed=1
    echo "$(nproc) cores; $("$program" --version)"
    step parity parity
    step speed speed
    step nvjpeg nvjpeg
    step dali dali
    step sanitizer sanitizer
    step memory memory
    step nvjpeg-memory nvjpeg_memory
    step receiver receiver
    echo
    if [ "$failed" -eq 0 ]; then echo "all passed: $only"; else echo 'FAILED: see above'; fi
    return "$failed"
}

everything 2>&1 | tee "$out/report.md"
exit "${PIPESTATUS[0]}"
