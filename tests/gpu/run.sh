#!/bin/bash
# Everything that only a GPU can show: tests/gpu/run.sh [HEADWATER [PHOTOS [OUT]]]
#
# HEADWATER is a built program (default: out/gpu/headwater, else target/release/headwater, else
# target/debug/headwater), PHOTOS a folder of images or shards (default: the tests' own). Needs no cargo
# and no network; the driver must be there, and NVRTC, which is looked for in LD_LIBRARY_PATH, out/gpu/lib,
# beside the CUDA toolkit and in Python's packages; nvJPEG likewise. What is printed also goes to
# OUT/report.md (default: $OUT, else out/gpu), as text for docs/benchmarks/gpu.md; a later call's to report-2.md and so on. A step that fails, hangs or
# cannot be run stops no other; the table at the end says of each how it went. Exit status 1 where bytes
# differ, the processor has done the GPU's work, memory grows or a tool complains.
#
# HEADWATER_GPU_ONLY: steps, in the order of what they are worth, of
#   parity        each operation, preset and type, and decoded pixels, byte for byte beside the processor
#   start         kernels compiled and kept; a second start without compiling
#   rates         images/s: decoding, whole back ends with as many threads as cores, and twice as many
#   epoch         an epoch by a worker on the GPU beside one on the processor, also to a receiver's GPU and decoded there
#   receiver      batches on the GPU in PyTorch's hands; needs PyTorch and this package's wheel
#   speed         kernels, copies to a receiver's GPU, decoding, whole back ends
#   nvjpeg        its pixels and its speed
#   sanitizer     compute-sanitizer's four tools on `parity`
#   dali          the whole back end beside NVIDIA DALI's; needs DALI
#   memory, nvjpeg-memory   HEADWATER_GPU_SECONDS (300) with each decoder, in which memory must stay flat
# Nothing is begun, and what runs is ended, after HEADWATER_GPU_LIMIT_SECONDS (540). The last two want nearly
# all of that: run the others first, then each of the two by itself.
#
# This package's wheel is taken from out/wheels or out/gpu/wheels, where DALI's may lie too: whole, or in pieces
# NAME.whl.000, NAME.whl.001 and so on (`split -a 3 -d`).
#
# In short, to see that all of this works where there is no GPU to be measured: HEADWATER_GPU_IMAGES (64) are
# compared, parts have HEADWATER_GPU_PART (32) samples, HEADWATER_GPU_ROUNDS (50) of kernels are timed, an epoch's batches have HEADWATER_GPU_BATCH (16)
# samples, HEADWATER_GPU_SPEED_SECONDS (10) is the length of each measurement, memory is looked at each
# HEADWATER_GPU_LOOK_SECONDS (1), of the process it may grow by HEADWATER_GPU_GROWTH_MIB (64). `rates` may take
# HEADWATER_GPU_MEMORY_BYTES (32 GiB) of the GPU.
set -uo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
program=${1:-}
photos=${2:-$top/tests/data/photos}
out=${3:-${OUT:-$top/out/gpu}}
limit=${HEADWATER_GPU_LIMIT_SECONDS:-540}
seconds=${HEADWATER_GPU_SECONDS:-300}
images=${HEADWATER_GPU_IMAGES:-64}
rounds=${HEADWATER_GPU_ROUNDS:-50}
part=${HEADWATER_GPU_PART:-32}
batch=${HEADWATER_GPU_BATCH:-16}
speed_seconds=${HEADWATER_GPU_SPEED_SECONDS:-10}
look_seconds=${HEADWATER_GPU_LOOK_SECONDS:-1}
growth_mib=${HEADWATER_GPU_GROWTH_MIB:-64}
steps='parity start rates epoch receiver speed nvjpeg sanitizer dali memory nvjpeg-memory'
only=${HEADWATER_GPU_ONLY:-$steps}
not_run=77

for name in $only; do
    case " $steps " in *" $name "*) ;; *) echo "HEADWATER_GPU_ONLY: \`$name\` is none of: $steps" >&2; exit 2 ;; esac
