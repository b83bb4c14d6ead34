# make demo: install and serve the page      make test: install and test
# make check: lint, types, layers            make checkpoint: draw, train and score the bundled checkpoint
# make bench: time streaming, matching, scoring, batches and the player
PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
.PHONY: demo test check bench checkpoint clean

demo: .venv/.demo
	$(BIN)/stepscope demo

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/oxlint --deny-warnings app/player/static

bench: .venv/.dev
	$(BIN)/stepscope bench
	$(BIN)/python -m benchmarks.match
	$(BIN)/python -m benchmarks.score
	$(BIN)/python -m benchmarks.batch
	$(BIN)/python -m benchmarks.player
	$(BIN)/python -m benchmarks.watch

checkpoint: .venv/.demo
	$(BIN)/python -m assets checkpoint
	$(BIN)/python -m assets videos
	$(BIN)/python -m assets score

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "StepScope needs Python 3.11 or 3.12: none was found on PATH"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	@echo 'Installing into .venv, once: some minutes, and some GB where torch brings its CUDA libraries.'
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@ .venv/.demo

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
