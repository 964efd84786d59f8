#!/usr/bin/env bash
# uml.sh KERNEL COMMAND.. - runs a command under a User-Mode Linux kernel (kernel.sh builds it) that
# has a soft-RoCE port, rxe0. The kernel is an ordinary process; the host's files are seen read-only
# under a tmpfs, /tmp among them, and only $UML_OUT is shared for writing, as /out. Ends with the command's
# status; 97 where the kernel does not see the working folder, 98 where it has no rxe0, 99 where it never
# came so far.
#
#   UML_OUT       folder for results (default: a temporary one)
#   UML_MEMORY    of the kernel, MiB (default 3072)
#   UML_SECONDS   until it is killed (default 300)
set -euo pipefail
kernel=$1
shift
out=${UML_OUT:-$(mktemp -d)}
memory=${UML_MEMORY:-3072}
seconds=${UML_SECONDS:-300}
mkdir -p "$out"
rm -f "$out/status"

# Printed with %q: the guest's shell reads the words back as they are.
words=$(printf '%q ' "$@")
cat >"$out/first.sh" <<FIRST
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t tmpfs t /mnt
mkdir -p /mnt/u /mnt/w /mnt/n
mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w o /mnt/n || exit 1
cd /mnt/n
mount -t proc proc proc
mount -t sysfs s sys
mount -t devtmpfs d dev
mkdir -p dev/shm dev/pts out
mount -t tmpfs -o size=80% shm dev/shm
mount -t tmpfs t run
mount -t hostfs -o $out h out
chroot /mnt/n /bin/bash /out/second.sh
sync
busybox poweroff -f
FIRST
cat >"$out/second.sh" <<SECOND
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
ulimit -l unlimited
ip link set lo up
ip link add rdma0 type dummy && ip link set rdma0 mtu 4200 up && ip addr add 10.99.0.1/24 dev rdma0
rdma link add rxe0 type rxe netdev rdma0
if ! grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state; then
    echo "uml.sh: this kernel has no active rxe0" >&2
    echo 98 >/out/status
    exit
fi
# What a kernel hides of the host's files (/run, /dev) holds no clone of this repository.
if ! cd "$PWD"; then
    echo "uml.sh: $PWD cannot be seen in the kernel: clone elsewhere" >&2
    echo 97 >/out/status
    exit
fi
$words
echo \$? >/out/status
SECOND
chmod +x "$out/first.sh"

# The kernel keeps its memory in a file under TMPDIR. It takes the host's word for random numbers:
# without interrupts it would gather its own for four minutes, and keys would wait for them.
TMPDIR=/dev/shm timeout -k 3 "$seconds" "$kernel" "mem=${memory}M" rootfstype=hostfs root=/dev/root ro quiet \
    random.trust_cpu=on loglevel=3 con0=fd:0,fd:1 con=none ssl=none "init=$out/first.sh" </dev/null 2>&1 |
    grep --line-buffered -v -E '^(Core dump|Checking|epollctl|Adding|Kernel|Linux version|\s*soft|\s*hard|reboot:)' || true
status=$(cat "$out/status" 2>/dev/null || echo 99)
[ -n "${UML_OUT:-}" ] || rm -rf "$out"
exit "$status"
