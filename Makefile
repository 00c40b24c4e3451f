# make demo    set up, then run the main job: out/demo/index.html
# make test    set up, then run the tests (make test-slow: the long ones; make test-everywhere: as on other machines)
# make docs    set up, then build the pages as a site: out/docs/index.html
# make check   set up, then lint, formatting and types
#
# Works from any folder, also by `make -f`, and in folders with spaces in their names: everything runs from the root.
ROOT := $(shell dirname "$(strip $(MAKEFILE_LIST))")
IN_ROOT := cd "$(ROOT)" &&
PYTHON_HERE := .venv/bin/python

.PHONY: demo docs test test-slow test-everywhere check setup clean
.DEFAULT_GOAL := demo

demo: setup
	@$(IN_ROOT) $(PYTHON_HERE) -m experiments demo

docs:
	@$(IN_ROOT) sh tools/setup.sh docs
	@$(IN_ROOT) rm -rf out/docs
	@$(IN_ROOT) $(PYTHON_HERE) -m sphinx -W --keep-going -n -q -E -j auto -d out/docs-cache docs out/docs
	@echo out/docs/index.html

test: setup
	@$(IN_ROOT) $(PYTHON_HERE) -m pytest -n 2 --dist loadfile

test-slow: setup
	@$(IN_ROOT) $(PYTHON_HERE) -m pytest -n 2 -m slow

test-everywhere: setup
	@$(IN_ROOT) tools/try_everywhere.sh

check:
	@$(IN_ROOT) sh tools/setup.sh test,check
	@$(IN_ROOT) $(PYTHON_HERE) -m ruff check .
	@$(IN_ROOT) $(PYTHON_HERE) -m ruff format --check .
	@$(IN_ROOT) $(PYTHON_HERE) -m mypy

setup:
	@$(IN_ROOT) sh tools/setup.sh test

clean:
	@$(IN_ROOT) rm -rf .venv out docs/api docs/project
