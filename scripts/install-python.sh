#!/bin/sh
# Makes a Python environment with what the wheel's build and tests need: install-python.sh DIR
set -eu

dir=$1
[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt
