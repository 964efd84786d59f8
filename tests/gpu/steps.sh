# The steps of tests/gpu/run.sh, which reads this and says what each of them is.
# shellcheck shell=bash disable=SC2154

# Python's packages that were carried along; one that does not fit this Python leaves the others alone.
carried() {
    local first wheel
    mkdir -p "$work/wheels"
    for first in "$top"/out/gpu/wheels/*.whl.000; do
        [ -e "$first" ] && cat "${first%000}"[0-9][0-9][0-9] >"$work/wheels/$(basename "${first%.000}")"
    done
    for wheel in "$top"/out/wheels/*.whl "$top"/out/gpu/wheels/*.whl; do
        [ -e "$wheel" ] && cp "$wheel" "$work/wheels/"
    done
    for wheel in "$work"/wheels/*.whl; do
        case $wheel in *"$(uname -m)".whl | *-any.whl) ;; *) continue ;; esac
        within python3 -m pip install --quiet --no-index --no-deps --no-compile --target "$work/python" "$wheel" ||
            echo "NOT INSTALLED: $(basename "$wheel")"
    done
    export PYTHONPATH=$work/python${PYTHONPATH:+:$PYTHONPATH}
}

# What a first run is asked for: whether the GPU pays, and what bounds it. A thread waits for the GPU while another one
# works, so that more threads than cores may be faster.
rates() {
    local threads memory_bytes status=0
    # A part of 32 photos takes 105 MB of each thread's share.
    memory_bytes=${HEADWATER_GPU_MEMORY_BYTES:-34359738368}
    bench --only decode --seconds 2 || status=1
    for threads in "$(nproc)" $(($(nproc) * 2)); do
        printf '\n%s threads\n' "$threads"
        within "${headwater[@]}" --set augment.threads="$threads" --set augment.cuda_memory_bytes="$memory_bytes" bench gpu --photos "$photos" --only back-end \
            --seconds 3 || status=1
    done
    bench --only processor --seconds 3 || status=1
    return "$status"
}

# With a cache of its own: what worker and receiver have compiled is there the next time.
start() {
    local time began
    for time in first second; do
        began=$(date +%s%N)
        within "$program" --log warn --set augment.cuda_cache_dir="$work/kept" \
            bench gpu --photos "$photos" --only receiver --rounds 1 >/dev/null || return 1
        echo "- $time start, with a batch copied: $((($(date +%s%N) - began) / 1000000)) ms"
    done
    [ "$(find "$work/kept" -name '*.cubin' | wc -l)" -eq 2 ] || { echo 'the kernels were not kept'; return 1; }
}

# node NAME ARGUMENTS..: one of the program's services, whose address goes to $address and process to $nodes.
node() {
    local log=$work/$1.log
    shift
    : >"$log"
    timeout -k 10 "$(left)" "${headwater[@]}" "$@" --listen 127.0.0.1:0 >"$log" 2>&1 &
    nodes="$nodes $!"
    until address=$(grep -o 'listening on [^ ]*' "$log" | head -n 1) && [ -n "$address" ]; do
        kill -0 "$!" 2>/dev/null || { cat "$log"; return 1; }
        sleep 0.1
    done
    address=${address#listening on }
}

# take NAME WORKER ARGUMENTS..: an epoch's digests.
take() {
    local name=$1 worker=$2
    shift 2
    within "${headwater[@]}" receive --storage "$storage" --workers "$worker" --dataset "photos=$shard" \
        --batch "$batch" --epochs 1 --digests "$work/$name.json" "$@" >"$work/$name.log" 2>&1 ||
        { tail -n 5 "$work/$name.log"; return 1; }
    grep -o '"digests":\[[^]]*\]' "$work/$name.json" >"$work/$name.digests"
}

epoch() {
    local status
    epoch_of_two
    status=$?
    # shellcheck disable=SC2086
    [ -z "$nodes" ] || kill $nodes 2>/dev/null
    return "$status"
}

epoch_of_two() {
    local shards=("$photos"/*.tar) shard address storage cpu gpu decoding name
    nodes=
    shard=${shards[0]}
    [ -e "$shard" ] || { skip "no shards in $photos"; return; }
    node storage storage --index-dir "$work" --dataset "photos=$shard" || return 1
    storage=$address
    node cpu augment --storage "$storage" --set augment.backend=cpu || return 1
    cpu=$address
    node gpu augment --storage "$storage" --set augment.backend=cuda --set augment.cuda_decode=host || return 1
    gpu=$address
    node decoding augment --storage "$storage" --set augment.backend=cuda --set augment.cuda_decode=device || return 1
    decoding=$address
    take on_processor "$cpu" && take on_gpu "$gpu" && take to_gpu "$gpu" --set receiver.device=cuda:0 || return 1
    # Kernels decode in both epochs. In the first one they also find the entry points, which the second one has from the start.
    take first_decoding "$decoding" && take decoding "$decoding" || return 1
    for name in on_gpu to_gpu first_decoding decoding; do
        cmp "$work/on_processor.digests" "$work/$name.digests" || return 1
    done
    ! grep 'the device failed' "$work/gpu.log" "$work/decoding.log" || return 1
    echo "batches by workers on the GPU, also to a receiver's GPU and decoded there: no sample differs"
}

# Batches on the GPU in PyTorch's hands.
receiver() {
    local shards=("$photos"/*.tar)
    [ -e "${shards[0]}" ] || { skip "no shards in $photos"; return; }
    within python3 "$top/tests/gpu/torch_batches.py" "$program" "${shards[0]}"
}

speed() {
    local part dtype status=0
    for part in kernels receiver decode back-end processor; do
        bench --only "$part" --rounds "$rounds" --seconds "$speed_seconds" || { echo "FAILED: $part"; status=1; }
    done
    for dtype in fp8_e4m3 mxfp8_e4m3; do
        printf '\n%s\n' "$dtype"
        HEADWATER_RECIPE__DTYPE=$dtype bench --only back-end --seconds "$speed_seconds" ||
            { echo "FAILED: $dtype"; status=1; }
    done
    return "$status"
}

# How busy the JPEG engines are is asked once a second meanwhile.
nvjpeg() {
    local watch status
    nvidia-smi dmon -s u -d 1 >"$out/engines.txt" 2>/dev/null &
    watch=$!
    bench --only nvjpeg --images "$images" --seconds "$speed_seconds" | tee "$work/nvjpeg"
    status=${PIPESTATUS[0]}
    kill "$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
    grep -q '^NOT RUN' "$work/nvjpeg" && return "$not_run"
    echo
    engines "$out/engines.txt"
    return "$status"
}

# What `nvidia-smi dmon -s u` says of the JPEG engines, in a column of its own where the driver has it.
engines() {
    awk '$1 == "#" && !column { for (i = 2; i <= NF; i++) if ($i == "jpg") column = i - 1 }
        $1 != "#" && column && $column ~ /^[0-9]+$/ { if ($column > most) most = $column; if ($column > 95) full++; n++ }
        END {
            if (!n) { print "JPEG engines: not known: nvidia-smi dmon has no column `jpg`"; exit }
            printf "JPEG engines: busy %d %% at most, over 95 %% in %d of %d s\n", most, full, n
        }' "$1"
}

dali() {
    if ! python3 -c 'import numpy, nvidia.dali' 2>/dev/null; then
        echo 'With a network: pip install numpy nvidia-dali-cuda120.'
        echo 'Without: pip download the two elsewhere (--only-binary=:all:, this Python and platform), cut what is'
        echo 'too large to be carried (split -b 50M -a 3 -d NAME.whl NAME.whl.), put all into out/gpu/wheels.'
        skip 'Python has no nvidia.dali'
        return
    fi
    within python3 "$top/benches/peers/dali_gpu.py" --threads "$(nproc)" --seconds "$speed_seconds" "$photos" -- \
        "${headwater[@]}"
}

sanitizer() {
    local tool tools=4 status
    command -v compute-sanitizer >/dev/null || { skip 'no compute-sanitizer in PATH'; return; }
    : >"$out/sanitizer.txt"
    for tool in memcheck racecheck initcheck synccheck; do
        echo "- $tool"
        # A sanitizer slows kernels down by some hundred times: two images, one stream.
        timeout -k 10 "$(left "$tools")" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
            "${headwater[@]}" --set augment.threads=1 --set augment.cuda_memory_bytes=268435456 \
            bench gpu --photos "$photos" --only parity --images 2 >"$work/$tool" 2>&1
        status=$?
        tools=$((tools - 1))
        cat "$work/$tool" >>"$out/sanitizer.txt"
        grep -q 'Device not supported' "$work/$tool" && { skip 'compute-sanitizer: Device not supported'; return; }
        grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|=========.*(Error|Invalid|Race)' "$work/$tool" | head -n 5
        [ "$status" -eq 0 ] && continue
        tail -n 5 "$work/$tool"
        echo "FAILED: $tool: status $status"
        failed_tools="${failed_tools:-} $tool"
    done
    [ -z "${failed_tools:-}" ]
}

memory() { watch_memory "$out/memory.txt"; }

nvjpeg_memory() {
    bench --only nvjpeg --images 1 --seconds 1 | grep '^NOT RUN' && return "$not_run"
    HEADWATER_RECIPE__DECODER=nvjpeg watch_memory "$out/nvjpeg-memory.txt"
}

# watch_memory FILE: memory in use while the back end runs: of the GPU by everybody, of the process alone.
watch_memory() {
    local run file=$1
    if [ "$(left)" -lt $((seconds + 10)) ]; then
        skip "$seconds s do not fit into the $(left) that are left: run it by itself, by HEADWATER_GPU_ONLY"
        return
    fi
    : >"$file"
    "${bench[@]}" --only back-end --seconds "$seconds" &
    run=$!
    while kill -0 "$run" 2>/dev/null; do
        [ "$(left)" -gt 1 ] || kill "$run"
        echo "$(timeout 10 nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1)" \
            "$(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$run/status" 2>/dev/null)" >>"$file"
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
