# Every job of this tree. All need only Python 3.11.2+; the first one that is run makes .venv (tools/bootstrap.sh).
.DEFAULT_GOAL := help
.PHONY: notebook mutants help demo demo-kafka test test-areas test-cost test-all quick fuzz soak oldest check conformance simulate bench docs screenshots lock

BIN := .venv/bin
READY := .venv/.ready
# BUILD=compiled: make quick, test and test-all run on a wheel whose hot modules are compiled (docs/howto/compiled-build.md)
BUILD ?= pure
ifeq ($(BUILD),compiled)
TESTED := .venv-compiled/bin
BUILT := .venv-compiled/.ready
export PYTHONSAFEPATH := 1
else
TESTED := $(BIN)
BUILT := $(READY)
endif
PYTEST := $(TESTED)/python -m pytest --durations 10 --durations-min 1
# more workers than cores, for many tests wait; tests that share a fixture in one worker, and in the order of tests/conftest.py: what takes long begins first
SPREAD := $(PYTEST) -n 6 --dist loadgroup --no-loadscope-reorder
ALL := --hypothesis-profile all
# Options of the command that a target runs: make demo ARGS="--events 100000 --keep"
ARGS ?=
export PYTHON
# the suite starts Python some hundred times: what is compiled must be kept
unexport PYTHONDONTWRITEBYTECODE

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1   \2/p' Makefile

demo: $(READY)  ## real flight records through a gateway into a subscriber, a dead letter and a Spark table
	$(BIN)/tidegate demo $(ARGS)

demo-kafka: $(READY)  ## the same through a Kafka broker and a Spark cluster, both started on this machine, into Delta
	$(BIN)/tidegate demo --kafka $(ARGS)

test: $(BUILT)  ## every requirement, through real processes, Kafka and Spark
	@$(BIN)/python tools/fetch.py
	@$(BIN)/python -m tests.console.browser
	$(SPREAD) -m "not full and not area" $(ARGS)

SINCE ?= main
test-areas: $(BUILT)  ## what make test leaves out of the areas (tests/areas.toml) in which files differ from SINCE=main
	@$(BIN)/python tools/fetch.py
	@areas=$$($(BIN)/python -m tests.areas $(SINCE)) && if [ -n "$$areas" ]; then $(SPREAD) -m "not full and ($$areas)" $(ARGS); fi

test-cost: $(BUILT)  ## make test in one process, and write tests/cost.toml: the CPU seconds of each folder, file and fixture
	@$(BIN)/python tools/fetch.py
	@$(BIN)/python -m tests.console.browser
	$(PYTEST) -m "not full and not area" --cost tests/cost.toml $(ARGS)

test-all: $(BUILT)  ## the same with the long forms (marked "full"), and properties with five times the examples
	@$(BIN)/python tools/fetch.py
	@$(BIN)/python -m tests.console.browser
	$(SPREAD) $(ALL) $(ARGS)

quick: $(BUILT)  ## what starts no process and takes little CPU time, in about half a minute
	$(PYTEST) -n 3 -m "unit and not full and not area and not twin and not slow" --hypothesis-profile quick $(ARGS)

soak: $(READY)  ## HOURS=8 or MINUTES=10: gateways under load while a fault comes every few seconds; ends with a report
	@$(BIN)/python tools/fetch.py
	@$(BIN)/python -m tests.soak --hours $(or $(HOURS),0) --minutes $(or $(MINUTES),0) $(ARGS)

fuzz: $(READY)  ## search with coverage for inputs that break a parser: MINUTES=10 for each target, or TARGET="http rows"
	$(BIN)/python -m tests.fuzz.run --minutes $(or $(MINUTES),10) $(TARGET) $(ARGS)

oldest: $(READY)  ## the unit tests with the oldest dependencies that pyproject.toml allows, in .venv-oldest
	$(BIN)/python -m venv --clear .venv-oldest
	.venv-oldest/bin/python -m pip install -q --disable-pip-version-check -r requirements/oldest.txt
	.venv-oldest/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./dev
	.venv-oldest/bin/python -m pytest -n 2 -m "unit and not full and not area" --hypothesis-profile quick $(ARGS)

check: $(READY)  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tools contrib tests

mutants: $(READY)  ## plant the faults of tests/mutants.toml in a copy of the tree, and say which layer of tests catches each
	$(BIN)/python -m tests.mutants $(ARGS)

SEEDS ?= 1000
simulate: $(READY)  ## search SEEDS simulated runs, full of faults, for one that breaks a promise of docs/discussion/delivery.md
	$(BIN)/python -m tests.simulation.search --seeds $(SEEDS) $(ARGS)

conformance: $(READY)  ## make test-all, and write docs/conformance.md: each requirement with its tests
	@$(BIN)/python tools/fetch.py
	@$(BIN)/python -m tests.console.browser
	$(SPREAD) $(ALL) --conformance=docs/conformance.md $(ARGS)

bench: $(BUILT)  ## what an event costs, beside targets and loops written by hand; or beside Go (PEERS=1), or beside a revision (COMPARE=REV)
ifneq ($(PEERS)$(COMPARE),)
	$(BIN)/python tests/bench/compare.py --this $(TESTED)/python --with $(or $(COMPARE),go) $(ARGS)
else
	$(BIN)/python tests/bench/run.py $(ARGS)
	@for what in mqtt nats rabbitmq redis websocket access; do $(BIN)/python tests/bench/$${what}_loops.py || exit 1; done
endif

docs: $(READY)  ## write everything that is generated: reference pages, pictures, the snapshot of the contract
	$(BIN)/python tools/docs.py

screenshots: $(READY)  ## take the pictures of the console again, from the demo's flights: in docs/images
	$(BIN)/python -m tests.console.screenshots $(ARGS)

notebook: $(READY)  ## run the notebooks of docs and rewrite their outputs
	$(BIN)/python tools/notebook.py

lock:  ## resolve requirements/dev.txt again, with hashes (needs uv)
	uv pip compile --quiet --generate-hashes --universal --python-version 3.11.2 --no-emit-index-url \
	  --custom-compile-command "make lock" --all-extras --group dev --no-emit-package tidegate --no-emit-package tidegate-dev pyproject.toml dev/pyproject.toml -o requirements/dev.txt $(ARGS)
	for sdk in 1 2 node go spark-4.1; do uv pip compile --quiet --generate-hashes --universal --python-version 3.11.2 --no-emit-index-url \
	  --custom-compile-command "make lock" tests/sdk/requirements-$$sdk.in -o tests/sdk/requirements-$$sdk.txt $(ARGS) || exit 1; done

$(READY): requirements/dev.txt pyproject.toml dev/pyproject.toml tools/bootstrap.sh
	@sh tools/bootstrap.sh

.venv-compiled/.ready: $(READY) tools/compiled_venv.sh tools/compile_hook.py $(shell find gateway_core plugins dev -name '*.py')
	@sh tools/compiled_venv.sh
