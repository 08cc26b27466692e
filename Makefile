# Everything runs in .venv, which these targets make and keep up to date (scripts/venv.sh).
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash
.PHONY: help run embedded chroma test lint format lock bench bench-peers bench-embedded bench-sandbox bench-kb

help: ## these lines
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

run: ## start the service in the foreground (PORT=8001, HOST=0.0.0.0)
	@exec scripts/run.sh $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT))

embedded: ## install the embedded model (DEVASSIST_AGENT_MODEL=embedded), which is for tests
	@scripts/venv.sh embedded

chroma: ## install the vector index Chroma (DEVASSIST_VECTORS=chroma)
	@scripts/venv.sh chroma

test: lint ## lint, then every test (ARGS="-k name" picks some)
	@.venv/bin/python -m pytest -q $(ARGS)

lint: ## rules, format and types
	@scripts/venv.sh test
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check --quiet . || { echo "Not formatted: run 'make format'"; exit 1; }
	@.venv/bin/basedpyright

format: ## write the format, and what rules can mend by themselves
	@scripts/venv.sh test
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

lock: ## write requirements/*.txt from their .in files (UPGRADE=1: newest releases)
	@UPGRADE=$(UPGRADE) scripts/lock.sh

bench: ## measure this version (ARGS are handed on)
	@scripts/venv.sh test
	@.venv/bin/python -m bench $(ARGS)

bench-peers: ## measure it beside other durable agent loops, minutes (ARGS are handed on)
	@scripts/venv.sh test
	@.venv/bin/python -m bench.peers $(ARGS)

bench-embedded: ## how 20 streams of the embedded model hold up the API (ARGS are handed on)
	@scripts/venv.sh test
	@.venv/bin/python -m bench.embedded $(ARGS)

bench-sandbox: ## what a program in the sandbox costs, beside other clients of a Docker engine (ARGS are handed on)
	@scripts/venv.sh test
	@.venv/bin/python -m bench.sandbox $(ARGS)

bench-kb: ## how well and how fast knowledge is found, minutes; needs the knowledge bundle (ARGS are handed on)
	@scripts/venv.sh test
	@.venv/bin/python -m bench.kb $(ARGS)
