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
# HEADWATER_GPU_ONLY: steps, which run in this order. The first call makes these:
#   scaling       images/s of whole back ends on 8, 12 and 16 cores (HEADWATER_GPU_CORES), in two types
#   parity        each operation, preset and type, and decoded pixels, byte for byte beside the processor
#   epoch         an epoch by workers on the GPU beside one on the processor, also to a receiver's GPU and decoded there
#   receiver      batches on the GPU in PyTorch's hands; needs PyTorch and this package's wheel
#   kernels       each kernel, and copies to a receiver's GPU, by the GPU's clock
#   ncu           kernels by Nsight Compute
#   first         the first pass beside later ones; kernels must find the entry points
#   link          receiver and workers over the `cuda` link; workers are killed and started again in mid-epoch
#   dali          the whole back end beside NVIDIA DALI's, which is tuned first; needs DALI
#   training      a training with four loaders (benches/training_gpu.py); needs PyTorch, torchvision and the wheel
#   nccl          `verify_interconnect` over NCCL with one rank; needs the same
#   float8        Transformer Engine's `Float8Tensor` made and used; needs Transformer Engine
#   sanitizer     compute-sanitizer's tools (HEADWATER_GPU_TOOLS) on `parity`
# and these are made where they are named:
#   start         kernels compiled and kept; a second start without compiling
#   types         whole back ends in FP8
#   nvjpeg        its pixels and its speed
#   memory, nvjpeg-memory   HEADWATER_GPU_SECONDS (300) with each decoder, in which memory must stay flat; each by itself
# Each step has a share of the time that is left, by the numbers below, and is ended at its end. What a step leaves over
# goes to those after it. All ends within HEADWATER_GPU_LIMIT_SECONDS (570).
#
# This package's wheel is taken from out/wheels or out/gpu/wheels, where DALI's may lie too: whole, or in pieces
# NAME.whl.000, NAME.whl.001 and so on (`split -a 3 -d`).
#
# In short, to see that all of this works where there is no GPU to be measured: HEADWATER_GPU_IMAGES (64) are
# compared, parts have HEADWATER_GPU_PART (32) samples, HEADWATER_GPU_ROUNDS (50) of kernels are timed, an epoch's batches have HEADWATER_GPU_BATCH (16)
# samples, HEADWATER_GPU_SPEED_SECONDS (3) is the length of each measurement, `link` kills workers after
# HEADWATER_GPU_BATCHES (100) of HEADWATER_GPU_PRESET (dinov2), memory is looked at each HEADWATER_GPU_LOOK_SECONDS (1), of the process it may grow by
# HEADWATER_GPU_GROWTH_MIB (64). Whole back ends take HEADWATER_GPU_MEMORY_BYTES (32 GiB) of the GPU, and
# HEADWATER_AUGMENT__THREADS threads, or twice as many as there are cores.
set -uo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
program=${1:-}
photos=${2:-$top/tests/data/photos}
out=${3:-${OUT:-$top/out/gpu}}
limit=${HEADWATER_GPU_LIMIT_SECONDS:-570}
seconds=${HEADWATER_GPU_SECONDS:-300}
images=${HEADWATER_GPU_IMAGES:-64}
rounds=${HEADWATER_GPU_ROUNDS:-50}
part=${HEADWATER_GPU_PART:-32}
batch=${HEADWATER_GPU_BATCH:-16}
speed_seconds=${HEADWATER_GPU_SPEED_SECONDS:-3}
preset=${HEADWATER_GPU_PRESET:-dinov2}
# A part of 32 photos takes 105 MB of each thread's share.
memory_bytes=${HEADWATER_GPU_MEMORY_BYTES:-34359738368}
look_seconds=${HEADWATER_GPU_LOOK_SECONDS:-1}
growth_mib=${HEADWATER_GPU_GROWTH_MIB:-64}
# Seconds that each step may take where all take theirs.
first_call='scaling:80 parity:55 epoch:25 receiver:30 kernels:20 ncu:40 first:30 link:50 dali:100 training:110 nccl:15
    float8:10 sanitizer:60'
by_name='start:20 types:30 nvjpeg:60 memory:310 nvjpeg-memory:310'
steps=$(printf '%s ' $first_call $by_name | sed -E 's/:[0-9]+//g')
only=${HEADWATER_GPU_ONLY:-$(printf '%s ' $first_call | sed -E 's/:[0-9]+//g')}
# Seconds for what precedes the steps.
before_steps=40
not_run=77

for name in $only; do
    case " $steps " in *" $name "*) ;; *) echo "HEADWATER_GPU_ONLY: \`$name\` is none of: $steps" >&2; exit 2 ;; esac
