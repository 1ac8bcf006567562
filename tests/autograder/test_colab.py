"""Colab: torch is there already, the install cell adds attnlib, and a student's notebook runs to its end.

That every lesson runs so is shown where its solution does, under nbval with the kernel of the same environment: the
student's notebook, filled in, holds the same code.
"""

import json
import os
import subprocess
import sys

import clean_environment
import nbformat
import pytest
import torch
from nbformat import NotebookNode

from autograder.building.colab import add_colab, recorded_url
from autograder.building.compose_samples import compose
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.lesson_text.regions import solved_source, split_regions

pytestmark = pytest.mark.slow
LESSONS = Layout().lessons()


@pytest.fixture(scope="module")
def colab():
    return clean_environment.python()


def test_torch_is_left_as_it_is_and_attnlib_is_the_wheel_s(colab):
    script = "import attnlib, torch, json; print(json.dumps([torch.__version__, attnlib.__file__]))"
    how = {"check": True, "capture_output": True, "text": True, "env": clean_environment.clean(dict(os.environ))}
    version, place = json.loads(subprocess.run([str(colab), "-c", script], cwd=colab.parent, **how).stdout)
    assert version == torch.__version__
    assert str(colab.parent.parent) in place
    packages = subprocess.run(
        [str(colab), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"], **how
    )
    assert "nbgrader" not in packages.stdout
    assert "jupytext" not in packages.stdout


def filled_in(lesson: str) -> NotebookNode:
    """The student's notebook with the answers of the solution."""
    solved = {
        cell.metadata.nbgrader.grade_id: solved_source(cell.source)
        for cell in read_lesson(Layout().solutions / f"{lesson}.py").cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    return compose(read_notebook(Layout().notebooks / f"{lesson}.ipynb"), solved, lesson)


def code(notebook: NotebookNode) -> list[str]:
    added = ("colab-install", "due", "progress")
    return [c.source for c in notebook.cells if c.cell_type == "code" and c.id not in added and c.source.strip()]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_student_notebook_filled_in_is_the_solution(lesson):
    """But for what grades it: the hidden tests."""
    solution = read_notebook(Layout().solutions / f"{lesson}.ipynb")
    for cell in solution.cells:
        regions = split_regions(cell.source)
        cell.source = solved_source(cell.source) if regions.solution else "\n".join(regions.released)
    assert code(filled_in(lesson)) == code(solution)


def test_a_student_notebook_runs_with_the_solutions_filled_in(colab, tmp_path):
    lesson = LESSONS[0]
    notebook = filled_in(lesson)
    if recorded_url(notebook) is None:
        notebook.cells = [cell for cell in notebook.cells if cell.id != "colab-install"]  # it says what to do by hand
        notebook = add_colab(notebook, lesson, "https://github.com/someone/attention")
    write_notebook(notebook, tmp_path / f"{lesson}.ipynb")
    name = f"--kernel_name={clean_environment.KERNEL}"
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", name, f"{lesson}.ipynb"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    executed = nbformat.read(tmp_path / f"{lesson}.ipynb", as_version=4)
    assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code" and cell.source.strip())
