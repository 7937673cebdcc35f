# Every job of this tree. All need only Python 3.11+; the first one that is run makes .venv (tools/bootstrap.sh).
.DEFAULT_GOAL := help
.PHONY: notebook help demo demo-kafka test quick check conformance bench docs lock

BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest
# Options of the command that a target runs: make demo ARGS="--events 100000 --keep"
ARGS ?=
export PYTHON

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1   \2/p' Makefile

demo: $(READY)  ## real flight records through a gateway into a subscriber, a dead letter and a Spark table
	$(BIN)/tidegate demo $(ARGS)

demo-kafka: $(READY)  ## the same through a Kafka broker and a Spark cluster, both started on this machine, into Delta
	$(BIN)/tidegate demo --kafka $(ARGS)

test: $(READY)  ## the whole test suite (but for the long forms, marked "full")
	$(PYTEST) -n 2 --dist loadgroup -m "not full" $(ARGS)

quick: $(READY)  ## what can be tested within 60 seconds
	$(PYTEST) -n 2 -m "not slow and not spark and not kafka and not full" --session-timeout 60 $(ARGS)

check: $(READY)  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

conformance: $(READY)  ## run the suite and write docs/conformance.md: each requirement with its tests
	$(PYTEST) -n 2 --dist loadgroup -m "not full" --conformance=docs/conformance.md $(ARGS)

bench: $(READY)  ## measure, beside the targets, in one table
	$(BIN)/python tests/bench/run.py $(ARGS)

docs: $(READY)  ## write the generated reference pages anew
	$(BIN)/python tools/docs.py

notebook: $(READY)  ## run the notebooks of docs and write their outputs anew
	$(BIN)/python tools/notebook.py

lock:  ## resolve requirements/dev.txt anew, with hashes (needs uv)
	uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-emit-index-url \
	  --custom-compile-command "make lock" --all-extras --group dev pyproject.toml -o requirements/dev.txt $(ARGS)
	for sdk in 1 2 node spark-4.1; do uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-emit-index-url \
	  --custom-compile-command "make lock" tests/sdk/requirements-$$sdk.in -o tests/sdk/requirements-$$sdk.txt $(ARGS) || exit 1; done

$(READY): requirements/dev.txt pyproject.toml tools/bootstrap.sh
	@sh tools/bootstrap.sh