done
for built in "$top/out/gpu/headwater" "$top/target/release/headwater" "$top/target/debug/headwater"; do
    [ -n "$program" ] || [ ! -x "$built" ] || program=$built
done
[ -n "$program" ] || { echo "no program: give its path, or carry it to out/gpu/headwater" >&2; exit 2; }
program=$(realpath "$(command -v "$program")") || exit 2
# The wheel's loaders start it, too.
export HEADWATER_PROGRAM=$program
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
for folder in /opt/nvidia/nsight-compute/*/; do
    [ ! -x "$folder/ncu" ] || PATH=$PATH:$folder
done

# The kernels are compiled once for all steps; nobody's cache is used or left behind.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
headwater=("$program" --log warn --set augment.cuda_cache_dir="$work/cubin")
bench=("${headwater[@]}" bench gpu --photos "$photos" --part "$part")

# left [SHARE]: seconds until the end of a step's time, or so large a part of them; at least 1.
left() {
    local seconds=$(((deadline - SECONDS) / ${1:-1}))
    echo $((seconds > 1 ? seconds : 1))
}

# within COMMAND..: ended at the end of the step's time.
within() { timeout -k 5 "$(left)" "$@"; }

bench() { within "${bench[@]}" "$@"; }

# skip WHY: ends a step that cannot be run here.
skip() {
    echo "NOT RUN: $*"
    return "$not_run"
}

# share NAME: the seconds in `first_call` or `by_name`, 0 of a step that is not to be run.
share() {
    local entry
    case " $only " in *" $1 "*) ;; *) echo 0 && return ;; esac
    for entry in $first_call $by_name; do
        [ "${entry%:*}" != "$1" ] || echo "${entry#*:}"
    done
}

# shown COMMAND..: runs it beside this shell and shows what it says. One that does not end with its time is killed.
shown() {
    local running
    : >"$work/said"
    set -m
    "$@" >"$work/said" 2>&1 </dev/null &
    running=$!
    set +m
    timeout "$(($(left) + 15))" tail -n +1 -s 0.2 --pid="$running" -f "$work/said"
    kill -0 "$running" 2>/dev/null && kill -KILL -- "-$running"
    wait "$running"
}

# step NAME COMMAND..: one that fails fails the whole, and the others run all the same.
step() {
    local name=$1 began=$SECONDS own status result
    shift
    own=$(share "$name")
    [ "$own" -gt 0 ] || return
    deadline=$((SECONDS + (limit - SECONDS) * own / shares))
    shares=$((shares - own))
    printf '\n# %s\n\n' "$name"
    if [ $((deadline - SECONDS)) -le 1 ]; then
        skip "the $limit s of HEADWATER_GPU_LIMIT_SECONDS are over: HEADWATER_GPU_ONLY=$name" | tee "$work/said"
        status=$not_run
    else
        shown "$@"
        status=$?
    fi
    case $status in
        0) result=passed ;;
        "$not_run") result=$(grep '^NOT RUN' "$work/said" | tail -n 1) ;;
        *)
            result="FAILED: status $status"
            [ "$(left)" -gt 1 ] || result="$result, at the end of its $((deadline - began)) s"
            echo "$name: $result"
            failed="$failed $name"
            ;;
    esac
    echo "| $name | $result | $((SECONDS - began)) | $((deadline - began)) |" >>"$work/summary"
}

. "$top/tests/gpu/services.sh"
. "$top/tests/gpu/tools.sh"
. "$top/tests/gpu/steps.sh"

everything() {
    local name
    failed=
    shares=0
    for name in $only; do shares=$((shares + $(share "$name"))); done
    deadline=$((SECONDS + (limit < before_steps ? limit : before_steps)))
    echo '# machine'
    echo
    within nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
    echo "$(nproc) cores; $("$program" --version)"
    echo
    within "$program" --log error doctor 2>&1 | grep -iE 'gpu|cuda|nv|jpeg'
    carried
    step scaling scaling
    step parity bench --only parity --images "$images"
    step epoch with_nodes epoch
    step receiver receiver
    step kernels bench --only kernels,receiver --rounds "$rounds"
    step ncu ncu_kernels
    step first first_pass
    step link with_nodes link
    step dali dali
    step training training
    step nccl one_rank nccl
    step float8 one_rank float8
    step sanitizer sanitizer
    step start start
    step types types
    step nvjpeg nvjpeg
    step memory memory
    step nvjpeg-memory nvjpeg_memory
    printf '\n# summary\n\n| step | result | s | of at most |\n| --- | --- | ---: | ---: |\n'
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
