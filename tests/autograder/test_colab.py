"""Colab: torch is there already, the install cell adds attnlib, and each student notebook runs to its end."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import nbformat
import pytest
import torch
from packaging.requirements import Requirement

from autograder.building.colab import add_colab, recorded_url
from autograder.building.compose_samples import compose
from autograder.lesson_text.layout import ROOT, Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.lesson_text.regions import solved_source

pytestmark = pytest.mark.slow
SITE = Path(sysconfig.get_path("purelib"))
LESSONS = [path.stem for path in sorted(Layout().notebooks.glob("*.ipynb"))]


def with_dependencies(*names: str) -> set[str]:
    """The distributions that these need, with the extras that are asked for, as far as they are installed here."""
    found: set[tuple[str, str]] = set()
    left = [(name, "") for name in names]
    while left:
        name, extra = left.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        if (name, extra) not in found:
            found.add((name, extra))
            wanted = [Requirement(text) for text in needs]
            wanted = [w for w in wanted if w.marker is None or w.marker.evaluate({"extra": extra})]
            left += [(w.name, each) for w in wanted for each in ("", *w.extras)]
    return {name for name, _ in found}


def link(names: set[str], site: Path) -> None:
    """Put installed distributions into another environment, as links: pip sees them as installed."""
    for name in names:
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            if top not in ("..", "bin", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(SITE / top)


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """A new environment's Python: torch and what a lesson's kernel needs as links, attnlib from its built wheel."""
    folder = tmp_path_factory.mktemp("colab")
    checkout = folder / "checkout"
    checkout.mkdir()
    shutil.copytree(ROOT / "attnlib", checkout / "attnlib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, checkout)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(checkout)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")

    venv.create(folder / "env", with_pip=True, symlinks=True)
    python = folder / "env" / "bin" / "python"
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [Requirement(text).name for text in project["dependencies"]]
    link(with_dependencies("torch", "ipykernel", "scikit-learn", "babel", *needed), site)
    before = files_of_torch()
    command = [str(python), "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", str(wheel)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=clean_environment())
    assert result.returncode == 0, result.stderr
    assert files_of_torch() == before
    assert (site / "torch").is_symlink()
    return python


def files_of_torch() -> dict[str, tuple[int, int]]:
    folder = Path(importlib.metadata.distribution("torch").locate_file("torch"))
    return {
        str(p): (p.stat().st_size, p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file() and p.suffix != ".pyc"
    }


def clean_environment() -> dict[str, str]:
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV", "MPLBACKEND"))
    }


def test_torch_is_left_as_it_is_and_attnlib_is_the_wheel_s(colab):
    script = "import attnlib, torch, json; print(json.dumps([torch.__version__, attnlib.__file__]))"
    answer = subprocess.run(
        [str(colab), "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=colab.parent,
    )
    version, place = json.loads(answer.stdout)
    assert version == torch.__version__
    assert str(colab.parent.parent) in place
    packages = subprocess.run(
        [str(colab), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        check=True, capture_output=True, text=True, env=clean_environment(),
    )  # fmt: skip
    assert "nbgrader" not in packages.stdout
    assert "jupytext" not in packages.stdout


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_student_notebook_runs_with_the_solutions_filled_in(colab, lesson, tmp_path):
    layout = Layout()
    solved = {
        cell.metadata.nbgrader.grade_id: solved_source(cell.source)
        for cell in read_lesson(layout.solutions / f"{lesson}.py").cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    notebook = compose(read_notebook(layout.notebooks / f"{lesson}.ipynb"), solved, lesson)
    if recorded_url(notebook) is None:
        notebook = add_colab(notebook, lesson, "https://github.com/someone/attention")
    write_notebook(notebook, tmp_path / f"{lesson}.ipynb")
    spec = {
        "argv": [str(colab), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "C",
        "language": "python",
    }
    kernel = tmp_path / "jupyter" / "kernels" / "colab"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    environment = {**clean_environment(), "JUPYTER_PATH": str(tmp_path / "jupyter")}
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", "--kernel_name=colab", f"{lesson}.ipynb"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    executed = nbformat.read(tmp_path / f"{lesson}.ipynb", as_version=4)
    code = [cell for cell in executed.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count for cell in code)
