PYTHON := .venv/bin/python

# Spark starts its Python workers by the name python3: it must be this environment's.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup java venv demo test test-slow test-long test-cluster test-kills test-versions lint format wheel bench papers docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: java venv ## see to Java 17, and make .venv with everything in it

java:
	@scripts/ensure_java.sh

venv:
	@scripts/setup.sh

demo: setup ## join a skewed city in three ways, side by side (ARGS=--dashboard: in the browser, too)
	@.venv/bin/skewless demo $(ARGS)

test: setup ## run the tests, all but the slow ones
	@$(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-slow: setup ## run all tests, slow ones too
	@SKEWLESS_EXAMPLES=most $(PYTHON) -m pytest -m "not cluster" -n 2 --dist loadfile --no-loadscope-reorder

test-long: setup ## the same on all examples of every property; over night
	@SKEWLESS_EXAMPLES=all $(PYTHON) -m pytest -m "not cluster"

test-cluster: setup ## run the tests on Spark workers and an S3 store in network namespaces; as root
	@$(PYTHON) -m pytest -m cluster -n 0

test-kills: setup ## kill 100 processes on local disks and 100 on S3 at random moments; as root, over night
	@SKEWLESS_KILLS=$${SKEWLESS_KILLS:-100} $(PYTHON) -m pytest -m "slow or cluster" -n 0 -s \
		tests/spark/test_kills.py tests/cluster/test_random_kills.py -k random

test-versions: java ## run the essential tests on other versions of Python and PySpark
	@python3 scripts/test_versions.py

lint: venv ## check format, style and types
	@$(PYTHON) -m ruff format --check
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m mypy

format: venv ## format the code and mend what can be mended
	@$(PYTHON) -m ruff format
	@$(PYTHON) -m ruff check --fix

wheel: venv ## build dist/skewless-….whl, and try it in an environment of its own
	@$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@$(PYTHON) -m pytest -m slow -n 0 -q tests/test_wheel.py

bench: setup ## measure everything; an hour and more
	@$(PYTHON) -m benchmarks.native
	@$(PYTHON) -m benchmarks.from_json
	@$(PYTHON) -m benchmarks.hot_pairs
	@$(PYTHON) -m benchmarks.state_growth
	@$(PYTHON) -m benchmarks.balance
	@$(PYTHON) -m benchmarks.long_window
	@$(PYTHON) -m benchmarks.skew_on_spark
	@$(PYTHON) -m benchmarks.grouping
	@$(PYTHON) -m benchmarks.aggregate
	@$(PYTHON) -m benchmarks.three_way
	@$(PYTHON) -m benchmarks.similarity
	@$(PYTHON) -m benchmarks.kafka
	@$(PYTHON) -m benchmarks.scale_out

papers: setup ## every figure of the five papers, ours beside theirs: docs/papers.md
	@$(PYTHON) -m benchmarks.papers

docs: venv ## build the documents as a site: site/index.html
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs --quiet build --strict
	@echo "the documents are in site/index.html"

clean: ## remove caches, builds and output; .venv stays
	@rm -rf build dist site demo-output benchmarks/.data spark-warehouse metastore_db derby.log
	@rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} + \
		2>/dev/null || true
