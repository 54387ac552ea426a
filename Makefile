# Every target sets up what it needs; the second run skips what is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := capture replay traces tools
NATIVE := $(wildcard capture/csrc/*.[ch] replay/csrc/*.[ch] replay/csrc/*.py) setup.py

.PHONY: help setup demo test lint typing native bench clean

help:    ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(VENV)/.ready ## everything a checkout needs: system packages, venv, C code

native:  ## rebuild the C code in place
	$(BIN)/python setup.py -q build_ext --inplace

lint: setup typing ## formatter, linter and type checker
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

typing:  ## show type checkers the folders under their import names
	@mkdir -p build/typing/iotrace
	@for p in $(PACKAGES); do ln -sfn ../../../$$p build/typing/iotrace/$$p; done
