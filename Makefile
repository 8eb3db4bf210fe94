# Fresh machine, two commands: `make demo` and `make test`. Everything else is here for daily life.

PYTHON ?= python3
BIN := .venv/bin
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
EXTRAS := --extra server --extra wasm --extra kafka --extra otel --extra crypto

.PHONY: help setup demo serve test proofs check format simulate bench bench-peers docs wasm ci clean

help:            ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## +/\t/' | expand -t 12

setup: .venv/.ready  ## The environment in .venv, with the flo command in it

.venv/.ready: pyproject.toml uv.lock | $(UV)
	@echo "Setting up .venv ..."
	@$(UV) sync --frozen --quiet --python $(PYTHON) $(EXTRAS)
	@touch $@

.uv/bin/uv:
	@echo "Setting up uv ..."
	@$(PYTHON) -m venv .uv || { echo "python3 needs its venv module: apt-get install python3-venv"; exit 1; }
	@.uv/bin/pip install --quiet --disable-pip-version-check uv

demo: setup      ## A few dozen actions and a workflow with an approval, before your eyes
	@$(BIN)/python examples/demo.py

serve: setup     ## A server that keeps running, with its data in ./flo-data
	@$(BIN)/flo server start

test: setup      ## All tests
	@$(BIN)/python -m pytest -n 2 --dist loadfile

proofs: setup    ## The proofs at full size: kills, races, 500 seeds; takes hours
	@set -e; for proof in $(PROOFS); do echo "== $$proof"; $(BIN)/python tests/acceptance/$$proof; done
	@$(BIN)/python -m simulator --seed 1 --seeds 500 --operations 20000
	@$(BIN)/python -m simulator.pipelines.simulation --seed 1 --seeds 500
	@$(BIN)/python -m simulator.safety.simulation --seed 1 --seeds 500
	@$(BIN)/python -m simulator.replays --each 1000
	@$(UV) run --isolated --frozen --quiet $(EXTRAS) --group proofs python tests/acceptance/api_conformance.py

PROOFS := test_kill.py test_worker_loss.py test_server_loss.py test_network_cuts.py \
	test_permit_kills.py test_linearizable_kv.py test_trigger_kills.py "test_trigger_kills.py --batch-size 10" \
	"test_workflow_kills.py --all" test_payment_failover.py test_one_effect.py \
	wasm_kills.py "wasm_kills.py --workflow" hostile_wasm.py past_states.py test_damage.py test_verify.py test_large_inputs.py \
	test_overload.py test_structured_fuzz.py silent_proxy.py test_soak.py test_pipelines.py test_pipeline_commits.py test_neops_worker.py \
	test_backups.py installs.py

check: setup     ## Format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup    ## Put every file into its form
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

simulate: setup  ## One seed of the simulation: make simulate SEED=7
	@$(BIN)/python -m simulator --seed $(or $(SEED),1)

bench: setup     ## Every benchmark; prints a table, writes bench/results/latest.json
	@$(BIN)/python -m bench

bench-peers: setup  ## The same work by others, side by side: make bench-peers PEERS=flo,huey
	@$(BIN)/python -m bench.peers $(or $(PEERS),flo,taskiq,huey,restate,celery)

docs: setup      ## The parts of the reference, and the stubs, that follow from the code
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/stubs.py

wasm: setup      ## The WebAssembly examples, built anew; fetches a compiler of 420 MB
	@$(UV) run --isolated --frozen --quiet $(EXTRAS) --group zig python examples/wasm/build.py

ci: check test   ## What a change must pass

clean:           ## Forget the environment and all caches
	@rm -rf .venv .uv .mypy_cache .pytest_cache .ruff_cache .hypothesis
