# Every target works on a fresh clone: the virtual environment is made when first needed.
# The stamp files in it remember what is installed, so that a second call is quick.

PYTHON ?= python3
CASES ?= ../shared/cases/run.py
SEED ?= 0

# `make test TORCH=2.15.0`: with another release of torch, in an environment of its own. Consumers that are built for
# the pinned release alone are left out there, and the tests of them are skipped.
TORCH ?=

comma := ,
VENV := .venv$(TORCH:%=-%)
RUN := $(VENV)/bin/python
CONSTRAINTS := $(if $(TORCH),$(VENV)/constraints.txt,constraints.txt)
EXTRAS := test$(if $(TORCH),,$(comma)consumers)
INSTALL := $(RUN) -m pip install --quiet --no-input --disable-pip-version-check --constraint $(CONSTRAINTS)
IN_PARALLEL := --numprocesses auto --dist worksteal --durations=80
QUICK_SUITE := -m "not slow and not thorough" --hypothesis-profile=quick
EXAMPLES := transformer_encoder convnet windowed_attention detection_head

# Tests start many interpreters, and pytest rewrites each file that it loads: keep what they compile.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo dist test coverage test-thorough test-slow test-docs docs test-on lint cases ledger ledger-diff plain bench bench-publish bench-real bench-solver bench-scaling bench-growth bench-graphs bench-dispatch sweep-operators zoo upstream fuzz clean

help:
	@echo "make demo          verify the models under examples/ and print the reports"
	@echo "make test          the test suite, in three minutes: of a law some examples, of many parameters the first"
	@echo "make coverage      the branches that make test takes, by room; fails below 89 %; those left, in build/coverage/html"
	@echo "make test-thorough the other parameters, and half of the examples of the laws"
	@echo "make test-slow     the slow tests, and all examples of the laws"
	@echo "                   these three, demo, cases and bench take TORCH=2.15.0 (or another): in .venv-2.15.0"
	@echo "make test-docs     every example of every page and docstring"
	@echo "make docs          the site of docs/, in build/site: a warning is an error, links are checked"
	@echo "make dist          the archives of a release, in dist/: installed and used in an empty folder"
	@echo "make test-on       the tests of what reads and rewrites Python code, on another one: PYTHON=3.13, or a path to it"
	@echo "make lint          ruff and mypy"
	@echo "make cases         score torch.export and shapeproof on the cases (CASES=$(CASES))"
	@echo "make ledger        export models, cases, random programs and torch's operators; one line on each verdict"
	@echo "make ledger-diff   say what differs from the ledger of the last commit (AGAINST=COMMIT: of another)"
	@echo "make plain         export the same without what only saves time, and compare with the ledger's lines: two hours"
	@echo "make bench         time verified export against torch.export"
	@echo "make bench-publish the same, best of five, into the page docs/explanation/what-exports-cost.md"
	@echo "make bench-real    the same at real size: time, and memory beyond the model (MODELS=llama: one of them)"
	@echo "make bench-solver  the solver and its peers on the recorded questions"
	@echo "make bench-scaling how the solver's time grows with dims, decisions and nesting"
	@echo "make bench-growth  how an export's time grows with dims and pairs of dims, beside torch.export"
	@echo "make bench-graphs  how many graphs the guides' programs need, beside torch.compile"
	@echo "make bench-dispatch what finding its program costs a call"
	@echo "make sweep-operators torch's own operators against their fake kernels and decompositions (QUICK=1: a sample; JOURNAL=FILE: can be resumed)"
	@echo "make zoo           public architectures, exported by torch.export and by shapeproof (ONLY=bert: one of them; resumes;"
	@echo "                   FORM=auto or specs: declared so; EXECUTOR=dask://HOST:PORT: on a cluster)"
	@echo "make upstream      torch's own tests of torch.export, with torch's export and ours: FILES=.../test/export (ONLY=test_basic: one)"
	@echo "make fuzz          the property tests, long and with SEED=$(SEED)"
	@echo "make clean         remove the virtual environment and the caches"

$(VENV)/.made:
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/constraints.txt: constraints.txt $(VENV)/.made
	sed 's/^torch==.*/torch==$(TORCH)/' $< > $@

$(VENV)/.package: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	@echo "installing shapeproof (torch is large: a minute or more the first time)"
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.package
	$(INSTALL) --editable ".[$(EXTRAS)]"
	@touch $@

$(VENV)/.coverage: $(VENV)/.test
	$(INSTALL) --editable ".[coverage]"
	@touch $@

$(VENV)/.lint: $(VENV)/.package
	$(INSTALL) --editable ".[lint]"
	@touch $@

# All reports are printed; the target fails if one of them is not a proof.
demo: $(VENV)/.package
	@status=0; \
	for example in $(EXAMPLES); do \
		echo; echo "== examples/$$example.py"; \
		$(VENV)/bin/shapeproof explain examples.$$example:build || status=1; \
	done; \
	exit $$status

test: $(VENV)/.test
	$(RUN) -m pytest $(QUICK_SUITE) $(IN_PARALLEL)

# Which lines and branches of the package `make test` runs, in the processes that it starts, too; some twice its time.
coverage: $(VENV)/.coverage
	rm -rf build/coverage
	$(RUN) -m coverage run -m pytest $(QUICK_SUITE) $(IN_PARALLEL)
	$(RUN) -m coverage combine --quiet
	$(RUN) -m coverage html --quiet
	$(RUN) -m tests.branches

