"""What student code can read where a link leads to Python's packages, as to a virtual environment on a larger disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.lesson_text.layout import ROOT
from autograder.sandbox.layers import hidden_folders
from autograder.sandbox.probe import probe


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_an_environment_that_is_a_link_has_the_same_layers(tmp_path):
    (tmp_path / "venv").symlink_to(sys.prefix)
    python = tmp_path / "venv" / "bin" / Path(sys.executable).name
    told = [python, "-c", "from autograder.sandbox.probe import probe; print(probe(), end='')"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.check_output(told, env=environment, cwd=tmp_path, text=True) == str(probe())


@pytest.mark.parametrize("place", ["site-packages", "link"])
def test_answers_are_hidden_where_they_are_and_where_a_link_leads_to_them(tmp_path, monkeypatch, place):
    packages = tmp_path / "site-packages"
    (packages / "attnlib").mkdir(parents=True)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "site-packages").symlink_to(packages)
    first = packages if place == "site-packages" else tmp_path / "link" / "site-packages"
    monkeypatch.setattr(sys, "path", [str(first), *sys.path])
    assert {str(packages / "attnlib"), str(first / "attnlib")} <= {*hidden_folders()}
