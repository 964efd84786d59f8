#!/bin/sh
# Puts CUDA's compilers and nvJPEG, which need no GPU, into a Python environment of their own and
# prints the folder they are in: install-cuda.sh UV DIR. Exits with 77 where PyPI cannot be reached.
set -eu

uv=$1
dir=$2
# All of one release: the newest that drivers from 580 on can run.
packages='nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
    nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
    nvidia-nvjpeg==13.0.4.44'

if [ ! -e "$dir/ready" ]; then
    [ -x "$dir/bin/python" ] || python3 -m venv --without-pip "$dir" >&2
    # shellcheck disable=SC2086
    if ! "$uv" pip install --quiet --python "$dir/bin/python" $packages >&2; then
        echo '*** SKIPPED: PyPI has not given the CUDA compilers; the kernels were NOT compiled' >&2
        exit 77
    fi
    touch "$dir/ready"
fi
"$dir/bin/python" -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13"))'