done
for built in "$top/out/gpu/headwater" "$top/target/release/headwater" "$top/target/debug/headwater"; do
    [ -n "$program" ] || [ ! -x "$built" ] || program=$built
done
[ -n "$program" ] || { echo "no program: give its path, or carry it to out/gpu/headwater" >&2; exit 2; }
mkdir -p "$out"

# Folders of CUDA's libraries that the loader would not find on its own.
libraries() {
    local folder toolkit
    toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
    for folder in "$top/out/gpu/lib" "$toolkit/lib64" "$toolkit/targets/x86_64-linux/lib" \
        /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/local/nvidia/lib64; do
        [ -d "$folder" ] && printf ':%s' "$folder"
    done
    python3 - 2>/dev/null <<'PYTHON'
import glob, os
try:
    import nvidia
    for root in nvidia.__path__:
        for name in glob.glob(os.path.join(root, "*", "lib")):
            print(end=":" + name)
except ImportError:
    pass
PYTHON
}
# What the caller names comes first. An empty place in the list would be the current folder.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}$(libraries)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}
export LD_LIBRARY_PATH PATH=$PATH:/usr/local/cuda/bin

# The kernels are compiled once for all steps; nobody's cache is used or left behind.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
headwater=("$program" --log warn --set augment.cuda_cache_dir="$work/cubin")
bench=("${headwater[@]}" bench gpu --photos "$photos" --part "$part")

# left [SHARE]: seconds until the end, or so large a part of them; at least 1.
left() {
    local seconds=$(((limit - SECONDS) / ${1:-1}))
    echo $((seconds > 1 ? seconds : 1))
}

# within COMMAND..: ended at the limit.
within() { timeout -k 10 "$(left)" "$@"; }

bench() { within "${bench[@]}" "$@"; }

# skip WHY: ends a step that cannot be run here.
skip() {
    echo "NOT RUN: $*"
    return "$not_run"
}

# step NAME COMMAND..: one that fails fails the whole, and the others run all the same.
step() {
    local name=$1 began=$SECONDS status result
    shift
    case " $only " in *" $name "*) ;; *) return ;; esac
    printf '\n# %s\n\n' "$name"
    if [ "$(left)" -le 1 ]; then
        skip "the $limit s of HEADWATER_GPU_LIMIT_SECONDS are over: HEADWATER_GPU_ONLY=$name" | tee "$work/said"
        status=$not_run
    else
        "$@" 2>&1 | tee "$work/said"
        status=${PIPESTATUS[0]}
    fi
    case $status in
        0) result=passed ;;
        "$not_run") result=$(grep '^NOT RUN' "$work/said" | tail -n 1) ;;
        *)
            result="FAILED: status $status"
            [ "$(left)" -gt 1 ] || result="$result, at the limit of $limit s"
            echo "$name: $result"
            failed="$failed $name"
            ;;
    esac
    echo "| $name | $result | $((SECONDS - began)) |" >>"$work/summary"
}

. "$top/tests/gpu/steps.sh"

everything() {
    failed=
    echo '# machine'
    echo
    within nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
    echo "$(nproc) cores; $("$program" --version)"
    echo
    within "$program" --log error doctor 2>&1 | grep -iE 'gpu|cuda|nv|jpeg'
    carried
    step parity bench --only parity --images "$images"
    step start start
    step rates rates
    step epoch epoch
    step receiver receiver
    step speed speed
    step nvjpeg nvjpeg
    step sanitizer sanitizer
    step dali dali
    step memory memory
    step nvjpeg-memory nvjpeg_memory
    printf '\n# summary\n\n| step | result | s |\n| --- | --- | ---: |\n'
    cat "$work/summary"
    echo
    if [ -z "$failed" ]; then echo 'all that ran passed'; else echo "FAILED:$failed"; fi
    [ -z "$failed" ]
}

report=$out/report.md
number=2
while [ -e "$report" ]; do
    report=$out/report-$number.md
    number=$((number + 1))
done
everything 2>&1 | tee "$report"
exit "${PIPESTATUS[0]}"
