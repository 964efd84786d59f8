#!/bin/bash
# Runs every check and every test, all of them even when one fails, and ends with one line
# `N passed, N failed, N skipped`. A check (format, clippy and rustdoc, the wheel's build) counts as
# one test. Exit status 1 on any failure.
#
# All is compiled first, beside what installs Debian's and Python's packages. Then three lanes of tests run side by side:
# Rust's, those of Python that compute, and all others, which wait more than they compute.
set -uo pipefail

cd "$(dirname "$0")/.."
venv=.venv
# Clippy and rustdoc look at our crates as they are compiled.
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc-and-clippy.sh
# The system's ZeroMQ where programs find one: to compile the one that releases have takes a minute and a half.
has_zeromq() {
    local program status
    program=$(mktemp)
    cc -x c - -lzmq -o "$program" 2>/dev/null <<<'void zmq_version(int *, int *, int *);
        int main(void) { int a, b, c; zmq_version(&a, &b, &c); return 0; }' && "$program" 2>/dev/null
    status=$?
    rm -f "$program"
    return $status
}
if has_zeromq; then
    export HEADWATER_CARGO_OPTIONS="--config=target.$(rustc -vV | sed -n 's/^host: //p').zmq.rustc-link-lib=[\"zmq\"]"
fi
cargo() { command cargo ${HEADWATER_CARGO_OPTIONS:-} "$@"; }
target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$(mktemp -d)
declare -A beside=()
# Whoever ends this ends what runs beside it with all that it started, and sees what it said.
clear_away() {
    local name limited
    for name in "${!beside[@]}"; do
        if kill -0 "${beside[$name]}" 2>/dev/null; then
            kill -TERM -- "-${beside[$name]}" 2>/dev/null
            cat "$logs/$name-said"
        fi
    done
    # Last, so that no lane goes on to its next tests.
    for limited in "$logs"/limited-*; do
        [ ! -e "$limited" ] || kill -TERM "${limited##*-}" 2>/dev/null
    done
    rm -rf "$logs"
}
trap clear_away EXIT
trap 'exit 130' INT TERM

# beside NAME COMMAND..: starts it in a group of processes of its own, to be ended as a whole.
beside() {
    local name=$1
    shift
    set -m
    "$@" >"$logs/$name-said" 2>&1 </dev/null &
    beside[$name]=$!
    set +m
}

# ended NAME: waits for what was started beside, and says what it said.
ended() {
    wait "${beside[$1]}"
    local status=$?
    unset "beside[$1]"
    cat "$logs/$1-said"
    return $status
}

# count PASSED FAILED SKIPPED: lines of $logs/counts are added up at the end.
count() {
    echo "$*" >>"$logs/counts"
}

fail() {
    count 0 1 0
    echo "FAILED: $1"
}

# section NAME: says what begins, how long all before it took, and how much of the processors this lane has used.
section() {
    local used times=$logs/times-$BASHPID
    times >"$times"
    used=$(awk -F'[ms ]' 'NR == 2 { printf "%d", 60 * $1 + $2 + 60 * $4 + $5 }' "$times")
    printf '== %s (after %d:%02d, %d s of processor)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)) "$used"
}

# check NAME COMMAND..: one test that passes when the command does.
check() {
    local name=$1
    shift
    section "$name"
    if "$@"; then count 1 0 0; else fail "$name"; fi
}

# sum WORD FILE: adds up the numbers before WORD in lines of test results.
sum() {
    grep -oE "[0-9]+ ($1)" "$2" | awk '{ total += $1 } END { print total + 0 }'
}

# results NAME STATUS LINES: counts what a file of lines says of tests.
results() {
    local name=$1 status=$2 lines=$3 broken
    broken=$(($(sum failed "$lines") + $(sum 'errors?' "$lines")))
    # What does not compile leaves no count behind.
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    if [ "$broken" -ne 0 ]; then echo "FAILED: $name"; fi
    count "$(sum passed "$lines")" "$broken" "$(sum 'ignored|skipped' "$lines")"
}

# Tests that hang are ended, and have failed, before CI's time is over.
# A shell has what runs in its background ignore an interrupt, which tests send.
within=(env --default-signal=INT,QUIT timeout --kill-after=30 40m)

# finished PID: waits for what began `within` a time. Until then `clear_away` finds it by the file limited-PID: `timeout` leads
# a group of its own, which no signal to ours reaches.
finished() {
    local status
    wait "$1"
    status=$?
    rm -f "$logs/limited-$1"
    return $status
}

# said FILE COMMAND..: shows what a command says, and keeps it in FILE. A pipe would wait for whatever a test has left behind.
said() {
    local file=$1 pid
    shift
    : >"$file"
    "${within[@]}" "$@" >"$file" 2>&1 </dev/null &
    pid=$!
    : >"$logs/limited-$pid"
    tail -n +1 -s 0.2 --pid="$pid" -f "$file"
    finished "$pid"
}

# rust NAME CARGO-TEST-ARGUMENT..
rust() {
    local name=$1
    shift
    section "$name"
    local status ended
    said "$logs/$lane" cargo ${HEADWATER_CARGO_OPTIONS:-} test "$@"
    status=$?
    grep '^test result: ' "$logs/$lane" >"$logs/$lane-results"
    # A program that is ended by a signal leaves no count behind, whatever the others say.
    for ended in $(grep -oE 'didn.t exit successfully: .*\(signal: [0-9]+' "$logs/$lane" | grep -oE '[0-9]+$'); do
        fail "$name: a test program was ended by signal $ended"
    done
    results "$name" "$status" "$logs/$lane-results"
}

