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

# The missing packages by the names of Fedora (dnf) or Arch (pacman); cross-compilers have none there.
renamed() { # renamed dnf|pacman
    for package in $missing; do
        case $1:$package in
            dnf:g++) echo gcc-c++ ;;
            dnf:python3*) echo python3 ;;
            dnf:libzmq3-dev) echo zeromq-devel ;;
            pacman:g++) echo gcc ;;
            pacman:python3*) echo python ;;
            pacman:libzmq3-dev) echo zeromq ;;
            *:openmpi-bin) echo openmpi ;;
            *) echo "$package" ;;
        esac
    done | sort -u | paste -sd ' ' -
}

install_missing() { # fails, and says what to do, where it cannot
    if ! command -v apt-get >/dev/null 2>&1; then
        if command -v dnf >/dev/null 2>&1; then
            by="dnf install $(renamed dnf)"
        elif command -v pacman >/dev/null 2>&1; then
            by="pacman -S --needed $(renamed pacman)"
        else
            by="install what Debian calls$missing"
        fi
        echo "packages are missing, and apt-get is not here to install them. As root: $by" >&2
        return 1
    fi
    if [ -n "$as_root" ] && ! command -v sudo >/dev/null 2>&1; then
        echo "packages are missing, and only root can install them. As root: apt-get install$missing" >&2
        return 1
    fi
    echo "installing:$missing"
    # Without news of packages, those that are known may do.
    apt_get update || true
    # shellcheck disable=SC2086  # The list is words.
    apt_get install -y --no-install-recommends $missing || {
        echo "cannot install packages that are missing. As root: apt-get install$missing" >&2
        return 1
    }
}

# Packages that start a server or change the kernel's settings when they are installed: only programs are taken.
programs_of() { # programs_of PACKAGE PROGRAM..
    package=$1
    shift
    lacking=
    for program in "$@"; do command -v "$program" >/dev/null 2>&1 || lacking=1; done
    [ -n "$lacking" ] || return 0
    unpacked=$(mktemp -d) || return
    chmod 755 "$unpacked"
    (
        cd "$unpacked" &&
            { apt-get -qq download "$package" 2>/dev/null || { apt_get update && apt-get -qq download "$package"; }; } &&
            dpkg-deb --extract "$package"_*.deb . &&
            for program in "$@"; do $as_root install "usr/bin/$program" /usr/local/bin || exit; done
    )
    status=$?
    rm -rf "$unpacked"
    return $status
}

emulator() { programs_of qemu-user-static qemu-aarch64-static; }

# For what only some tests or a faster build need. Nobody is asked for a password for that.
install_or_do_without() { # install_or_do_without CONSEQUENCE
    if [ -z "$missing" ]; then
        return
    elif [ -z "$as_root" ] && command -v apt-get >/dev/null 2>&1; then
        install_missing || echo "cannot install$missing: $1" >&2
    else
        echo "packages are missing that root can install on Debian:$missing: $1" >&2
    fi
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
if [ "${1:-}" = zeromq ]; then
    missing=
    [ -e /usr/include/zmq.h ] || missing="$missing libzmq3-dev"
    install_or_do_without "ZeroMQ is compiled"
fi

# install-system.sh tests: what tests of deployments need besides. Only root can run them, and they
# say that they are skipped where something is missing.
if [ "${1:-}" = tests ]; then
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
    # Images of another processor.
    need aarch64-linux-gnu-ld binutils-aarch64-linux-gnu
    for pair in libc.so.6:libc6 libgcc_s.so.1:libgcc-s1 libstdc++.so.6:libstdc++6; do
        [ -e "/usr/aarch64-linux-gnu/lib/${pair%:*}" ] || missing="$missing ${pair#*:}-arm64-cross"
    done
    install_or_do_without "tests that need them are skipped"
    if [ -z "$as_root" ]; then
        # They check the alerts.
        programs_of prometheus promtool prometheus || echo "cannot take promtool from prometheus: tests that need it are skipped" >&2
        emulator || echo "cannot take qemu-aarch64-static from qemu-user-static: tests that need it are skipped" >&2
    fi
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
    [ -z "$missing" ] || install_missing
    emulator || { echo "qemu-aarch64-static is missing: take it from Debian's package qemu-user-static" >&2 && exit 1; }
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is missing: install Rust with rustup (rust-toolchain.toml names the version)" >&2
    exit 1
fi
