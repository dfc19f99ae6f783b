# Everything starts from a Python with venv, and make. `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
CLIENTS_VENV ?= .venv-clients
DOCS_VENV ?= build/venv-docs
NODE_MODULES := tests/clients/node_modules/.package-lock.json

PY := $(VENV)/bin/python
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
LOCKS := requirements/runtime.txt requirements/build.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-fast test-slow test-clients test-page test-upstream lint format types check docs promtool lock image image-check bench soak clean

help: ## List the targets
	@echo 'make TARGET [ARGS="…"] [PYTHON=python3.13] [VENV=.venv]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.stamp-runtime ## Start the proxy, or the demo as long as no upstream is configured (ARGS="--port 9000")
	@$(PY) -m proxy $(ARGS)

test: $(VENV)/.stamp-dev ## Run the tests, with branch coverage
	$(PY) -m pytest -n auto -m 'not slow and not clients and not live and not browser' --cov --cov-report=term-missing:skip-covered $(if $(ARGS),,--cov-fail-under=93) $(ARGS)

test-fast: $(VENV)/.stamp-dev ## The same without coverage
	$(PY) -m pytest -n auto -m 'not slow and not clients and not live and not browser' $(ARGS)

test-slow: $(VENV)/.stamp-dev ## Run the tests that take long, and properties with all their examples
	TEST_EXAMPLES=all $(PY) -m pytest -n auto -m '(slow or share or hypothesis) and not clients and not live and not browser' $(ARGS)

# Clients in Python and Node, each from its lock; the Node that runs them comes with them, npm has to be there.
test-clients: $(VENV)/.stamp-dev $(CLIENTS_VENV)/.stamp $(NODE_MODULES) ## Run real clients against the proxy (needs npm)
	CLIENTS_VENV=$(CLIENTS_VENV) $(PY) -m pytest -m clients tests/clients $(ARGS)

# The browser is the system's. axe, which looks for barriers, comes by npm; without it its tests are skipped.
test-page: $(VENV)/.stamp-page ## Look at the page in a real Chromium (needs chromium)
	@! command -v npm >/dev/null || (cd tests/page && npm ci)
	$(PY) -m pytest -m browser tests/page $(ARGS)

test-upstream: $(VENV)/.stamp-dev ## Run the live tests against a model server (UPSTREAM=http://host:port MODEL=name)
	@test -n '$(UPSTREAM)' -a -n '$(MODEL)' || { \
	  echo 'make test-upstream UPSTREAM=http://host:port MODEL=name' >&2; exit 2; }
	UPSTREAM='$(UPSTREAM)' MODEL='$(MODEL)' $(PY) -m pytest -m live tests/live $(ARGS)

lint: $(VENV)/.stamp-dev ## Check style and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(VENV)/.stamp-dev ## Put every file into the format that lint asks for
	$(PY) -m ruff format .

types: $(VENV)/.stamp-dev ## Check types
	$(PY) -m mypy

check: lint types test ## lint, types and test

docs: $(DOCS_VENV)/.stamp ## Build the documentation into build/site; a broken link fails
	scripts/docs.sh $(DOCS_VENV)/bin/mkdocs

# Unpacked, not installed: Debian's package would start a server with it.
promtool: build/promtool/usr/bin/promtool ## Fetch promtool from Debian, for the tests of the alert rules

# uv has its own environment: it makes the locks, and is not in them.
lock: build/lock/bin/uv ## Write the locks in requirements/ anew (ARGS=--upgrade moves every pin)
	UV=build/lock/bin/uv scripts/lock.sh $(ARGS)

image: ## Build the container image think-proxy
	scripts/image.sh build

image-check: ## Start the built image, ask its health check, stop it
	scripts/image.sh check

bench: $(VENV)/.stamp-dev ## Run the benchmarks
	$(PY) benchmarks/run.py $(ARGS)

soak: $(VENV)/.stamp-dev ## Run the proxy under load while clients leave and the model server breaks off
	$(PY) benchmarks/soak.py $(ARGS)

clean: ## Remove what the other targets made
	rm -rf $(VENV) $(CLIENTS_VENV) tests/clients/node_modules tests/page/node_modules build dist htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find proxy tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp holds the version of Python. A Python that is named is compared with it, and replaces another one.
$(VENV)/.stamp-venv: $(if $(filter-out file,$(origin PYTHON)),FORCE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'think-proxy needs Python 3.11 or newer and $(PYTHON) is older or missing:' \
	    'name another one, as in "make PYTHON=python3.12 …"' >&2; exit 1; }
	@test "$$(cat $@ 2>/dev/null)" = "$$($(PYTHON) -V)" || { \
	  echo 'Creating $(VENV)' && $(PYTHON) -m venv --clear $(VENV) && $(PYTHON) -V >$@; }

FORCE:

# Dependencies come from the locks, with hashes, and so does the build backend: nothing unpinned is fetched.
# Editable, so that a later `git pull` needs no new install unless a lock or pyproject.toml changed.
$(VENV)/.stamp-runtime: $(VENV)/.stamp-venv $(LOCKS) pyproject.toml
	@echo 'Installing the locked requirements into $(VENV)'
	@$(PIP_INSTALL) --require-hashes $(LOCKS:%=-r %)
	@$(PIP_INSTALL) --no-index --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-runtime requirements/dev.txt
	@echo 'Installing the locked development requirements into $(VENV)'
	@$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.stamp-page: $(VENV)/.stamp-dev requirements/page.txt
	@echo 'Installing what drives the browser into $(VENV)'
	@$(PIP_INSTALL) --require-hashes -r requirements/page.txt
	@touch $@

build/lock/bin/uv: requirements/lock.txt
	@$(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lock.txt
	@touch $@

$(CLIENTS_VENV)/.stamp: requirements/clients.txt
	@echo 'Installing the locked Python clients into $(CLIENTS_VENV)'
	@$(PYTHON) -m venv $(CLIENTS_VENV)
	@$(CLIENTS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/clients.txt
	@touch $@

$(DOCS_VENV)/.stamp: requirements/docs.txt
	@echo 'Installing the locked documentation tools into $(DOCS_VENV)'
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

build/promtool/usr/bin/promtool:
	@mkdir -p build/promtool
	@cd build/promtool && apt-get download --quiet prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb

$(NODE_MODULES): tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc
	@echo 'Installing the locked Node clients'
	@cd tests/clients && npm ci
	@touch $@
