#!/bin/sh
# Compares training loaders: benches/peers/proofs.sh resume|start|memory|cost [OPTIONS OF THE SCRIPT]
# For `resume`, `start` and `memory` it makes a Python environment in out/proofs (2 GB, may be deleted) with the pinned
# peers and with the wheel of `make wheel ARCHS=x86_64`. Without a wheel, give --loaders without headwater.
set -eu
cd "$(dirname "$0")/../.."

here=benches/peers
venv=out/proofs/venv
name=${1:?resume, start, memory or cost}
shift

if [ "$name" = cost ]; then
    exec python3 "$here/cost.py" "$@"
fi
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check"
if ! [ -e "$venv/ready" ]; then
    mkdir -p out/proofs
    python3 -m venv "$venv"
    $pip --no-deps -r "$here/requirements-resume.txt"
    $pip -r "$here/requirements-resume-rest.txt"
    libraries=$(echo "$venv"/lib/python3*/site-packages/torch/lib)
    "$venv/bin/python" scripts/torch_stub.py "$libraries" "$libraries"
    touch "$venv/ready"
fi
for wheel in out/wheels/headwater-*x86_64.whl; do
    if [ -e "$wheel" ]; then
        $pip --no-deps --force-reinstall "$wheel"
    fi
done
exec "$venv/bin/python" "$here/$name.py" "$@"
