#!/bin/bash
# Installs the chart in a real cluster and takes epochs with it while workers come and go, pods are killed, a node
# is cut off or drained, tiers and the chart are upgraded and rolled back; batches are read by a client of another
# program, and the cluster's autoscaler scales workers. Every sample is compared with a run on this machine. Needs root; see
# docs/kubernetes.md. `run.sh SCENE..` plays some of its scenes; K8S_KEEP=1 leaves the cluster running.
set -euo pipefail

cd "$(dirname "$0")/../.."
# shellcheck source=tests/k8s/scene.sh
. tests/k8s/scene.sh
step_ms=${STEP_MS:-1500}

scale() { # scale NUMBER: by the chart, and so that the running job stays what it is
    say "workers: $1"
    chart --set job.enabled=true,augment.cpu.replicas="$1"
    workers_are "$1"
}

workers_come_and_go() {
    scene "${FUNCNAME[0]}" "$step_ms"
    chart --set job.enabled=true
    after_batches 4
    local before victim
    before=$(k get pods -l $ranks -o name)
    scale 3
    after_batches 12
    say "a worker is killed"
    k get pods -o wide
    victim=$(k get pods -l $augment -o 'jsonpath={.items[0].metadata.name}')
    k delete pod "$victim" --grace-period=0 --force 2>/dev/null
    after_batches 20
    say "a storage node is killed"
    k delete pod hw-headwater-storage-0 --grace-period=0 --force 2>/dev/null
    after_batches 32
    scale 1
    in_mid_epoch "the last of its events"
    job_ends_as reference "$before"
}

# Each pod has a PID namespace of its own, so that the kernel gives it the number 0 for a process of another pod.
# Nobody has another link: were it refused, no batch would come.
ranks_and_workers_share_memory() {
    scene "${FUNCNAME[0]}" "$step_ms"
    local sockets=$work/sockets
    mkdir -p "$sockets"
    chown 65532 "$sockets"
    local shared=(--set "sharedMemory.socketHostPath=$sockets" --set-json 'config.receiver.links=["shm"]')
    chart --wait --timeout 120s "${shared[@]}"
    chart "${shared[@]}" --set job.enabled=true
    after_batches 4
    ranks_share_memory
    job_ends_as reference ""
}

# The Job ends although the workers in its pods serve without end: they are asked to end when their ranks have.
each_rank_has_a_worker_in_its_pod() {
    scene "${FUNCNAME[0]}" "$step_ms"
    local own=(--set "sharedMemory.sidecar.enabled=true,augment.cpu.enabled=false"
        --set-json 'config.receiver.links=["shm"]')
    chart --wait --timeout 120s "${own[@]}"
    chart "${own[@]}" --set job.enabled=true
    after_batches 4
    ranks_share_memory
    job_ends_as reference ""
}

node_is() { k get node "$1" --no-headers | grep -qE " $2 "; }

# One storage node and one worker on each node; the ranks on the first, because a rank that is lost is
# a trainer's loss and not the stream's.
a_node_is_cut_off() {
    scene "${FUNCNAME[0]}" "$step_ms"
    local two=(--set "storage.replicas=2,augment.cpu.replicas=2,topologySpread.whenUnsatisfiable=DoNotSchedule")
    chart --wait --timeout 120s "${two[@]}"
    chart "${two[@]}" --set job.enabled=true --set-json 'job.nodeSelector={"kubernetes.io/hostname":"w0"}'
    after_batches 8
    workers_are 2
    local before on
    before=$(k get pods -l $ranks -o name)
    on=$(k get pods -l $augment --field-selector spec.nodeName=w1 -o name)
    [ -n "$on" ] || fail "no worker is on the node that is to be cut off"
    k get pods -o wide
    $here/cluster.sh cut w1
    say "w1 is cut off"
    workers_are 1
    until_true 60 "the cluster gives the node up" node_is w1 NotReady
    in_mid_epoch "the cluster gave the node up"
    job_ends_as reference "$before"
    $here/cluster.sh mend w1
    until_true 60 "the node is back" node_is w1 Ready
    k rollout status statefulset/hw-headwater-storage --timeout=120s
    k rollout status deployment/hw-headwater-augment-cpu --timeout=120s
}

