# `make test` and `make demo` need nothing but Python >= 3.11; both set up .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
export PREBENCH_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint slow bench install clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/prebench demo --to audits/demo --replace

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -m "not slow"

slow: $(STAMP)
	$(BIN)/pytest -m slow

bench: $(STAMP)
	$(BIN)/python tests/benchmarks/speed.py
	$(BIN)/python tests/benchmarks/dictionaries.py
	$(BIN)/python tests/benchmarks/parametric.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
