"""The course without a clone: notebooks are brought, opened and renewed, and what the learner wrote stays."""

import json
import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import clean_environment
import pytest

from attnlib.checks import exercises
from attnlib.checks.at_home import command, lessons
from attnlib.checks.at_home.lessons import BEFORE, CannotOpen, bring, open_lab, update
from attnlib.checks.at_home.merging import merged

FIRST = "00_start_here.ipynb"


def cell(id: str, text: str, kind: str = "code", answer: bool = False) -> dict:
    more = {"outputs": [], "execution_count": None} if kind == "code" else {}
    metadata = {"nbgrader": {"solution": True}} if answer else {}
    return {"id": id, "cell_type": kind, "source": text, "metadata": metadata, **more}


def book(*cells: dict) -> dict:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def texts(notebook: dict) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook["cells"]]


@pytest.fixture
def course(tmp_path, monkeypatch) -> Path:
    """What a version publishes."""
    folder = tmp_path / "published"
    folder.mkdir()
    monkeypatch.setattr(lessons, "published", lambda: folder)
    publish(folder, book(cell("a", "x = 1"), cell("b", "...", answer=True), cell("t", "Words.", "markdown")))
    return folder


def publish(folder: Path, notebook: dict) -> None:
    (folder / FIRST).write_text(json.dumps(notebook))


