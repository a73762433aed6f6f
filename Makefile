# Everything runs in .venv, which the first target that needs it makes: `make demo` and `make test` do all the set-up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  := $(VENV)/.base
STAMP  := $(VENV)/.installed
EXTRAS := cuda,report,test
JOBS   ?= 2
# Workers of pytest. A worker waits for other processes and for time limits: one more than there are cores.
WORKERS ?= $(shell expr $(JOBS) + 1)

# Where this is set, each process compiles torch and the tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-full test-gpu packages browser lint types machine native bytecode contracts format docs clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test:
	$(MAKE) --no-print-directory -j$(JOBS) --output-sync=target browser machine native bytecode types lint contracts
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Every combination of tiles, layouts and dtypes, and every example of hypothesis, of which `make test` takes a sample.
test-full: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "(full or hypothesis) and not gpu"

# The report is tested in a headless Chromium. Where it cannot be installed those tests are skipped, and say why.
browser: packages
	@for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do \
	  command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 && exit 0; fi; \
	echo 'warpwise: no Chromium here: the report is not tested in a browser'

# On a machine with a CUDA device, in whatever environment $(PYTHON) is.
test-gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -m gpu tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files '*.cu' '*.cuh' '*.cpp' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror

# The interpreter of machine code, whose build needs no package, while pip installs torch.
machine: packages
	PYTHONPATH=src $(PYTHON) -c 'from warpwise.machine import runtime; runtime.library()'

# The C++ runtimes, beside pip and the checks, which keep one core busy each.
native: $(TORCH)
	PYTHONPATH=src $(BIN)/python -m tests.prebuild

# Bytecode of the tests and of what they import: otherwise each worker of pytest compiles all of it.
bytecode: $(STAMP)
	$(BIN)/python -m tests.bytecode

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/python src/warpwise/ops/_exports.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files '*.cu' '*.cuh' '*.cpp' '*.h' | xargs $(BIN)/clang-format -i

# The site, in site/: a broken link is an error.
docs: $(STAMP)
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# A C++ compiler builds the emulator and the kernels; python3-venv is a package of its own on Debian.
packages:
	@command -v g++ >/dev/null && command -v addr2line >/dev/null && $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq g++ binutils python3-venv python3-dev; \
	  else echo 'warpwise: install g++, binutils, python3-venv and python3-dev first' >&2; exit 1; fi

# What the C++ runtimes are built against, and what builds the package. The newest pip takes half of the time of that of
# Python 3.11, and `venv` takes longer to install its own.
$(TORCH): constraints.txt | packages
	@echo 'warpwise: making $(VENV), about a minute'
	test -x $(BIN)/pip || { $(PYTHON) -m venv --without-pip $(VENV) && \
	  $(PYTHON) -m pip --python $(BIN)/python install --quiet --no-compile pip; } 2>/dev/null || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt torch numpy 'setuptools>=77'
	touch $(TORCH)

$(STAMP): $(TORCH) pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile --no-build-isolation -c constraints.txt -e '.[$(EXTRAS)]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
