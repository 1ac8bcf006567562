"""A container as the outer layer, with a program in docker's place: it records its command and runs it here.

What a real container keeps in is docker's and podman's own; tested here is what they are asked for, and that a
warm process that calls by a socket's path judges like any other.
"""

import os
import stat
import sys

import pytest
from tiny_course import POINTS, RIGHT, TINY
from traitlets import TraitError

from autograder.grading.grade_course import How, grade
from autograder.in_nbgrader.preprocessors.judge_in_sandbox import JudgeInSandbox
from autograder.sandbox.layers import container_command
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError

PROGRAM = """#!{python}
import os, sys
arguments = sys.argv[1:]
with open({record!r}, "a") as file:
    file.write(" ".join(arguments) + "\\n")
mounted = arguments[arguments.index("--volume") + 1].split(":")[0]
inner = arguments[arguments.index("python3") + 2 :]
scratch = os.path.join(os.path.dirname(mounted), "scratch")
inner = [part.replace("/sandbox", mounted).replace("scratch=/tmp", "scratch=" + scratch) for part in inner]
os.execv(sys.executable, [sys.executable, *inner])
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """The fake program's record of what it was asked."""
    folder, record = tmp_path / "bin", tmp_path / "record"
    folder.mkdir()
    (folder / "docker").write_text(PROGRAM.format(python=sys.executable, record=str(record)), encoding="utf-8")
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return record


def image_without_answers(monkeypatch):
    """This machine's Python has attnlib, as no image may."""
    monkeypatch.setattr("autograder.sandbox.probe.HAS_REFERENCE", "'no'")


@pytest.mark.slow
def test_a_container_judges_as_the_other_layers_do(klass, docker, monkeypatch):
    image_without_answers(monkeypatch)
    klass.submit("right", RIGHT)
    klass.submit("wrong", {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.mT"})
    layers = probe("docker:course/image:3")
    assert str(layers).startswith("sandbox: docker container of course/image:3")
    graded = {g.student: g for g in grade(klass.layout, klass.submitted, (TINY,), How(layers=layers, workers=1))}
    assert graded["right"].points == sum(POINTS.values())
    assert graded["wrong"].points < sum(POINTS.values())
    assert "--network none" in docker.read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_image_with_the_answers_is_refused(docker):
    with pytest.raises(CourseError, match=r"^The image course has attnlib installed"):
        probe("docker:course")


def test_what_a_container_is_asked_for(tmp_path):
    command = " ".join(container_command("podman", "course", tmp_path))
    for wanted in (
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--user 65534:65534",
        "--pids-limit 256",
        "--memory 4g",
        f"--volume {tmp_path}:/sandbox:ro",
    ):
        assert wanted in command
    assert "--privileged" not in command
    assert "--read-only-tmpfs=false" in command
    assert "tmpfs=" not in " ".join(container_command("docker", "course", tmp_path))  # docker knows no such option


def test_a_program_that_is_not_there_and_layers_that_are_none_are_said_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CourseError, match=r"^The program podman is not installed"):
        probe("podman:course")
    with pytest.raises(CourseError, match=r"docker:IMAGE or podman:IMAGE, got 'jail'"):
        probe("jail")


def test_nbgrader_s_step_takes_the_same_names():
    assert JudgeInSandbox(sandbox="podman:course").sandbox == "podman:course"
    with pytest.raises(TraitError, match="docker:IMAGE or podman:IMAGE, got 'nothing'"):
        JudgeInSandbox(sandbox="nothing")


def test_the_socket_is_open_to_the_container_s_user(tmp_path):
    from autograder.sandbox.layers import CONTROL, control_socket

    with control_socket(tmp_path):
        assert stat.S_IMODE((tmp_path / CONTROL).stat().st_mode) == 0o666
