#!/bin/bash
# The SLURM scripts and sizes as they are shipped, on a real SLURM of six nodes on this machine: an epoch,
# a time limit with its checkpoint and the run after it, a preemption, a node that is lost, trials on
# one service, workers by need. Digests of all samples are compared with a run outside of SLURM.
#
#   tests/slurm/run.sh BIN     # exit status 77: cannot be run here, and says why
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() {
    echo "SKIP: SLURM is not tested: $*" >&2
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "root is needed for network namespaces"
for command in slurmctld slurmd sbatch munged ip nsenter; do
    command -v "$command" >/dev/null || skip "$command is missing; scripts/install-system.sh installs it"
done
[ "$(nproc)" -ge 2 ] || skip "two cores are needed: a rank asks for two"
probe=hwp$$
ip netns add "$probe" 2>/dev/null || skip "network namespaces cannot be made here"
ip netns del "$probe"

top=$PWD
bin=$(realpath "$1")
SLURM_ROOT=$(mktemp -d /var/tmp/headwater-slurm-XXXXXX)
chmod 755 "$SLURM_ROOT"
export SLURM_ROOT SLURM_TAG=hw$$ SLURM_NET=10.77.$((RANDOM % 250))
work=$SLURM_ROOT/work
mkdir -p "$work"
local_pids=()

finish() {
    local status=$?
    set +e
    if [ "$status" -ne 0 ]; then
        tail -n 40 "$work"/*/*.out "$SLURM_ROOT/log/slurmctld.log" 2>/dev/null
    fi
    for pid in "${local_pids[@]}"; do kill -KILL "$pid" 2>/dev/null; done
    kill -KILL "$(cat "$work/grow/controller.pid" 2>/dev/null)" 2>/dev/null
    tests/slurm/cluster.sh stop
    rm -rf "$SLURM_ROOT"
    exit "$status"
}
trap finish EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
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
ctl() { tests/slurm/cluster.sh exec ctl "$@"; }
lines() { cat "$@" 2>/dev/null | wc -l; }
has_batches() { [ "$(lines "$work/$1"/digests-*)" -ge "$2" ]; }
is_gone() { [ -z "$(ctl squeue --noheader --jobs="$1" 2>/dev/null)" ]; }
# shells JOB: the shells that SLURM itself has started for storage and augment programs of a service.
shells() {
    local node pid
    for node in n{0..5}; do
        for pid in $(ip netns pids "$SLURM_TAG-$node"); do
            # Some are gone by now.
            if [ "$(ps -o comm= "$(ps -o ppid= "$pid" | tr -d ' ')" 2>/dev/null)" = slurmstepd ] &&
                grep -azqxs "SLURM_JOB_ID=\($1\|$(($1 + 1))\)" "/proc/$pid/environ" &&
                grep -azqs 'in_task' "/proc/$pid/cmdline"; then echo "$pid"; fi
        done
    done
}
# Reads to the end: a `grep -q` that leaves early ends the command before it, and with pipefail the pipe.
finds() { grep "$1" >/dev/null; }
has_state() { ctl scontrol show job "$1" | finds "JobState=$2"; }

# submit NAME COMMAND..: submits in the folder of a run; prints the job's number.
submit() {
    local dir=$work/$1
    shift
    mkdir -p "$dir"
    ctl env -C "$dir" HEADWATER_CONFIG="$work/headwater.toml" "$@" | tee "$dir/submitted" >&2
    sed -n 's/Submitted batch job //p' "$dir/submitted"
}
# ended JOB NAME [SECONDS]: waits for the job; it and all its components must have ended with 0.
ended() {
    until_true "${3:-60}" "$2 ends" is_gone "$1"
    ctl scontrol show job "$1" >"$work/$2/job"
    ! grep -v 'ExitCode=0:0' <(grep -o 'ExitCode=[0-9:]*' "$work/$2/job") ||
        fail "$2 ended with $(grep -o 'ExitCode=[0-9:]*' "$work/$2/job")"
    ! grep 'JobState=' "$work/$2/job" | grep -v COMPLETED || fail "$2 is not COMPLETED"
}
# equal NAME REFERENCE: in however many runs, the batches are those of the reference, and each comes once.
equal() {
    local came
    for run in "$1" "$2"; do
        # When a batch came is all that may differ.
        sed 's/"unix_ms":[0-9]*,//' "$work/$run"/digests-* | sort -u >"$work/$run/all"
    done
    [ -s "$work/$2/all" ] || fail "$2 left no digests"
    cmp "$work/$1/all" "$work/$2/all" || fail "$1 had other batches than $2"
    came=$(lines "$work/$1"/digests-*)
    [ "$came" -eq "$(lines "$work/$2/all")" ] || fail "$1 took batches twice: $came in all"
    echo "ok: $1 has the $(lines "$work/$2/all") batches of $2"
}

cat >"$work/headwater.toml" <<CONF
[[dataset]]
name = "photos"
shards = ["$top/tests/data/photos/photos-*.tar"]
[storage]
index_dir = "$work/index"
[augment]
threads = 1
[receiver]
batch_samples = 8
seed = 7
shuffle_block = 2
part_samples = 4
epochs = 1
links = ["tcp"]
CONF
# Sizes that are set win over those of the shipped files, whose clusters are larger than this one.
set -a
HW_STORAGE_NODES=2 HW_STORAGE_CPUS=1 HW_AUGMENT_NODES=2 HW_AUGMENT_CPUS=1 HW_AUGMENT_GPUS=1
HW_TRAINER_NODES=2 HW_TRAINER_TASKS=1 HW_TRAINER_CPUS=2 HW_TRAINER_GPUS=1
HW_BIN=$work/program.sh HW_DRAIN_S=6
set +a
cat >"$work/program.sh" <<CONF
#!/bin/sh
echo "\$1: \$(nproc) cores, GPU \${CUDA_VISIBLE_DEVICES:-none}" >>"\$PWD/places"
exec $bin "\$@"
CONF
cat >"$work/rank.sh" <<CONF
#!/bin/sh
env | grep ^NCCL_ | sort >"\$PWD/nccl-\$RANK"
# Only runs that are cut short in mid-epoch are slow.
[ -z "\${SLURM_RESTART_COUNT:-}" ] && [ "\${HW_TRIAL:-2}" -ge 2 ] || STEP_MS=0
exec $work/program.sh receive --step-ms "\${STEP_MS:-0}" --digests "\$PWD/digests-\${HW_TRIAL:-}\$RANK"
CONF
chmod +x "$work/program.sh" "$work/rank.sh"

# local_run NAME RANKS: storage, a worker and the ranks on this machine, outside of SLURM.
local_run() {
    local dir=$work/$1 address
    mkdir -p "$dir"
    for tier in storage augment; do
        HEADWATER_CONFIG=$work/headwater.toml HEADWATER_AUGMENT__STORAGE=${address:-x:1} \
            "$bin" "$tier" --listen 127.0.0.1:0 >"$dir/$tier.address" 2>"$dir/$tier.out" &
        local_pids+=($!)
        until_true 30 "$tier listens" grep -qs 'listening on' "$dir/$tier.address"
        address=$(sed -n 's/listening on //p' "$dir/$tier.address")
    done
    local ranks=()
    for rank in $(seq 0 $(($2 - 1))); do
        HEADWATER_CONFIG=$work/headwater.toml "$bin" receive --rank "$rank" --world-size "$2" \
            --storage "$(sed -n 's/listening on //p' "$dir/storage.address")" --workers "$address" \
            --links shm --digests "$dir/digests-$rank" >"$dir/$rank.out" 2>&1 &
        ranks+=($!)
    done
    local rank
    for rank in "${ranks[@]}"; do
        wait "$rank" || fail "$1 did not end well: $(cat "$dir"/[0-9].out)"
    done
    kill "${local_pids[@]}"
    wait "${local_pids[@]}" || true
    local_pids=()
}

tests/slurm/cluster.sh start
local_run two-ranks 2
local_run one-rank 1
sbatch=$top/slurm/headwater.sbatch
# As on most clusters, a later job is pending: scancel then signals a step twice.
queue_later() { submit later sbatch --begin=now+1hour --wrap true >/dev/null; }

echo "== three tiers as a heterogeneous job feed an epoch, with the cores, GPUs and settings they ask for"
# The environment stays behind, as at sites with --export=NONE; sruns have options of their own.
job=$(submit epoch env SBATCH_EXPORT=NONE HW_STORAGE_SRUN_OPTIONS='--output=storage-%N.out --gpu-bind=none' \
    "$sbatch" --env "$top/slurm/b200-pcie.env" "$work/rank.sh")
ended "$job" epoch
equal epoch two-ranks
for node in 0 1; do
    grep -q "^$node: listening on" "$work/epoch/storage-n$node.out" || fail "storage node $node has not its own output"
done
# A tier of one core a node is bound to it; SLURM deals out the first of two devices.
for place in 'storage: 1 cores, GPU none' 'augment: 1 cores, GPU 0' 'receive: 2 cores, GPU 0'; do
    [ "$(grep -cx "$place" "$work/epoch/places")" -eq 2 ] ||
        fail "not two tasks with '$place': $(cat "$work/epoch/places")"
done
# settings FILE: the NCCL settings of a file of sizes.
settings() { env -i bash -c "set -a; . '$top/slurm/$1.env'; env" | grep ^NCCL_ | sort; }
cmp <(settings b200-pcie) "$work/epoch/nccl-0" || fail "the ranks have not the NCCL settings of b200-pcie"

echo "== time that is up leads to a checkpoint, and the next run goes on there"
# One rank: only collectives hold several at the same step.
job=$(submit time-up env STEP_MS=500 HW_TRAINER_NODES=1 \
    HW_CHECKPOINT_DIR="$work/time-up/checkpoints" \
    HEADWATER_RECEIVER__CHECKPOINT_EVERY_STEPS=1000 "$sbatch" --env "$top/slurm/nvl72.env" "$work/rank.sh")
queue_later
until_true 60 "batches come" has_batches time-up 4
ctl scancel --batch --signal=USR1 "$job"
until_true 60 "the job is put in the queue again" has_state "$job" PENDING
checkpoint=$(find "$work/time-up" -path '*/checkpoints/*' -type f)
grep -q '"step"' "$checkpoint" || fail "no whole checkpoint: $checkpoint"
first=$(lines "$work/time-up/digests-0")
[ "$first" -lt 32 ] || fail "the epoch was over before the signal"
# SLURM would wait two minutes; nodes refuse a job that comes back within the second.
ctl scontrol update JobId="$job" StartTime=now+3
ended "$job" time-up
equal time-up one-rank
cmp <(settings nvl72) "$work/time-up/nccl-0" || fail "the ranks have not the NCCL settings of nvl72"

echo "== jobs that are preempted in mid-epoch are requeued, by themselves or by SLURM, and go on there"
# preempted NAME VARIABLE..: a job of one rank, slow until it is requeued.
preempted() {
    submit "$1" env STEP_MS=1000 HW_TRAINER_NODES=1 HW_STORAGE_CPUS=1 HW_CHECKPOINT_DIR="$work/$1/checkpoints" \
        HEADWATER_RECEIVER__CHECKPOINT_EVERY_STEPS=1000 "${@:2}" \
        "$sbatch" --env "$top/slurm/cpu-only.env" "$work/rank.sh"
}
itself=$(preempted by-itself)
slurm=$(preempted by-slurm HW_REQUEUE=0)
for name in by-itself by-slurm; do until_true 60 "batches come to $name" has_batches "$name" 2; done
urgent=$(submit urgent sbatch --partition=urgent --nodes=6 --exclusive --wrap 'squeue --format="%i %t"')
until_true 60 "the urgent job ends" is_gone "$urgent"
for job in "$itself" "$slurm"; do
    grep -qx "$job+0 PD" "$work/urgent"/*.out || fail "job $job was not requeued: $(cat "$work/urgent"/*.out)"
    ctl scontrol update JobId="$job" StartTime=now+3
done
ended "$itself" by-itself
ended "$slurm" by-slurm
for name in by-itself by-slurm; do
    equal "$name" one-rank
    grep -q 'Restarts=1' "$work/$name/job" || fail "$name was not preempted once: $(cat "$work/$name/job")"
    # A program that gets TERM twice ends in the middle of its drain.
    ! grep -h 'did not drain' "$work/$name"/*.out || fail "a task of $name did not drain"
done
grep -q 'preempted; goes on' "$work/by-itself"/*.out || fail "by-itself left its requeue to SLURM"
! grep 'goes on' "$work/by-slurm"/*.out || fail "by-slurm did not wait for SLURM"

echo "== trials share one service, each with its own place in the stream"
service=$(submit trials env HW_TRAINER_NODES=0 HW_ADDRESS_DIR="$work/service" \
    "$sbatch" --env "$top/slurm/cpu-only.env")
# Where cgroups track processes, TERM that comes with a preemption reaches the tasks' shells only.
cgroups=$(submit cgroups env HW_TRAINER_NODES=0 HW_REQUEUE=0 \
    "$sbatch" --env "$top/slurm/cpu-only.env")
# With a list, SLURM keeps from sruns what the script exports, too.
sent=HEADWATER_CONFIG,HEADWATER_RECEIVER__CHECKPOINT_EVERY_STEPS,HW_BIN,HW_ADDRESS_DIR,HW_CHECKPOINT_DIR,STEP_MS
trials=$(submit trials env HW_ADDRESS_DIR="$work/service" HW_CHECKPOINT_DIR="$work/trials/checkpoints" \
    STEP_MS=1000 HEADWATER_RECEIVER__CHECKPOINT_EVERY_STEPS=1000 \
    sbatch --export="$sent" --array=0-3 "$top/slurm/array-hpo.sbatch" "$work/rank.sh")
queue_later
has_trial() { [ "$(lines "$work/trials/digests-${1}0")" -ge 4 ]; }
for trial in 2 3; do until_true 60 "trial $trial has batches" has_trial "$trial"; done
token=$work/service/token
[ "$(stat -L --format=%a "$token")" = 600 ] || fail "the token of the service is not its user's only"
another_reads() { setpriv --reuid 65534 --regid 65534 --clear-groups cat "$1" >/dev/null 2>&1; }
another_reads "$work/service/storage" || fail "another user cannot read the addresses"
! another_reads "$token" || fail "another user reads the token"
head -c 32 /dev/urandom | base64 >"$work/wrong"
for wrong in '' "$work/wrong"; do
    ! refused=$(ctl env HEADWATER_SECURITY__TOKEN_FILE="$wrong" HEADWATER_CONFIG="$work/headwater.toml" "$bin" \
        receive --rank 0 --world-size 1 --storage "$(cat "$work/service/storage")" \
        --workers "$(cat "$work/service/workers")" 2>&1) || fail "a caller without the token gets batches"
    grep -q 'token' <<<"$refused" || fail "a caller without the token is not refused for that: $refused"
done
# The service goes into a new run, with a new token, and the trials stay.
ctl scancel --batch --signal=USR1 "$service"
until_true 60 "the service is put in the queue again" has_state "$service" PENDING
ctl scontrol update JobId="$service" StartTime=now+3
has_session() { sed -n '/, run 2$/,$p' "$work/trials/slurm-$service.out" | finds 'session begins.*"trial-3/0"'; }
until_true 60 "trial 3 goes on with the new run of the service" has_session
ctl scancel --batch --signal=USR1 "${trials}_2"
# As SLURM does before it takes the nodes away. The last trial has the number of the whole array.
ctl scancel --signal=TERM "${trials}_3"
all_listen() { [ "$(grep -c 'listening on' "$work"/cgroups/*.out)" -eq 4 ]; }
until_true 60 "both tiers serve" all_listen
# shellcheck disable=SC2046  # Numbers.
kill -TERM $(shells "$cgroups")
for trial in 2 3; do
    until_true 60 "trial $trial is put in the queue again" has_state "${trials}_$trial" PENDING
    [ "$(lines "$work/trials/digests-${trial}0")" -lt 32 ] || fail "trial $trial was over before the signal"
    ctl scontrol update JobId="${trials}_$trial" StartTime=now+3
done
until_true 120 "the trials end" is_gone "$trials"
! ctl scontrol show job "$trials" | grep 'JobState=' | grep -v COMPLETED || fail "a trial is not COMPLETED"
ctl scancel --batch --signal=TERM "$service"
ended "$service" trials
until_true 60 "both tiers end" is_gone "$cgroups"
has_state "$cgroups" FAILED || fail "tiers that SLURM ended make a job of $(ctl scontrol show job "$cgroups")"
[ "$(grep -c 'asked to end: draining' "$work"/cgroups/*.out)" -eq 4 ] || fail "programs did not get TERM"
[ "$(grep -c 'exit code 143$' "$work"/cgroups/*.out)" -eq 4 ] || fail "tasks did not end by TERM"
for trial in 0 1 2 3; do
    mkdir "$work/trial-$trial"
    mv "$work/trials/digests-${trial}0" "$work/trial-$trial/digests-0"
    equal "trial-$trial" one-rank
done
places=$(find "$work/trials/checkpoints" -mindepth 2 -printf '%P\n' | sed 's,/.*,,' | sort -u | tr '\n' ' ')
[ "$places" = 'trial-2 trial-3 ' ] || fail "not just the trials that were cut short left checkpoints: $places"
! grep -h 'Exited with exit code' "$work/trials"/*.out | grep -v 'code 143$' || fail "a task did not end well"

echo "== a worker is submitted while a rank waits, and cancelled when none does"
export HEADWATER_RECEIVER__EPOCHS=6
local_run six-epochs 1
mkdir -p "$work/grow"
touch "$work/grow/more"
# The service outlives the rank: without its worker, the controller would keep its own.
export HEADWATER_TELEMETRY__METRICS_LISTEN=0.0.0.0:9400
service=$(submit grow env HW_TRAINER_NODES=0 HW_AUGMENT_NODES=1 HW_ADDRESS_DIR="$work/grow/service" \
    "$sbatch" --env "$top/slurm/cpu-only.env")
job=$(submit grow env HW_ADDRESS_DIR="$work/grow/service" HEADWATER_RECEIVER__WORKERS_REFRESH_MS=300 \
    HEADWATER_RECEIVER__WORKERS="file:$work/grow/service/workers,file:$work/grow/more" \
    sbatch --array=0 --exclusive "$top/slurm/array-hpo.sbatch" "$work/rank.sh")
unset HEADWATER_RECEIVER__EPOCHS HEADWATER_TELEMETRY__METRICS_LISTEN
# node JOB: the node of a job, a trial or a component that has one.
node() { ctl squeue --noheader --format='%i %N' | sed -n "s/^$1 //p"; }
has_node() { [ -n "$(node "$1")" ]; }
for part in "$service+1" "${job}_0"; do until_true 30 "$part has a node" has_node "$part"; done
rank_node=$(node "${job}_0")
ctl env -C "$work/grow" HEADWATER_CONFIG="$work/headwater.toml" HW_BIN="$HW_BIN" \
    HW_ADDRESS_DIR="$work/grow/service" sh -c 'echo $$ >controller.pid && exec "$@"' sh \
    "$bin" autoscale --max 2 \
    --workers "$(node "$service+1"):9400" --receivers "$rank_node:9400" \
    --set autoscale.look_ms=400 --set scaling.up_pause_s=1 --set scaling.down_window_s=2 \
    --set autoscale.slurm_script="$top/slurm/worker.sbatch" \
    --set autoscale.slurm_workers_file="$work/grow/more" >"$work/grow/autoscale.out" 2>&1 &
controller=$!
ctl python3 tests/k8s/metric.py "$rank_node:9400" headwater_receiver_workers 2
ended "$job" grow 180
equal grow six-epochs
is_idle() { [ -z "$(ctl squeue --noheader --name=headwater-worker)" ]; }
until_true 30 "the worker is cancelled" is_idle
ctl scancel --batch --signal=TERM "$service"
ended "$service" grow
grep -q '^2 workers instead of 1: ranks wait' "$work/grow/autoscale.out" &&
    grep -q '^1 worker instead of 2: fewer do' "$work/grow/autoscale.out" ||
    fail "the controller did not step up and down: $(cat "$work/grow/autoscale.out")"
kill "$(cat "$work/grow/controller.pid")"
wait "$controller" || fail "the controller did not end well"

echo "== an augment node that is lost in mid-epoch changes no batch and ends nothing"
job=$(submit lost-node env STEP_MS=300 "$sbatch" --env "$top/slurm/cpu-only.env" "$work/rank.sh")
until_true 30 "batches come" has_batches lost-node 6
ctl scontrol show job "$job" | finds 'NodeList=n\[2-3\]' || fail "n3 is no augment node"
tests/slurm/cluster.sh cut n3
# What SLURM itself finds out after half a minute.
ctl scontrol update NodeName=n3 State=DOWN Reason=cut
[ "$(lines "$work"/lost-node/digests-0)" -lt 16 ] || fail "the epoch was over before the loss"
ended "$job" lost-node
equal lost-node two-ranks
left=$(find "$work" -name '.headwater-token*' -print)
[ -z "$left" ] || fail "tokens stay behind: $left"
echo "all SLURM tests passed in $SECONDS s"
