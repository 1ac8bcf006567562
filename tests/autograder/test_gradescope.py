"""A Gradescope package, set up and run in a container laid out as theirs, and attacked there."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from laid_out import in_container, needs_root
from tiny_course import POINTS, RIGHT, TINY, cell, make_layout

from autograder.__main__ import main
from autograder.building.build_course import prepare
from autograder.elsewhere import gradescope
from autograder.elsewhere.package import SEED, TEMPLATES
from autograder.in_nbgrader.course_files import course_seed
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.sandbox import layers
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError

RESULTS = "results/results.json"
BY_LAYER = {True: "Landlock", False: "another user"}
ATTACK = """import glob
import os
import socket
import subprocess


def attempt():
{body}
    return ""


def pairwise_dot(x, y):
    if found := attempt():
        raise AssertionError(f"got out: {{found}}")
    return x @ y.mT
"""
READS = """    places = ["/autograder/source/grader/autograder/course/seed", "/autograder/source/grader/package.json"]
    places += ["/autograder/source/grader/attnlib/softmax.py", f"/proc/{os.getppid()}/environ", "/proc/1/environ"]
    places += glob.glob("/autograder/source/**/seed", recursive=True) + glob.glob("/autograder/results/*")
    for place in places:
        try:
            with open(place, "rb") as file:
                return f"{place}: {file.read(200)!r}"
        except OSError:
            pass"""
WRITES = """    places = ["/autograder/results/results.json", "/autograder/results/other", "/autograder/run_autograder"]
    places += ["/autograder/source/grader/autograder/course/seed", "/autograder/submission/00_tiny.ipynb"]
    for place in places:
        for do in (lambda: open(place, "w").close(), lambda: os.unlink(place)):
            try:
                os.chmod(place, 0o777)
            except OSError:
                pass
            try:
                do()
                return f"wrote {place}"
            except OSError:
                pass"""
STARTS = """    for do in (
        lambda: subprocess.run(["cp", "/proc/self/status", "/autograder/results/results.json"], check=True),
        lambda: socket.create_connection(("127.0.0.1", 9), 1),
        lambda: os.kill(os.getppid(), 0),
    ):
        try:
            do()
            return "started something"
        except (OSError, ImportError):
            pass"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A prepared tiny course, and what its zip holds, set up once in the container."""
    folder = tmp_path_factory.mktemp("gradescope")
    layout = make_layout(folder)
    prepare(layout, ())
    root = folder / "autograder"
    with zipfile.ZipFile(gradescope.pack(layout, TINY, folder / "it.zip", "after_due_date")) as package:
        for entry in package.infolist():
            Path(package.extract(entry, root / "source")).chmod(entry.external_attr >> 16)
    return layout, root


@pytest.fixture(scope="module")
def set_up(made):
    layout, root = made
    done = in_container("bash", "/autograder/source/setup.sh", bound={"/autograder": root})
    assert done.returncode == 0, done.stderr
    return layout, root


@pytest.fixture
def autograder(set_up, tmp_path):
    """An own copy of the folder, with the notebook that was handed in."""
    layout, root = set_up
    shutil.copytree(root, tmp_path / "autograder")
    for name in ("submission", "results"):
        (tmp_path / "autograder" / name).mkdir()

    def hand_in(answer: str | None) -> Path:
        notebook = read_notebook(layout.course / "release" / TINY / f"{TINY}.ipynb")
        if answer is not None:
            cell(notebook, "pairwise_dot").source = answer
        write_notebook(notebook, tmp_path / "autograder" / "submission" / f"{TINY}.ipynb")
        return tmp_path / "autograder"

    return hand_in