def write(folder: Path, id: str, text: str) -> None:
    notebook = json.loads((folder / FIRST).read_text())
    for each in notebook["cells"]:
        if each["id"] == id:
            each["source"] = text.splitlines(keepends=True)  # as Jupyter saves it
            each["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "seen"}]
    (folder / FIRST).write_text(json.dumps(notebook))


def test_the_notebooks_of_the_clone_are_published():
    names = [path.name for path in sorted(lessons.published().glob("*.ipynb"))]
    assert names[0] == FIRST
    assert len(names) == 13


def test_notebooks_are_found_where_the_system_s_own_python_installs_them(monkeypatch, tmp_path):
    """Debian's is in /usr, and installs into /usr/local."""
    notebooks = tmp_path / "share" / "attnlib" / "notebooks"
    notebooks.mkdir(parents=True)
    (notebooks / "00_start_here.ipynb").touch()
    monkeypatch.setattr(lessons.attnlib, "__file__", str(tmp_path / "lib" / "attnlib" / "__init__.py"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _kind, _scheme: str(tmp_path))
    assert lessons.published() == notebooks


def test_a_clone_is_opened_as_it_is(course):
    assert bring(course) == []
    assert [path.name for path in course.iterdir()] == [FIRST]


def test_what_is_missing_is_brought_and_what_is_there_stays(course, tmp_path):
    home = tmp_path / "home"
    assert bring(home) == [FIRST]
    write(home, "b", "y = 2")
    assert bring(home) == []
    assert "y = 2" in (home / FIRST).read_text()


def test_answers_survive_an_update_and_their_outputs_with_them(course, tmp_path):
    home = tmp_path / "home"
    bring(home)
    write(home, "b", "y = 2\nz = 3")
    publish(course, book(cell("a", "x = 10"), cell("b", "...", answer=True), cell("c", "new")))
    before = (home / FIRST).read_text()
    assert update(home) == [f"{FIRST}: brought up to date, with what you wrote; as it was: {BEFORE}/"]
    notebook = json.loads((home / FIRST).read_text())
    assert texts(notebook) == ["x = 10", "y = 2\nz = 3", "new"]
    assert notebook["cells"][1]["outputs"][0]["text"] == "seen"
    assert (home / BEFORE / FIRST).read_text() == before
    assert update(home) == ["All notebooks are those of this version."]


def test_an_untouched_notebook_becomes_the_new_one(course, tmp_path):
    home = tmp_path / "home"
    bring(home)
    publish(course, book(cell("a", "x = 10")))
    assert update(home) == [f"{FIRST}: brought up to date"]
    assert (home / FIRST).read_bytes() == (course / FIRST).read_bytes()
    assert not (home / BEFORE).exists()


def test_where_lines_end_otherwise_an_update_knows_what_was_handed_out(course, tmp_path, monkeypatch):
    as_here = Path.write_text
    windows = lambda file, text, encoding=None: as_here(file, text, encoding, newline="\r\n")  # noqa: E731
    published = json.dumps(json.loads((course / FIRST).read_text()), indent=1)
    (course / FIRST).write_text(published)
    monkeypatch.setattr(Path, "write_text", windows)
    bring(home := tmp_path / "home")
    assert update(home) == ["All notebooks are those of this version."]


def test_a_copy_that_has_the_id_of_its_original_is_no_loss(course, tmp_path):
    bring(home := tmp_path / "home")
    notebook = json.loads((home / FIRST).read_text())
    notebook["cells"].insert(1, cell("b", "mine", answer=True))
    (home / FIRST).write_text(json.dumps(notebook))
    publish(course, book(cell("a", "x = 2"), cell("b", "...", answer=True), cell("t", "Words.", "markdown")))
    update(home)
    new = json.loads((home / FIRST).read_text())
    assert texts(new) == ["x = 2", "mine", "...", "Words."]
    assert len({each["id"] for each in new["cells"]}) == 4


def test_the_lab_opens_at_the_first_exercise_that_has_not_passed(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTNLIB_PROGRESS")
    passed = {name: 1.0 for name, exercise in exercises().items() if exercise.lesson < "02"}
    (tmp_path / ".attnlib_progress.json").write_text(json.dumps({"version": 1, "best": passed}))
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path))
    assert lessons.next_lesson().startswith("02")


def test_what_cannot_be_written_is_one_sentence(course, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home" / ".as_handed_out" / f"{FIRST}.fresh").mkdir(parents=True)
    assert command.main(["update", "home"]).startswith("home/.as_handed_out/")


def test_a_second_update_knows_what_the_first_one_brought(course, tmp_path):
    home = tmp_path / "home"
    bring(home)
    write(home, "b", "mine")
    publish(course, book(cell("a", "x = 2"), cell("b", "...", answer=True)))
    update(home)
    publish(course, book(cell("a", "x = 3"), cell("b", "...", answer=True)))
    update(home)
    assert texts(json.loads((home / FIRST).read_text())) == ["x = 3", "mine"]


def test_where_both_changed_an_answer_stays_and_other_cells_stand_below():
    base = book(cell("a", "x = 1"), cell("b", "stub", answer=True), cell("t", "Words.", "markdown"))
    mine = book(cell("a", "x = 5"), cell("b", "mine", answer=True), cell("t", "My words.", "markdown"))
    new = book(cell("a", "x = 2"), cell("b", "other stub", answer=True), cell("t", "New words.", "markdown"))
    assert texts(merged(base, mine, new)) == [
        "x = 2",
        "# What you had here before the update:\n# x = 5",
        "mine",
        "New words.",
        "*What you had here before the update:*\n\nMy words.",
    ]


def test_added_cells_stay_where_they_were_and_a_removed_one_goes_unless_it_was_changed():
    base = book(cell("a", "1"), cell("b", "2"), cell("c", "3"))
    mine = book(cell("top", "0"), cell("a", "1"), cell("b", "2, mine"), cell("own", "2.5"), cell("c", "3"))
    new = book(cell("a", "1"))
    assert texts(merged(base, mine, new)) == ["0", "1", "2, mine", "2.5"]


def test_what_is_no_notebook_is_left_alone(course, tmp_path):
    home = tmp_path / "home"
    bring(home)
    (home / FIRST).write_text("{")
    publish(course, book(cell("a", "x = 10")))
    (told,) = update(home)
    assert told.startswith(f"{FIRST}: left as it is, since it cannot be read as a notebook")
    assert (home / FIRST).read_text() == "{"


def test_a_folder_without_the_course_is_refused(course, tmp_path):
    with pytest.raises(CannotOpen, match="holds no notebooks of this course"):
        update(tmp_path / "elsewhere")


def test_a_folder_that_cannot_be_made_is_one_sentence(course, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotOpen, match=r"cannot be made \(Not a directory\)\. Name another"):
        bring(tmp_path / "file" / "home")


def test_the_lab_opens_where_the_learner_stopped(course, tmp_path, monkeypatch, capsys):
    called = []
    monkeypatch.setattr(lessons.subprocess, "call", lambda command, env: called.append((command, env)) or 0)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in lessons.SCREENS:
        monkeypatch.delenv(name, raising=False)
    assert open_lab(tmp_path / "home", ["--port", "9"]) == 0
    ((line, environment),) = called
    assert line[2:] == ["jupyterlab", str(tmp_path / "home" / FIRST), "--port", "9", "--allow-root", "--no-browser"]
    assert str(tmp_path / "home" / ".jupyter") in environment["JUPYTER_CONFIG_PATH"]
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said[1:]] == [
        "You are root, and so is everything a notebook runs. If you can, start this as another user.",
        "There is no display here",
    ]
    monkeypatch.setattr(lessons.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CannotOpen, match="JupyterLab is not installed"):
        open_lab(tmp_path / "home", [])


def test_a_port_that_is_taken_is_named_and_the_next_free_one_is_used(course, tmp_path, monkeypatch, capsys):
    called = []
    monkeypatch.setattr(lessons.subprocess, "call", lambda command, env: called.append(command) or 0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        monkeypatch.setattr(lessons, "PORT", taken)
        assert open_lab(tmp_path / "home", []) == 0
        (port,) = (int(option.removeprefix("--port=")) for option in called[0] if option.startswith("--port="))
        assert port > taken
        assert f"Port {taken} is taken" in (said := capsys.readouterr().out)
        assert f"this one is on port {port}." in said
        monkeypatch.setattr(lessons, "OTHER_PORTS", 1)
        with pytest.raises(CannotOpen, match=rf"The ports {taken} to {taken} are taken\. Name a free one"):
            open_lab(tmp_path / "home", [])
    assert open_lab(tmp_path / "home", []) == 0
    assert f"--port={taken}" in called[1]


def test_the_commands_in_a_terminal(tmp_path, monkeypatch):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attnlib", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    told = run("update")
    assert told.returncode == 1
    assert told.stderr.startswith("attention_from_scratch holds no notebooks of this course.")
    assert "Next: predict_largest_dot" in run("status").stdout
    (tmp_path / ".attnlib_progress.json").write_text('{"version": 1, "best": {"predict_largest_dot": 1.0}}')
    monkeypatch.delenv("ATTNLIB_PROGRESS")
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path))
    assert "Next: pairwise_dot" in run("status").stdout
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")  # as in a pipe on Windows
    assert "Next: pairwise_dot" in run("status").stdout
    assert run("stauts").returncode == 2
    assert run("update", "--port", "9").returncode == 2


def test_the_wheel_brings_the_students_notebooks_and_no_solutions(tmp_path):
    python = clean_environment.python()
    line = "from pathlib import Path; from attnlib.checks.at_home.lessons import bring; print(*bring(Path('home')))"
    environment = clean_environment.clean(dict(os.environ))
    done = subprocess.run(
        [python, "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.split()) == 13
    told = subprocess.run(  # what uvx runs
        [python.parent / "attnlib", "status"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "Next: predict_largest_dot" in told.stdout
    assert (tmp_path / "home" / ".jupyter" / "labconfig" / "page_config.json").exists()
    files = [path.name for path in (python.parents[1] / "share" / "attnlib").rglob("*") if path.is_file()]
    assert sorted(name for name in files if name.endswith(".ipynb")) == done.stdout.split()
    student = (tmp_path / "home" / "02_scaled_dot_product_attention.ipynb").read_text()
    assert "raise NotImplementedError" in student
    assert "BEGIN SOLUTION" not in student


def test_each_command_has_its_help(capsys):
    for name in command.COMMANDS:
        with pytest.raises(SystemExit):
            command.main([name, "--help"])
        assert f"python -m attnlib {name}" in capsys.readouterr().out
