#!/bin/bash
# Installs the chart in a real cluster, takes an epoch with a rank on each node while workers come and go, and
# compares every sample with a run on this machine. Needs root; see docs/kubernetes.md.
set -euo pipefail

cd "$(dirname "$0")/../.."
export K8S_HOME=${K8S_HOME:-/var/tmp/headwater-k8s}
here=tests/k8s
binary=$(realpath "${HEADWATER_BIN:-target/release/headwater}")
helm=$PWD/.venv/bin/helm
python=$PWD/.venv/bin/python
work=$K8S_HOME/run
step_ms=${STEP_MS:-1500}
ranks=app.kubernetes.io/component=receiver

say() { echo "== $*"; }
k() { $here/cluster.sh k -n default "$@"; }
chart() {
    $here/cluster.sh exec ctl "$helm" --kubeconfig "$K8S_HOME/cluster/kubeconfig" \
        upgrade --install hw helm/headwater --values "$work/values.yaml" "$@" >/dev/null
}

packages() {
    local missing=() pair
    for pair in etcd:etcd-server containerd:containerd runc:runc kubectl:kubernetes-client \
        iptables:iptables conntrack:conntrack ip:iproute2 openssl:openssl gcc:gcc; do
        command -v "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [ -x /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
    if [ ${#missing[@]} -gt 0 ]; then
        DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    fi
}

images() {
    mkdir -p "$K8S_HOME/images"
    local tier
    for tier in storage augment receiver; do
        scripts/image.py $tier --binary "$binary" --out "$K8S_HOME/images/$tier.tar"
    done
    gcc -static -Os -o "$work/pause" "$K8S_HOME"/work/kubernetes-1.20.2/build/pause/linux/pause.c -DVERSION=1
    "$python" $here/pause_image.py "$work/pause" "$K8S_HOME/images/pause.tar"
}

# The same epoch on this machine, by one process.
reference() {
    local storage=$work/reference
    mkdir -p "$storage"
    "$binary" storage --listen 127.0.0.1:17401 --index-dir "$storage" \
        --dataset "photos=$PWD/tests/data/photos/photos-{000000..000003}.tar" >"$work/reference-storage.log" 2>&1 &
    local first=$!
    "$binary" augment --listen 127.0.0.1:17402 --storage 127.0.0.1:17401 \
        >"$work/reference-augment.log" 2>&1 &
    local second=$!
    "$binary" receive --storage 127.0.0.1:17401 --workers 127.0.0.1:17402 --dataset photos=unused.tar \
        --batch 8 --epochs 1 --set receiver.seed=11 --digests "$work/reference.jsonl"
    kill $first $second
    wait $first $second || true
}

# By the chart, and so that the running job stays what it is.
workers() { # workers NUMBER
    say "workers: $1"
    chart --set job.enabled=true,augment.cpu.replicas="$1"
    local address
    for address in $(k get pods -l $ranks -o 'jsonpath={.items[*].status.podIP}'); do
        $here/cluster.sh exec ctl "$python" $here/metric.py "$address:9400" headwater_receiver_workers "$1"
    done
}

certificates() {
    local new=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
    (
        cd "$work"
        openssl req -x509 "${new[@]}" -subj /CN=test-authority -days 2 -keyout ca.key -out ca.crt
        openssl req "${new[@]}" -subj /CN=hw-headwater -keyout tls.key -out tls.csr
        printf '%s\n' subjectAltName=DNS:hw-headwater extendedKeyUsage=serverAuth,clientAuth >tls.ext
        openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
            -extfile tls.ext -out tls.crt
    ) 2>/dev/null
    k create secret generic hw-certificates \
        --from-file="$work/ca.crt" --from-file="$work/tls.crt" --from-file="$work/tls.key"
}

# What the chart asks for is what the process has.
locked_down() {
    local status line
    status=/proc/$(pgrep -xof '/usr/bin/headwater augment')/status
    for line in 'Uid:\t65532' 'CapEff:\t0+$' 'NoNewPrivs:\t1' 'Seccomp:\t2'; do
        if ! grep -qP "^$line" "$status"; then
            echo "the worker's $status has no $line" >&2
            exit 1
        fi
    done
}

lines() { cat "$work"/out/*.jsonl 2>/dev/null | wc -l; }

after_batches() { # after_batches NUMBER
    local tries
    for tries in $(seq 600); do
        if [ "$(lines)" -ge "$1" ]; then return; fi
        sleep 0.2
    done
    k get pods -o wide
    k logs -l $ranks --tail=20 --prefix || true
    echo "only $(lines) of $1 batches came" >&2
    exit 1
}

$here/build.sh
packages
rm -rf "$work"
mkdir -p "$work/out"
chown 65532 "$work/out"
sed -e "s#SHARDS#$PWD/tests/data/photos#; s#OUT#$work/out#; s#STEP_MS#$step_ms#" $here/values.yaml >"$work/values.yaml"

say "images and reference"
images
reference

say "cluster"
$here/cluster.sh start
if [ -z "${K8S_KEEP:-}" ]; then trap '$here/cluster.sh stop' EXIT; fi
k get nodes

say "install"
certificates
chart --wait --timeout 120s
k rollout status deployment/hw-headwater-augment-cpu --timeout=60s
locked_down

say "job"
chart --set job.enabled=true
after_batches 4
before=$(k get pods -l $ranks -o name)
workers 3
after_batches 12
say "a worker is killed"
k get pods -o wide
victim=$(k get pods -l app.kubernetes.io/component=augment -o 'jsonpath={.items[0].metadata.name}')
k delete pod "$victim" --grace-period=0 --force 2>/dev/null
after_batches 20
say "a storage node is killed"
k delete pod hw-headwater-storage-0 --grace-period=0 --force 2>/dev/null
after_batches 32
workers 1
say "waits for the ranks"
k wait --for=condition=complete job -l $ranks --timeout=240s
if [ "$before" != "$(k get pods -l $ranks -o name)" ]; then
    echo "an upgrade that scales workers put other ranks in place of the running ones" >&2
    exit 1
fi

"$python" $here/compare.py "$work/reference.jsonl" "$work"/out/*.jsonl
