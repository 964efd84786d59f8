#!/bin/bash
# A real Kubernetes on one machine: etcd, API server, controllers and scheduler in one network namespace, and
# for each node a namespace with kubelet, containerd and kube-proxy. Images come from archives; there is no
# registry.
#
#   cluster.sh start|stop|exec NODE COMMAND..|k KUBECTL-ARGUMENTS..|cut NODE|mend NODE|forget-names
set -euo pipefail

here=$(dirname "$(realpath "$0")")
home=${K8S_HOME:-/var/tmp/headwater-k8s}
bin=$home/bin
images=$home/images
state=$home/cluster
nodes=${K8S_NODES:-2}
prefix=hw8
net=10.78.0
pods=10.79
api=https://$net.1:6443
token=headwater-test-admin

mapfile -t names < <(seq -f 'w%g' 0 $((nodes - 1)))

inside() { # inside NODE COMMAND..
    local node=$1
    shift
    nsenter --net="/run/netns/$prefix-$node" -- "$@"
}

background() { # background NAME NODE COMMAND..
    local name=$1 node=$2
    shift 2
    nohup nsenter --net="/run/netns/$prefix-$node" -- "$@" >"$state/log/$name.log" 2>&1 </dev/null &
    echo $! >"$state/pid/$name"
}

until_true() { # until_true SECONDS WHAT COMMAND..
    local tries=$(($1 * 5)) what=$2
    shift 2
    for _ in $(seq "$tries"); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    echo "$what did not come up: see $state/log" >&2
    exit 1
}

kubectl_admin() { inside ctl kubectl --kubeconfig="$state/kubeconfig" "$@"; }

