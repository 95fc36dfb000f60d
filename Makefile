# Every target sets up .venv by itself the first time; later runs find it ready.
# Needs Python 3.11 or newer, gcc and make.  `make help` lists the targets.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
PAGE   ?= *
BIN    := $(CURDIR)/$(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
BUILD  := $(CURDIR)/build/$(shell $(PYTHON) -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
export PATH := $(BIN):$(PATH)
export MPLBACKEND := Agg
# Rows and trees are spread over processes by pytest -n: one thread each.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help demo test lint doctest unit sanitize endurance bench reproduce package across docs build clean
.DELETE_ON_ERROR:

help:
	@echo "make demo       set up, then run examples/quickstart.py on real data"
	@echo "make test       set up, then lint, doctests and all tests (what CI runs)"
	@echo "make lint       ruff, cython-lint, numpydoc validation"
	@echo "make sanitize   the C kernels on many random shapes under AddressSanitizer and UBSan"
	@echo "make endurance  fit and predict 200 times with every estimator, and see what memory they keep"
	@echo "make bench      time our code beside its peers; writes docs/benchmarks/ (PAGE=name for one)"
	@echo "make reproduce  re-measure the papers' claims; writes docs/reproductions/ (PAGE=name for one)"
	@echo "make package    build sdist and wheel, install the wheel into an empty environment, use it"
	@echo "make across     pickle every estimator for another Python and back (PYTHON2=python3.13 EXTRAS=torch)"
	@echo "make docs       build the documentation into docs/_build/html"
	@echo "make clean      remove .venv and the build folder"

$(VENV)/pip.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "skml needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "==> creating the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -q --upgrade 'pip>=25.1'
	@touch $@

# $(call install,groups,stamp): the dependency groups at the tested versions, then skml itself.
define install
	@echo "==> installing dependency groups: $(1)"
	@$(PIP) install -q -c constraints.txt $(foreach group,$(1),--group $(group))
	@echo "==> building and installing skml (editable)"
	@$(PIP) install -q -c constraints.txt --no-build-isolation -e .
	@touch $@
endef

$(VENV)/demo.stamp: $(VENV)/pip.stamp pyproject.toml constraints.txt
	$(call install,build demo)

$(VENV)/test.stamp: $(VENV)/pip.stamp pyproject.toml constraints.txt
	$(call install,build demo lint test)
	@touch $(VENV)/demo.stamp

$(VENV)/docs.stamp: $(VENV)/test.stamp
	$(call install,docs)

$(VENV)/bench.stamp: $(VENV)/test.stamp
	$(call install,bench)

$(VENV)/reproduce.stamp: $(VENV)/test.stamp
	$(call install,reproduce)

# Importing an editable install rebuilds what has changed.
build:
	@$(BIN)/python -c 'import skml'

demo: $(VENV)/demo.stamp build
	@echo "==> examples/quickstart.py"
	@$(BIN)/python examples/quickstart.py

test: lint doctest unit

lint: $(VENV)/test.stamp build
	@echo "==> lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/cython-lint ext
	@$(BIN)/python tools/check_docstrings.py

doctest: $(VENV)/test.stamp build
	@echo "==> doctests"
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(JOBS) --doctest-modules skml

unit: $(VENV)/test.stamp build
	@echo "==> tests"
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --durations 15 \
	  --cov --cov-report term:skip-covered tests

sanitize: $(VENV)/test.stamp build
	@SKML_SANITIZE_ROUNDS=3000 $(BIN)/python -m pytest -q -s -o timeout=0 \
	  tests/quantization/test_quantized_gemm_sanitized.py

endurance: $(VENV)/test.stamp build
	@SKML_ENDURANCE=200 $(ONE_THREAD) $(BIN)/python -m pytest -q -s -o timeout=0 \
	  tests/test_endurance.py

bench: $(VENV)/bench.stamp build
	@$(BIN)/python -m pytest -q -s -o python_files='bench_*.py' -o timeout=0 \
	  $(wildcard tests/benchmarks/bench_$(PAGE).py)

reproduce: $(VENV)/reproduce.stamp build
	@missed=; \
	for script in $(filter-out examples/reproductions/_%,$(wildcard examples/reproductions/$(PAGE).py)); do \
	  echo "==> $$script --check"; $(BIN)/python "$$script" --check || missed="$$missed $$script"; \
	done; \
	if [ -n "$$missed" ]; then echo "failed, or with a claim that does not hold:$$missed"; exit 1; fi

package: $(VENV)/test.stamp
	@$(BIN)/python tools/check_package.py

across: $(VENV)/test.stamp build
	@$(BIN)/python tools/check_pythons.py $(if $(PYTHON2),--other $(PYTHON2)) \
	  $(if $(EXTRAS),--extras $(EXTRAS))

docs: $(VENV)/docs.stamp build
	@echo "==> documentation"
	@$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@$(BIN)/python -m pytest -q tests/site
	@echo "==> open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) build