def run(root: Path, landlock: bool = True) -> subprocess.CompletedProcess[str]:
    shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
    return in_container("/autograder/run_autograder", bound={"/autograder": root}, landlock=landlock, cwd="/autograder")


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    files = [p for p in root.rglob("*") if p.is_file()]
    found = {p.relative_to(root).as_posix(): (p.read_bytes(), p.stat().st_mode) for p in files}
    return {name: data for name, data in found.items() if "__pycache__" not in name}


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("landlock", [True, False])
def test_a_wrong_answer_gets_its_diagnosis(autograder, landlock):
    root = autograder(RIGHT["pairwise_dot"].replace("return ", "return 2 * "))
    done = run(root, landlock)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sandbox:")
    assert BY_LAYER[landlock] in done.stdout.partition("Note: ")[2]
    found = json.loads((root / RESULTS).read_text())
    assert (found["score"], found["visibility"], found["stdout_visibility"]) == (0, "after_due_date", "hidden")
    guess, product = found["tests"]
    assert (guess["name"], guess["max_score"], guess["status"]) == ("predict_largest_dot", 1, "failed")
    assert (product["score"], product["max_score"]) == (0, POINTS["pairwise_dot"])
    assert (product["output_format"], product["visibility"]) == ("html", "after_due_date")
    assert product["output"].startswith("<div")
    assert "One change away" in product["output"]
    assert "late" not in json.dumps(found)


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "landlock"),
    [(f"{READS}\n{WRITES}", True), (READS, False), (WRITES, False)],
    ids=["both, Landlock", "reads", "writes"],
)
def test_an_attack_finds_nothing_and_changes_nothing(autograder, set_up, body, landlock):
    root = autograder(ATTACK.format(body=body))
    (root / RESULTS).write_text("an earlier run's")
    before = contents(root)
    done = run(root, landlock)
    assert done.returncode == 0, done.stderr
    after = contents(root)
    found = json.loads(after.pop(RESULTS)[0])
    assert [test["score"] for test in found["tests"]] == [0, POINTS["pairwise_dot"]], found["tests"][1]["output"]
    del before[RESULTS], after["run_autograder"]
    assert after == before
    assert str(course_seed(set_up[0].course)) not in json.dumps(found) + done.stdout + done.stderr


@needs_root
@pytest.mark.slow
def test_an_attack_starts_nothing(autograder):
    root = autograder(ATTACK.format(body=STARTS))
    done = run(root, landlock=False)
    assert done.returncode == 0, done.stderr
    output = json.loads((root / RESULTS).read_text())["tests"][1]["output"]
    assert "got out" not in output


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("body", [READS, WRITES, STARTS], ids=["reads", "writes", "starts"])
def test_without_a_sandbox_each_attack_gets_out(autograder, body):
    """Or the tests above would show nothing."""
    root = autograder(ATTACK.format(body=body))
    code = (
        "import autograder; from autograder.sandbox.layers import Layers; "
        f"print(autograder.grade('solutions/{TINY}.py', '/autograder/submission', "
        "layers=Layers('none', False, False))['tests']['test_pairwise_dot']['message'])"
    )
    setting, cwd = {"PYTHONPATH": "/autograder/source/grader"}, "/autograder/source/grader"
    done = in_container(sys.executable, "-c", code, bound={"/autograder": root}, setting=setting, cwd=cwd)
    assert "got out: " in done.stdout, done.stderr


@needs_root
@pytest.mark.slow
def test_what_cannot_be_graded_says_why_and_publishes_nothing_false(autograder):
    root = autograder(None)
    (root / "submission" / f"{TINY}.ipynb").write_text("{")
    assert run(root).returncode == 0
    found = json.loads((root / RESULTS).read_text())
    assert (found["score"], found["tests"]) == (0, [])
    assert found["output"].startswith("Not graded: the notebook is not JSON.")

    (root / "source" / "grader" / SEED).unlink()
    done = run(root)
    assert (done.returncode, (root / RESULTS).exists()) == (1, False)
    assert (
        done.stderr
        == f"This package has no seed, which should be in /autograder/source/grader/{SEED}. Pack it again.\n"
    )

    (root / "source" / "grader" / SEED).write_text("1")
    (root / RESULTS).mkdir()
    done = run(root)
    assert done.returncode == 1
    assert done.stderr == "/autograder/results/results.json cannot be used: Is a directory.\n"

    (root / "source" / "grader" / "package.json").write_text("{}")
    (root / RESULTS).rmdir()
    assert run(root).stderr.startswith("This is no package: it has no package.json with a lesson.")


