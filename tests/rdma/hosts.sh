#!/bin/bash
# hosts.sh A B - the first ten minutes on two hosts with RDMA cards: what each has, and what every link
# between them does, in both directions, in one table; `rdma` with 1, 2 and 4 queue pairs. Needs ssh to both
# by key, `headwater` on both, python3 here, and an open port between them. Ends with 1 where the rdma link
# could not be measured, or does not come near its port's rate.
#
#   HEADWATER        the program on the hosts (default headwater); its path, where ssh does not find it
#   HOSTS_PORT       the port that `headwater doctor --serve` listens on (default 7499)
#   HOSTS_SETTINGS   further flags for both, as in `--set links.rdma_device=mlx5_0`
set -uo pipefail

[ $# -eq 2 ] || { echo "usage: $0 HOST HOST" >&2; exit 2; }
headwater=${HEADWATER:-headwater}
port=${HOSTS_PORT:-7499}
settings=${HOSTS_SETTINGS:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

on() { # on HOST: runs what comes on standard input there, by sh whatever the user's shell
    ssh -o BatchMode=yes -o ConnectTimeout=10 "$1" sh -s
}

address() { # address HOST: as ssh calls it, without the user; in brackets where it is IPv6
    local name
    name=$(ssh -G "$1" | awk '$1 == "hostname" { print $2; exit }')
    case $name in *:*) echo "[$name]" ;; *) echo "$name" ;; esac
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
    echo "== $host ($(address "$host"))"
    on "$host" <<<"$describe" || { echo "FAILED: ssh to $host" >&2; exit 1; }
    # What is wrong, as the doctor sees it; it ends with 1 where something is.
    on "$host" <<<"$headwater $settings doctor" || true
done

failed() { # failed FROM TO LOG: a row that says why
    echo "| $1 | $2 | - | FAILED | $(tail -n 1 "$3" | tr '|' '/') |"
}

measure() { # measure FROM TO: rows of the table
    local from=$1 to=$2 out=$work/measured serving ready=
    : >"$work/serving"
    # It says the number of its process there, by which it is ended. A host without IPv6 has no [::].
    on "$to" >"$work/serving" 2>"$work/serving.log" <<SERVE &
echo "pid \$\$"
if [ -e /proc/net/if_inet6 ]; then every='[::]'; else every=0.0.0.0; fi
exec $headwater $settings doctor --serve "\$every:$port" </dev/null
SERVE
    serving=$!
    for _ in $(seq 40); do
        sleep 0.5
        grep -q '^doctor on ' "$work/serving" && ready=1 && break
        kill -0 "$serving" 2>/dev/null || break
    done
    if [ -n "$ready" ]; then
        on "$from" <<<"$headwater $settings doctor --link '$(address "$to"):$port' --json" >"$out" 2>"$out.log"
        python3 - "$out" "$from" "$to" <<'PY' || failed "$from" "$to" "$out.log"
import json, sys
path, source, target = sys.argv[1:]
for check in json.load(open(path))["checks"]:
    name = check["check"].removeprefix("link").strip() or "-"
    found = "; ".join(filter(None, [check["found"], check.get("remedy")]))
    print(f"| {source} | {target} | {name} | {check['verdict']} | {found.replace('|', '/')} |".replace("\n", " "))
PY
    else
        failed "$from" "$to" "$work/serving.log"
    fi
    local pid
    pid=$(sed -n 's/^pid //p' "$work/serving" | head -n 1)
    [ -z "$pid" ] || on "$to" <<<"kill $pid 2>/dev/null"
    wait "$serving" 2>/dev/null
}

{
    echo "| from | to | link | verdict | found |"
    echo "| --- | --- | --- | --- | --- |"
    measure "$1" "$2"
    measure "$2" "$1"
} | tee "$work/table"
grep -q '| rdma | ok |' "$work/table"
