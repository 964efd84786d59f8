#!/bin/sh
# Compares this project with other libraries on one core: benches/peers/run.sh FOLDER_OF_TARS [ROUNDS] [CORE]
# With HEADWATER_PEERS=presets.py, by the presets `supervised-timm` and `clip-train` instead of `dinov2`.
# With HEADWATER_PEERS=formats.py and HEADWATER_WHEEL=PATH_OF_THE_WHEEL, `headwater.decode` by the formats of images.
# Everything it installs lies under out/peers, about 2 GB, and may be deleted.
set -eu
cd "$(dirname "$0")/../.."

folder=$(cd "${1:?folder of tars with .jpg members}" && pwd)
rounds=${2:-7}
core=${3:-0}
home=out/peers
here=benches/peers
python=$home/venv/bin/python

if ! [ -e "$home/ready" ]; then
    mkdir -p "$home"
    python3 -m venv "$home/venv"
    pip="$python -m pip install --quiet --disable-pip-version-check"
    $pip --no-deps -r "$here/requirements.txt"
    $pip -r "$here/requirements-rest.txt"
    $pip --no-deps -r "$here/requirements-presets.txt"
    $python "scripts/torch_stub.py" "$(echo "$home"/venv/lib/python3*/site-packages/torch/lib)" "$home/stubs"
    touch "$home/ready"
fi

peers=${HEADWATER_PEERS:-measure.py}
if [ "$peers" = formats.py ]; then
    $python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "${HEADWATER_WHEEL:?path of the wheel}"
else
    ours=$(cargo bench --quiet -p headwater-render --bench rounds --no-run --message-format json |
        sed -n 's/.*"name":"rounds".*"executable":"\([^"]*\)".*/\1/p')
fi
LD_LIBRARY_PATH=$home/stubs OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 NO_ALBUMENTATIONS_UPDATE=1 \
    exec taskset -c "$core" "$python" "$here/$peers" ${ours:+"$ours"} "$folder" "$rounds"
