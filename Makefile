# Every target sets up what it needs: on a fresh machine `make demo` and `make test` are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Real data sets are read from here when the folder exists; nothing in the package depends on it.
ifneq ($(wildcard ../shared/data),)
export BELLMAN_DATA_DIR ?= $(abspath ../shared/data)
endif

.PHONY: setup demo test unit lint format docs bench reproduce clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "bellman-diffusion needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,lint,docs]'
	touch $@

demo: $(STAMP)
	$(BIN)/bellman demo

test: lint unit

# Tests compile much and run little: a quick compiler is worth more than quick programs, and what one
# file compiled serves the others and the next run. Training to full quality is the other way round.
# Two processes share two cores: further threads of PyTorch would only wait for each other.
unit: export OMP_NUM_THREADS = 1
unit: export JAX_COMPILATION_CACHE_DIR = $(abspath .cache/jax)
unit: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0
unit: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES = -1
unit: $(STAMP)
	XLA_FLAGS="--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false" $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=15 -m "not quality"
	$(BIN)/python -m pytest -n 2 --dist load -m quality

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python docs/make_results.py
	rm -rf site
	PYTHONPATH=docs $(BIN)/zensical build --strict

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# The paper, then what goes beyond it. All of it anew: without this, parts that have results are kept.
reproduce: $(STAMP)
	rm -rf results/all.json results/*/cells
	$(BIN)/bellman reproduce all --out results
	$(BIN)/bellman reproduce usefulness --seed 1100 --seeds 10 --out results/usefulness
	$(BIN)/bellman reproduce accuracy --seed 70 --seeds 3 --out results/accuracy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[evaluation]'
	$(BIN)/bellman reproduce evaluation --seed 400 --seeds 3 --out results/evaluation
	$(BIN)/bellman reproduce off-policy --seed 500 --seeds 3 --out results/off-policy
	# Without its dependency pygame, which pygame-ce is in the place of.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt mo-gymnasium
	$(BIN)/bellman reproduce vector-returns --seed 600 --seeds 3 --out results/vector-returns
	$(BIN)/bellman reproduce risk --seed 80 --out results/risk
	$(BIN)/bellman reproduce planning --seed 30 --seeds 5 --out results/planning
	$(BIN)/bellman reproduce treasure --out results/treasure
	$(BIN)/bellman reproduce agents --seed 4200 --seeds 5 --out results/agents

clean:
	rm -rf $(VENV) .venv-bench site runs .cache .pytest_cache .ruff_cache
