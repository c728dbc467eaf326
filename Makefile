# Two commands do everything on a machine with Python >= 3.10 and make:
#   make demo    a guided tour: a real 2-rank training that stalls in six ways, and the page that says why
#   make test    every check: lint, types, tests, and the page's own where node is there
# The first call makes .venv and installs what constraints.txt pins into it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=

# Long tests wait for processes, clocks and outages: several at a time, on two cores as well.
SIDE_BY_SIDE := -n 4

# The suite starts hundreds of Pythons; without bytecode each one compiles us anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test compat compat-own clickhouse frameworks gpu scenarios faults security silence soak check-python web-tools check-web pytest chromium format lint types docs plotly fluent screenshots bench clean

help:
	@echo "make demo | test | compat | clickhouse | frameworks | gpu | scenarios | faults | security | silence | soak | format | lint | plotly | fluent | screenshots | bench | clean"

demo: $(VENV)/demo.stamp
	$(BIN)/loaderwatch demo $(DEMO_ARGS)

test: check-python check-web pytest

# ---- what each needs installed; made again when a pin or a dependency changes

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "loaderwatch needs Python 3.10 or newer; " + sys.executable + " is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3.11 ...")'
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: on Debian and Ubuntu, apt-get install python3-venv"; exit 1; }
	@touch $@

INSTALLED := pyproject.toml constraints.txt hatch_build.py loaderwatch/agent/hot/_hot.c \
    loaderwatch/agent/hot/layout.py loaderwatch/core/records.py loaderwatch/core/ring/__init__.py loaderwatch/core/ring/span.py

$(VENV)/demo.stamp: $(VENV)/python.stamp $(INSTALLED)
	@echo "installing loaderwatch and torch into $(VENV) (once)"
	$(PIP) install -c constraints.txt --upgrade pip
	$(PIP) install -c constraints.txt --editable '.[demo]'
	@touch $@

# pip reads dependency groups from 25.1 on; demo.stamp has brought a newer one.
$(VENV)/dev.stamp: $(VENV)/demo.stamp
	@echo "installing the tools of the tests into $(VENV) (once)"
	$(PIP) install -c constraints.txt --group dev
	@touch $@

node_modules/stamp: package.json package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# ---- checks

check-python: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# One target for all who need it: two at once would install into each other's folder.
web-tools:
	@if command -v node >/dev/null && command -v npm >/dev/null; then $(MAKE) --no-print-directory node_modules/stamp; \
	else echo "SKIPPED: the page's own tests and types, and axe: node and npm are not installed"; fi

