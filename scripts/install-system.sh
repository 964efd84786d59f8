#!/bin/sh
# Installs the system packages that are missing: a C compiler and make for libjpeg-turbo, cmake and
# nasm for its fast paths, a C++ compiler for ZeroMQ, and Python's venv; with the word `zeromq` the system's ZeroMQ,
# with `tests` SLURM and UCX, with `wheel` the unwinder of the other processor, with `arm` its compiler and emulator,
# with `page` a browser, with `frameworks` MPI. Does nothing where all are there.
set -eu

missing=
need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
apt_get() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"
}
install_missing() {
    echo "installing:$missing"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "no apt-get here: install$missing by hand" >&2
        return 1
    fi
    # Without news of packages, those that are known may do.
    apt_get update || true
    # shellcheck disable=SC2086  # The list is words.
    apt_get install -y --no-install-recommends $missing
}

# The two programs of Debian's package, which check the alerts. The package itself starts a server.
prometheus() {
    command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1 && return
    unpacked=$(mktemp -d) || return
    chmod 755 "$unpacked"
    (
        cd "$unpacked" &&
            { apt-get -qq download prometheus 2>/dev/null || { apt_get update && apt-get -qq download prometheus; }; } &&
            dpkg-deb --extract prometheus_*.deb . &&
            install usr/bin/promtool usr/bin/prometheus /usr/local/bin
    )
    status=$?
    rm -rf "$unpacked"
    return $status
}

need cc gcc
# Compiles ZeroMQ, and in tests runs the text of the CUDA kernels on the processor.
need g++ g++
need make make
need cmake cmake
need nasm nasm
need python3 python3
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"

[ -z "$missing" ] || install_missing

# install-system.sh zeromq: what `make test` need not compile then.
if [ "${1:-}" = zeromq ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    missing=
    [ -e /usr/include/zmq.h ] || missing="$missing libzmq3-dev"
    [ -z "$missing" ] || install_missing || echo "cannot install$missing: it is compiled" >&2
fi

# install-system.sh tests: what tests of deployments need besides. Only root can run them, and they
# say that they are skipped where something is missing.
if [ "${1:-}" = tests ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    missing=
    need slurmctld slurmctld
    need slurmd slurmd
    need sbatch slurm-client
    need munged munge
    # A terminal for the monitor's screen.
    need tmux tmux
    # Hosts of their own for tests that pull cables.
    need ip iproute2
    # The system's Python, which every user may run, installs the wheel.
    /usr/bin/python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
    # Turns the clocks of processes.
    [ -e "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketimeMT.so.1" ] || missing="$missing libfaketime"
    # UCX for the ucx link, and its headers to compare structures with.
    [ -e /usr/include/ucp/api/ucp.h ] || missing="$missing libucx0 libucx-dev"
    # Verbs over soft-RoCE in a kernel of its own (tests/rdma), and the header to compare with.
    need flex flex
    need bison bison
    need bc bc
    need xz xz-utils
    need busybox busybox-static
    need cpio cpio
    [ -e /usr/include/infiniband/verbs.h ] || missing="$missing libibverbs-dev"
    need ibv_devinfo ibverbs-utils
    need ib_write_bw perftest
    ls /etc/libibverbs.d/rxe.driver >/dev/null 2>&1 || missing="$missing ibverbs-providers"
    if [ -n "$missing" ]; then
        install_missing || echo "SKIP: cannot install$missing: tests that need them are skipped" >&2
    fi
    prometheus || echo "SKIP: cannot install prometheus: tests that need it are skipped" >&2
fi

# install-system.sh frameworks: what `make test-frameworks` needs besides.
if [ "${1:-}" = frameworks ]; then
    missing=
    need mpirun openmpi-bin
    [ -z "$missing" ] || install_missing
fi

# install-system.sh page: what `make test-page` and scripts/screenshots.py need besides: 450 MB, mostly Chromium.
if [ "${1:-}" = page ]; then
    missing=
    need chromium chromium
    need tmux tmux
    [ -z "$missing" ] || install_missing
fi

# install-system.sh wheel: what `make wheel` links to on each processor that is not this one.
if [ "${1:-}" = wheel ]; then
    missing=
    for arch in x86_64:amd64 aarch64:arm64; do
        [ "${arch%:*}" = "$(uname -m)" ] || [ -e "/usr/${arch%:*}-linux-gnu/lib/libgcc_s.so.1" ] ||
            missing="$missing libgcc-s1-${arch#*:}-cross"
    done
    [ -z "$missing" ] || install_missing
fi

# install-system.sh arm: what `make test-arm` needs besides.
if [ "${1:-}" = arm ]; then
    missing=
    need aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    need qemu-aarch64-static qemu-user-static
    [ -z "$missing" ] || install_missing
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is missing: install Rust with rustup (rust-toolchain.toml names the version)" >&2
    exit 1
fi
