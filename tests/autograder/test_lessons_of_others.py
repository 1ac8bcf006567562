"""Lessons of one's own: docs/lessons_of_your_own.md is followed word by word, and what is wrong is said."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_course import HANGS

from attnlib.checks import course
from attnlib.checks.course import places
from autograder.building.new_lesson import write_lesson
from autograder.lesson_text.layout import ROOT
from autograder.showing.errors import CourseError

GUIDE = ROOT / "docs" / "lessons_of_your_own.md"
FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OWN = ROOT / "attnlib" / "checks" / "course"
ANSWER = """
from attnlib.checks import run
from attnlib.checks.practising.table import rows

report = run("rms_norm", lambda x, weight, eps: x / (x.square().sum(-1, keepdim=True) + eps).sqrt() * weight)
print(report.diagnosis)
print(sorted({row.slip for row in rows() if row.exercise == "rms_norm"}))
"""


def python(*command: str, course: Path, check: bool = True) -> subprocess.CompletedProcess:
    """Run Python with the lessons of this repository."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), places.VARIABLE: str(course)}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=course,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def small(tmp_path) -> Path:
    """The repository that `new-lesson` writes."""
    write_lesson("20_my_topic", tmp_path / "my-course")
    return tmp_path / "my-course"


@pytest.mark.slow
def test_the_smallest_lesson_passes_its_tests_at_once(small):
    assert " passed" in python("-m", "pytest", "-q", "tests", course=small).stdout


@pytest.mark.slow
def test_the_guide_is_right(tmp_path):
    course = tmp_path / "my-course"
    write_lesson("20_rms_norm", course)
    files = FILE.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(files) == 4
    for name, text in files:
        assert (course / name).is_file(), name
        (course / name).write_text(text, encoding="utf-8")
    assert "5 passed" in python("-m", "pytest", "-q", "tests", course=course).stdout
    for command in ("checks", "bugs"):
        python("-m", "autograder", command, "rms_norm", course=course)
    named, bugs = python("-c", ANSWER, course=course).stdout.splitlines()
    assert named == "squares_summed"
    assert "centred" in bugs
    python("-m", "autograder", "build", "20_rms_norm", course=course)
    assert "BEGIN SOLUTION" not in (course / "notebooks" / "20_rms_norm.ipynb").read_text(encoding="utf-8")


PREDICTION = """EXERCISES = (
    WrittenExercise(
        name="predict_mean",
        lesson=LESSON,
        contract='"A", "B" or "C": the mean of 1 and 5?',
        parts={"prediction": 1},
        kind="choice",
        reference="B",
        explanation="It is half of the sum.",
    ),
"""
NOT_RIGHT = """
# question predict_mean

### not_halved: A sum, not a mean
Divide by two.

    A

### larger_taken: The larger one, not the mean
Both count.

    C
"""
AGAIN = '''"""The prediction of lesson 20, asked again with other numbers."""

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption


def mean(one: int, other: int) -> Question:
    """Ask for the mean of two numbers."""
    return Question(
        text=f"What is the mean of {one} and {other}?",
        right=f"{(one + other) / 2:g}",
        wrong=(WrongOption("not_halved", str(one + other)), WrongOption("larger_taken", str(max(one, other)))),
    )


ASKED_AGAIN = (
    AskedAgain(
        "predict_mean",
        mean,
        {"one": 1, "other": 5},
        lambda chance: {"one": chance.randint(1, 9), "other": chance.randint(1, 9)},
    ),
)
'''
PRACTISED = """
from attnlib.checks.practising.play import Practice

practice = Practice(terminal=True)
try:
    print(practice("20", only="questions", everything=True).headline)
    question, letters = practice.opened.question, {text: letter for letter, text in practice.opened.options.items()}
    print(practice.answer(letters[question.wrong[0].text]).sections[0].heading)
    print(question.text, practice.answer(letters[question.right]).sections[0].body)
except ValueError as error:
    print(error)
"""


@pytest.fixture
def predicting(small) -> Path:
    """The same with a prediction that practice asks again."""
    lesson = small / "my_course" / "lesson_20"
    for name, change in {
        "exercises.py": lambda text: text.replace("EXERCISES = (\n", PREDICTION),
        "slips.md": lambda text: text + NOT_RIGHT,
    }.items():
        (lesson / name).write_text(change((lesson / name).read_text(encoding="utf-8")), encoding="utf-8")
    (lesson / "asked_again.py").write_text(AGAIN, encoding="utf-8")
    return small


@pytest.mark.slow
def test_a_prediction_of_others_comes_back_with_other_numbers(predicting):
    assert "7 passed" in python("-m", "pytest", "-q", "tests", course=predicting).stdout
    headline, wrong, right = python("-c", PRACTISED, course=predicting).stdout.splitlines()
    assert headline == "A question from lesson 20_my_topic, with other numbers"
    assert re.fullmatch(r"Not [A-C]\. A sum, not a mean", wrong)
    one, other, told = re.fullmatch(r"What is the mean of (\d) and (\d)\? [A-C]  (.+)", right).groups()
    assert float(told) == (int(one) + int(other)) / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "1 / 0\n", "ZeroDivisionError: division by zero"),
        (lambda text: text.replace('"predict_mean"', '"predict_median"'), "no prediction is called 'predict_median'"),
        (
            lambda text: text.replace('"larger_taken"', '"largest"'),
            "predict_mean needs wrong options larger_taken, not_halved, got largest, not_halved",
        ),
    ],
)
def test_a_question_of_others_that_cannot_be_asked_is_named(predicting, change, said):
    (predicting / "my_course" / "lesson_20" / "asked_again.py").write_text(change(AGAIN), encoding="utf-8")
    done = python("-c", PRACTISED, course=predicting)
    assert done.stdout == f"asked_again.py of lesson_20 cannot be used: {said}\n"


