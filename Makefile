# Two commands are all a newcomer needs: `make demo` and `make test`. Everything else serves us.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINE ?= real
FLEET ?= examples/cpu-1p1d.toml
ROUNDS ?= 200
MINUTES ?= 30
STREAMS ?= 200
STAMP := $(VENV)/.complete

.PHONY: help setup engine browser postgres prometheus demo test crashtest check fix run bench bench-router bench-recording bench-rest soak lock bench-policies bench-terminal screenshots clean clean-engine migration

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(STAMP) ## Create the console's environment in .venv

# Built in one go and stamped last: an interrupted set-up is started afresh, never half used.
$(STAMP): pyproject.toml constraints.txt tools/setup.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" bash tools/setup.sh

engine: setup ## Build the CPU engine environment and the tiny model (cached per user)
	@$(BIN)/python -m pdctl.engine_env

browser:
	@bash tools/browser.sh

postgres:
	@bash tools/postgres.sh

prometheus:
	@bash tools/prometheus.sh

demo: setup ## A real prefill/decode fleet on this machine (ENGINE=simulated: no vLLM, seconds)
	@exec $(BIN)/pdctl demo --engine $(ENGINE)

test: setup engine browser postgres prometheus ## All set-up, then every test, real vLLM included
	@PYTHON=$(BIN)/python bash tools/test.sh

crashtest: setup ## Kill every kind of process at random under load (ROUNDS=200; REAL=10: vLLM)
	$(BIN)/python -m crashtest $(if $(REAL),--real $(REAL),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED))

check: setup ## Format, lint, types, import contracts, size rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/rules

fix: setup ## Format and repair what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

run: setup ## Serve a fleet file (FLEET=path)
	@exec $(BIN)/pdctl serve --file $(FLEET)

bench: bench-router bench-recording bench-policies bench-rest ## All benchmarks, one after the other

bench-recording: setup ## CPU of the router with and without a record of every request
	$(BIN)/python -m benchmarks.recording

bench-router: setup ## Direct, aiohttp proxy, vllm-router and ours side by side (7 minutes)
	$(BIN)/python -m benchmarks.router --raw benchmarks/results/router.json

screenshots: setup browser ## Pictures of the README from a simulated fleet (OUT=folder: every screen and page)
	$(BIN)/python -m tools.screenshots $(if $(OUT),--out $(OUT))

soak: setup ## Streams, kills and disconnects; nothing may be left (MINUTES=30 STREAMS=200)
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) --streams $(STREAMS)

bench-rest: setup ## CPU at rest and time to a plan, 200 simulated instances
	$(BIN)/python -m benchmarks.rest

bench-terminal: setup ## CPU of the terminal console, 200 instances and 1000 requests a second
	$(BIN)/python -m benchmarks.terminal

bench-policies: setup ## Routing policies on chat, documents, agents and bursts, in virtual time
	$(BIN)/python -m benchmarks.policies

lock: setup ## Write the exact versions of this environment to constraints.txt
	$(BIN)/python -m pip freeze --exclude-editable --exclude pdctl > constraints.txt

migration: setup ## Draft a migration from the tables (NAME=slug)
	$(BIN)/alembic revision --autogenerate -m "$(NAME)"

clean: ## Remove the environment and caches of this checkout
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find backend console tests migrations -name __pycache__ -type d -prune -exec rm -rf {} +

clean-engine: setup ## Remove the cached engine environments and models
	@$(BIN)/python -m pdctl.engine_env --clean