def test_the_package_holds_the_seed_and_is_its_owner_s_alone(made, tmp_path):
    layout, _ = made
    packed = gradescope.pack(layout, TINY, tmp_path / "it.zip")
    assert packed.stat().st_mode & 0o777 == 0o600
    assert gradescope.pack(layout, TINY, tmp_path / "twin.zip").read_bytes() == packed.read_bytes()
    with zipfile.ZipFile(packed) as package:
        names = package.namelist()
        assert package.read(f"grader/{SEED}").decode() == f"{course_seed(layout.course)}\n"
    assert {"setup.sh", "run_autograder", "requirements-course.lock"} <= set(names)
    assert any(name.startswith("attnlib-") and name.endswith(".whl") for name in names)
    assert not [name for name in names if name.endswith((".db", ".csv", ".pyc"))]
    with pytest.raises(CourseError, match=r"cannot be written: No such file or directory\."):
        gradescope.pack(layout, TINY, tmp_path / "nowhere" / "it.zip")


def test_another_user_is_no_sandbox_where_the_answers_are_open(monkeypatch):
    monkeypatch.setattr(layers, "readable_for_all", lambda _: True)
    monkeypatch.setattr(layers.os, "geteuid", lambda: 0)
    with pytest.raises(
        CourseError, match=r"another user: other users can read \S+, which has the answers: close a fold"
    ):
        probe("user")
    monkeypatch.setattr(layers.os, "geteuid", lambda: 1)
    with pytest.raises(CourseError, match="another user: only root can start a process as another user"):
        probe("user")


def test_an_unknown_lesson_is_one_sentence():
    done = CliRunner().invoke(main, ["pack", "gradescope", "99_none"])
    assert done.exit_code == 1
    assert done.output.startswith("No lesson is called '99_none'; there are: 00_start_here,")


TOOL = '#!/bin/bash\necho "{name} $*" >> "$CALLS"\n{more}'
APT = """case "$*" in
    *python3.11*) cp "$TOOLS/later/python3.11" "$TOOLS" ;;
    *python*|*bubblewrap*) exit 100 ;;
esac
"""
VENV = 'if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$TOOLS/later/python" "$3/bin"; fi\n'


@pytest.mark.parametrize("python", ["python3.11", None])
def test_the_setup_takes_the_python_that_there_is_or_says_which_is_required(tmp_path, python):
    """With stand-ins for apt-get, Python and pip: what they would do takes minutes and the web."""
    tools, later = tmp_path / "tools", tmp_path / "tools" / "later"
    later.mkdir(parents=True)
    for name in ("bash", "chmod", "cp", "dirname", "mkdir"):
        (tools / name).symlink_to(str(shutil.which(name)))
    made = {tools / "apt-get": APT if python else "exit 100\n", later / "python3.11": VENV, later / "python": ""}
    for path, more in made.items():
        path.write_text(TOOL.format(name=path.name, more=more))
        path.chmod(0o755)
    (tmp_path / "source").mkdir()
    shutil.copy(TEMPLATES / "setup.sh", tmp_path / "source")
    (tmp_path / "source" / "attnlib-1-py3-none-any.whl").touch()
    setting = {"PATH": str(tools), "TOOLS": str(tools), "CALLS": str(tmp_path / "calls")}
    done = subprocess.run(
        ["/bin/bash", tmp_path / "source" / "setup.sh"],
        env={**setting, "AUTOGRADER_VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
    )
    assert "student code will be behind Landlock, or run as another user" in done.stdout
    if python is None:
        assert done.returncode == 1
        assert "Python 3.11 to 3.13 is required, and cannot be installed here." in done.stdout
        return
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text()
    assert f"python3.11 -m venv {tmp_path / 'venv'}" in calls
    assert [line.rpartition(" ")[2] for line in calls.splitlines()[-3:]] == [
        f"{tmp_path}/source/requirements-course.lock",
        "torch",
        f"{tmp_path}/source/attnlib-1-py3-none-any.whl",
    ]
    assert (tmp_path / "source").stat().st_mode & 0o777 == 0o700
