#!/bin/sh
# Puts CUDA's compilers and nvJPEG, which need no GPU, into a Python environment of their own and
# prints the folder they are in: install-cuda.sh UV DIR. With `install-cuda.sh UV DIR libraries [ARCH]` DIR has only the
# libraries of images, NVRTC and nvJPEG, for this processor or for x86_64 or aarch64.
# Exits with 77 where PyPI cannot be reached.
set -eu

uv=$1
dir=$2
# All of one release: the newest that drivers from 580 on can run.
libraries='nvidia-cuda-nvrtc==13.0.88 nvidia-nvjpeg==13.0.4.44'
compilers='nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85'

install() { # install OPTION..
    "$uv" pip install --quiet "$@" >&2 && touch "$dir/ready" && return
    echo '*** SKIPPED: PyPI has not given the CUDA compilers; the kernels were NOT compiled' >&2
    exit 77
}

# shellcheck disable=SC2086  # The lists are words.
if [ "${3:-}" = libraries ]; then
    [ -e "$dir/ready" ] || install --no-deps --target "$dir" \
        --python-platform "${4:-$(uname -m)}-manylinux_2_28" $libraries
    echo "$dir/nvidia/cu13"
else
    [ -x "$dir/bin/python" ] || python3 -m venv --without-pip "$dir" >&2
    [ -e "$dir/ready" ] || install --python "$dir/bin/python" $libraries $compilers
    "$dir/bin/python" -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13"))'
fi
