# Every target sets up its own environment in .venv and is fast when nothing changed. Paths are relative, so the
# checkout may lie anywhere, under a path with spaces too.
PYTHON ?= python3
BIN := .venv/bin
CONSTRAINTS ?= constraints.txt
INSTALLED_BY := pyproject.toml constraints.txt setup.py src/supple/version.py src/supple/kernels/cpu.c src/supple/kernels/held.c src/supple/kernels/pool.h src/supple/kernels/renewal.c

.PHONY: demo test test-all mutate check format docs conversion-table dist clean

demo: .venv/lab  ## three activations on random-label digits: a table, a figure and a page in minutes
	@$(BIN)/supple run quickstart

test: check  ## lint, type-check and every test that is quick
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "not slow"

test-all: check  ## the slow tests too, and those of the libraries supple works with, where these install
	@$(MAKE) --no-print-directory .venv/integrations .venv/docs .venv/recipes .venv/control .venv/clusters || echo "Tests of what is missing are skipped."
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

mutate: .venv/mutate  ## plant small errors and see whether a test fails: docs/mutation.md; goes on where it was stopped
	@OMP_NUM_THREADS=1 $(BIN)/python tools/mutate.py $(MUTATE)

check: .venv/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

format: .venv/dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: .venv/docs  ## the documentation as a website in site/
	@$(BIN)/mkdocs build --strict --quiet

conversion-table: .venv/dev .venv/integrations  ## the tables of docs/conversion.md anew, from the libraries as they are installed
	@PYTHONPATH=tests $(BIN)/python tools/conversion_table.py

dist: .venv/dist  ## in dist/: the sources, a wheel for every platform, and on Linux one with the C kernel
	@rm -rf dist build
	@SUPPLE_PURE=1 $(BIN)/python -m build --quiet --no-isolation
	@$(BIN)/python -m build --quiet --no-isolation --outdir build/native
	@for wheel in build/native/*-linux_*.whl; do \
	  if [ -e "$$wheel" ]; then PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m auditwheel repair --wheel-dir dist "$$wheel"; \
	  else echo "No wheel with the C kernel: it needs Linux and a C compiler."; fi; done
	@ls dist

clean:
	rm -rf .venv build dist site out .pytest_cache .mypy_cache .ruff_cache

.venv/python-found:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "supple needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/%: .venv/python-found $(INSTALLED_BY)
	@echo "Installing supple[$*] into .venv (minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' --constraint $(CONSTRAINTS)
	@touch $@
