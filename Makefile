# Every target sets up what it needs; the second run skips what is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := capture replay traces tools
EXECUTIONS ?= 1000000
NATIVE := $(wildcard capture/csrc/*.[ch] replay/csrc/*.[ch] replay/csrc/*.py)

.PHONY: help setup demo test lint typing native bench study fuzz clean

help:    ## list the targets
	@sed -n 's/^\([a-z]*\): .*## /  \1\t/p' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## all a checkout needs: system packages, environment, C code
	@$(MAKE) --no-print-directory -s $(VENV)/.native

demo: setup ## capture a real 500 MB checkpoint, replay it coalesced and direct, compare
	@PATH="$(CURDIR)/$(BIN):$$PATH" docs/demo/run

test: setup $(VENV)/.tests ## every check: linter, type checker, all tests
	@$(BIN)/python -m tests.suite

bench: setup $(VENV)/.tests ## the measured claims, each against its peer in the same run
	@for b in tests/bench/*.py; do echo "== $$b"; \
		$(BIN)/python -m tests.bench.$$(basename $$b .py) || exit 1; done

study: setup $(VENV)/.tests ## docs/study.md anew: 25 minutes on a machine with nothing else to do
	$(BIN)/python -m tests.bench.study build --keep-memory --rows docs/study/rows.csv
	$(BIN)/python -m tests.bench.study.tables docs/study/rows.csv docs/study.md

fuzz: setup ## a million hostile inputs, or EXECUTIONS=N; findings go to build/fuzz
	$(BIN)/python -m tests.fuzz.run --executions $(EXECUTIONS)

lint: setup typing ## formatter, linter and type checker
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

typing: ## show type checkers the folders under their import names
	@mkdir -p build/typing/iotrace
	@for p in $(PACKAGES); do ln -sfn ../../../$$p build/typing/iotrace/$$p; done

native: ## rebuild the C code in place
	$(BIN)/python setup.py -q build_ext --inplace

clean: ## remove what was built; setuptools would ship deleted modules from build/
	rm -rf build dist *.egg-info capture/*.so replay/*.so $(VENV)

$(VENV)/.ready: pyproject.toml setup.py constraints.txt .ci/packages
	@PYTHON=$(PYTHON) .ci/packages
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "setup: Python 3.11 or newer is needed: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -qq --disable-pip-version-check -U -c constraints.txt pip setuptools cffi
	$(BIN)/pip install -qq --no-compile --no-build-isolation -c constraints.txt -e . --group dev
	@$(BIN)/python -m compileall -qq -j0 $(VENV)/lib || true # pip takes one core; some are no Python
	@touch $@ $(VENV)/.native # pip has built the C code

$(VENV)/.tests: $(VENV)/.ready .ci/packages
	@PYTHON=$(PYTHON) .ci/packages tests
	@touch $@

$(VENV)/.native: $(VENV)/.ready $(NATIVE)
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@
