# Everything runs in .venv, which is made at the first call and again whenever the dependencies change.
# make demo PYTHON=python3.12   another interpreter, 3.11 or newer

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Installed first, in a command of its own, so that nothing else decides which torch it is.
TORCH := torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format test-conformance test-long test-validity test-mutants test-out-of-tree test-clients \
	test-browser test-engines clean

help:
	@echo 'make demo          set up and show mixed structured requests on a small real model'
	@echo 'make test          set up, then lint, types, import rules and tests'
	@echo 'make test-conformance  puts the backends of this project through the conformance kit: minutes'
	@echo 'make test-long     the server with every trouble and with a real model behind it, among others: minutes'
	@echo 'make test-validity  lets a small real model write documents with each backend: minutes'
	@echo 'make test-mutants  puts every faulty backend through the conformance kit: half an hour'
	@echo 'make test-out-of-tree  installs plugins that are projects of their own, and runs their tests'
	@echo 'make test-clients  the tests that drive the server with clients of others (set up outside the checkout: 1.8 GB)'
	@echo 'make test-browser  drives the page of the server in headless Chromium (set up outside the checkout: 170 MB)'
	@echo 'make test-engines  the tests that drive a real vLLM (set up outside the checkout: 3.4 GB)'
	@echo 'make lint          ruff, mypy and the import rules alone'
	@echo 'make format        let ruff format and fix what it can'
	@echo 'make clean         remove .venv and what the tools leave behind'

setup: $(STAMP)

$(STAMP): pyproject.toml requirements/no-deps.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("structout needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(TORCH)
	$(BIN)/python -m pip install -e '.[all,dev]'
	$(BIN)/python -m pip install --no-deps -r requirements/no-deps.txt
	@touch $@

demo: $(STAMP)
	$(BIN)/structout demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test-out-of-tree:
	.ci/out-of-tree.sh '$(PYTHON)'
	.ci/new-plugin.sh '$(PYTHON)'

test-conformance: $(STAMP)
	$(BIN)/python -m pytest --structout-backend llguidance --structout-backend xgrammar \
		--structout-backend outlines --structout-backend reference

test-long: $(STAMP)
	$(BIN)/python -m pytest -m long -n 2 --dist loadfile --no-loadscope-reorder

test-validity: $(STAMP)
	$(BIN)/python -m pytest -m validity -n 2

test-mutants: $(STAMP)
	$(BIN)/python -m pytest -m mutants

test-clients: $(STAMP)
	for client in openai instructor guidellm smg; do \
		python="$$(.ci/client-env.sh "$$client" '$(PYTHON)')" || exit 1; \
		export "STRUCTOUT_$$(echo "$$client" | tr a-z A-Z)_PYTHON=$$python"; \
	done; \
	$(BIN)/python -m pytest -m clients

test-browser: $(STAMP)
	STRUCTOUT_BROWSER="$$(.ci/browser-env.sh $(BIN)/python)" && export STRUCTOUT_BROWSER && \
	PYTHONPATH="$$STRUCTOUT_BROWSER" $(BIN)/python -m pytest -m browser

test-engines: $(STAMP)
	STRUCTOUT_VLLM_PYTHON="$$(.ci/vllm-env.sh '$(PYTHON)')" && export STRUCTOUT_VLLM_PYTHON && \
	$(BIN)/python -m pytest -m engines

clean:
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find structout engine_adapter plugins tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
