#!/bin/bash
# run.sh [HEADWATER] - the rdma link, and the ucx link, on a real kernel's verbs, over soft-RoCE in a
# User-Mode Linux kernel: the conformance suite of links, what they do to memory, what the doctor
# measures, and epochs of three tiers with processes killed and stopped in the middle. Ends with 77,
# loudly, where that kernel is not in the cache and cannot be run; `make test-rdma` builds it first.
#
#   HEADWATER_RDMA_UCX   1: the ucx link as well, of which the suite and what it does to memory
set -uo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
headwater=${1:-$target/debug/headwater}

skip() {
    echo "SKIP: the rdma and ucx links are not tested on verbs: $*" >&2
    exit 77
}
# In the stock kernel of a distribution, under an emulated processor: HEADWATER_RDMA_KERNEL=vm.
if [ "${HEADWATER_RDMA_KERNEL:-}" = vm ]; then
    within() { VM_SECONDS=${VM_SECONDS:-3600} tests/rdma/vm.sh "$@"; }
    export EPOCH_PRESET=imagenet-train EPOCH_SHARDS=000000 EPOCH_HEARTBEAT_MS=3000
    kernel=
else
    within() { UML_SECONDS=900 tests/rdma/uml.sh "$kernel" "$@"; }
    kernel=$(tests/rdma/kernel.sh --cached) || skip "no kernel with soft-RoCE is cached; make test-rdma builds one (9 minutes of a core, once)"
    # It hands its processes' registers to the host's ptrace, and has room for those of processors
    # of today: on one with more its first process is killed.
    within true >/dev/null 2>&1
    [ $? -ne 99 ] || skip "User-Mode Linux 6.1 does not start on this processor; HEADWATER_RDMA_KERNEL=vm emulates one"
fi
for need in busybox ip rdma; do
    command -v "$need" >/dev/null || skip "$need is missing; scripts/install-system.sh tests installs it"
done
[ -e /usr/lib/x86_64-linux-gnu/libibverbs.so.1 ] || skip "libibverbs1 is missing"

# built NAME: where the tests of that name are. They are run in the kernel, not by cargo.
built() {
    local program
    program=$(cargo test -p headwater-transport --test "$1" --no-run --message-format=json 2>/dev/null |
        grep -o "\"executable\":\"[^\"]*/$1-[^\"]*\"" | tail -n 1 | cut -d'"' -f4)
    [ -x "$program" ] || { echo "FAILED: $1 does not build" >&2; exit 1; }
    echo "$program"
}

status=0
passes() { # passes NAME COMMAND..
    echo "-- $1"
    shift
    within "$@" || { status=1 && echo "FAILED: $*" >&2; }
}
epochs() { # epochs VARIABLE=VALUE..
    passes "epochs, $*" env "$@" "EPOCH_PRESET=${EPOCH_PRESET:-dinov2}" "EPOCH_SHARDS=${EPOCH_SHARDS:-}" \
        "EPOCH_HEARTBEAT_MS=${EPOCH_HEARTBEAT_MS:-300}" tests/rdma/epoch.sh "$headwater"
}

# UCX makes its connections over unreliable datagrams, which find the port by its first address only;
# its queues of 4,096 buffers each, and its watch over mappings, cost the one emulated processor
# seconds for every connection.
ucx=(env UCX_TLS=rc,self UCX_IB_GID_INDEX=0 UCX_MEM_EVENTS=no
    UCX_UD_VERBS_RX_QUEUE_LEN=256 UCX_RC_VERBS_RX_QUEUE_LEN=256)

conformance=$(built rdma) && memory=$(built rdma_memory) || exit 1
passes conformance "$conformance" --test-threads 2
passes "registrations and copies" "$memory"
passes "doctor, and ucx behind rdma" tests/rdma/link.sh "$headwater"
epochs EPOCH_LINK=rdma EPOCH_QUEUE_PAIRS=4
# GPUDirect, as far as there is no GPU: the emulated one's memory, by its addresses, as with nvidia-peermem.
if gpu=$(tests/emulated_cuda/build.sh "$target/tmp"); then
    epochs EPOCH_LINK=rdma EPOCH_QUEUE_PAIRS=2 "EPOCH_GPU=$gpu"
else
    echo "FAILED: the emulated CUDA driver does not build" >&2
    status=1
fi
# Not in `make test`: where a connection takes too long, closing it makes UCX 1.13.1 end the process.
if [ -z "${HEADWATER_RDMA_UCX:-}" ]; then
    echo "-- ucx: not asked for (HEADWATER_RDMA_UCX=1)"
elif [ -n "$(compgen -G '/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0*')" ]; then
    conformance=$(built ucx) && memory=$(built ucx_memory) || exit 1
    passes "ucx: conformance" "${ucx[@]}" "$conformance" --skip ucx_exit:: --test-threads 1
    passes "ucx: registrations and copies" "${ucx[@]}" "$memory"
else
    echo "SKIP: the ucx link is not tested on verbs: UCX is missing, or has no transport over them; apt-get install libucx0" >&2
fi
exit $status