check-web: web-tools
	@if [ -e node_modules/stamp ]; then node_modules/.bin/tsc --project tsconfig.json && node --import ./tests/web/catalogues.js --test tests/web/*.test.js; fi

# Four files at a time, as most tests wait for processes; in their order, what takes long first.
pytest: $(VENV)/dev.stamp chromium web-tools
	$(BIN)/pytest -m "not long" -n 4 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# Every scenario as a real training, the advice tried out, and the table of the diagnosis bench.
scenarios: $(VENV)/dev.stamp
	$(BIN)/pytest -m long --ignore=tests/faults --ignore=tests/compat --ignore=tests/frameworks \
		--ignore=tests/integration/test_silence.py $(PYTEST_ARGS)
	$(BIN)/python -m benchmarks.diagnosis

# Half an hour in which nothing happens: hangs stay one open alert each, also through a restart of the server. SILENCE_S=60 for a look.
silence: $(VENV)/dev.stamp
	$(BIN)/pytest tests/integration/test_silence.py $(PYTEST_ARGS)

# Processes killed and stopped, disks and networks that fail: every record arrives once or is counted as lost.
# A test prints its seed; FAULTS_SEED=n repeats it.
faults: $(VENV)/dev.stamp
	$(BIN)/pytest tests/faults $(SIDE_BY_SIDE) $(PYTEST_ARGS)

# Every test file that docs/security.md names as proof, and the test that those names are right.
SECURITY_TESTS = $(shell grep -oE '`(it|u|tests)/[a-z_/]+\.py' docs/security.md | sed 's,`,,; s,^it/,tests/integration/,; s,^u/,tests/unit/,' | sort -u) \
	tests/unit/test_security_doc.py

security: $(VENV)/dev.stamp chromium
	$(BIN)/pytest $(SECURITY_TESTS) $(PYTEST_ARGS)

# The store on ClickHouse's real engine (chdb, 0.85 GB); CLICKHOUSE_URL=clickhouse://user:password@host:8123 runs the conformance
# suite on a server instead, in databases test_… that it makes and leaves.
clickhouse: $(VENV)/dev.stamp
	$(PIP) install -c constraints.txt --group clickhouse
	$(BIN)/pytest tests/unit/server/store tests/integration/test_store_conformance.py \
		$(if $(CLICKHOUSE_URL),,tests/integration/test_store_clickhouse.py tests/integration/test_server_clickhouse.py) $(PYTEST_ARGS)

# The compatibility suite and the agent's own tests: with the oldest and the newest torch, each in an environment of its own, and
# then with ours. `make compat TORCH=2.4.1` runs one of them, `make compat PYTHON=python3.13 TORCH=2.13.0` another Python.
TORCH ?= 2.4.1 2.14.1 own
COMPAT_TESTS := tests/compat tests/unit/agent $(wildcard tests/integration/test_agent_*.py)
COMPAT_VENV = .venv-torch-$*-$(notdir $(PYTHON))

compat: $(addprefix compat-,$(TORCH))

compat-own: $(VENV)/dev.stamp
	$(BIN)/pytest $(COMPAT_TESTS) $(SIDE_BY_SIDE) $(PYTEST_ARGS)
	LOADERWATCH_PLAIN=1 $(BIN)/pytest $(filter-out tests/compat,$(COMPAT_TESTS)) $(SIDE_BY_SIDE) $(PYTEST_ARGS)

compat-%:
	@if $(MAKE) --no-print-directory $(COMPAT_VENV)/stamp; then \
		$(COMPAT_VENV)/bin/python -m pytest $(COMPAT_TESTS) $(SIDE_BY_SIDE) $(PYTEST_ARGS); \
	else \
		echo "SKIPPED: torch $* could not be installed for $$($(PYTHON) --version 2>&1); the reason stands above"; \
	fi

# PyTorch's own index has builds for CPUs, a tenth of the size of those on PyPI; not every machine reaches it.
.venv-torch-%-$(notdir $(PYTHON))/stamp: $(INSTALLED) Makefile
	@echo "installing torch $* into $(@D) (once)"
	@$(PYTHON) -m venv $(@D)
	@grep -v "^torch==" constraints.txt > $(@D)/constraints.txt
	@$(@D)/bin/python -m pip install --quiet --timeout 10 --retries 0 --index-url https://download.pytorch.org/whl/cpu "torch==$*" 2>/dev/null || \
		$(@D)/bin/python -m pip install --quiet "torch==$*"
	@$(@D)/bin/python -m pip install --quiet -c $(@D)/constraints.txt --editable . \
		pytest pytest-timeout pytest-xdist hypothesis hatchling torchdata "torch==$*"
	@touch $@

# Other people's training code, bare and watched, and three stalls inside it. The frameworks that `make test` does not have are
# installed into environments of their own; a training whose framework does not install is skipped, and says so.
FRAMEWORK_VENVS := .venv-frameworks-streams .venv-frameworks-vision

frameworks: $(VENV)/dev.stamp
	@for venv in $(FRAMEWORK_VENVS); do \
		$(MAKE) --no-print-directory $$venv/stamp || { rm -rf $$venv; echo "SKIPPED: what needs $$venv; the reason stands above"; }; \
	done
	@$(BIN)/python -m tests.frameworks.environments
	$(BIN)/pytest tests/frameworks -n 2 --dist loadscope $(PYTEST_ARGS)

.venv-frameworks-%/stamp: tests/frameworks/requirements-%.txt $(INSTALLED)
	@echo "installing the frameworks of $< into $(@D) (once)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet -r $<
	@for alone in $(wildcard tests/frameworks/requirements-$*-alone.txt); do $(@D)/bin/python -m pip install --quiet --no-deps -r $$alone; done
	@$(@D)/bin/python -m pip install --quiet --editable . -r $<
	@touch $@

# Truth beside verdict on a real GPU with kernels of known length; on a virtual one: python -m benchmarks.gpu_matrix.
gpu: $(VENV)/dev.stamp
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then \
		$(BIN)/python -m benchmarks.gpu_matrix --real; \
	else \
		echo "no GPU here that this torch can use: nothing was run. docs/gpu.md says what was tried without one"; \
	fi

# The browser tests drive a real Chromium. Without one, and without the right to install one, they skip and say so.
chromium:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Debian's chromium for the browser tests"; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends chromium >/dev/null; } \
			|| echo "chromium could not be installed: the browser tests will be skipped"; \
	else echo "no chromium here, and no right to install it: the browser tests will be skipped"; fi

# ---- the rest

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: check-python check-web

# The page's types of the API's answers, from loaderwatch/core/answers/.
types: $(VENV)/dev.stamp
	$(BIN)/python -m tests.web.answer_types

# docs/configuration.md, from loaderwatch/core/environment_variables.py.
docs: $(VENV)/dev.stamp
	$(BIN)/python -m tests.docs.configuration
	$(BIN)/python -m tests.docs.rules
	$(BIN)/python -m tests.docs.known_costs

# web/vendor/plotly.min.js anew, after a change of vendor/plotly/: its version, or a trace that a chart needs.
plotly:
	cd vendor/plotly && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && node bundle.mjs ../../web/vendor

# web/vendor/fluent/ anew, after a change of its version in package.json.
fluent: web-tools
	cp node_modules/@fluent/bundle/esm/*.js node_modules/@fluent/bundle/esm/*.d.ts web/vendor/fluent/

# README's pictures, from the demo; and every page in both languages, sizes and themes, to be opened and judged.
screenshots: $(VENV)/dev.stamp chromium
	$(BIN)/python -m tests.browser.demo_pictures docs/images
	$(BIN)/python -m tests.browser.page_pictures build/pictures

# An hour of 64 ranks on this machine: nothing grows, slows down or gets lost. SOAK_ARGS="--seconds 300" for a look.
soak: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.soak $(SOAK_ARGS)

# Each says what is over its budget; all of them run, whatever one finds.
BENCHES := instructions "overhead --peers" first_steps memory_lock memory streamer ingest "ingest --ranks 1024" "store --history" page pixel diagnosis advice

bench: $(VENV)/dev.stamp
	@missed=; for one in $(BENCHES); do \
		echo "== python -m benchmarks.$$one"; $(BIN)/python -m benchmarks.$$one || missed="$$missed; $$one"; \
	done; [ -z "$$missed" ] || { echo "over budget or failed: $${missed#; }"; exit 1; }

clean:
	rm -rf $(VENV) .venv-peers .venv-torch-* node_modules vendor/plotly/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
