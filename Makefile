# `make` alone lists the targets. Every target sets up what it needs by itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.frazil-setup
CLASSES := $(VENV)/spark-classes.jsa
CODE := src tests tools examples hatch_build.py $(wildcard bench)
ARGS ?=

##@ Use

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## Create .venv with frazil and everything it is developed with

.PHONY: demo
demo: $(STAMP) ## Stream orders from Kafka into Iceberg, query them with three engines
	$(BIN)/python -m frazil.cli demo $(ARGS)

.PHONY: example
example: $(STAMP) ## Generic tables: Spark and pyarrow write with keys that reach one table only
	$(BIN)/python examples/generic_table.py

##@ Test (ARGS="-k name" goes to pytest)

.PHONY: test
test: $(STAMP) $(CLASSES) ## Everything that matters, with real services; under 30 minutes on two cores
	$(BIN)/python tools/test_parts.py -m "not exhaustive" $(ARGS)

.PHONY: test-fast
test-fast: $(STAMP) ## The inner loop: no service, no JVM; under a minute
	$(BIN)/python -m pytest -m "not services and not jvm and not slow and not exhaustive" $(ARGS)

.PHONY: test-all
test-all: $(STAMP) $(CLASSES) ## The long and exhaustive versions too
	$(BIN)/python tools/test_parts.py $(ARGS)

.PHONY: check
check: $(STAMP) ## Lint, format, types, import rules, spelling, locks
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tools/lock.py check

.PHONY: format
format: $(STAMP) ## Rewrite the code as `make check` wants it
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

##@ Measure

.PHONY: bench
bench: bench-catalog bench-ingest bench-cdc bench-hot bench-lineage ## All benchmarks

.PHONY: bench-catalog
bench-catalog: $(STAMP) ## The catalog against Iceberg's reference server
	$(BIN)/python -m bench.catalog $(ARGS)

.PHONY: bench-ingest
bench-ingest: $(STAMP) ## Kafka into Iceberg against plain Spark and Flink (8 million messages)
	$(BIN)/python -m bench.ingest $(ARGS)

.PHONY: bench-cdc
bench-cdc: $(STAMP) ## Change data into Iceberg against Spark's MERGE and Flink (2 and 20 million rows)
	$(BIN)/python -m bench.cdc $(ARGS)

.PHONY: bench-hot
bench-hot: $(STAMP) ## Union reads against plain ones (10 million rows), 50 hot tables at freshness 30 s
	$(BIN)/python -m bench.hot $(ARGS)

.PHONY: bench-lineage
bench-lineage: $(STAMP) ## Lineage of jobs on a real Flink cluster, beside DataHub's own source
	$(BIN)/python -m bench.lineage $(ARGS)

.PHONY: soak-cdc
soak-cdc: $(STAMP) ## Half an hour of pgbench into Iceberg, formats 2 and 3: memory and reads stay flat
	$(BIN)/python -m bench.soak $(ARGS)

##@ Maintain

.PHONY: lock
lock: $(STAMP) ## Resolve the dependencies again (ARGS=--upgrade for newer versions)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/lock.py write $(ARGS)

.PHONY: clean
clean: ## Remove what was built here (downloads in the cache directory stay)
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
	rm -f src/frazil/stream/*.abi3.so
	rm -rf spark-warehouse metastore_db derby.log
	find src tests tools $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): locks/build.txt locks/dev.txt pyproject.toml tools/setup.sh hatch_build.py $(wildcard src/frazil/stream/native/*.[ch])
	@PYTHON="$(PYTHON)" bash tools/setup.sh "$(VENV)"
	@touch $@

$(CLASSES): $(STAMP) tools/class_archive.py
	@$(BIN)/python tools/class_archive.py $@
