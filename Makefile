# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
EXTRAS ?= dev
READY  := $(VENV)/.ready-$(EXTRAS)

.PHONY: help setup browser demo test lint format docs replicate benchmark fuzz mutants kills clean

help:            ## what can be made
	@grep -hE '^[a-z]+: .*##|^[a-z]+: +##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

setup: $(READY)  ## create .venv with the pinned dependencies

browser: ## install the browser that the report's tests use (Debian; needs root)
	@command -v chromedriver >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; }

demo: $(READY)   ## audit the built-in model and print where the report is
	$(BIN)/rashomon audit --out rashomon-report

test: $(READY)   ## the whole suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"

lint: $(READY)   ## ruff, mypy strict on src, the arrows between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)   ## the documentation as a site in ./site, with a reference made from the docstrings
	$(BIN)/mkdocs build --strict
	@echo "The documentation is in site/index.html"

format: $(READY) ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

replicate: $(READY) ## the slow checks on the papers' datasets ($$RASHOMON_DATA)
	$(BIN)/python -m pytest -q -m slow

benchmark: $(READY) ## ratios to the peers, each in one run
	for script in benchmarks/*.py; do $(BIN)/python $$script; done

fuzz: $(READY)   ## hours of odd inputs; RASHOMON_FUZZ_TIMES says how many times those of the suite (100)
	RASHOMON_FUZZ=long OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/fuzz

mutants: $(READY) ## would the tests notice a changed operator? (an hour; single files: benchmarks/mutants.py)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutants.py --all --sample 60

kills: $(READY)  ## 200 SIGKILLs at random moments, and whether the numbers stay the same
	OMP_NUM_THREADS=1 $(BIN)/python scripts/kills.py --kills 200

clean:           ## remove what was made
	rm -rf $(VENV) rashomon-report site build dist src/*.egg-info
