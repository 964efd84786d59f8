#!/bin/sh
# Makes a Python environment with what the wheel's build and tests need: install-python.sh DIR
set -eu

dir=$1
[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt
# Without what it names as its needs, torch among them: reading takes none of it.
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps tensorcom==0.1.0
