# make demo: install and serve the page      make test: install and test
# make check: lint, types, layers            make checkpoint: draw, train, run and score the bundled checkpoints
# make lowest: test the engine with the lowest versions of torch and transformers (downloads 4 GB)
# make bench: time streaming, decoding, recording, scoring, batches, the start and the player
PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
ANNOUNCE := printf '%s\n' 'Installing Python packages from PyPI into .venv, once; model and videos are here already.' \
	'To download: about 1 GB, 2 GB on disk; where torch brings its CUDA libraries (Linux): about 4 GB, 6 GB on disk.' \
	'This takes some minutes, most of them for torch. If it is stopped, make continues with the files that pip has kept.'
# what a start imports, also where PYTHONDONTWRITEBYTECODE is set and each start would compile it again
COMPILE := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c \
	'import stepscope.eval.cli.run_command, stepscope.app.cli.serve; from stepscope import load_model; load_model("assets/checkpoint")'
.PHONY: demo test check lowest bench checkpoint clean

demo: .venv/.demo
	$(BIN)/stepscope demo

test: .venv/.dev
	@# three workers on two cores: a test waits now and then for its browser or program
	$(BIN)/python -m pytest -n 3 --dist worksteal

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# mypy and import-linter follow folders, not the map of setup.py
	mkdir -p .links/stepscope
	ln -sfn $(addprefix ../../,engine eval app assets stepscope/__init__.py stepscope/__main__.py) .links/stepscope/
	$(BIN)/mypy
	cd .links && ../$(BIN)/lint-imports --config ../pyproject.toml
	$(BIN)/oxlint --deny-warnings app/player/static app/publish/static
	$(BIN)/oxfmt --check 'app/**/*.js'
	! LC_ALL=C grep -rnE --include='*.js' '^.{121,}' app  # bytes, whatever the locale

lowest:
	$(PYTHON) -m venv .lowest
	.lowest/bin/python -m pip install --constraint lowest.txt --editable '.[dev]'
	.lowest/bin/python -m benchmarks.gpu --device cpu --tiny
	.lowest/bin/python -m pytest tests/engine

bench: .venv/.dev
	$(BIN)/stepscope bench
	$(BIN)/python -m benchmarks.gpu.questions
	$(BIN)/python -m benchmarks.engine.decode
	$(BIN)/python -m benchmarks.engine.evidence
	$(BIN)/python -m benchmarks.eval.explain
	$(BIN)/python -m benchmarks.eval.record
	$(BIN)/python -m benchmarks.eval.score
	$(BIN)/python -m benchmarks.eval.search
	$(BIN)/python -m benchmarks.eval.end_to_end
	$(BIN)/python -m benchmarks.eval.batch
	$(BIN)/python -m benchmarks.app.open
	$(BIN)/python -m benchmarks.app.player
	$(BIN)/python -m benchmarks.app.watch
	$(BIN)/python -m benchmarks.app.publish
	$(BIN)/python -m benchmarks.app.windows

checkpoint: .venv/.demo
	$(BIN)/python -m stepscope.assets checkpoint
	$(BIN)/python -m stepscope.assets twin
	$(BIN)/python -m stepscope.assets answers
	$(BIN)/python -m stepscope.assets videos
	$(BIN)/python -m stepscope.assets run
	$(BIN)/python -m stepscope.assets score

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "StepScope needs Python 3.11 or 3.12: none was found on PATH"; exit 2; }
	$(PYTHON) -m venv .venv

# compiling all of 13,000 files takes a minute, what a start imports some seconds
.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	@$(ANNOUNCE)
	$(BIN)/python -m pip install --no-compile --constraint constraints.txt --editable .
	$(COMPILE)
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	@$(ANNOUNCE)
	$(BIN)/python -m pip install --no-compile --constraint constraints.txt --editable '.[dev]'
	$(COMPILE)
	@touch $@ .venv/.demo

clean:
	rm -rf .venv .lowest build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
