#!/bin/bash
# link.sh HEADWATER - on a host with an RDMA port: `headwater doctor` measures the rdma link between two
# processes, and a receiver that lists ucx behind rdma offers rdma alone. Fails where rdma is not
# what was used.
#
#   LINK_GB_PER_S_MAX   more than the port can do (default 100)
set -euo pipefail
. "$(dirname "$0")/processes.sh"

line() { # line FILE PATTERN: waits for one, and prints it
    for _ in $(seq 1200); do
        grep -m1 -E "$2" "$1" 2>/dev/null && return
        sleep 0.05
    done
    fail "no line like $2 in $(basename "$1")"
}

# The doctor names the link, with figures that can be.
start serving doctor --serve 127.0.0.1:0
address=$(line "$work/serving.out" '^doctor on ' | cut -d' ' -f3)
"$headwater" doctor --link "$address" --json >"$work/doctor.json" 2>"$work/doctor.log" || fail "the doctor ended with $?"
python3 - "$work/doctor.json" "${LINK_GB_PER_S_MAX:-100}" <<'PY' || fail "the doctor says: $(cat "$work/doctor.json")"
import json, re, sys
checks = json.load(open(sys.argv[1]))["checks"]
(rdma,) = [check for check in checks if check["check"] == "link rdma"]
assert rdma["verdict"] == "ok", rdma
trip, rate = re.match(r"round trip (\d+) us, ([\d.]+) GB/s", rdma["found"]).groups()
assert 0 < int(trip) < 1_000_000, rdma
assert 0.001 < float(rate) < float(sys.argv[2]), rdma
assert not [check for check in checks if check["check"] == "link ucx"], checks
print("doctor: link rdma:", rdma["found"])
PY

# Both links are listed: rdma is taken, ucx not offered, and no slot is registered for it.
cat >"$work/headwater.toml" <<TOML
[storage]
index_dir = "$work/index"
listen = "127.0.0.1:7421"
[[dataset]]
name = "photos"
shards = "$here/tests/data/photos/photos-{000000..000003}.tar"
[recipe]
preset = "imagenet-train"
[augment]
storage = ["127.0.0.1:7421"]
threads = 1
links = ["rdma", "ucx", "tcp"]
[receiver]
storage = ["127.0.0.1:7421"]
workers = ["127.0.0.1:7422"]
links = ["rdma", "ucx", "tcp"]
epochs = 1000
batch_samples = 8
part_samples = 2
TOML
counted() { # counted NAME: one number of the receiver's
    awk -v name="$1" '$1 == name { print $2 }' "$work/metrics.txt"
}
measure() { # what the receiver counts
    exec 3<>/dev/tcp/127.0.0.1/7423
    printf 'GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n' >&3
    cat <&3 >"$work/metrics.txt"
    exec 3>&-
}
start storage --config "$work/headwater.toml" storage
start augment --config "$work/headwater.toml" augment --listen 127.0.0.1:7422
start receive --config "$work/headwater.toml" --set telemetry.metrics_listen=127.0.0.1:7423 \
    receive --step-ms 50 --digests "$work/receive.json"
until_batches receive 40
grep -q 'the ucx link is not offered: rdma, listed before it, is' "$work/receive.log" || fail "ucx was offered"
grep -q 'worker joined.*link=.\?rdma' "$work/receive.log" || fail "rdma was not used"
# Slots are made as they are needed, each registered once; besides, the messages of the pair that tries
# the port out and of the worker's pair, and its probe.
for _ in $(seq 20); do
    measure
    slots=$(counted headwater_receiver_slots)
    registered=$(counted 'headwater_link_registrations_total{link="rdma"}')
    [ "$registered" = $((slots + 3)) ] && break
done
[ "$registered" = $((slots + 3)) ] || fail "$registered registrations for $slots slots and one worker"
[ "$slots" -lt 40 ] || fail "as many slots as batches"
if grep -q 'headwater_link_registrations_total{link="ucx"}' "$work/metrics.txt"; then fail "registered for ucx"; fi
echo "ucx behind rdma: not offered; $registered registrations for $slots slots and one worker, in 40 batches"
echo "2 passed; 0 failed"
