# What the scenes of run.sh are made of: the cluster, the chart, jobs and what they leave. Sourced.
# shellcheck shell=bash

export K8S_HOME=${K8S_HOME:-/var/tmp/headwater-k8s}
here=tests/k8s
binary=$(realpath "${HEADWATER_BIN:-target/release/headwater}")
helm=$PWD/.venv/bin/helm
python=$PWD/.venv/bin/python
work=$K8S_HOME/run
ranks=app.kubernetes.io/component=receiver
augment=app.kubernetes.io/component=augment

say() { echo "== $*"; }
fail() {
    k get pods -o wide
    k logs -l $ranks --tail=20 --prefix || true
    echo "FAILED: $*" >&2
    exit 1
}
k() { $here/cluster.sh k -n default "$@"; }
helm() { $here/cluster.sh exec ctl "$helm" --kubeconfig "$K8S_HOME/cluster/kubeconfig" "$@"; }
chart() { chart_in helm/headwater "$@"; }
chart_in() { # chart_in FOLDER OPTIONS..
    local folder=$1
    shift
    helm upgrade --install hw "$folder" --values "$work/values.yaml" "$@" >/dev/null
}

# until_true SECONDS WHAT COMMAND..: waits for a condition.
until_true() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || fail "$what: not within its time"
        sleep 0.2
    done
}

# scene NAME STEP_MS [EPOCHS]: values whose job leaves its digests in a folder of the scene's own,
# so that another job takes the place of the one before.
scene() {
    out=$work/out/$1
    mkdir -p "$out"
    chown 65532 "$out"
    sed -e "s#SHARDS#$PWD/tests/data/photos#; s#OUT#$out#; s#STEP_MS#$2#; s#EPOCHS#${3:-1}#" \
        $here/values.yaml >"$work/values.yaml"
}

lines() { cat "$out"/*.jsonl 2>/dev/null | wc -l; }
has_batches() { [ "$(lines)" -ge "$1" ]; }
after_batches() { until_true 120 "$1 batches come" has_batches "$1"; }
# The scene is about an epoch that goes on: what happened must have happened before its end.
in_mid_epoch() { ! has_batches 64 || fail "the epoch was over before $1"; }

# The scene's job, to its end: its ranks are the ones it began with, its samples those of a local run.
job_ends_as() { # job_ends_as REFERENCE PODS
    k wait --for=condition=complete job -l $ranks --timeout=300s
    [ -z "${2:-}" ] || [ "$2" = "$(k get pods -l $ranks -o name)" ] ||
        fail "an upgrade put other ranks in place of the running ones"
    "$python" $here/compare.py "$work/$1.jsonl" "$out"/*.jsonl
}

# The running ranks have taken bytes through shared memory.
ranks_share_memory() {
    local address
    for address in $(k get pods -l $ranks -o 'jsonpath={.items[*].status.podIP}'); do
        $here/cluster.sh exec ctl "$python" $here/metric.py "$address:9400" \
            'headwater_receiver_bytes_total{link="shm"}' 1+
    done
}

# Each rank has so many workers.
workers_are() {
    local address
    for address in $(k get pods -l $ranks -o 'jsonpath={.items[*].status.podIP}'); do
        $here/cluster.sh exec ctl "$python" $here/metric.py "$address:9400" headwater_receiver_workers "$1"
    done
}

evict() { # evict POD: as a drain and a scheduler that makes room do
    local kind='{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"'$1'","namespace":"default"}}'
    k create --raw "/api/v1/namespaces/default/pods/$1/eviction" -f - <<<"$kind" >/dev/null
}

# Images of the pods of a component, each once; those that end already are left out.
images_of() {
    local template='{{range .items}}{{if not .metadata.deletionTimestamp}}'
    template+='{{(index .spec.containers 0).image}}{{"\n"}}{{end}}{{end}}'
    k get pods -l "app.kubernetes.io/component=$1" -o go-template="$template" | sort -u
}
runs_image() { [ "$(images_of "$1")" = "$2" ]; }

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

# Of each tier one, and of the tiers that are upgraded one under a later tag.
images() {
    mkdir -p "$K8S_HOME/images"
    local tier
    for tier in storage augment receiver; do
        scripts/image.py $tier --binary "$binary" --out "$K8S_HOME/images/$tier.tar"
    done
    for tier in storage augment; do
        scripts/image.py $tier --binary "$binary" --out "$K8S_HOME/images/$tier-next.tar" \
            --name "localhost/headwater-$tier:next"
    done
    gcc -static -Os -o "$work/pause" "$K8S_HOME"/work/kubernetes-1.20.2/build/pause/linux/pause.c -DVERSION=1
    "$python" $here/pause_image.py "$work/pause" "$K8S_HOME/images/pause.tar"
}

# The same epochs on this machine, by one process: reference NAME EPOCHS.
reference() {
    local storage=$work/reference
    mkdir -p "$storage"
    "$binary" storage --listen 127.0.0.1:17401 --index-dir "$storage" \
        --dataset "photos=$PWD/tests/data/photos/photos-{000000..000003}.tar" >"$work/$1-storage.log" 2>&1 &
    local first=$!
    "$binary" augment --listen 127.0.0.1:17402 --storage 127.0.0.1:17401 \
        >"$work/$1-augment.log" 2>&1 &
    local second=$!
    "$binary" receive --storage 127.0.0.1:17401 --workers 127.0.0.1:17402 --dataset photos \
        --batch 8 --epochs "$2" --set receiver.seed=11 --digests "$work/$1.jsonl"
    kill $first $second
    wait $first $second || true
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
        grep -qP "^$line" "$status" || fail "the worker's $status has no $line"
    done
}
