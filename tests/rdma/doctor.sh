#!/bin/bash
# doctor.sh HEADWATER [SERVE-ARGS..] - the doctor on a host with an RDMA port: the port is among what
# it finds, and it measures the rdma link to another process. Fails where it does not.
set -euo pipefail
headwater=$1
shift
work=$(mktemp -d)
trap 'kill -KILL "$serving" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
"$headwater" doctor --serve 127.0.0.1:7409 "$@" >served 2>served.log &
serving=$!
for _ in $(seq 600); do
    grep -q 'doctor on' served && break
    sleep 0.1
done
"$headwater" doctor --link 127.0.0.1:7409 >said 2>&1 || true
grep -E '(link|rdma|verbs)' said || true
for wanted in 'ok +rdma rxe0 port 1: ACTIVE' 'ok +link rdma: round trip [0-9]+ us, [0-9.]+ GB/s'; do
    grep -qE "$wanted" said || {
        echo "FAILED: the doctor does not say: $wanted" >&2
        cat said served.log >&2
        exit 1
    }
done
echo "1 passed; 0 failed"
