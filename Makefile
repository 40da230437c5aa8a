# Targets: demo, examples, test, quick, test-long, sanitize, bench, docs, pack, wheel, offline, format, lint, clean. Variables: TORCH, PYTHON, JOBS, DEVICE, ARCH, PACK.
PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= $(shell nproc)
VENV ?= .venv
BUILD ?= build/dev

PY := $(abspath $(VENV))/bin/python
# Packages are installed again only if TORCH or the list of tools changes; otherwise the stamp exists.
STAMP := $(VENV)/.packages-$(shell printf '%s' '$(TORCH)' | cksum | cut -d' ' -f1)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export TILE_OPS_BUILD_DIR := $(abspath $(BUILD))
CONFIGURE := -G Ninja -DTILE_OPS_PYTHON_MODULE=AUTO $(CMAKE_FLAGS)

.PHONY: build build-tests demo examples test quick test-long sanitize bench docs pack wheel offline offline-test format lint clean
build: $(VENV)/.editable
	@$(PY) cmake/build.py $(BUILD) $(CONFIGURE)

build-tests: $(VENV)/.editable
	@cmake/system_packages.sh $(PY)
	@$(PY) cmake/build.py $(BUILD) $(CONFIGURE) -DTILE_OPS_TESTS=ON

demo: build
	@$(PY) examples/demo.py $(if $(DEVICE),--device $(DEVICE))

# One process per core, each with whole files, because a C++ file is one run of its program. conftest.py orders the files. Torch's threads wait without spinning, because cores are shared.
PYTEST := OMP_WAIT_POLICY=PASSIVE $(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
# Repeats numerical tests with the code of a machine without AVX-512.
OTHER_ISA := $(PYTEST) tests/prims tests/cpu --without-cpp -m "not slow"
test: build-tests
	@! grep -qw avx512f /proc/cpuinfo || TILE_ISA=avx2 $(OTHER_ISA)
	@$(PYTEST) tests

quick: build-tests
	@$(PYTEST) tests -m "not slow"

test-long: build-tests
	@! grep -qw avx512f /proc/cpuinfo || TILE_ISA=avx2 $(OTHER_ISA) tests/tile_ops
	@TILE_ISA=baseline $(OTHER_ISA) tests/tile_ops
	@$(PYTEST) tests --long
	@$(PY) tests/sanitizers/run.py

# AddressSanitizer and UBSan, then ThreadSanitizer, over the C++ tests; in build/sanitize-*.
sanitize: $(VENV)/.editable
	@cmake/system_packages.sh $(PY)
	@$(PY) tests/sanitizers/run.py

# Builds a C++ library of kernels and a program that trains with them in build/dev/examples, then runs the algorithms.
examples: build
	@$(PY) examples/build_cpp.py
	@$(PY) examples/kernels.py $(if $(DEVICE),--device $(DEVICE))

bench: build
	@$(PY) benchmarks/run.py
	@if $(PY) -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then \
	  failed=0; for script in gpu compile_times host; do $(PY) benchmarks/$$script.py --write || failed=1; done; exit $$failed; fi

# The documentation site, in build/site; a warning is an error. It needs Python 3.11.
docs: build
	@$(PY) docs/make_site.py --jobs $(JOBS)

# Compiles the kernels of the built-in operators by NVRTC, without a GPU, into python/tile_ops/packs. ARCH=sm_90a,sm_80: only for these chips.
pack: build
	@PYTHONPATH=tests:tests/cuda $(PY) tests/cuda/pack_operators.py --jobs $(JOBS) $(if $(ARCH),--arch $(ARCH))

# Built in its own folder with the torch of .venv, so that it neither downloads one nor disturbs the tests' build. PACK=0: without the pack.
wheel: $(STAMP) $(if $(filter 0,$(PACK)),,pack)
	@$(if $(filter 0,$(PACK)),rm -f python/tile_ops/packs/*.pack)
	@TILE_OPS_BUILD_DIR=$(abspath build/wheel) $(PY) -m pip wheel . --no-build-isolation --no-deps -w dist

# For a machine that has torch, CMake and Ninja but no network: without .venv, the tree itself is the package.
offline:
	@cmake/system_packages.sh $(PYTHON) --optional
	@$(PYTHON) cmake/build.py build/offline $(CONFIGURE) -DTILE_OPS_TESTS=AUTO

# make offline-test SHARD=1/4
SHARD ?= 1/1
offline-test: offline
	@TILE_OPS_BUILD_DIR=$(abspath build/offline) PYTHONPATH=$(abspath python) $(PYTHON) -m pytest tests --shard $(SHARD)

format: $(STAMP)
	@git ls-files '*.cpp' '*.h' | xargs clang-format -i
	@$(PY) -m ruff check --fix -q . && $(PY) -m ruff format -q .

lint: $(STAMP)
	@git ls-files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

clean:
	rm -rf build dist python/tile_ops/lib python/tile_ops/include python/tile_ops/share python/tile_ops/*.so python/tile_ops/packs/*.pack

$(STAMP): tests/requirements.txt
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q $(TORCH) -r tests/requirements.txt
	@touch $@

# Adds the tree to the path of .venv's Python, as `pip install -e .` does, without building.
$(VENV)/.editable: $(STAMP)
	@echo "$(abspath python)" > $$($(PY) -c "import sysconfig; print(sysconfig.get_path('purelib'))")/tile_ops_editable.pth
	@touch $@
