#!/bin/bash
# Runs every check and every test, all of them even when one fails, and ends with one line
# `N passed, N failed, N skipped`. A check (format, clippy, rustdoc, the wheel's build) counts as
# one test. Exit status 1 on any failure.
set -uo pipefail

cd "$(dirname "$0")/.."
venv=.venv
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

passed=0
failed=0
skipped=0

# section NAME: says what begins, and how long all before it took.
section() {
    printf '== %s (after %d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

# check NAME COMMAND..: one test that passes when the command does.
check() {
    local name=$1
    shift
    section "$name"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
    fi
}

# sum WORD FILE: adds up the numbers before WORD in lines of test results.
sum() {
    grep -oE "[0-9]+ $1" "$2" | awk '{ total += $1 } END { print total + 0 }'
}

rust_tests() {
    section "cargo test"
    cargo test --workspace --no-fail-fast 2>&1 | tee "$logs/rust"
    local status=${PIPESTATUS[0]}
    grep '^test result: ' "$logs/rust" >"$logs/rust-results"
    passed=$((passed + $(sum passed "$logs/rust-results")))
    skipped=$((skipped + $(sum ignored "$logs/rust-results")))
    local broken
    broken=$(sum failed "$logs/rust-results")
    # A test that aborts its process, or does not compile, leaves no count behind.
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    failed=$((failed + broken))
}

# pytest_in FOLDER: adds its results up.
pytest_in() {
    section "pytest $1"
    # The one that cargo test has just built, not a newer one of another profile.
    local target=${CARGO_TARGET_DIR:-$PWD/target}
    HEADWATER_BIN=$target/debug/headwater \
        "$venv/bin/python" -m pytest -q "$1" 2>&1 | tee "$logs/python"
    local status=${PIPESTATUS[0]}
    tail -n 1 "$logs/python" >"$logs/python-results"
    passed=$((passed + $(sum passed "$logs/python-results")))
    skipped=$((skipped + $(sum skipped "$logs/python-results")))
    local broken
    broken=$(($(sum failed "$logs/python-results") + $(sum 'errors?' "$logs/python-results")))
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    failed=$((failed + broken))
}

# Object stores on a real S3 server, moto from PyPI.
s3_tests() {
    section "S3"
    HEADWATER_MOTO_SERVER=$PWD/$venv/bin/moto_server cargo test --workspace --lib \
        -- --ignored a_real_s3_server_conforms 2>&1 | tee "$logs/s3"
    local status=${PIPESTATUS[0]} ran
    grep '^test result: ' "$logs/s3" >"$logs/s3-results"
    ran=$(sum passed "$logs/s3-results")
    passed=$((passed + ran))
    skipped=$((skipped - ran))
    [ "$status" -eq 0 ] && [ "$ran" -eq 1 ] || { failed=$((failed + 1)) && echo "FAILED: S3"; }
}

# On a real SLURM of this machine; loudly skipped where there can be none.
slurm_tests() {
    section "SLURM"
    tests/slurm/run.sh "${CARGO_TARGET_DIR:-$PWD/target}/debug/headwater"
    case $? in
        0) passed=$((passed + 1)) ;;
        77) skipped=$((skipped + 1)) ;;
        *) failed=$((failed + 1)) && echo "FAILED: SLURM" ;;
    esac
}

# With CUDA's compilers from PyPI, which need no GPU. The tests that need them are ignored ones.
cuda_tests() {
    section "CUDA kernels for sm_75, sm_80, sm_90 and sm_100"
    local toolkit
    toolkit=$(scripts/install-cuda.sh "$venv/cuda") || return 0
    HEADWATER_CUDA_TOOLKIT=$toolkit LD_LIBRARY_PATH=$toolkit/lib \
        cargo test --workspace --test cuda -- --ignored 2>&1 |
        tee "$logs/cuda"
    local status=${PIPESTATUS[0]} ran
    grep '^test result: ' "$logs/cuda" >"$logs/cuda-results"
    ran=$(sum passed "$logs/cuda-results")
    passed=$((passed + ran))
    skipped=$((skipped - ran))
    [ "$status" -eq 0 ] || { failed=$((failed + 1)) && echo "FAILED: CUDA kernels"; }
}

# The rdma link on emulated verbs, everywhere. That is no RDMA: rdma_tests is for that.
emulated_verbs_tests() {
    section "rdma link on emulated verbs"
    local verbs status broken
    verbs=$(tests/emulated_verbs/build.sh "${CARGO_TARGET_DIR:-$PWD/target}/tmp") || {
        failed=$((failed + 1)) && echo "FAILED: the emulated verbs do not build"
        return
    }
    LD_LIBRARY_PATH=$verbs cargo test --workspace --no-fail-fast \
        --test rdma --test rdma_memory 2>&1 | tee "$logs/verbs"
    status=${PIPESTATUS[0]}
    grep '^test result: ' "$logs/verbs" >"$logs/verbs-results"
    passed=$((passed + $(sum passed "$logs/verbs-results")))
    broken=$(sum failed "$logs/verbs-results")
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    if [ "$broken" -ne 0 ]; then echo "FAILED: rdma link on emulated verbs"; fi
    failed=$((failed + broken))
}

# On verbs of a kernel with soft-RoCE; loudly skipped where that kernel is not there.
rdma_tests() {
    section "RDMA"
    tests/rdma/run.sh "${CARGO_TARGET_DIR:-$PWD/target}/debug/headwater" 2>&1 | tee "$logs/rdma"
    local status=${PIPESTATUS[0]}
    if [ "$status" -eq 77 ]; then
        skipped=$((skipped + 1))
        return
    fi
    local broken
    passed=$((passed + $(sum passed "$logs/rdma")))
    broken=$(sum failed "$logs/rdma")
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    if [ "$broken" -ne 0 ]; then echo "FAILED: RDMA"; fi
    failed=$((failed + broken))
}

wheel() {
    scripts/build-wheel.sh "$venv" out/test-wheels 2>&1 | tee "$logs/wheel"
    [ "${PIPESTATUS[0]}" -eq 0 ] &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            --no-deps --force-reinstall out/test-wheels/headwater-*.whl
}

# pyo3 and crates of ours apart, all of it was compiled for the Rust tests.
nothing_twice() {
    ! grep 'Compiling ' "$logs/wheel" | grep -vE ' (headwater.*|pyo3.*|target-lexicon) v'
}

docs() {
    RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
}

check 'format' cargo fmt --all --check
check 'clippy' cargo clippy --workspace --all-targets --quiet -- -D warnings
check 'rustdoc' docs
rust_tests
s3_tests
cuda_tests
slurm_tests
emulated_verbs_tests
rdma_tests
check 'wheel' wheel
check 'the wheel compiles no dependency again' nothing_twice
pytest_in gpu-receiver/python/tests
pytest_in tests/docs
pytest_in tests/helm
pytest_in tests/prometheus
pytest_in tests/publish
pytest_in tests/readme
pytest_in tests/wheel
pytest_in tests/examples

section 'end'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
