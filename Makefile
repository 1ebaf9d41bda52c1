# Everything a newcomer or CI needs; `make` alone lists it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
unexport PYTHONDONTWRITEBYTECODE # tests start many processes, which then compile their modules once

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
  command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
BUNDLED := orchestr8_sqlite/bundled.db
QUERY ?= retry a flaky API call with exponential backoff

.PHONY: help run dist test test-slow check facts conformance torture torture-bounded postgres-demo mutation format docs bench bench-smoke eval wheel mcpb vendor lock clean always

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/run.stamp ## Set up, build the index of resources/, answer one search, say how to connect a client
	$(BIN)/orchestr8-sqlite build resources -o index.db
	@echo
	$(BIN)/orchestr8-sqlite search "$(QUERY)" --db index.db --mode index
	@echo
	@echo "Connect Claude Code:   $(BIN)/orchestr8-sqlite install claude-code --db index.db --write"
	@echo "Connect other clients: $(BIN)/orchestr8-sqlite install --list"
	@echo "See what clients see:  $(BIN)/orchestr8-sqlite doctor --db index.db"
	@echo "Look inside:           $(BIN)/orchestr8-sqlite sql \"SELECT uri, tags FROM fragment_detail\" --db index.db"
	@echo "Type it without path:  . $(BIN)/activate"

test: $(VENV)/dev.stamp $(BUNDLED) ## Set up and run the tests, but for the slow ones
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS)

test-slow: $(VENV)/dev.stamp $(BUNDLED) ## Run the slow tests: wheel, server process, real libraries and clients, the code in resources/, all examples of property tests
	$(BIN)/python -m pytest -m "slow or hypothesis" --hypothesis-profile thorough -n $(WORKERS) --dist loadfile
# tests wait for other processes a third of their time
WORKERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) * 3 // 2)')

check: $(VENV)/dev.stamp $(BUNDLED) ## Format, lint, types, import contract, shipped library and its ranking
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 orchestr8_sqlite
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin orchestr8_sqlite
	$(BIN)/lint-imports --no-logo
	$(BIN)/orchestr8-sqlite lint resources --strict
	$(BIN)/orchestr8-sqlite eval --self --db $(BUNDLED) $(BOUNDS)
	@PYTHONPATH=tests $(BIN)/python -m content.facts --due

BOUNDS := --fail-under scenario:recall@5=0.7 --fail-under queries.jsonl:recall@5=0.95 \
  --fail-under queries.jsonl:success@1=0.81 --fail-over false-answers=0.15

facts: $(VENV)/dev.stamp ## List facts in resources/ that are due for a check, and those that PyPI or npm contradict
	PYTHONPATH=tests $(BIN)/python -m content.facts

conformance: $(VENV)/dev.stamp ## Run the official conformance suite of the protocol, and check docs/protocol.md; needs npm
	PYTHONPATH=tests $(BIN)/python -m conformance.run $(WRITE)

torture: $(VENV)/dev.stamp $(BUNDLED) ## Inject faults (kills, full disks, damage, load …) and show that nothing is lost (ONLY=module runs one class)
	PYTHONPATH=tests $(BIN)/python -m torture.run $(if $(ONLY),--only $(ONLY))

torture-bounded: $(VENV)/dev.stamp $(BUNDLED) ## Inject fewer of these faults, in minutes
	PYTHONPATH=tests $(BIN)/python -m torture.run --bounded $(if $(ONLY),--only $(ONLY))

postgres-demo: $(VENV)/dev.stamp $(BUNDLED) ## Publish the bundled index to two PostgreSQL servers of its own, ask over MCP, kill one, bring it back
	$(BIN)/python tests/postgresql_demo.py

mutation: $(VENV)/mutation.stamp $(BUNDLED) ## Change the code that security rests on in 1,800 small ways, one at a time; fail where no test notices
	PYTHONPATH=tests nice -n 15 $(BIN)/python -m mutation.run $(if $(ONLY),'$(ONLY)')

format: $(VENV)/dev.stamp ## Format the code and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/dev.stamp $(BUNDLED) ## Renew the output shown in README.md and docs/schema.md
	$(BIN)/python tests/docs_output.py

bench: $(VENV)/dev.stamp $(BUNDLED) bench/.venv/made.stamp bench/node_modules ## Measure at several sizes (SIZES="413 5000") and renew docs/performance.md
	$(BIN)/python bench/run.py $(if $(SIZES),--sizes $(SIZES)) $(if $(LIBRARY),--library $(LIBRARY)) $(if $(WORKDIR),--workdir $(WORKDIR))
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/warm.py
	$(BIN)/python bench/concurrency.py

