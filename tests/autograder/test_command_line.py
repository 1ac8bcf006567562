"""`python -m autograder`: what it prints, and what it says when it cannot."""

import io
import re
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner
from tiny_course import EXERCISES, POINTS, RIGHT, TINY, Class, tiny_text

from attnlib.checks import course
from attnlib.checks.course import places
from autograder import __main__ as command_line
from autograder.building.build_course import build
from autograder.grading.grade_course import Graded, How, grade
from autograder.grading.table import grading_tables
from autograder.judging.intake.survey import survey
from autograder.lesson_text.layout import ROOT, Layout
from autograder.showing.errors import CourseError
from autograder.showing.terminal import Terminal


@pytest.fixture
def command(monkeypatch, layout):
    """Run a command on the tiny course."""
    monkeypatch.setattr(command_line, "LAYOUT", layout)
    return lambda *arguments: CliRunner().invoke(command_line.main, [str(a) for a in arguments])


def refusal(result) -> str:
    """The one sentence on stderr with which a command ended."""
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    (sentence,) = result.stderr.strip().splitlines()
    return sentence


def test_a_lesson_with_the_name_of_another_is_one_sentence(command, layout, monkeypatch, tmp_path):
    theirs = tmp_path / "theirs"
    shutil.copytree(layout.solutions, theirs / "solutions")
    monkeypatch.setenv(places.VARIABLE, str(theirs))
    monkeypatch.setattr(course, "OTHERS", [theirs / "my_course"])
    texts = [folder / "solutions" / f"{TINY}.py" for folder in (layout.solutions.parent, theirs)]
    said = "Two lessons are called {}: {} and {}.".format(TINY, *texts)
    assert [refusal(command(name)) for name in ("build", "prepare")] == [said, said]


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"], ["prepare", "--help"], ["grade", "--help"]])
def test_help(command, arguments):
    result = command(*arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_a_missing_folder(command):
    assert refusal(command("grade", "no/such/folder")) == "no/such/folder does not exist."


def test_a_file_in_place_of_a_folder(command, tmp_path):
    (tmp_path / "one.ipynb").write_text("{}", encoding="utf-8")
    said = refusal(command("grade", tmp_path / "one.ipynb"))
    assert said.endswith("one.ipynb is not a folder; grade takes a folder STUDENT/LESSON/LESSON.ipynb.")


def test_a_folder_that_can_be_none(command, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    said = refusal(command("new-lesson", "20_my_topic", "--into", tmp_path / "file" / "course"))
    assert re.fullmatch(r".*/file/course/\S+ cannot be used: Not a directory\.", said)


def test_a_folder_without_submissions(command, tmp_path):
    (tmp_path / "empty").mkdir()
    said = refusal(command("grade", tmp_path / "empty"))
    assert said.endswith("empty has no submission; it needs the layout STUDENT/LESSON/LESSON.ipynb.")


def test_an_unknown_assignment(command, tmp_path):
    said = refusal(command("grade", tmp_path, "--assignment", "99_none"))
    assert said == "No lesson is called '99_none'; there are: 00_tiny."


def test_an_unknown_lesson_to_build(command):
    assert refusal(command("build", "99_none")) == "No lesson is called '99_none'; there are: 00_tiny."


def test_a_folder_with_other_lessons_only(command, tmp_path):
    (tmp_path / "in" / "someone" / "other").mkdir(parents=True)
    assert "has no submission of 00_tiny" in refusal(command("grade", tmp_path / "in", "-a", TINY))


@pytest.mark.slow
def test_a_notebook_of_somebody_s_own_stays(layout):
    layout.notebooks.mkdir()
    own, said = layout.notebooks / "00_tiny-Copy1.ipynb", []
    own.write_text("{}", encoding="utf-8")
    build(layout, (), EXERCISES, None, said.append)
    assert own.read_text(encoding="utf-8") == "{}"
    assert said[-1] == f"{own} has no lesson: remove it, or move it elsewhere"


@pytest.mark.slow
def test_a_lesson_that_cannot_be_released_keeps_no_other_from_it(command, layout):
    text = tiny_text()
    layout.text("01_bad").write_text(text.replace("### END SOLUTION", "", 1), encoding="utf-8")
    layout.text("02_good").write_text(text, encoding="utf-8")
    assert re.fullmatch(r"nbgrader cannot release 01_bad: cell predict[^\n]*", refusal(command("prepare")))
    assert "prepared" not in command("prepare", TINY, "02_good").stdout  # they are


@pytest.mark.slow
def test_from_a_shell_there_is_no_traceback():
    arguments = [sys.executable, "-m", "autograder", "grade", "no/such/folder"]
    result = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "no/such/folder does not exist.\n")


@pytest.mark.slow
def test_grade_prints_scores_diagnoses_and_reasons(command, prepared, layout, tmp_path):
    shutil.copytree(prepared.course, layout.course)
    klass = Class(layout)
    klass.submitted = tmp_path / "handed in"
    klass.submit("solved", RIGHT)
    klass.submit("open", {"predict_largest_dot": 'largest_dot = "C"'})
    klass.submit("syntax", {"pairwise_dot": "def pairwise_dot(x, y:"})
    klass.submit("broken").write_text("not a notebook", encoding="utf-8")
    (klass.submitted / "lost" / "07_other").mkdir(parents=True)
    klass.submit("some[1]", RIGHT)
    result = command("grade", klass.submitted, "--workers", 1)
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    everything = sum(POINTS.values())
    assert f"solved {everything}/{everything}" in text
    assert f"✗ pairwise_dot 0/{POINTS['pairwise_dot']} not answered" in text
    assert f"✗ pairwise_dot 0/{POINTS['pairwise_dot']} SyntaxError" in text
    assert "not graded: the notebook is not JSON" in text
    assert "not graded: there is no such lesson" in text
    assert f"some[1] {everything}/{everything}" in text
    assert "Gradebook: " in text

    shutil.rmtree(klass.submitted / "solved")
    shutil.rmtree(klass.submitted / "open")
    shutil.rmtree(klass.submitted / "syntax")
    shutil.rmtree(klass.submitted / "some[1]")
    nothing = command("grade", klass.submitted)
    assert nothing.exit_code == 1
    assert nothing.stderr.strip().endswith("No submission could be graded.")


@pytest.mark.slow
def test_a_lesson_that_cannot_be_released_keeps_no_other_from_being_graded(command, prepared, layout):
    shutil.copytree(prepared.course, layout.course)
    klass = Class(layout)
    klass.submit("solved", RIGHT)
    layout.text("01_bad").write_text(tiny_text().replace("### END SOLUTION", "", 1), encoding="utf-8")
    (klass.submitted / "solved" / "01_bad").mkdir(parents=True)
    result = command("grade", "--workers", 1)
    assert (result.exit_code, result.stderr.count("nbgrader cannot release 01_bad: cell predict")) == (1, 1)
    text = " ".join(result.stdout.split())
    assert f"solved {sum(POINTS.values())}/{sum(POINTS.values())}" in text
    assert "not graded: its lesson cannot be released" in text


@pytest.mark.slow
def test_the_samples_are_graded_while_nothing_was_submitted(command, layout, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_DB", f"sqlite:///{tmp_path / 'real.db'}")
    folder = layout.samples / TINY
    folder.mkdir(parents=True)
    answers = "\n\n".join(f"# %% {name}\n{answer}" for name, answer in RIGHT.items())
    (folder / "excellent.py").write_text(answers + "\n", encoding="utf-8")
    (folder / "untouched.py").write_text("# nothing\n", encoding="utf-8")
    result = command("grade")
    assert result.exit_code == 0, result.output
    assert "Nothing has been submitted yet" in result.stdout
    everything = sum(POINTS.values())
    assert f"{everything}/{everything}" in result.stdout
    assert f"0/{everything}" in result.stdout
    assert not (layout.course / "gradebook.db").exists()
    assert not (tmp_path / "real.db").exists()


def test_the_layout_of_a_folder(tmp_path):
    for name in ("b/01_x", "a/02_y", "a/01_x", ".hidden/01_x", "a/.ipynb_checkpoints"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "note.txt").write_text("", encoding="utf-8")
    assert survey(tmp_path)[0] == [("a", "01_x"), ("a", "02_y"), ("b", "01_x")]


def test_a_name_is_never_read_as_markup():
    console = Terminal(width=100, record=True, file=io.StringIO())
    console.print(*grading_tables([Graded("[bold]x[/nope]", TINY, problem="[/] bad")], {}))
    assert "[bold]x[/nope]" in console.export_text()


def test_grading_needs_a_lesson_that_exists(tmp_path):
    with pytest.raises(CourseError, match="No lesson is called '99_none'"):
        grade(Layout(solutions=tmp_path), tmp_path, ("99_none",), How(layers=None))


def test_a_slip_is_printed_as_a_program_for_each_exercise_that_has_it(command):
    shown = command("slip", "closed_blocks_computed").output
    assert shown.startswith("flash_attention: Closed blocks are computed as well\n\n  def flash_attention(")
    assert len([line for line in shown.splitlines() if line.startswith(">")]) == 1


def test_a_slip_that_does_not_exist(command):
    said = refusal(command("slip", "keys_left_ou", "flash_attention"))
    assert said == (
        "no wrong line is called 'keys_left_ou' in flash_attention; did you mean keys_left_out or keys_left_out_2?"
    )
