#!/bin/bash
# hosts.sh A B - the first ten minutes on two hosts with RDMA cards: what each has, and what every link
# between them does, in both directions, in one table. Needs ssh to both, `headwater` on both, and an open
# port between them. Ends with 1 where the rdma link could not be measured.
#
#   HEADWATER        the program on the hosts (default headwater)
#   HOSTS_PORT       the port that `headwater doctor --serve` listens on (default 7499)
#   HOSTS_SETTINGS   further flags for both, as in `--set receiver.rdma_device=mlx5_0`
set -uo pipefail

[ $# -eq 2 ] || { echo "usage: $0 HOST HOST" >&2; exit 2; }
headwater=${HEADWATER:-headwater}
port=${HOSTS_PORT:-7499}
settings=${HOSTS_SETTINGS:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

on() { # on HOST COMMAND: there
    ssh -o BatchMode=yes -o ConnectTimeout=10 "$1" "$2"
}

# What a host has: one line for each port, and its limits.
describe='
printf "kernel %s, memlock %s KiB, " "$(uname -r)" "$(ulimit -l)"
printf "libibverbs %s\n" "$(ls /usr/lib/*/libibverbs.so.1.* /usr/lib64/libibverbs.so.1.* 2>/dev/null | sed "s/.*so.//" | head -1)"
for port in /sys/class/infiniband/*/ports/*; do
    [ -e "$port" ] || { echo "no RDMA device"; break; }
    device=$(echo "$port" | cut -d/ -f5)
    net=$(cat "$port"/gid_attrs/ndevs/* 2>/dev/null | sort -u | tr "\n" " ")
    mtu=$(for name in $net; do cat "/sys/class/net/$name/mtu"; done 2>/dev/null | tr "\n" " ")
    v2=$(grep -l v2 "$port"/gid_attrs/types/* 2>/dev/null | wc -l)
    echo "$device:$(basename "$port") $(cat "$port/link_layer"), $(cat "$port/state"), $(cat "$port/rate"), NUMA $(cat "/sys/class/infiniband/$device/device/numa_node" 2>/dev/null), interfaces ${net:-none}, MTU ${mtu:-unknown}, $v2 RoCE v2 GIDs"
done'

for host in "$1" "$2"; do
    echo "== $host"
    on "$host" "$describe" || { echo "FAILED: ssh to $host" >&2; exit 1; }
    # What is wrong, as the doctor sees it; it ends with 1 where something is.
    on "$host" "$headwater $settings doctor" || true
done

measure() { # measure FROM TO PAIRS: rows of the table
    local from=$1 to=$2 pairs=$3 out=$work/measured serving
    # Its first line is the number of its process there, by which it is ended.
    on "$to" "echo \$\$; exec $headwater $settings doctor --serve '[::]:$port'" >"$work/serving" 2>"$work/serving.log" &
    serving=$!
    for _ in $(seq 20); do
        sleep 0.5
        grep -q '^doctor on ' "$work/serving" && break
    done
    on "$from" "$headwater $settings --set augment.rdma_queue_pairs=$pairs doctor --link $to:$port --json" >"$out" 2>"$out.log"
    python3 - "$out" "$from" "$to" "$pairs" <<'PY' || { echo "| $from | $to | $pairs | - | FAILED | $(tail -n 1 "$out.log") |"; }
import json, sys
path, source, target, pairs = sys.argv[1:]
for check in json.load(open(path))["checks"]:
    if check["check"].startswith("link"):
        name = check["check"].removeprefix("link").strip() or "-"
        found = check["found"].replace("|", "/").replace("\n", " ")
        print(f"| {source} | {target} | {pairs} | {name} | {check['verdict']} | {found} |")
PY
    on "$to" "kill $(head -n 1 "$work/serving")"
    wait "$serving" 2>/dev/null
}

{
    echo "| from | to | queue pairs | link | verdict | found |"
    echo "| --- | --- | --- | --- | --- | --- |"
    for pairs in 1 4; do
        measure "$1" "$2" "$pairs"
        measure "$2" "$1" "$pairs"
    done
} | tee "$work/table"
grep -q '| rdma | ok |' "$work/table"
