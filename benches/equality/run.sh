#!/bin/sh
# Compares views with those of torchvision and Pillow, and prints docs/benchmarks/truth.md's table:
#   benches/equality/run.sh [SEEDS]
# HEADWATER_BENCH_PHOTOS names a folder of .jpg files or of .tar archives with such members; it is tests/data/photos
# if not given. HEADWATER_EQUALITY_VENV may name another Python environment than that of `make test`. What is
# installed beside it lies under out/equality and may be deleted.
set -eu
cd "$(dirname "$0")/../.."

seeds=${1:-2}
photos=${HEADWATER_BENCH_PHOTOS:-tests/data/photos}
home=out/equality
here=benches/equality

# The Python environment of the tests, for torch and NumPy.
venv=${HEADWATER_EQUALITY_VENV:-.venv}
[ -e "$venv/ready" ] || make "$venv/ready"
shared=$(cd "$(echo "$venv"/lib/python3*/site-packages)" && pwd)

# A Pillow of its own before the shared packages.
for pillow in 12.3.0 13.0.0; do
    venv=$home/pillow-$pillow
    [ -e "$venv/ready" ] && continue
    python3 -m venv "$venv"
    echo "$shared" >"$(echo "$venv"/lib/python3*/site-packages)/shared.pth"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "Pillow==$pillow" torchvision==0.29.2
    touch "$venv/ready"
done

# HEADWATER_EQUALITY_PROFILE=dev takes what a build of the tests has left.
program=$(cargo build --quiet --workspace --profile "${HEADWATER_EQUALITY_PROFILE:-release}" --example views --message-format json |
    sed -n 's/.*"name":"views".*"executable":"\([^"]*\)".*/\1/p')

echo '| recipe | `resize_passes` | torchvision, PyTorch, Pillow | blur | views equal in every byte | values that differ | levels |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
compare() {
    OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 "$home/pillow-$1/bin/python" "$here/compare.py" "$program" "$photos" "$2" "$3" "$seeds" ${4:-}
}
compare 12.3.0 dinov2 horizontal-first
compare 12.3.0 dinov2 horizontal-first rounded
compare 13.0.0 dinov2 pillow-13
compare 13.0.0 dinov2 horizontal-first
compare 12.3.0 dinov3-gram horizontal-first
compare 13.0.0 imagenet-train pillow-13
compare 13.0.0 imagenet-eval pillow-13
