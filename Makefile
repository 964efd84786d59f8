# `make run` and `make test` do everything on a fresh machine; see README.md.

# Installed packages and a Python environment live here and in $(VENV); both may be deleted.
VENV := .venv
PYTHON := $(VENV)/bin/python
WHEELS := out/wheels
# Processors that `make wheel` makes a wheel for.
ARCHS ?= x86_64 aarch64
SOAK_SECONDS ?= 1800
FUZZ_SECONDS ?= 300
CARGO := cargo
# What `headwater --version` says of programs that are kept.
COMMIT = HEADWATER_COMMIT=$$(git describe --always --dirty --abbrev=12 --exclude "*" 2>/dev/null)
BIN = $(or $(CARGO_TARGET_DIR),target)/release/headwater
# Without formats and object stores that a first run does not need; see docs/benchmarks/build.md.
FIRST = $(or $(CARGO_TARGET_DIR),target)/first/headwater

.PHONY: run check test test-arm test-examples test-frameworks test-page test-ray test-wheel soak simulate fuzz sanitize test-k8s test-rdma lint wheel bench build clean system

run: system
	$(COMMIT) $(CARGO) build --profile first --no-default-features --bin headwater
	mkdir -p out
	$(FIRST) run --processes --workers 2 \
	    --dataset 'photos=tests/data/photos/photos-{000000..000003}.tar' \
	    --set storage.index_dir=out/index \
	    --contact-sheet out/contact_sheet.png

# Only the program, with the features that it has where the whole workspace is built.
build: system
	$(COMMIT) $(CARGO) build --release --workspace --bins

test: system
	scripts/install-system.sh zeromq
	scripts/test.sh

# Faults for as long as SOAK_SECONDS, under all recipes; HEADWATER_CHAOS_SEED replays a schedule. Then what `make test` does
# in part: broken files, byte by byte, and every preset on the emulated GPU.
soak: system
	HEADWATER_CHAOS_SECONDS=$(SOAK_SECONDS) HEADWATER_CHAOS_DRESS=all $(CARGO) test --test all -- --nocapture --test-threads=1 chaos:: rough_network::
	HEADWATER_SOAK=1 $(CARGO) test --workspace --lib -- broken_bytes
	HEADWATER_SOAK=1 $(CARGO) test --test all -- gpu_run::
	$(CARGO) test --test all -- --ignored cuda_link::

# Control planes of up to 10,000 receivers and 20,000 workers, which take 6 GB of memory, on virtual time in one thread;
# HEADWATER_SIMULATION_SEED replays a seed.
simulate: system
	HEADWATER_SIMULATION=full $(CARGO) test --release -p headwater-receiver simulation -- --nocapture --test-threads=1

# A real cluster on this machine; needs root, and a quarter of an hour the first time.
test-k8s: build $(VENV)/ready
	tests/k8s/run.sh

# On verbs of a kernel with soft-RoCE, which is built the first time: 9 minutes of a core. With
# HEADWATER_RDMA_KERNEL=vm on a stock kernel under an emulated processor, which builds nothing.
test-rdma: system
	scripts/install-system.sh tests
	[ "$$HEADWATER_RDMA_KERNEL" = vm ] || tests/rdma/kernel.sh
	$(CARGO) build --bin headwater
	HEADWATER_RDMA_UCX=$(if $(filter vm,$(HEADWATER_RDMA_KERNEL)),,1) tests/rdma/run.sh

# On 64-bit ARM, in an emulator: the pixel code, and an epoch that is equal to one of x86-64.
test-arm: wheel
	scripts/install-system.sh arm
	tests/arm/run.sh $(WHEELS)

# The monitor's page and the docs site in Chromium, which is installed the first time: 450 MB. See `site` for mdBook.
test-page: system $(VENV)/ready
	scripts/install-system.sh page
	scripts/site.sh
	$(CARGO) build --workspace --bins
	HEADWATER_BIN=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/headwater \
	    $(PYTHON) -m pytest -q tests/page

