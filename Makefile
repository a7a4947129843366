# Two commands: `make run` starts Springtide on this machine, `make test` proves it. Both do all their own set-up.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STATE  ?= $(or $(XDG_STATE_HOME),$(HOME)/.local/state)/springtide
CACHE  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/springtide
# One more than there are cores: hubs, clusters and browsers keep their tests waiting as often as working.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
PYTEST_ARGS ?=

.PHONY: run test lint types unit soak bench install tools clean

run: $(VENV)/run.stamp install
	$(BIN)/springtide up --state-dir "$(STATE)"

test: lint types unit

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp install
	$(BIN)/mypy --cache-dir "$(CACHE)/mypy" -p springtide.scheduler -p springtide.hub_extension -p springtide.spawner -p springtide.widgets -p springtide.training

unit: $(VENV)/dev.stamp install tools
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations 10 $(PYTEST_ARGS)

# Longer proofs of the policy than `make test` has time for.
soak: $(VENV)/dev.stamp install
	$(BIN)/python -m pytest tests/proofs --soak 20

bench: $(VENV)/dev.stamp install
	for bench in benchmarks/bench_*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

# The tree as it stands, as the wheel that users get: it is what runs, what is tested and what is type-checked.
install: | $(VENV)/bin/python
	@rm -rf build
	@$(BIN)/pip install -qq --no-deps --no-build-isolation --force-reinstall .
	@rm -rf build

# Browser and database server for the tests, from the system's packages; a Kubernetes cluster's programs, built once.
tools:
	@PYTHON="$(PYTHON)" sh tests/install_tools.sh

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Springtide needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip 'setuptools>=77,<90' wheel

$(VENV)/run.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet '.[hub,widgets,gpu,examples]'
	touch $@

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet '.[dev]'
	touch $@ $(VENV)/run.stamp

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
