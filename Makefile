# Everything happens inside this checkout: .venv (Python packages), .jars (Java libraries) and .servers (emulators).
# Needs Python >= 3.10, Java >= 17 and make. Another interpreter: make setup PYTHON=python3.12
# More arguments for what is run: make test ARGS="-k broker"

PYTHON ?= python3
ARGS ?=

VENV_PYTHON := .venv/bin/python
# Four at a time on two cores: a test of Spark or of a server waits more than it computes.
PYTEST := $(VENV_PYTHON) -m pytest --numprocesses=4 --dist=worksteal
# Tests start many processes. Without compiled modules each of them would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
VENV_READY := .venv/.ready
JARS_READY := .jars/.ready
CLASSES_READY := .venv/.classes
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

.PHONY: help setup servers check-python check-java test test-fast compat lint format docs demo demo-hybrid demo-join bench clean

help:
	@echo "make setup      packages at locked versions into .venv, Java libraries into .jars"
	@echo "make servers    Kinesis emulators and a Pulsar server for the tests into .servers; make test calls it"
	@echo "make demo       one query, built-in Kafka source beside flip27_kafka, on a real broker"
	@echo "make demo-hybrid   one query over a Delta table of history and a live topic"
	@echo "make demo-join  two topics joined, hours apart: the state with and without alignment"
	@echo "make test       the whole suite;  make test-fast: what needs no server and is not long"
	@echo "make compat     a fast set of tests on each pair of Spark and Python, in environments in .compat"
	@echo "make bench      rows per second beside Spark's own source"
	@echo "make lint       ruff, mypy, import borders;  make format: let ruff rewrite"
	@echo "make docs       the documentation site, with the API reference, into build/docs"
	@echo "make clean      remove .venv, .jars, .servers and .compat"

setup: check-java $(VENV_READY) $(JARS_READY)

check-python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "Python not found ('$(PYTHON)'). Install Python 3.10 or later, or name one: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "'$(PYTHON)' is too old: $$("$(PYTHON)" --version 2>&1). Install Python 3.10 or later, or name one: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot create virtual environments. Install its venv package (Debian and Ubuntu: python3-venv)." >&2; exit 1; }

check-java:
	@command -v "$(JAVA)" >/dev/null || { \
	  echo "Java not found ('$(JAVA)'). Install a Java 17, 21 or 25 runtime (Debian and Ubuntu: openjdk-17-jre-headless), or set JAVA_HOME." >&2; exit 1; }
	@found=$$("$(JAVA)" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.specification.version = //p'); \
	  [ "$${found%%.*}" -ge 17 ] 2>/dev/null || { \
	  echo "'$(JAVA)' is Java $${found:-of an unknown version}. Install a Java 17, 21 or 25 runtime (Debian and Ubuntu: openjdk-17-jre-headless), or set JAVA_HOME." >&2; exit 1; }

$(VENV_READY): requirements.lock setup.cfg pyproject.toml | check-python
	@echo "Packages at locked versions into .venv (some 500 MB to fetch the first time)"
	@test -x $(VENV_PYTHON) || "$(PYTHON)" -m venv .venv
	@$(VENV_PYTHON) -m pip install --disable-pip-version-check --progress-bar off -r requirements.lock
	@$(VENV_PYTHON) -m pip install --disable-pip-version-check --quiet --no-build-isolation --no-deps --editable .
	@touch $@

$(JARS_READY): $(VENV_READY) flip27_stream/testing/jars.py
	@echo "Java libraries into .jars (some 60 MB to fetch the first time)"
	@FLIP27_JARS="$(CURDIR)/.jars" $(VENV_PYTHON) -m flip27_stream.testing
	@touch $@

servers: $(VENV_READY)
	@FLIP27_SERVERS="$(CURDIR)/.servers" $(VENV_PYTHON) -m flip27_stream.testing.kinesis
	@FLIP27_SERVERS="$(CURDIR)/.servers" $(VENV_PYTHON) -m flip27_stream.testing.pulsar

# Spark starts in half of the processor time with an archive of the classes that it loads.
$(CLASSES_READY): $(JARS_READY) tests/spark/support/programs/archived_classes.py
	@echo "Archive of Spark's classes into .venv"
	@$(VENV_PYTHON) -m tests.spark.support.programs.archived_classes
	@touch $@

# Tests whose servers cannot be had are skipped, and say so at the end.
test: setup $(CLASSES_READY)
	-@$(MAKE) --no-print-directory servers
	@$(PYTEST) $(ARGS)

test-fast: $(VENV_READY)
	@FLIP27_QUICK=1 $(PYTEST) --numprocesses=4 -m "not jvm and not node and not docs and not long" $(ARGS)

compat: setup
	@$(VENV_PYTHON) -m tests.compat $(ARGS)

lint: $(VENV_READY)
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy
	@.venv/bin/lint-imports

format: $(VENV_READY)
	@$(VENV_PYTHON) -m ruff check --fix .
	@$(VENV_PYTHON) -m ruff format .

docs: $(VENV_READY)
	@$(VENV_PYTHON) -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@echo "build/docs/index.html"

demo: setup
	@$(VENV_PYTHON) -m flip27_stream.demo $(ARGS)

demo-hybrid: setup
	@$(VENV_PYTHON) -m flip27_stream.demo.hybrid $(ARGS)

demo-join: setup
	@$(VENV_PYTHON) -m flip27_stream.demo.join $(ARGS)

bench: setup
	@$(VENV_PYTHON) -m benchmarks $(ARGS)

clean:
	rm -rf .venv .jars .servers .compat