# On a local cluster of Ray with several nodes, and the searches of the examples. Ray is installed the first time: 75 MB.
test-ray: system $(VENV)/ready
	scripts/install-system.sh tests
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r scripts/requirements-ray.txt
	$(CARGO) test --workspace --no-run
	scripts/build-wheel.sh $(VENV) out/test-wheels
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    out/test-wheels/headwater-*.whl
	$(PYTHON) -m pytest -q gpu-receiver/python/tests/test_ray.py
	HEADWATER_BIN=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/headwater \
	    $(PYTHON) -m pytest -q tests/examples/test_search.py

# The examples until they have learnt something: a quarter of an hour. `make test` ends them sooner. With the program and the
# wheel of `make test`.
test-examples: system $(VENV)/ready
	$(CARGO) build --bin headwater
	scripts/build-wheel.sh $(VENV) out/test-wheels
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    out/test-wheels/headwater-*.whl
	HEADWATER_BIN=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/headwater \
	    $(PYTHON) -m pytest -q tests/examples

# Loops of every framework under every launcher: 20 minutes of two cores, in an environment that is made the first time.
FRAMEWORKS := $(VENV)/frameworks
test-frameworks: system $(FRAMEWORKS)/ready
	scripts/install-system.sh tests
	scripts/install-system.sh frameworks
	scripts/build-wheel.sh $(VENV) out/test-wheels
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    out/test-wheels/headwater-*.whl
	$(FRAMEWORKS)/bin/python -m pytest -q tests/frameworks

$(FRAMEWORKS)/ready: $(VENV)/ready scripts/requirements-trainers.txt
	scripts/install-python.sh $(FRAMEWORKS) trainers
	touch $@

# What a first visitor does, with the wheel of `make wheel`. `make test` does it with the tests' own wheel.
test-wheel: wheel $(VENV)/ready
	scripts/install-system.sh tests
	HEADWATER_WHEELS=$(WHEELS) $(PYTHON) -m pytest -rP tests/wheel

# Each target for FUZZ_SECONDS; what it finds stays in fuzz/corpus and is replayed by the tests.
fuzz: system
	cargo fuzz --version >/dev/null 2>&1 || $(CARGO) install cargo-fuzz --version 0.13.2 --locked
	set -e; for target in shard idx message frame state config image recipe tensorcom ten \
	    parquet_footer tfrecord mds_index npy hdf5 zarr_metadata tokens_idx lines fields; do \
	    RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run -s none $$target -- \
	        -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -max_len=262144; \
	done
	RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --fuzz-dir libs/jpeg/fuzz -s none pixels -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -max_len=16384

# The JPEG decoder's tests under the address sanitizer. Its runtime comes with Rust.
sanitize: system
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address $(CARGO) test -p headwater-jpeg \
	    --target "$$(rustc -vV | sed -n 's/^host: //p')" --target-dir target/sanitize

# Between two edits: format, clippy and unit tests of the crates that differ from BASE, a commit [default: upstream, or HEAD].
check: system
	scripts/check.sh $(BASE)

lint: system
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

# A manylinux wheel for each of ARCHS. The tests build one of their own, for this machine.
wheel: system $(VENV)/wheel-ready
	scripts/install-system.sh wheel
	$(COMMIT) scripts/build-wheel.sh $(VENV) $(WHEELS) $(ARCHS)

# Wheels, program, images' context, chart, bill of materials and checksums, into out/release; see CONTRIBUTING.md.
.PHONY: release
release: system $(VENV)/wheel-ready
	scripts/install-system.sh wheel
	ARCHS='$(ARCHS)' RELEASE_VENV=$(VENV) scripts/release.sh

bench: build
	$(BIN) bench link
	$(BIN) bench pipeline --dataset 'photos=tests/data/photos/photos-{000000..000003}.tar' \
	    --set storage.index_dir=out/index

# The docs site, in out/site. mdBook is compiled the first time: 5 minutes of two cores.
.PHONY: site
site:
	scripts/site.sh

clean:
	$(CARGO) clean
	rm -rf out $(VENV)

system:
	scripts/install-system.sh

$(VENV)/ready: scripts/install-python.sh scripts/torch_stub.py $(wildcard scripts/requirements*.txt)
	scripts/install-python.sh $(VENV)
	touch $@

$(VENV)/wheel-ready: scripts/install-python.sh scripts/requirements-wheel.txt
	scripts/install-python.sh $(VENV) wheel
	touch $@
