#!/bin/sh
# Makes a Python environment: install-python.sh DIR [wheel]. With the word `wheel` it has only what
# builds the wheel, else also what the tests need, PyTorch and JAX among it (1.7 GB).
set -eu

dir=$1
pip="$dir/bin/python -m pip install --quiet --disable-pip-version-check"
[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
if [ "${2:-}" = wheel ]; then
    exec $pip -r scripts/requirements-wheel.txt
fi
$pip -r scripts/requirements.txt
# Without what it names as its needs, torch among them: reading takes none of it.
$pip --no-deps tensorcom==0.1.0
$pip --no-deps -r scripts/requirements-frameworks.txt
$pip --no-deps -r scripts/requirements-formats.txt
# Beside torch's own libraries, where only they look.
libraries=$(echo "$dir"/lib/python3*/site-packages/torch/lib)
"$dir/bin/python" scripts/torch_stub.py "$libraries" "$libraries"
"$dir/bin/python" -c 'import torch, jax' || echo 'PyTorch or JAX cannot be imported here' >&2
