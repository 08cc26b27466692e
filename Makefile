# Everything runs in .venv, which these targets make and keep up to date (scripts/venv.sh).
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash
.PHONY: help run test lint format lock bench

help: ## these lines
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

run: ## start the service in the foreground (PORT=8001, HOST=0.0.0.0)
	@exec scripts/run.sh $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT))

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
