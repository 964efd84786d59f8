#!/bin/sh
# Makes a Python environment: install-python.sh DIR [uv|wheel|trainers]. With the word `uv` it has only the installer, with
# `wheel` what builds the wheel, else what the tests need, PyTorch and JAX among it (1.7 GB); with `trainers` also the
# frameworks of `make test-frameworks`. uv, from PyPI, installs: it loads and
# unpacks packages side by side, each once, and keeps them for the next environment.
set -eu

dir=$1
[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
uv=0.13.9
case $("$dir/bin/uv" --version 2>/dev/null) in
    "uv $uv "*) ;;
    *) "$dir/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv" ;;
esac
if [ "${2:-}" = uv ]; then exit; fi
# uv does not read what pip is told of a mirror.
index=${PIP_INDEX_URL:-$("$dir/bin/python" -m pip config get global.index-url 2>/dev/null || true)}
if [ -n "$index" ]; then export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"; fi
install() { # install OPTION..
    "$dir/bin/uv" pip install --quiet --python "$dir/bin/python" "$@"
}
if [ "${2:-}" = wheel ]; then
    install -r scripts/requirements-wheel.txt
    exit
fi
install -r scripts/requirements.txt
# Without what they name as their needs, a CUDA build of torch among it: what is used of that is in these files.
install --no-deps -r scripts/requirements-frameworks.txt -r scripts/requirements-formats.txt
if [ "${2:-}" = trainers ]; then install --no-deps -r scripts/requirements-trainers.txt; fi
# Beside torch's own libraries, where only they look.
libraries=$(echo "$dir"/lib/python3*/site-packages/torch/lib)
"$dir/bin/python" scripts/torch_stub.py "$libraries" "$libraries"
# What tests import is compiled once, here. Where PYTHONDONTWRITEBYTECODE is set, as in many images, each of a hundred
# processes would compile PyTorch anew: 6 seconds in place of 2, and 17 in place of 4 with Lightning.
env -u PYTHONDONTWRITEBYTECODE "$dir/bin/python" -W ignore - <<'IMPORTS'
import importlib

needed = ("torch", "jax")
others = """accelerate jax.numpy lightning lightning.pytorch.strategies moto.server mypy.stubtest nbclient numpy optuna PIL.Image
    pyarrow.parquet pytest streaming torch.distributed.run torch.utils.data torchdata.stateful_dataloader torchvision xdist yaml zmq"""
for name in (*needed, *others.split()):
    try:
        importlib.import_module(name)
    except Exception as error:
        if name in needed:
            print(f"{name} cannot be imported here: {error}")
IMPORTS