test-thorough: $(VENV)/.test
	$(RUN) -m pytest -m "not slow and (thorough or hypothesis)" --hypothesis-profile=thorough $(IN_PARALLEL)

test-slow: $(VENV)/.test
	$(RUN) -m pytest -m "slow or hypothesis" $(IN_PARALLEL)

test-docs: $(VENV)/.test
	$(RUN) -m pytest tests/test_docs.py tests/test_docstrings.py tests/test_sessions.py $(IN_PARALLEL)

# The site reads the package as text: its environment has neither torch nor the package.
SITE := .venv-site
$(SITE)/.made: constraints.txt
	$(PYTHON) -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install --quiet --no-input --disable-pip-version-check --constraint constraints.txt mkdocs-material mkdocstrings-python ruff
	@touch $@

docs: $(SITE)/.made
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs build --clean

dist: $(VENV)/.test
	rm -rf dist
	$(RUN) -m hatchling build -d dist
	$(RUN) -m pytest tests/repository/test_archives.py tests/repository/test_release.py

# The rest of the suite depends on Python less than on torch. The other Python gets an environment of its own.
READ_CODE := trace/python source/test_instructions.py source/test_caught.py source/test_handlers.py \
	source/test_said_texts.py report/test_text.py trace/calls/test_in_place.py trace/checks/test_data_checks.py \
	trace/test_flex_attention.py ops/test_rewritten.py shim/canaries/test_canaries_flow.py
test-on:
	bash tests/on_python.sh $(PYTHON) $(READ_CODE:%=tests/export/%)

lint: $(VENV)/.lint
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

cases: $(VENV)/.test
	$(RUN) $(CASES) --exporter torch.export:export
	$(RUN) $(CASES) --exporter shapeproof.export:export

ledger: $(VENV)/.test
	$(RUN) -m benchmarks.ledger --cases $(dir $(CASES))

AGAINST ?= HEAD
ledger-diff: $(VENV)/.test
	@$(RUN) -m benchmarks.ledger --against $(AGAINST)

# `make ledger` first: the lines must be of the code that is there.
plain: $(VENV)/.test
	$(RUN) -m benchmarks.ledger --plainly --cases $(dir $(CASES))

bench: $(VENV)/.test
	$(RUN) -m benchmarks.export_ratio

# Writes the results that are committed, and the page and the chart that show them. For a quiet machine.
bench-publish: $(VENV)/.test
	$(RUN) -m benchmarks.export_ratio --repeats 5 --json benchmarks/results/exports.json
	$(RUN) -m benchmarks.chart

# Some minutes, and memory for a model of 1.2 billion parameters.
bench-real: $(VENV)/.test
	$(RUN) -m benchmarks.real_size $(MODELS)

# The peers that come from PyPI are installed under build/peers when first needed; one that cannot be is left out.
bench-solver: $(VENV)/.test
	$(RUN) -m benchmarks.solver

# The largest size of each family is what takes the time: `make bench-scaling LARGEST=1000` is quick.
LARGEST ?= 10000
bench-scaling: $(VENV)/.test
	$(RUN) -m benchmarks.scaling --largest $(LARGEST)

# Two minutes.
bench-growth: $(VENV)/.test
	$(RUN) -m benchmarks.growth

# Fails where a result is not eager's.
bench-graphs: $(VENV)/.test
	$(RUN) -m benchmarks.graphs

# Fails above 20 microseconds.
bench-dispatch: $(VENV)/.test
	$(RUN) -m benchmarks.dispatch

# Some half an hour of one core; QUICK=1 takes half the samples. Fails where a program is called proved and is wrong.
QUICK ?=
sweep-operators: $(VENV)/.test
	nice $(RUN) -m benchmarks.operators $(if $(QUICK),--quick) $(if $(JOURNAL),--journal $(JOURNAL))

# In an environment of its own, over that of the tests: the packages that have the architectures, without what they need.
ZOO := .venv-zoo
PURELIB := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(ZOO)/.made: $(VENV)/.test zoo/requirements.txt
	$(PYTHON) -m venv --clear $(ZOO)
	$(RUN) $(PURELIB) > $$($(ZOO)/bin/python $(PURELIB))/base.pth
	$(ZOO)/bin/python -m pip install --quiet --no-input --no-deps --requirement zoo/requirements.txt
	@touch $@

# Some half an hour; what was measured with the same versions is not measured again.
ONLY ?=
zoo: $(ZOO)/.made
	HF_HUB_OFFLINE=1 nice $(ZOO)/bin/python -m zoo $(FORM:%=--form %) $(EXECUTOR:%=--executor %) $(ONLY)
	$(ZOO)/bin/python -m zoo.page

# Ten minutes. The files are those of torch's source, release 2.6.0: none of them is kept here.
upstream: $(VENV)/.test
	nice $(RUN) -m upstream $(or $(FILES),$(error FILES=... names the folder test/export of torch's source)) $(ONLY)

# Every test that uses Hypothesis, with many fresh examples. A find prints how to repeat it, and becomes a test of its own.
fuzz: $(VENV)/.test
	$(RUN) -m pytest -m hypothesis --hypothesis-profile=fuzz --hypothesis-seed=$(SEED)

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
