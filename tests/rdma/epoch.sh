#!/bin/bash
# epoch.sh HEADWATER - three tiers on one host with an RDMA port: an epoch over tcp, the same over
# rdma, and again over rdma while workers and receiver are stopped and killed in the middle. Every
# batch must have the same digests. Fails where the rdma link is not the one that was used.
#
#   EPOCH_LINK     the link instead of rdma: ucx
#   EPOCH_QUEUE_PAIRS  of each worker's rdma link (default 1)
#   EPOCH_GPU      folder of the emulated CUDA driver: all receivers but that over tcp have their batches in
#                  the memory of its GPU, and the card writes there (GPUDirect)
#   EPOCH_PRESET   recipe (default dinov2)
#   EPOCH_HEARTBEAT_MS  (default 300); who is stopped, is so for five of them
#   EPOCH_SHARDS   of tests/data/photos (default all: {000000..000003})
set -euo pipefail
. "$(dirname "$0")/processes.sh"

link=${EPOCH_LINK:-rdma}
storage=127.0.0.1:7401
stopped_s=$((1 + 5 * ${EPOCH_HEARTBEAT_MS:-300} / 1000))
cat >"$work/headwater.toml" <<TOML
[storage]
index_dir = "$work/index"
listen = "$storage"
[[dataset]]
name = "photos"
shards = "$here/tests/data/photos/photos-${EPOCH_SHARDS:-{000000..000003\}}.tar"
[recipe]
preset = "${EPOCH_PRESET:-dinov2}"
[augment]
storage = ["$storage"]
threads = 1
links = ["$link", "tcp"]
[links]
rdma_queue_pairs = ${EPOCH_QUEUE_PAIRS:-1}
[receiver]
storage = ["$storage"]
workers = ["127.0.0.1:7411", "127.0.0.1:7412"]
heartbeat_ms = ${EPOCH_HEARTBEAT_MS:-300}
hedge_floor_ms = 60000
hedge_first_ms = 60000
epochs = 2
batch_samples = 8
part_samples = 2
seed = 7
TOML

configured() { # configured NAME ARGUMENT..: starts a tier
    start "$1" --config "$work/headwater.toml" "${@:2}"
}
receive() { # receive NAME LINK [STEP_MS]: starts a receiver whose digests go to NAME.json
    local options=()
    [ -z "${EPOCH_GPU:-}" ] || [ "$2" = tcp ] ||
        options=(--set 'receiver.device="cuda:0"' --set 'receiver.gpudirect="on"')
    LD_LIBRARY_PATH=${EPOCH_GPU:-} EMULATED_CUDA_PEERMEM=1 \
        configured "$1" "${options[@]}" receive --links "$2" --step-ms "${3:-0}" --digests "$work/$1.json"
}
whole() { # whole NAME PID LINK [mixed]: it ended well, by this link alone, with the same batches as over tcp
    wait "$2" || fail "$1 ended with $?"
    python3 - "$work/tcp.json" "$work/$1.json" <<'PY' || fail "$1: other batches than over tcp"
import json, sys
def read(path):
    rows = [json.loads(line) for line in open(path)]
    return [(r["epoch"], r["step"], r["digests"]) for r in rows]
one, other = map(read, sys.argv[1:])
assert len(one) > 10, len(one)
assert one == other, [a[:2] for a, b in zip(one, other) if a != b] or (len(one), len(other))
PY
    grep -q "worker joined.*link=.\?$3" "$work/$1.log" || fail "$1 did not use $3"
    if [ "$3" != tcp ] && [ "${4:-}" != mixed ] && grep -q 'worker joined.*link=.\?tcp' "$work/$1.log"; then fail "$1 used tcp"; fi
    if [ -n "${EPOCH_GPU:-}" ] && [ "$3" != tcp ]; then
        grep -q "rdma link writes to the GPU's memory" "$work/$1.log" || fail "$1 wrote to the host"
    fi
    echo "same batches: $1 ($(batches "$1"))"
}

configured storage storage
configured one augment --listen 127.0.0.1:7411
one=$started
configured two augment --listen 127.0.0.1:7412
two=$started

receive tcp tcp
whole tcp "$started" tcp
receive "over-$link" "$link"
whole "over-$link" "$started" "$link"

# A worker is killed in mid-write, and another takes its place.
receive worker-killed "$link" 20
receiver=$started
until_batches worker-killed 4
kill -KILL "$one"
configured three augment --listen 127.0.0.1:7411
one=$started
whole worker-killed "$receiver" "$link"

# A worker stops in mid-write for longer than three heartbeats: it is given up, its queue pairs are
# destroyed, its leases go to the other; when it goes on it finds its session gone and begins anew.
receive worker-stopped "$link" 20
receiver=$started
until_batches worker-stopped 4
kill -STOP "$two"
sleep "$stopped_s"
kill -CONT "$two"
whole worker-stopped "$receiver" "$link"
grep -q 'silent for' "$work/worker-stopped.log" || fail "nobody missed the stopped worker"

# The receiver stops for as long: the workers let go of it, and it takes them up again.
receive receiver-stopped "$link" 20
receiver=$started
until_batches receiver-stopped 4
kill -STOP "$receiver"
sleep "$stopped_s"
kill -CONT "$receiver"
whole receiver-stopped "$receiver" "$link"

# The receiver is killed in mid-write: the workers serve the next one.
receive receiver-killed "$link" 20
until_batches receiver-killed 4
kill -KILL "$started"
receive after-receiver-killed "$link"
whole after-receiver-killed "$started" "$link"

# Parts of one batch come by the card to the GPU and over tcp to the host.
scenes=6
if [ -n "${EPOCH_GPU:-}" ]; then
    kill -KILL "$two"
    configured four --set 'augment.links=["tcp"]' augment --listen 127.0.0.1:7412
    two=$started
    receive both-ways "$link,tcp" 20
    whole both-ways "$started" "$link" mixed
    grep -q 'worker joined.*link=.\?tcp' "$work/both-ways.log" || fail "both-ways did not use tcp"
    scenes=7
fi

for pid in "$one" "$two"; do kill -0 "$pid" || fail "a worker has gone"; done
echo "$scenes passed; 0 failed"
