#!/bin/bash
# A SLURM cluster on one machine: for each node a network, host name and mount namespace of its
# own, so that programs bind and dial real addresses and a node can be cut off.
#
#   cluster.sh start | exec NODE COMMAND.. | cut NODE | stop
#
# Wants root, and $SLURM_ROOT: a folder that is the cluster's own.
set -euo pipefail

root=${SLURM_ROOT:?names the folder of the cluster}
# Names and addresses are of one run, so that two may go on at once.
tag=${SLURM_TAG:?a short word for names of namespaces}
net=${SLURM_NET:-10.77.0}
nodes=(n0 n1 n2 n3 n4 n5)
# Each node has the machine's own cores, so that tasks can be bound to them.
cores=$(nproc)
[ "$cores" -le 8 ] || cores=8
export SLURM_CONF=$root/slurm.conf

within() { # within NODE COMMAND..
    local node=$1
    shift
    nsenter --net="/run/netns/$tag-$node" --uts="$root/uts.$node" --mount="$root/mnt/$node" \
        --wd="$PWD" -- "$@"
}

namespaces() {
    mkdir -p "$root"/{state,log,run,mnt,spool}
    mount -t tmpfs tmpfs "$root/mnt"
    mount --make-private "$root/mnt"
    ip netns add "$tag-fabric"
    ip -n "$tag-fabric" link add br0 type bridge
    ip -n "$tag-fabric" link set br0 up
    local host=1
    echo "127.0.0.1 localhost" >"$root/hosts"
    for node in ctl "${nodes[@]}"; do
        echo "$net.$host $node" >>"$root/hosts"
        ip netns add "$tag-$node"
        ip link add "v-$node" netns "$tag-fabric" type veth peer name eth0 netns "$tag-$node"
        ip -n "$tag-fabric" link set "v-$node" master br0 up
        ip -n "$tag-$node" addr add "$net.$host/24" dev eth0
        ip -n "$tag-$node" link set lo up
        ip -n "$tag-$node" link set eth0 up
        touch "$root/uts.$node" "$root/mnt/$node"
        unshare --uts="$root/uts.$node" --mount="$root/mnt/$node" --propagation slave \
            sh -c "hostname $node && mount --bind '$root/hosts' /etc/hosts"
        host=$((host + 1))
    done
}

configuration() {
    cat <<CONF
ClusterName=test
SlurmctldHost=ctl($net.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$root/run/munge.sock
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
# Only backfill starts heterogeneous jobs.
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_continue,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerNode=100
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=6
KillWait=3
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool/%n
SlurmctldPidFile=$root/run/slurmctld.pid
SlurmdPidFile=$root/run/slurmd.%n.pid
SlurmctldLogFile=$root/log/slurmctld.log
SlurmdLogFile=$root/log/slurmd.%n.log
CONF
    local host=2
    for node in "${nodes[@]}"; do
        mkdir -p "$root/spool/$node"
        echo "NodeName=$node NodeAddr=$net.$host CPUs=$cores Boards=1 SocketsPerBoard=1" \
            "CoresPerSocket=$cores ThreadsPerCore=1 RealMemory=4000 Gres=gpu:2 State=UNKNOWN"
        host=$((host + 1))
    done
    # A job of the second one preempts those of the first, which get TERM and then some seconds.
    echo "PartitionName=all Nodes=n[0-5] Default=YES MaxTime=60 State=UP PriorityTier=1 GraceTime=8"
    echo "PartitionName=urgent Nodes=n[0-5] MaxTime=60 State=UP PriorityTier=2 PreemptMode=OFF"
}

start() {
    namespaces
    (umask 077 && head -c 1024 /dev/urandom >"$root/munge.key")
    within ctl munged --force --key-file="$root/munge.key" --socket="$root/run/munge.sock" \
        --pid-file="$root/run/munged.pid" --log-file="$root/log/munged.log" \
        --seed-file="$root/run/munge.seed"
    configuration >"$SLURM_CONF"
    # Two devices that are none, which SLURM deals out as it would GPUs.
    local gpu
    for gpu in 0 1; do mknod "$root/gpu$gpu" c 1 3; done
    echo "NodeName=n[0-5] Name=gpu File=$root/gpu[0-1]" >"$root/gres.conf"
    within ctl slurmctld -c -i
    for node in "${nodes[@]}"; do within "$node" slurmd -c -N "$node"; done
    # Before they have answered, nodes count as idle too; their boot time is then unknown.
    for _ in $(seq 100); do
        local there
        there=$(within ctl scontrol show nodes -o | grep -c 'State=IDLE .*BootTime=2' || true)
        [ "$there" = "${#nodes[@]}" ] && return
        sleep 0.1
    done
    echo "only $there of ${#nodes[@]} nodes came up" >&2
    within ctl sinfo -N -l >&2
    return 1
}

stop() {
    set +e
    within ctl scancel -u root 2>/dev/null
    local node pid
    for pid in "$root"/run/*.pid; do [ -f "$pid" ] && kill "$(cat "$pid")"; done 2>/dev/null
    for node in ctl "${nodes[@]}" fabric; do
        # Steps of lost nodes outlive their daemons.
        for pid in $(ip netns pids "$tag-$node" 2>/dev/null); do kill -KILL "$pid"; done 2>/dev/null
        umount "$root/uts.$node" 2>/dev/null
        umount "$root/mnt/$node" 2>/dev/null
        ip netns del "$tag-$node" 2>/dev/null
    done
    umount "$root/mnt" 2>/dev/null
    return 0
}

case ${1:-} in
    start) start ;;
    stop) stop ;;
    exec) shift && within "$@" ;;
    cut) ip -n "$tag-$2" link set eth0 down ;;
    *) echo "usage: cluster.sh start | exec NODE COMMAND.. | cut NODE | stop" >&2 && exit 2 ;;
esac