# A rank that is asked to end before its epoch does has not succeeded: the Job makes another, which goes on at its place.
# Its node takes no pod meanwhile, because Kubernetes of before 1.29 starts the next rank while the one before ends.
a_node_is_drained_and_a_rank_evicted() {
    scene "${FUNCNAME[0]}" "$step_ms"
    local rank place=$out/place
    mkdir "$place"
    chown 65532 "$place"
    chart --wait --timeout 120s
    chart --set job.enabled=true,job.ranks=1,config.receiver.batch_samples=8 \
        --set-json 'job.nodeSelector={"kubernetes.io/hostname":"w0"}' \
        --set-json "job.checkpoints.volume={\"hostPath\":{\"path\":\"$place\"}}"
    after_batches 4
    say "w0 is drained"
    k drain w0 --ignore-daemonsets --delete-emptydir-data --timeout=120s
    k uncordon w0
    after_batches $(($(lines) + 4))
    say "the rank is evicted"
    rank=$(k get pods -l $ranks --field-selector status.phase=Running -o 'jsonpath={.items[0].metadata.name}')
    k cordon w0
    evict "$rank"
    k wait --for=delete "pod/$rank" --timeout=120s
    k uncordon w0
    ! has_batches 32 || fail "the epoch was over before its rank was evicted"
    job_ends_as reference ""
}

ranks_are_gone() { [ -z "$(k get pods -l $ranks -o name)" ]; }

