# The steps of tests/gpu/run.sh that look into kernels, by NVIDIA's tools; it reads this.
# shellcheck shell=bash disable=SC2154

# Kernels of a part as a worker launches them: three ways of the back end, each with a part or two. One thread and little
# memory: what a kernel may write is saved and put back for each of its passes.
ncu_kernels() {
    local status
    command -v ncu >/dev/null || { skip 'no ncu in PATH'; return; }
    within ncu --clock-control none --target-processes all --csv --page details --launch-count 60 \
        --section SpeedOfLight --section LaunchStats --section Occupancy --section WarpStateStats --section SchedulerStats \
        --log-file "$out/ncu.csv" "${headwater[@]}" --set augment.threads=1 --set augment.cuda_memory_bytes=1073741824 \
        bench gpu --photos "$photos" --part "$part" --only back-end --seconds 1 >"$work/ncu" 2>&1
    status=$?
    if grep -hE 'LibraryNotLoaded|ERR_NVGPUCTRPERM' "$out/ncu.csv" "$work/ncu"; then
        skip 'ncu: this machine does not give it the hardware counters'
        return
    fi
    # What it has seen until it was ended is worth a table.
    within python3 "$top/tests/gpu/ncu_table.py" "$out/ncu.csv" || { tail -n 5 "$work/ncu" "$out/ncu.csv"; return 1; }
    [ "$status" -eq 0 ] || echo "ncu: status $status"
    case $status in 0 | 124) ;; *) return 1 ;; esac
}

# sanitizer: each tool has an equal part of what the step has left. One that does not come to its end has complained of nothing
# until then, and is named.
sanitizer() {
    local tool tools=() status began complaint failed_tools='' unfinished=''
    command -v compute-sanitizer >/dev/null || { skip 'no compute-sanitizer in PATH'; return; }
    read -ra tools <<<"${HEADWATER_GPU_TOOLS:-memcheck racecheck initcheck synccheck}"
    : >"$out/sanitizer.txt"
    while [ ${#tools[@]} -gt 0 ]; do
        tool=${tools[0]}
        began=$SECONDS
        # A sanitizer slows kernels down by some hundred times: two images, one stream.
        timeout -k 5 "$(left ${#tools[@]})" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
            "${headwater[@]}" --set augment.threads=1 --set augment.cuda_memory_bytes=268435456 \
            bench gpu --photos "$photos" --only parity --images 2 >"$work/$tool" 2>&1
        status=$?
        tools=("${tools[@]:1}")
        { echo "# $tool"; cat "$work/$tool"; } >>"$out/sanitizer.txt"
        grep -q 'Device not supported' "$work/$tool" && { skip 'compute-sanitizer: Device not supported'; return; }
        # One that is ended by its limit may say so as an error.
        complaint=$(grep -E '=========.*(Error|Invalid|[Rr]ace |Uninitialized|Barrier)' "$work/$tool" |
            grep -v 'terminate successfully' | head -n 5)
        if [ "$status" -eq 0 ]; then
            echo "- $tool: $(grep -E '(ERROR|RACECHECK) SUMMARY' "$work/$tool" | tail -n 1)"
        elif [[ $status =~ ^(124|137)$ && -z $complaint ]]; then
            echo "- $tool: not at its end after $((SECONDS - began)) s, no complaint until then: $(grep '^- ' "$work/$tool" | tail -n 1)"
            unfinished="$unfinished $tool"
        else
            echo "- FAILED: $tool: status $status"
            echo "$complaint"
            tail -n 5 "$work/$tool"
            failed_tools="$failed_tools $tool"
        fi
    done
    [ -z "$failed_tools" ] || return 1
    [ -z "$unfinished" ] || skip "not to the end:$unfinished; HEADWATER_GPU_ONLY=sanitizer HEADWATER_GPU_TOOLS=\"${unfinished# }\""
}
