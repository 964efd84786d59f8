#!/usr/bin/env bash
# kernel.sh - builds, once, a User-Mode Linux kernel with soft-RoCE (rdma_rxe) out of Debian's
# linux-source-6.1, and prints where it lies. An ordinary program of 8 MB: no KVM, no module, nothing
# installed. Takes about 9 minutes of one core; everything but the program is removed afterwards.
#
#   HEADWATER_UML   where it is kept (default /var/tmp/headwater-uml)
#   kernel.sh --cached   prints it only if it is there already; else fails
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kept=${HEADWATER_UML:-/var/tmp/headwater-uml}
# Another configuration is another kernel.
kernel=$kept/linux-$(cksum <"$here/uml.config" | cut -d' ' -f1)

if [ -x "$kernel" ]; then
    echo "$kernel"
    exit 0
fi
if [ "${1:-}" = --cached ]; then
    exit 1
fi
for need in flex bison bc gcc make xz dpkg apt-get; do
    command -v "$need" >/dev/null || { echo "kernel.sh: $need is missing; scripts/install-system.sh tests installs it" >&2; exit 1; }
done
mkdir -p "$kept"
exec 9>"$kept/lock"
flock 9
if [ -x "$kernel" ]; then # Another run has made it meanwhile.
    echo "$kernel"
    exit 0
fi

work=$kept/build
mkdir -p "$work"
cd "$work"
{
    ls linux-source-6.1_*.deb >/dev/null 2>&1 || apt-get download linux-source-6.1
    [ -f package/usr/src/linux-source-6.1.tar.xz ] || dpkg -x linux-source-6.1_*.deb package
    if [ ! -f linux-source-6.1/Makefile ]; then
        tar xJf package/usr/src/linux-source-6.1.tar.xz --exclude='*.rst' \
            --exclude='*/drivers/gpu/drm/amd/include/*' --exclude='*/arch/arm*/boot/dts/*'
    fi
    cd linux-source-6.1
    # Registers are handed to the host's ptrace whole or not at all, and 6.1 has room for those of AVX-512
    # only: a processor with AMX has 11 KB of them, and there the first process dies (mended in 6.13,
    # which asks the host). More room than the host needs is cut by the host. A copy lies on the stacks
    # of signal handlers, hence the larger stacks in uml.config.
    sed -i 's/DEFINE_LONGS(HOST_FP_SIZE, 2696);/DEFINE_LONGS(HOST_FP_SIZE, 16384);/' arch/x86/um/user-offsets.c
    grep -q 'HOST_FP_SIZE, 16384' arch/x86/um/user-offsets.c || { echo "kernel.sh: room for registers was not made" >&2; exit 1; }
    make ARCH=um allnoconfig KCONFIG_ALLCONFIG="$here/uml.config"
    # What the configuration asks for and does not get would show as a missing device much later.
    for wanted in RDMA_RXE=y KERNEL_STACK_ORDER=4 OVERLAY_FS=y DUMMY=y HOSTFS=y; do
        grep -q "^CONFIG_$wanted\$" .config || { echo "kernel.sh: CONFIG_$wanted was not taken" >&2; exit 1; }
    done
    make ARCH=um -j"${JOBS:-2}" linux
    strip -o "$kernel.new" linux
    mv "$kernel.new" "$kernel"
} >"$kept/build.log" 2>&1 || { tail -n 20 "$kept/build.log" >&2; exit 1; }
cd "$kept"
rm -rf "$work"
echo "$kernel"
