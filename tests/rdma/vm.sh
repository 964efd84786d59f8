#!/usr/bin/env bash
# vm.sh COMMAND.. - runs a command in a throw-away virtual machine with Debian's stock kernel and a
# soft-RoCE port, rxe0: as uml.sh does, slower by far (the processor is emulated), on a kernel that
# nobody here has built. The kernel's package is unpacked, not installed; the host's files are seen
# read-only under a tmpfs. Ends with the command's status; 97 where the machine
# does not see the working folder, 99 where it never came so far.
#
#   HEADWATER_VM    where kernel and first file system are kept (default /var/tmp/headwater-vm)
#   VM_OUT          folder for results, /out in the machine (default: a temporary one)
#   VM_MEMORY       MiB (default 2048)
#   VM_SECONDS      until it is killed (default 900)
# needs: qemu-system-x86 busybox-static cpio xz-utils python3 apt-get
set -euo pipefail
kept=${HEADWATER_VM:-/var/tmp/headwater-vm}
out=${VM_OUT:-$(mktemp -d)}
seconds=${VM_SECONDS:-900}
here=$PWD
mkdir -p "$kept" "$out"
rm -f "$out/status"

unpack_kernel() {
    cd "$kept"
    local package
    package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9]/{print $2; exit}')
    ls "$package"_*.deb >/dev/null 2>&1 || apt-get download "$package"
    rm -rf kernel
    dpkg -x "$package"_*.deb kernel
    local version
    version=$(ls kernel/lib/modules)
    # The program inside the compressed image, which qemu starts directly: unpacking it under an
    # emulated processor takes half a minute.
    python3 - "kernel/boot/vmlinuz-$version" vmlinux <<'PY'
import lzma, struct, sys
image = open(sys.argv[1], "rb").read()
offset, length = struct.unpack_from("<II", image, 0x248)
start = ((image[0x1F1] or 4) + 1) * 512 + offset
open(sys.argv[2], "wb").write(lzma.LZMADecompressor().decompress(image[start : start + length]))
PY
    busybox depmod -b "$kept/kernel" "$version"
    echo "$version" >version
    cd "$here"
}

# add MODULE: it and what it needs into the first file system, in the order of loading.
add() {
    local line file needed
    line=$(grep -m1 -E "(^|/)$1\.ko:" "$modules/modules.dep") || return 0
    for needed in $(echo "${line#*:}" | tr ' ' '\n' | tac); do add "$(basename "$needed" .ko)"; done
    file=${line%%:*}
    [ -f "$root/m/$(basename "$file")" ] && return
    cp "$modules/$file" "$root/m/"
    basename "$file" >>"$root/m/order"
}

first_file_system() {
    modules=$kept/kernel/lib/modules/$(cat "$kept/version")
    root=$kept/root
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,m,new}
    cp "$(command -v busybox)" "$root/bin/busybox"
    local module
    for module in virtio_pci 9pnet_virtio 9p overlay dummy crc32_generic crc32c_generic ib_uverbs rdma_rxe; do
        add "$module"
    done
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for m in $(cat /m/order); do insmod "/m/$m" || echo "vm.sh: $m is not loaded"; done
options=trans=virtio,version=9p2000.L,msize=512000
mkdir -p /lower /over
mount -t 9p -o "ro,cache=loose,$options" host /lower || exec sh
mount -t tmpfs -o size=80% t /over
mkdir -p /over/u /over/w
mount -t overlay -o lowerdir=/lower,upperdir=/over/u,workdir=/over/w o /new
mkdir -p /new/out
mount -t 9p -o "cache=none,$options" out /new/out
for d in proc sys dev; do mount --move "/$d" "/new/$d"; done
mkdir -p /new/dev/shm
mount -t tmpfs shm /new/dev/shm
mount -t tmpfs run /new/run
exec chroot /new /bin/bash /out/guest.sh
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$kept/initrd.gz"
}

[ -f "$kept/version" ] || unpack_kernel
[ -f "$kept/initrd.gz" ] && [ "$kept/initrd.gz" -nt "$0" ] || first_file_system

words=$(printf '%q ' "$@")
cat >"$out/guest.sh" <<GUEST
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
ulimit -l unlimited
ip link set lo up
ip link add rdma0 type dummy && ip link set rdma0 mtu 4200 up && ip addr add 10.99.0.1/24 dev rdma0
rdma link add rxe0 type rxe netdev rdma0
echo "kernel \$(uname -r), \$(rdma link show)"
if ! cd "$here"; then
    echo "vm.sh: $here cannot be seen in the machine: clone elsewhere"
    echo 97 >/out/status
else
    $words
    echo \$? >/out/status
fi
sync
echo o >/proc/sysrq-trigger
sleep 20
GUEST

timeout -k 5 "$seconds" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu qemu64 -smp 1 \
    -m "${VM_MEMORY:-2048}" -nodefaults -no-user-config -no-reboot -display none -serial stdio \
    -kernel "$kept/vmlinux" -initrd "$kept/initrd.gz" \
    -append "console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=reliable random.trust_cpu=on" \
    -fsdev local,id=h,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=h,mount_tag=host \
    -fsdev "local,id=o,path=$out,security_model=none" -device virtio-9p-pci,fsdev=o,mount_tag=out \
    </dev/null | grep -v '^\[' || true
status=$(cat "$out/status" 2>/dev/null || echo 99)
[ -n "${VM_OUT:-}" ] || rm -rf "$out"
exit "$status"