network() {
    ip netns add $prefix-fab
    ip -n $prefix-fab link add br0 type bridge
    ip -n $prefix-fab link set br0 up
    local node address i
    for node in ctl "${names[@]}"; do
        if [ "$node" = ctl ]; then address=$net.1; else address=$net.$((10 + ${node#w})); fi
        ip netns add "$prefix-$node"
        ip link add "v-$node" netns $prefix-fab type veth peer name eth0 netns "$prefix-$node"
        ip -n $prefix-fab link set "v-$node" master br0 up
        ip -n "$prefix-$node" addr add "$address/24" dev eth0
        ip -n "$prefix-$node" link set lo up
        ip -n "$prefix-$node" link set eth0 up
        ip netns exec "$prefix-$node" sysctl -qw net.ipv4.ip_forward=1
    done
    for node in ctl "${names[@]}"; do
        for i in "${!names[@]}"; do
            [ "$node" = "w$i" ] || ip -n "$prefix-$node" route add "$pods.$i.0/24" via "$net.$((10 + i))"
        done
        [ "$node" = ctl ] || ip -n "$prefix-$node" route add default via $net.1
    done
}

control() {
    openssl genrsa -out "$state/sa.key" 2048 2>/dev/null
    echo "$token,admin,admin,system:masters" >"$state/tokens.csv"
    (umask 077 && cat >"$state/kubeconfig") <<YAML
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "$api", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
YAML
    background etcd ctl etcd --data-dir "$state/etcd" --unsafe-no-fsync \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
    background apiserver ctl "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
        --bind-address=$net.1 --advertise-address=$net.1 --secure-port=6443 --cert-dir="$state/certs" \
        --kubelet-preferred-address-types=InternalIP --service-cluster-ip-range=10.96.0.0/16 \
        --token-auth-file="$state/tokens.csv" --authorization-mode=RBAC --allow-privileged=true \
        --service-account-issuer=https://test --service-account-signing-key-file="$state/sa.key" \
        --service-account-key-file="$state/sa.key" --enable-aggregator-routing=true \
        --audit-policy-file="$here/audit.yaml" --audit-log-path="$state/log/audit.log"
    until_true 60 'the API server' kubectl_admin get --raw /readyz
    background controllers ctl "$bin/kube-controller-manager" --kubeconfig="$state/kubeconfig" \
        --service-account-private-key-file="$state/sa.key" --root-ca-file="$state/certs/apiserver.crt" \
        --leader-elect=false --port=0 --secure-port=0 \
        --node-monitor-grace-period=12s --node-monitor-period=2s --horizontal-pod-autoscaler-sync-period=2s
    background scheduler ctl "$bin/kube-scheduler" --kubeconfig="$state/kubeconfig" \
        --leader-elect=false --port=0 --secure-port=0
    background names ctl python3 "$here/names.py" $net.1 "$state/kubeconfig"
    # With the API server's own certificate, which nobody checks.
    background stall ctl python3 "$here/stall.py" $net.1 6444 \
        "$state/certs/apiserver.crt" "$state/certs/apiserver.key" "$state/kubeconfig"
    kubectl_admin apply -f "$here/stall.yaml"
}

node_files() { # node_files NUMBER
    local own=$state/w$1
    mkdir -p "$own"/{cni,kubelet,ctr,ctrs}
    cat >"$own/containerd.toml" <<TOML
version = 2
root = "$own/ctr"
state = "$own/ctrs"
[grpc]
  address = "$own/c.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$own/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$own/cni"
TOML
    cat >"$own/cni/10-test.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "test", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$own/ipam",
           "ranges": [[{"subnet": "$pods.$1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
    cat >"$own/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $net.$((10 + $1))
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
resolvConf: ""
clusterDNS: [$net.1]
clusterDomain: cluster.local
evictionHard: {memory.available: 1Mi}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 3s
healthzPort: 0
YAML
}

node() { # node NUMBER
    local i=$1 own=$state/w$1 archive
    node_files "$i"
    background "containerd-w$i" "w$i" containerd --config "$own/containerd.toml"
    until_true 20 containerd ctr -a "$own/c.sock" version
    for archive in "$images"/*.tar; do
        ctr -a "$own/c.sock" -n k8s.io images import "$archive" >/dev/null
    done
    background "kubelet-w$i" "w$i" "$bin/kubelet" --config="$own/kubelet.yaml" \
        --kubeconfig="$state/kubeconfig" --hostname-override="w$i" --node-ip="$net.$((10 + i))" \
        --root-dir="$own/kubelet" --cert-dir="$own/kubelet/pki" --seccomp-profile-root="$own/seccomp" \
        --container-runtime=remote --container-runtime-endpoint="unix://$own/c.sock" \
        --runtime-cgroups=/ --kubelet-cgroups=/
    background "proxy-w$i" "w$i" "$bin/kube-proxy" --kubeconfig="$state/kubeconfig" \
        --hostname-override="w$i" --proxy-mode=iptables --cluster-cidr=$pods.0.0/16 \
        --conntrack-max-per-core=0 --healthz-bind-address=127.0.0.1:10256
}

all_ready() { [ "$(kubectl_admin get nodes --no-headers 2>/dev/null | grep -cw Ready)" = "$nodes" ]; }

start() {
    mkdir -p "$state"/{etcd,certs,log,pid}
    network
    control
    local i
    for i in "${!names[@]}"; do node "$i"; done
    until_true 60 'a node' all_ready
}

# Ends a process that was started here, by its number.
end() {
    local file=$state/pid/$1 signal=${2:-TERM}
    if [ -f "$file" ]; then kill "-$signal" "$(cat "$file")" 2>/dev/null || true; fi
}

stop() {
    local name node task mount
    for node in "${names[@]}"; do
        end "kubelet-$node"
        end "proxy-$node"
    done
    for name in stall names scheduler controllers etcd; do end $name; done
    end apiserver KILL # It would wait for etcd for minutes.
    for node in "${names[@]}"; do
        for task in $(ctr -a "$state/$node/c.sock" -n k8s.io tasks ls -q 2>/dev/null); do
            ctr -a "$state/$node/c.sock" -n k8s.io tasks kill -s KILL "$task" 2>/dev/null || true
        done
    done
    sleep 1
    # The pods' namespaces, before the list of them goes.
    { grep -ho '/run/netns/cni-[^ ]*' /proc/mounts || true; } | sort -u >"$state/pod-namespaces"
    for node in "${names[@]}"; do end "containerd-$node"; done
    sleep 0.5
    awk '{ print $2 }' /proc/mounts | { grep "^$state/" || true; } | sort -r | while read -r mount; do
        umount -l "$mount" 2>/dev/null || true
    done
    while read -r mount; do ip netns del "${mount##*/}" 2>/dev/null || true; done <"$state/pod-namespaces"
    for node in ctl fab "${names[@]}"; do ip netns del "$prefix-$node" 2>/dev/null || true; done
    rm -rf "$state"
}

case ${1:-} in
start) start ;;
stop) stop ;;
exec) shift && inside "$@" ;;
k) shift && kubectl_admin "$@" ;;
# The far end of its cable: the node itself keeps its routes for when it is mended.
cut) ip -n $prefix-fab link set "v-$2" down ;;
mend) ip -n $prefix-fab link set "v-$2" up ;;
# Ends the name service.
forget-names) end names && rm -f "$state/pid/names" ;;
*) echo "usage: $0 start|stop|exec NODE COMMAND..|k ARGUMENTS..|cut NODE|mend NODE|forget-names" >&2 && exit 2 ;;
esac