tiers_are_upgraded_and_rolled_back() {
    # Without end: rolling two tiers takes as long as the machine lets it.
    scene "${FUNCNAME[0]}" "$step_ms" 0
    local version revision before next=(--set "storage.image=localhost/headwater-storage:next"
        --set "augment.image=localhost/headwater-augment:next" --set config.augment.threads=2)
    chart --wait --timeout 120s
    chart --set job.enabled=true
    version=$(images_of augment)
    revision=$(helm history hw --output json | "$python" -c 'import json, sys; print(json.load(sys.stdin)[-1]["revision"])')
    after_batches 4
    before=$(k get pods -l $ranks -o name)

    say "upgrade to another image and configuration"
    chart --set job.enabled=true "${next[@]}" --wait --timeout 120s
    for tier in storage augment; do
        until_true 60 "$tier is upgraded" runs_image $tier "localhost/headwater-$tier:next"
    done
    after_batches $(($(lines) + 4))

    say "an upgrade that cannot start takes no worker away"
    ! chart --set job.enabled=true "${next[@]}" --set augment.image=localhost/headwater-augment:absent \
        --wait --timeout 10s 2>"$work/refused" || fail "an image that is not there was taken"
    grep -q 'UPGRADE FAILED' "$work/refused" || fail "helm says: $(cat "$work/refused")"
    workers_are 1
    after_batches $(($(lines) + 4))

    say "rollback to revision $revision"
    helm rollback hw "$revision" --wait --timeout 120s
    until_true 60 "augment is rolled back" runs_image augment "$version"
    until_true 60 "storage is rolled back" runs_image storage "${version/augment/storage}"
    after_batches $(($(lines) + 4))
    [ "$before" = "$(k get pods -l $ranks -o name)" ] || fail "an upgrade put other ranks in place of the running ones"
    chart --set job.enabled=false --wait --timeout 120s
    until_true 120 "the ranks end" ranks_are_gone
    "$python" $here/compare.py --so-far "$work/epochs.jsonl" "$out"/*.jsonl
}

# As the next release would come: another version of the chart, other images and labels. The receiver has no image
# `next`, so ranks that were made anew could not start.
a_new_chart_keeps_the_ranks() {
    scene "${FUNCNAME[0]}" "$step_ms" 0
    local tier before later=$work/later
    rm -rf "$later"
    cp -r helm/headwater "$later"
    sed -i 's/^version: .*/version: 99.0.0/; s/^appVersion: .*/appVersion: next/' "$later/Chart.yaml"
    chart --wait --timeout 120s
    chart --set job.enabled=true
    after_batches 4
    before=$(k get pods -l $ranks -o 'jsonpath={.items[*].metadata.uid}')

    say "another version of the chart"
    chart_in "$later" --set job.enabled=true,commonLabels.team=vision --wait --timeout 120s
    for tier in storage augment; do
        until_true 60 "$tier is upgraded" runs_image $tier "localhost/headwater-$tier:next"
    done
    after_batches $(($(lines) + 4))

    say "one whose workers speak another wire version is refused"
    sed -i 's#headwater/wire-version: .*#headwater/wire-version: "0"#' "$later/Chart.yaml"
    ! chart_in "$later" --set job.enabled=true 2>"$work/refused" || fail "workers of another wire version were taken"
    grep -q 'upgrade when it has ended' "$work/refused" || fail "helm says: $(cat "$work/refused")"
    after_batches $(($(lines) + 4))
    [ "$before" = "$(k get pods -l $ranks -o 'jsonpath={.items[*].metadata.uid}')" ] ||
        fail "an upgrade put other ranks in place of the running ones"
    chart --set job.enabled=false --wait --timeout 120s
    until_true 120 "the ranks end" ranks_are_gone
    "$python" $here/compare.py --so-far "$work/epochs.jsonl" "$out"/*.jsonl
}

a_client_reads_what_is_published() {
    scene "${FUNCNAME[0]}" 0
    local address
    chart --wait --timeout 120s --set publish.enabled=true,publish.losslessClients=1
    address=$(k get service hw-headwater-publish -o 'jsonpath={.spec.clusterIP}')
    # From a node, whose kube-proxy knows the Service's address.
    $here/cluster.sh exec w1 "$python" $here/subscriber.py "zrpull://$address:7404" "$work/reference.jsonl"
}

replicas() { k get deployment hw-headwater-augment-cpu -o 'jsonpath={.spec.replicas}'; }
replicas_are() { [ "$(replicas)" -ge "$1" ] && [ "$(replicas)" -le "$2" ]; }

# Nobody has a name service from here on: pods find each other by the slices of the Services.
slices_lead_while_workers_come_and_go() {
    scene "${FUNCNAME[0]}" "$step_ms" 0
    $here/cluster.sh forget-names
    local number before slices=(--set "discovery=endpointSlices")
    chart --wait --timeout 120s "${slices[@]}"
    chart "${slices[@]}" --set job.enabled=true
    after_batches 4
    before=$(k get pods -l $ranks -o name)
    for number in 3 1 2; do
        chart "${slices[@]}" --set job.enabled=true,augment.cpu.replicas="$number"
        workers_are "$number"
        after_batches $(($(lines) + 4))
    done
    [ "$before" = "$(k get pods -l $ranks -o name)" ] || fail "an upgrade put other ranks in place of the running ones"
    "$python" $here/requests.py "$K8S_HOME/cluster/log/audit.log"
    # By the account of the chart, and no more than that.
    k auth can-i --as system:serviceaccount:default:hw-headwater watch endpointslices.discovery.k8s.io >/dev/null ||
        fail "the pods' account may not watch slices"
    ! k auth can-i --as system:serviceaccount:default:hw-headwater list secrets >/dev/null || fail "it may list Secrets"
    chart "${slices[@]}" --set job.enabled=false --wait --timeout 120s
    until_true 120 "the ranks end" ranks_are_gone
    "$python" $here/compare.py --so-far "$work/epochs.jsonl" "$out"/*.jsonl
}

the_autoscaler_scales() {
    scene "${FUNCNAME[0]}" 0 "$epochs"
    $here/cluster.sh forget-names
    local slow=(--set "discovery=endpointSlices" --set-string augment.cpu.resources.limits.cpu=150m
        --set "augment.autoscaling.mode=hpa,augment.autoscaling.maxReplicas=3"
        --set "augment.autoscaling.scaleDownSeconds=10,augment.autoscaling.cpuUtilization=0")
    chart --wait --timeout 120s "${slow[@]}"
    replicas_are 1 1 || fail "$(replicas) workers without a rank"
    chart "${slow[@]}" --set job.enabled=true
    until_true 120 "a worker is asked for" replicas_are 2 3
    k rollout status deployment/hw-headwater-augment-cpu --timeout=60s
    job_ends_as epochs ""
    until_true 120 "workers go when nobody waits" replicas_are 1 1
}

scenes=(workers_come_and_go ranks_and_workers_share_memory each_rank_has_a_worker_in_its_pod a_node_is_cut_off
    a_node_is_drained_and_a_rank_evicted tiers_are_upgraded_and_rolled_back a_new_chart_keeps_the_ranks
    a_client_reads_what_is_published slices_lead_while_workers_come_and_go the_autoscaler_scales)
[ $# -eq 0 ] || scenes=("$@")

$here/build.sh
packages
rm -rf "$work"
mkdir -p "$work/out"
epochs=${EPOCHS:-10}

say "images and reference"
images
reference reference 1
reference epochs "$epochs"

say "cluster"
$here/cluster.sh start
if [ -z "${K8S_KEEP:-}" ]; then trap '$here/cluster.sh stop' EXIT; fi
k get nodes

say "install"
certificates
scene install 0
chart --wait --timeout 120s
k rollout status deployment/hw-headwater-augment-cpu --timeout=60s
locked_down
say "the notes' own commands"
helm get notes hw | sed -n 's/^ *kubectl //p' | while read -r words; do
    # shellcheck disable=SC2086  # They are words.
    $here/cluster.sh k $words </dev/null
done
for scene in "${scenes[@]}"; do
    say "${scene//_/ }"
    started=$SECONDS
    "$scene"
    say "${scene//_/ }: passed in $((SECONDS - started)) s"
done
say "all ${#scenes[@]} scenes passed in $SECONDS s"
