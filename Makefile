# Every target sets up its own environment in .venv and is fast when nothing changed. Paths are relative, so the
# checkout may lie anywhere, under a path with spaces too.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED_BY := pyproject.toml constraints.txt setup.py src/supple/version.py src/supple/kernels/cpu.c

.PHONY: demo test test-all check lint format clean

demo: .venv/lab  ## three activations on random-label digits: a table, a figure and a page in minutes
	@$(BIN)/supple run quickstart

test: check  ## lint, type-check and every test that is quick
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "not slow"

test-all: check  ## the slow tests too
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

check: .venv/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

format: .venv/dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv build out .pytest_cache .mypy_cache .ruff_cache

.venv/python-found:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "supple needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/%: .venv/python-found $(INSTALLED_BY)
	@echo "Installing supple[$*] into .venv (minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' --constraint constraints.txt
	@touch $@