bench-smoke: $(VENV)/dev.stamp ## Measure ratios on a small corpus; fail where one is worse than recorded (RECORD=1 records)
	$(BIN)/python bench/smoke.py $(if $(RECORD),--record)

bench/.venv/made.stamp: bench/requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m venv --clear bench/.venv
	bench/.venv/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r bench/requirements.txt
	@touch $@

bench/node_modules: bench/package-lock.json # without npm the peer for Node is left out, and that is said
	@if command -v npm >/dev/null; then cd bench && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error; fi

eval: $(VENV)/dev.stamp $(BUNDLED) bench/.venv/made.stamp ## Measure the ranking on judged queries, renew docs/ranking.md and docs/suggest.md; needs ../shared
	$(BIN)/python bench/ranking.py
	$(BIN)/python bench/suggestions.py

wheel: $(VENV)/dev.stamp ## Build the wheel with the bundled index into dist/
	$(PIP) wheel . --no-deps --no-build-isolation --wheel-dir dist

dist: $(VENV)/dev.stamp ## Build what is published, the wheel and the source distribution, into dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

mcpb: $(VENV)/dev.stamp ## Pack the bundle for Claude Desktop, with the bundled index, into dist/; needs npx
	rm -rf dist/mcpb
	$(PIP) wheel . --no-deps --no-build-isolation --wheel-dir dist/mcpb
	cp mcpb/manifest.json mcpb/pyproject.toml mcpb/server.py LICENSE dist/mcpb/
	$(MCPB) validate dist/mcpb/manifest.json
	$(MCPB) pack dist/mcpb dist/orchestr8-sqlite.mcpb
MCPB := npx --yes @anthropic-ai/mcpb@2

vendor: $(VENV)/dev.stamp ## Copy what the inspection page draws with from its locked npm package; needs npm
	PYTHONPATH=tests $(BIN)/python -m vendoring

lock: ## Renew the lock files; needs uv and npm
	uv pip compile pyproject.toml --group build $(LOCK) -o requirements.txt
	uv pip compile pyproject.toml --group build --extra eval $(LOCK) -o requirements-eval.txt
	uv pip compile pyproject.toml --group build --group dev $(LOCK) -o requirements-dev.txt
	uv pip compile tests/clients/requirements.in $(LOCK) -o tests/clients/requirements.txt
	uv pip compile tests/datasettes/stable/requirements.in $(LOCK) -o tests/datasettes/stable/requirements.txt
	uv pip compile tests/datasettes/alpha/requirements.in $(LOCK) -o tests/datasettes/alpha/requirements.txt
	uv pip compile tests/content/requirements.in $(LOCK) -o tests/content/requirements.txt
	uv pip compile tests/publishing/requirements.in $(LOCK) -o tests/publishing/requirements.txt
	uv pip compile bench/requirements.in $(LOCK) -o bench/requirements.txt
	uv pip compile tests/mutation/requirements.in --constraints requirements-dev.txt $(LOCK) -o tests/mutation/requirements.txt
	rm -rf $(foreach home,$(NODE_HOMES),$(home)/node_modules $(home)/package-lock.json)
	$(foreach home,$(NODE_HOMES),npm install --prefix $(home) $(NPM_LOCK) &&) true
NODE_HOMES := tests tests/content tests/publishing bench
NPM_LOCK := --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --loglevel=error
LOCK := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet

clean: ## Remove everything that the other targets made
	rm -rf $(VENV) dist export mutants index.db $(BUNDLED) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf tests/node_modules tests/clients/.venv tests/datasettes/stable/.venv tests/datasettes/alpha/.venv tests/content/node_modules tests/content/.venv tests/publishing/node_modules tests/publishing/.venv bench/node_modules bench/.venv

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: $(VENV)/bin/python requirements.txt pyproject.toml
	$(PIP) install --no-deps --require-hashes -r requirements.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(BUNDLED): $(VENV)/run.stamp always # a build does nothing where nothing has changed, and knows of more than files: the commit
	$(BIN)/orchestr8-sqlite build resources -o $@ --strict

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.txt
	$(PIP) install --no-compile --no-deps --require-hashes -r requirements-dev.txt
	@touch $@

$(VENV)/mutation.stamp: $(VENV)/dev.stamp tests/mutation/requirements.txt
	$(PIP) install --no-deps --require-hashes -r tests/mutation/requirements.txt
	@touch $@
