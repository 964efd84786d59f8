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

# The processors that this shell may use, one a line.
allowed() {
    awk -F '[\t,]' '/^Cpus_allowed_list/ {
        for (i = 2; i <= NF; i++) {
            split($i, ends, "-")
            last = ends[2] == "" ? ends[1] : ends[2]
            for (n = ends[1] + 0; n <= last + 0; n++) print n
        }
    }' /proc/self/status
}

# A thread waits for the GPU while another one works, so that more threads than cores are faster.
threads_for() { echo "${HEADWATER_AUGMENT__THREADS:-$((2 * $1))}"; }

# on_cores CORES THREADS TYPE SETTINGS..: `bench gpu` on so many cores; rows of whole back ends as cells, which are also kept
# in $work/cells.
on_cores() {
    local cores=$1 threads=$2 dtype=$3
    shift 3
    HEADWATER_RECIPE__DTYPE=$dtype within taskset -c "$(allowed | head -n "$cores" | paste -sd ,)" "${headwater[@]}" \
        --set augment.threads="$threads" --set augment.cuda_memory_bytes="$memory_bytes" \
        bench gpu --photos "$photos" --part "$part" "$@" >"$work/on_cores" 2>&1 || { tail -n 5 "$work/on_cores"; return 1; }
    awk -F '|' '/^\| whole back end/ { printf "%s |", $3 }' "$work/on_cores" >"$work/cells"
    [ -s "$work/cells" ] || { echo "FAILED: no row of a whole back end in"; cat "$work/on_cores"; return 1; }
}

# Whether cores bound the back end, or the GPU, or the bus: what rates become with fewer cores and with half of the bytes.
# Meanwhile `nvidia-smi` looks at the GPU's use and at the bus once a second.
scaling() {
    local cores watch dtype threads status=0 counts='' each=$(((speed_seconds + 1) / 2))
    command -v taskset >/dev/null || { skip 'no taskset in PATH'; return; }
    for cores in ${HEADWATER_GPU_CORES:-8 12 16}; do
        if [ "$cores" -le "$(nproc)" ]; then counts="$counts $cores"; else echo "NOT RUN: $cores cores: there are $(nproc)"; fi
    done
    within nvidia-smi dmon -s ut -d 1 -o T >"$out/scaling-use.txt" 2>/dev/null &
    watch=$!
    printf '\n%s\n%s\n' "| \`dinov2\`, images/s | the processor decodes | kernels, first pass | kernels, later passes |" \
        '| --- | ---: | ---: | ---: |'
    for dtype in bf16 u8; do
        for cores in $counts; do
            threads=$(threads_for "$cores")
            if on_cores "$cores" "$threads" "$dtype" --only back-end --seconds "$each"; then
                echo "| $cores cores, $threads threads, $dtype |$(cat "$work/cells")"
            else
                status=1
            fi
        done
    done
    printf '\n| processor only, `dinov2` in bf16, images/s | first pass | later passes |\n| --- | ---: | ---: |\n'
    for cores in $counts; do
        if on_cores "$cores" "$cores" bf16 --only processor --seconds "$each"; then
            echo "| $cores cores and threads |$(cat "$work/cells")"
        else
            status=1
        fi
    done
    kill "$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
    [ -n "$counts" ] || skip 'none of the numbers of cores'
    return "$status"
}

# Never-seen images beside images whose entry points are known. Kernels that find none leave all to the processor,
# which gives the same bytes: their share is what shows it.
first_pass() {
    local threads
    threads=$(threads_for "$(nproc)")
    within "${headwater[@]}" --set augment.threads="$threads" --set augment.cuda_memory_bytes="$memory_bytes" \
        bench gpu --photos "$photos" --part "$part" --only decode,back-end --seconds "$speed_seconds" | tee "$work/first"
    [ "${PIPESTATUS[0]}" -eq 0 ] || return 1
    awk -F '|' -v least="${HEADWATER_GPU_FOUND_LEAST:-50}" '
        /^\| first pass \|/ { found = $4 + 0; left = $5 + 0; seen = 1 }
        /^\| whole back end, GPU that decodes, first pass/ { first = $3 }
        /^\| whole back end, GPU that decodes, later/ { later = $3 }
        END {
            if (!seen || later + 0 == 0) { print "FAILED: no share of images by kernels that find entries"; exit 1 }
            printf "\nfirst pass: %.2f of later passes; kernels found entries of %.1f %% of the images, and left %.1f %% to the processor\n",
                first / later, found, left
            if (found < least) { print "FAILED: less than " least " %: the processor has done the work of the kernels"; exit 1 }
        }' "$work/first"
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

# Batches on the GPU in PyTorch's hands.
receiver() {
    local shards=("$photos"/*.tar)
    [ -e "${shards[0]}" ] || { skip "no shards in $photos"; return; }
    within python3 "$top/tests/gpu/torch_batches.py" "$program" "${shards[0]}"
}

types() {
    local dtype status=0
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
    within python3 "$top/benches/peers/dali_gpu.py" --decoders first later --threads "$(nproc)" \
        --seconds "$speed_seconds" --tune-seconds 2 --limit $(($(left) * 9 / 10)) --best "$work/dali.json" "$photos" -- "${headwater[@]}"
}

# A training that gets its batches from four loaders in turns, DALI's with the settings that `dali` has found.
training() {
    local tuned=()
    [ ! -s "$work/dali.json" ] || tuned=(--dali "$work/dali.json")
    within python3 "$top/benches/training_gpu.py" --threads "$(nproc)" --limit $(($(left) * 9 / 10)) "${tuned[@]}" "$photos" -- "${headwater[@]}"
}

# one_rank WHAT: see tests/gpu/one_rank.py.
one_rank() {
    local shards=("$photos"/*.tar)
    [ -e "${shards[0]}" ] || { skip "no shards in $photos"; return; }
    within python3 "$top/tests/gpu/one_rank.py" "$1" "${shards[0]}"
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