# ignored NAME LEAST CARGO-TEST-ARGUMENT..: tests that `cargo test` has counted as skipped, LEAST of them at least.
ignored() {
    local name=$1 least=$2 ran
    shift 2
    rust "$name" "$@" -- --ignored
    ran=$(sum 'passed|failed' "$logs/$lane-results")
    count 0 0 "-$ran"
    if [ "$ran" -lt "$least" ]; then fail "$name: $ran tests"; fi
}

# pytest_in FOLDER OPTION..
pytest_in() {
    section "pytest $1"
    # The program that was just built, not a newer one of another profile.
    HEADWATER_BIN=$target/debug/headwater said "$logs/$lane-python" "$venv/bin/python" -m pytest -q "$@"
    local status=$?
    # What a test has left behind may say something after the last line of pytest's.
    grep -E '^(=+ )?(no tests ran|([0-9]+ [a-z ]+(, )?)+) in [0-9.]+s' "$logs/$lane-python" | tail -n 1 >"$logs/$lane-results"
    [ -s "$logs/$lane-results" ] || status=1
    results "pytest $1" "$status" "$logs/$lane-results"
}

# script NAME COMMAND..: a script that ends with 77, loudly, where its tests cannot run.
script() {
    local name=$1
    shift
    section "$name"
    "${within[@]}" "$@" </dev/null &
    : >"$logs/limited-$!"
    finished $!
    case $? in
        0) count 1 0 0 ;;
        77) count 0 0 1 ;;
        *) fail "$name" ;;
    esac
}

# With CUDA's compilers from PyPI, which need no GPU.
cuda_tests() {
    local toolkit
    toolkit=$(scripts/install-cuda.sh "$venv/bin/uv" "$venv/cuda") || return 0
    HEADWATER_CUDA_TOOLKIT=$toolkit LD_LIBRARY_PATH=$toolkit/lib \
        ignored "CUDA kernels for sm_75, sm_80, sm_90 and sm_100" 4 --workspace --test all ::nv
}

# The rdma link on emulated verbs, everywhere. That is no RDMA: tests/rdma/run.sh is for that.
emulated_verbs_tests() {
    local verbs
    verbs=$(tests/emulated_verbs/build.sh "$target/tmp") || { fail "the emulated verbs do not build" && return; }
    LD_LIBRARY_PATH=$verbs rust "rdma link on emulated verbs" --workspace --no-fail-fast --test rdma --test rdma_memory
}

compiled() {
    # Benches are compiled, and measured by hand.
    { cargo test --workspace --no-run && cargo test --workspace --no-run --benches &&
        cargo test --workspace --no-run --test rdma --test rdma_memory; } 2>&1 | tee "$logs/compiled"
    [ "${PIPESTATUS[0]}" -eq 0 ]
}

# What clippy, rustdoc and the compiler said of our crates.
nothing_said() {
    ! grep -hE -A 12 '^(warning|error)' "$logs/compiled" "$logs/wheel"
}

wheel() {
    scripts/build-wheel.sh "$venv" out/test-wheels 2>&1 | tee "$logs/wheel"
    [ "${PIPESTATUS[0]}" -eq 0 ] &&
        "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" \
            --no-deps --reinstall out/test-wheels/headwater-*.whl
}

# pyo3 and what is only the wheel's apart, all of it was compiled for the Rust tests.
nothing_twice() {
    grep -q 'Compiling headwater-python ' "$logs/wheel" &&
        ! grep 'Compiling ' "$logs/wheel" | grep -vE ' (headwater-python|headwater-tidy|pyo3.*|target-lexicon) v'
}

# Debian's and Python's packages that no compiler needs.
packages() {
    scripts/install-system.sh tests && make --no-print-directory "$venv/ready"
}

# Where PyTorch and others are imported, and models trained.
of_python() {
    local lane=python
    pytest_in gpu-receiver/python/tests -n 2 --dist loadfile
    # What they learn in longer runs: `make test-examples`.
    pytest_in tests/examples -n 2 --dist loadfile -m 'not long'
    # Loops of PyTorch, Lightning and Accelerate; all others: `make test-frameworks`.
    pytest_in tests/frameworks -m 'not long'
    : >"$logs/python-ended"
}

# All tests that are neither those nor `cargo test`'s own.
others() {
    local lane=others
    # On a real SLURM of this machine.
    script SLURM tests/slurm/run.sh "$target/debug/headwater"
    pytest_in tests/docs
    pytest_in tests/helm
    pytest_in tests/prometheus
    pytest_in tests/publish
    pytest_in tests/readme
    pytest_in tests/wheel
    # Object stores on a real S3 server, moto from PyPI.
    HEADWATER_MOTO_SERVER=$PWD/$venv/bin/moto_server \
        ignored S3 1 --workspace --lib a_real_s3_server_conforms
    cuda_tests
    emulated_verbs_tests
    script "pixels for 64-bit ARM" tests/arm/check.sh
    # On verbs of a kernel with soft-RoCE.
    script RDMA tests/rdma/run.sh "$target/debug/headwater"
    : >"$logs/others-ended"
}

: >"$logs/counts"
check 'format' cargo fmt --all --check
beside packages packages
check 'compilers' compiled
check 'packages' ended packages
check 'the wheel' wheel
check 'clippy and rustdoc' nothing_said
check 'the wheel compiles no dependency again' nothing_twice
beside python of_python
beside others others
lane=rust
# Half of the threads wait for processes and clocks.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 2))}
rust "cargo test" --workspace --no-fail-fast
for name in python others; do
    section "the lane of $name, which ran meanwhile"
    ended "$name"
    [ -e "$logs/$name-ended" ] || fail "the lane of $name: it ended before its end"
done

section 'end'
read -r passed failed skipped < <(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$logs/counts")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
