# The steps of tests/gpu/run.sh that take epochs from the program's services; it reads this.
# shellcheck shell=bash disable=SC2154

# node NAME ARGUMENTS..: one of the program's services, which listens on $listen where that is set. Its address goes to $address,
# that of its metrics and its process to files.
node() {
    local name=$1
    local log=$work/$name.log
    shift
    : >"$log"
    # shellcheck disable=SC2016
    timeout -k 5 "$(left)" bash -c 'echo $$ >"$0" && exec "$@"' "$work/$name.pid" "${headwater[@]}" \
        --set telemetry.metrics_listen=127.0.0.1:0 --set telemetry.targets_dir="$work/targets" \
        "$@" --listen "${listen:-127.0.0.1:0}" >"$log" 2>&1 &
    # The shell has nothing to say of one that is killed.
    disown "$!"
    until address=$(grep -o 'listening on [^ ]*' "$log" | head -n 1) && [ -n "$address" ]; do
        kill -0 "$!" 2>/dev/null || { cat "$log"; return 1; }
        sleep 0.1
    done
    address=${address#listening on }
    grep -o 'metrics on [^ ]*' "$log" | head -n 1 | cut -d ' ' -f 3 >"$work/$name.metrics"
}

# with_nodes STEP: ends the processes that it has started and not ended, at once: the next step has the GPU and the cores.
with_nodes() {
    local status running address listen=''
    "$1"
    status=$?
    for running in "$work"/*.pid; do
        [ ! -e "$running" ] || kill -KILL "$(cat "$running")" 2>/dev/null
    done
    rm -f "$work"/*.pid
    return "$status"
}

# kill_9 NAME: a node, as the system would end it.
kill_9() {
    kill -KILL "$(cat "$work/$1.pid")"
    rm "$work/$1.pid"
}

# counted NODE COUNTER [LABEL]: a counter of a node, over all labels or over those with LABEL.
counted() {
    # shellcheck disable=SC2016
    within bash -c 'exec 3<>"/dev/tcp/${0%:*}/${0##*:}" || exit 1
        printf "GET /metrics HTTP/1.1\r\nhost: gpu\r\nconnection: close\r\n\r\n" >&3; cat <&3' "$(cat "$work/$1.metrics")" |
        awk -v name="$2" -v label="${3:-}" '
            index($0, name) == 1 && substr($0, length(name) + 1, 1) ~ /[{ ]/ && (label == "" || index($0, label)) { n += $NF }
            END { print n + 0 }'
}

# at_least NUMBER NODE COUNTER [LABEL]: fails where a counter shows that the processor has done what the GPU was to do.
at_least() {
    local found
    found=$(counted "$2" "$3" "${4:-}")
    [ "$found" -ge "$1" ] && return
    echo "FAILED: $2: $3{${4:-}} is $found, and not $1 or more: the processor has done it"
    return 1
}

# never_failed NODE..: no stream of their GPU was given up.
never_failed() {
    local node
    for node in "$@"; do
        ! grep 'the device failed' "$work/$node.log" || return 1
        [ "$(counted "$node" headwater_augment_device_failures_total)" -eq 0 ] || { echo "FAILED: $node: its GPU failed"; return 1; }
    done
}

# receive NAME WORKERS ARGUMENTS..: a receiver that notes the digests of all samples.
receive() {
    local name=$1 workers=$2 status
    shift 2
    : >"$work/$name.json"
    # shellcheck disable=SC2016
    within bash -c 'echo $$ >"$0" && exec "$@"' "$work/$name.pid" "${headwater[@]}" receive --storage "$storage" \
        --workers "$workers" --dataset "photos=$shards" --batch "$batch" --digests "$work/$name.json" "$@" >"$work/$name.log" 2>&1
    status=$?
    rm -f "$work/$name.pid"
    return "$status"
}

# digests NAME: of a receiver that has ended, without the times; how many samples there were goes to $samples.
digests() {
    grep -o '"digests":\[[^]]*\]' "$work/$1.json" >"$work/$1.digests" || { tail -n 5 "$work/$1.log"; return 1; }
    samples=$(grep -oE '[0-9]+ samples?,' "$work/$1.log" | grep -oE '[0-9]+')
}

# take NAME WORKERS ARGUMENTS..: a receiver that comes to its end, and its digests.
take() {
    receive "$@" || { tail -n 5 "$work/$1.log"; return 1; }
    digests "$1"
}

# equal NAME..: epochs that were taken with those names beside the processor's.
equal() {
    local name
    for name in "$@"; do
        cmp "$work/on_processor.digests" "$work/$name.digests" || return 1
    done
}

# start_storage SHARDS: a storage node; its address goes to $storage.
start_storage() {
    shards=$1
    node storage storage --index-dir "$work" --dataset "photos=$shards" || return 1
    storage=$address
    node cpu augment --storage "$storage" --set augment.backend=cpu || return 1
    cpu=$address
}

epoch() {
    local tars=("$photos"/*.tar) shards storage cpu gpu decoding samples half jpegs=headwater_augment_jpeg_images_total
    [ -e "${tars[0]}" ] || { skip "no shards in $photos"; return; }
    start_storage "${tars[0]}" || return 1
    node gpu augment --storage "$storage" --set augment.backend=cuda --set augment.cuda_decode=host || return 1
    gpu=$address
    node decoding augment --storage "$storage" --set augment.backend=cuda --set augment.cuda_decode=device || return 1
    decoding=$address
    take on_processor "$cpu" --epochs 1 && take on_gpu "$gpu" --epochs 1 && take to_gpu "$gpu" --epochs 1 --set receiver.device=cuda:0 || return 1
    at_least $((2 * samples)) gpu headwater_augment_samples_on_device_total || return 1
    # Kernels decode in both epochs. In the first one they also find the entry points, which the second one has from the start.
    # Some photographs are not for them: half of them are.
    half=$(((samples + 1) / 2))
    take first_decoding "$decoding" --epochs 1 && at_least "$half" decoding "$jpegs" 'way="device_found"' || return 1
    take decoding "$decoding" --epochs 1 && at_least "$half" decoding "$jpegs" 'way="device"' || return 1
    at_least $((2 * samples)) decoding headwater_augment_samples_on_device_total || return 1
    equal on_gpu to_gpu first_decoding decoding || return 1
    never_failed gpu decoding || return 1
    echo "of $samples images kernels decoded $(counted decoding "$jpegs" 'way="device_found"') by entries that they found"
    echo "batches by workers on the GPU, also to a receiver's GPU and decoded there: no sample differs"
}

# worker_on_gpu NAME LINKS: one whose kernels decode.
worker_on_gpu() {
    node "$1" augment --storage "$storage" --set augment.backend=cuda --set augment.cuda_decode=device --set "augment.links=$2"
}

# wait_for NUMBER COMMAND..: waits until it prints NUMBER or more, or the receiver over_cuda has ended.
wait_for() {
    local number=$1
    shift
    while [ "$("$@")" -lt "$number" ]; do
        if ! kill -0 "$receiver" 2>/dev/null || [ "$(left)" -le 1 ]; then
            echo "FAILED: no $number by $*"
            tail -n 5 "$work/over_cuda.log"
            return 1
        fi
        sleep 0.05
    done
}

batches_over_cuda() { wc -l <"$work/over_cuda.json"; }

# A receiver and two workers, each a process of its own, over the `cuda` link alone. One worker is killed and started again at
# its address. As soon as it has made something, the other one is killed for good: it makes all the rest.
link() {
    local tars=("$photos"/*.tar) shards storage cpu stays back receiver count samples jpegs=headwater_augment_jpeg_images_total
    local a_while=${HEADWATER_GPU_BATCHES:-100}
    [ -e "${tars[0]}" ] || { skip "no shards in $photos"; return; }
    export HEADWATER_RECIPE__PRESET=$preset
    start_storage "$photos/*.tar" || return 1
    worker_on_gpu stays '["cuda"]' && stays=$address && worker_on_gpu lost '["cuda"]' && back=$address || return 1
    : >"$work/over_cuda.json"
    receive over_cuda "$stays,$back" --epochs 0 --links cuda --set receiver.device=cuda:0 &
    receiver=$!
    wait_for "$a_while" batches_over_cuda && kill_9 lost || return 1
    # Connections that ask whether it is back may have its port for a moment.
    listen=$back
    until worker_on_gpu back '["cuda"]' >"$work/back.failed"; do
        if ! grep -q 'Address already in use' "$work/back.failed" || [ "$(left)" -le 1 ]; then
            cat "$work/back.failed"
            return 1
        fi
        sleep 0.2
    done
    listen=
    wait_for 1 counted back headwater_augment_samples_total && kill_9 stays || return 1
    wait_for $(($(batches_over_cuda) + a_while)) batches_over_cuda || return 1
    at_least 1 back headwater_augment_samples_on_device_total && at_least 1 back "$jpegs" 'way="device_found"' || return 1
    never_failed back || return 1
    kill -TERM "$(cat "$work/over_cuda.pid")"
    wait "$receiver"
    digests over_cuda || return 1
    count=$(batches_over_cuda)
    take on_processor "$cpu" --epochs 0 --batches "$count" && equal over_cuda || return 1
    echo "$count batches over the cuda link, a worker killed and started again in mid-epoch, another one killed: no sample differs"
    link_rates
}

# What a receiver takes in the given time over each link, to its GPU: with `cuda` no byte of a view goes to the host.
link_rates() {
    local links said status=0
    node rates augment --storage "$storage" --set augment.backend=cuda --set 'augment.links=["cuda","shm","tcp"]' \
        --set augment.threads="$(threads_for "$(nproc)")" --set augment.cuda_memory_bytes="$memory_bytes" || return 1
    printf '\n| a receiver with a GPU that drops batches of %s at once, link | |\n| --- | --- |\n' "$((4 * batch))"
    for links in cuda shm tcp; do
        timeout -k 5 "$((2 * speed_seconds))" "${headwater[@]}" receive --storage "$storage" --workers "$address" \
            --dataset "photos=$shards" --batch $((4 * batch)) --epochs 0 --links "$links" --set receiver.device=cuda:0 --set receiver.epoch_end=short_last \
            >"$work/rate.log" 2>&1
        said=$(grep 'samples/s' "$work/rate.log")
        [ -n "$said" ] || [ "$links" != cuda ] || status=1
        echo "| $links | ${said:-NOT RUN: $(tail -n 1 "$work/rate.log")} |"
    done
    return "$status"
}
