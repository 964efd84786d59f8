#!/bin/sh
# Measures loaders in dlio_benchmark: benches/dlio.sh --photos FOLDER [OPTIONS OF benches/dlio/measure.py]
# It makes a Python environment in out/dlio (2 GB, may be deleted) with pinned packages and with the wheel of `make wheel ARCHS=x86_64`.
# HEADWATER_WHEEL names another wheel.
set -eu
cd "$(dirname "$0")/.."

venv=out/dlio/venv
if ! [ -e "$venv/ready" ]; then
    mkdir -p out/dlio
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r benches/dlio/requirements.txt
    libraries=$(echo "$venv"/lib/python3*/site-packages/torch/lib)
    "$venv/bin/python" scripts/torch_stub.py "$libraries" "$libraries"
    touch "$venv/ready"
fi
for wheel in ${HEADWATER_WHEEL:-out/wheels/headwater-*x86_64.whl}; do
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
done
exec "$venv/bin/python" benches/dlio/measure.py "$@"