def test_headings_leave_out_no_level(small):
    """Else the site refuses the lesson."""
    texts = dict(FILE.findall(GUIDE.read_text(encoding="utf-8")))
    for text in (
        texts["solutions/20_rms_norm.py"],
        (small / "solutions" / "20_my_topic.py").read_text(encoding="utf-8"),
    ):
        levels = [len(marks) for marks in re.findall(r"^# (#+) ", text, re.MULTILINE)]
        assert levels == [1, 2, 3]


def with_slip_that_is_right(text: str) -> str:
    return text + "\n### by_parts: Another way\nIt is right.\n\n    return x.mean(dim=1)\n"


WRONG = {
    "a plug-in that raises": ("my_course/lesson_20/exercises.py", lambda t: "1 / 0\n", "cannot be read: ZeroDivision"),
    "an exercise's name": (
        "my_course/lesson_20/exercises.py",
        lambda t: t.replace('name="my_topic"', 'name="softmax"'),
        "two exercises are called 'softmax': one of 02_scaled_dot_product_attention, one of 20_my_topic",
    ),
    "a lesson that does not build": (
        "solutions/20_my_topic.py",
        lambda t: t.replace("### END SOLUTION", ""),
        "Nothing was published.\n- nbgrader cannot release 20_my_topic: cell my_topic: a solution has no end",
    ),
    "a slip that is right": ("my_course/lesson_20/slips.md", with_slip_that_is_right, "by_parts does what the right"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_what_is_wrong_with_a_lesson_is_one_clear_error(small, fault):
    name, change, said = WRONG[fault]
    file = small / name
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    done = python("-m", "autograder", "build", "20_my_topic", course=small, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (small / "notebooks").exists()


def test_a_lesson_of_others_is_not_packed(small):
    done = python("-m", "autograder", "pack", "github", "20_my_topic", "packed", course=small, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("20_my_topic is another repository's lesson")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [("return x.sum(dim=1)", "not met: 98 % are named rightly"), ("foo = x", "slips.md:17: by_sum fits nowhere")],
)
def test_a_check_that_is_not_proved_is_said(small, line, said):
    with (small / "my_course" / "lesson_20" / "slips.md").open("a", encoding="utf-8") as slips:
        slips.write(f"\n### by_sum: Added up\nAdded up, and not divided.\n\n    {line}\n")
    done = python("-m", "autograder", "checks", "my_topic", course=small, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("lessons", "said"),
    [
        ([], "found none"),
        (["one/lesson_20", "two/lesson_21"], "found one, two"),
        (["one/lesson_07"], f"lesson_07 is in {OWN}, too"),
    ],
)
def test_a_repository_that_is_no_course_is_named(tmp_path, monkeypatch, lessons, said):
    for lesson in lessons:
        (tmp_path / lesson).mkdir(parents=True)
        (tmp_path / lesson / "exercises.py").touch()
    monkeypatch.setenv(places.VARIABLE, str(tmp_path))
    found, faults = places.find(OWN)
    assert found == []
    assert len(faults) == 1
    assert said in faults[0]
    monkeypatch.setenv(places.VARIABLE, str(tmp_path / "none"))
    assert "there is no such folder" in places.find(OWN)[1][0]


def test_an_installed_package_is_found_by_its_entry_point(small, monkeypatch):
    about = small / "my_course-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-course\nVersion: 0.1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[attnlib.course]\nmine = my_course\nlost = nowhere\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(small))
    assert places.find(OWN) == (
        [small / "my_course"],
        ["the entry point lost = nowhere: there is no package nowhere."],
    )


@pytest.mark.parametrize("name", ["my_topic", "07_topic", "20_My", "20-topic", "20_"])
def test_a_lesson_is_called_like_a_lesson(tmp_path, name):
    with pytest.raises(CourseError, match="called like 20_my_topic, with a number from 20 to 99, got"):
        write_lesson(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_lesson_of_others_in_another_encoding_does_not_touch_the_rest(small, monkeypatch):
    file = small / "my_course" / "lesson_20" / "exercises.py"
    text = file.read_text(encoding="utf-8").replace("what an answer", "für eine Antwort")
    file.write_bytes(f"# -*- coding: latin-1 -*-\n{text}".encode("latin-1"))
    monkeypatch.setattr(course, "__path__", [*course.__path__, str(small / "my_course")])
    assert not course._is_written_in("lesson_20", "softmax")


def test_a_second_lesson_joins_the_package_of_the_first(small):
    before = (small / "pyproject.toml").read_bytes()
    write_lesson("21_more", small)
    assert (small / "my_course" / "lesson_21" / "slips.md").is_file()
    assert (small / "pyproject.toml").read_bytes() == before
    with pytest.raises(CourseError, match="has a lesson 20 already"):
        write_lesson("20_again", small)
    with pytest.raises(CourseError, match="the course's own repository"):
        write_lesson("22_here", ROOT / "nowhere")
