# make demo       audit a real data set and write a page            (base dependencies only)
# make test       every test and every doctest                      (development dependencies)
# make test-fast  all but simulations and slow tests                 (development dependencies)
# make calibration  simulations that take minutes each            (development dependencies)
# make check      format, lint, types, import rule, exported names  (development dependencies)
# make mutants    makes known mistakes, sees that tests notice each  (development dependencies)
# make bench      the benchmarks                                    (development dependencies)
#
# Each creates .venv and installs what it needs; nothing is reinstalled until pyproject.toml or constraints.txt changes.

# the first of these that runs and is new enough
PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
JOBS ?= 2
SEED ?= 0
PYTEST_ARGS ?=
MUTANTS_ARGS ?=
# tests start many Python processes: what they compile is written down even where the shell says otherwise
test test-fast calibration check: export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast calibration check mutants bench
.NOTPARALLEL:

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# stamps: written last, so that an interrupted step is done again
$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer was not found: install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing invariscope into $(VENV) ..."
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing invariscope and its development tools into $(VENV) ..."
	$(PIP) --editable '.[dev]'
	@touch $(VENV)/.base $@

demo: $(VENV)/.base
	$(BIN)/invariscope demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations=15 --seed=$(SEED) $(PYTEST_ARGS)

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'not statistical and not slow' --seed=$(SEED) $(PYTEST_ARGS)

calibration: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --calibration --durations=15 --seed=$(SEED) $(PYTEST_ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/python -m pytest -q tests/test_imports.py tests/test_layers.py tests/test_exported_names.py

# one room: make mutants MUTANTS_ARGS='--room criteria'; one mutant: MUTANTS_ARGS='--only NAME'
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants.run --jobs $(JOBS) $(MUTANTS_ARGS)

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py
