"""Real nbgrader, from its own command line, with the one config: a class of students, good, bad and unlucky."""

import copy
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from formgrader import formgrader
from tiny_course import POINTS, RIGHT, TINY, Class, cell

from attnlib.checks import run
from autograder.lesson_text.layout import ROOT
from autograder.sandbox.probe import probe

pytestmark = pytest.mark.slow

DETACHED = "def pairwise_dot(x, y):\n    return (x @ y.transpose(-2, -1)).detach()"
COSINE = "def pairwise_dot(x, y):\n    return torch.cosine_similarity(x[:, :, None], y[:, None], dim=-1)"
WARNS = (
    "import sys, warnings\n\ndef pairwise_dot(x, y):\n    print('to stderr', file=sys.stderr)\n"
    "    warnings.warn('careful')\n    return x @ y.transpose(-2, -1)"
)
ESCAPE = "\x1b]0;title\x07"
ALL, PREDICTION, SECOND = sum(POINTS.values()), POINTS["predict_largest_dot"], POINTS["pairwise_dot"]


def skip_tests(notebook):
    for name in POINTS:
        cell(notebook, f"test_{name}").metadata["tags"] = ["skip-execution"]


def copy_stub_below(stub):
    """A change to a notebook: right below the answer stands a copy of its cell with the released stub."""

    def change(notebook):
        answer = cell(notebook, "pairwise_dot")
        copied = copy.deepcopy(answer)
        copied.source, copied.id = stub, "copied"
        notebook.cells.insert(notebook.cells.index(answer) + 1, copied)

    return change


def nbgrader(*arguments, course, cwd=ROOT / "autograder", check=True):
    """nbgrader's command line, in autograder/, with the course elsewhere."""
    command = [sys.executable, "-m", "nbgrader", *arguments, f"--CourseDirectory.root={course}"]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert not check or result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def graded(prepared, tmp_path_factory):
    """The class, graded by `nbgrader autograde`; its output and exit code are in `.log` and `.code`."""
    probe()  # says so where there is no sandbox, and nothing can be graded
    folder = tmp_path_factory.mktemp("class")
    shutil.copytree(prepared.course, folder / "course")
    klass = Class(type(prepared)(solutions=prepared.solutions, course=folder / "course"))
    klass.submit("solved", RIGHT).with_name("page.html").write_text("<script>hostile()</script>", encoding="utf-8")
    klass.submit("untouched")
    klass.submit(ESCAPE).write_text("{", encoding="utf-8")
    (klass.submitted / "untouched" / TINY / "timestamp.txt").write_text("tomorrow", encoding="utf-8")
    klass.submit("second", {"pairwise_dot": RIGHT["pairwise_dot"]})
    klass.submit("partial", {"pairwise_dot": DETACHED})
    klass.submit("cosine", {"pairwise_dot": COSINE})
    klass.submit("warns", {**RIGHT, "pairwise_dot": WARNS})
    klass.submit("copied", RIGHT, copy_stub_below(cell(klass.release(), "pairwise_dot").source))
    klass.submit("skips", {}, skip_tests)
    klass.submit("skips_right", RIGHT, skip_tests)
    klass.submit("dies", {**RIGHT, "pairwise_dot": "import os\nos._exit(1)"})
    klass.submit("nothing_defined", {"pairwise_dot": "def pairwise_dot(x, y:"})
    klass.submit("broken").write_text("{ this is not JSON", encoding="utf-8")
    renamed = klass.submit("renamed", RIGHT)
    renamed.rename(renamed.with_name("my homework, final.ipynb"))
    result = nbgrader("autograde", TINY, course=folder / "course", check=False)
    klass.log, klass.code = result.stderr, result.returncode
    return klass


def total(graded, student):
    return sum(graded.scores(student).values())


def test_the_solved_lesson_gets_all_points(graded):
    assert total(graded, "solved") == pytest.approx(ALL, abs=0), graded.log


def test_the_untouched_lesson_gets_nothing(graded):
    assert total(graded, "untouched") == pytest.approx(0, abs=0)


def test_the_second_exercise_alone_gets_its_points(graded):
    assert graded.scores("second") == {"test_predict_largest_dot": 0.0, "test_pairwise_dot": SECOND}


def test_partial_credit_is_the_check_s_own(graded):
    report = run("pairwise_dot", lambda x, y: (x @ y.transpose(-2, -1)).detach(), hidden=True)
    assert 0 < report.score < 1
    assert graded.scores("partial")["test_pairwise_dot"] == pytest.approx(report.score * SECOND, abs=1e-9)


def test_a_right_answer_that_warns_keeps_its_points(graded):
    assert total(graded, "warns") == pytest.approx(ALL, abs=0)


def test_a_copied_cell_costs_nothing_and_stops_nobody(graded):
    assert total(graded, "copied") == pytest.approx(ALL, abs=0)


def test_a_tag_earns_nothing_and_costs_nothing(graded):
    assert total(graded, "skips") == pytest.approx(0, abs=0)
    assert total(graded, "skips_right") == pytest.approx(ALL, abs=0)


def test_a_test_that_was_not_executed_earns_nothing(graded):
    assert graded.scores("dies") == {"test_predict_largest_dot": PREDICTION, "test_pairwise_dot": 0.0}


def test_a_failure_is_reported_and_stops_nobody(graded):
    assert graded.code == 1
    assert "'00_tiny' for student 'broken'" in graded.log
    assert total(graded, "warns") == pytest.approx(ALL, abs=0)  # whose name comes after `broken`


def test_the_log_moves_no_cursor(graded):
    assert r"'00_tiny' for student '\x1b]0;title\x07'" in graded.log
    assert "\x1b" not in graded.log


@pytest.fixture(scope="module")
def exported(graded):
    target = graded.layout.course / "grades, all.csv"
    with graded.course.gradebook() as gradebook:
        gradebook.update_or_create_student("absent", last_name="Long, Very", first_name='"Q"')
    nbgrader("export", "--to", str(target), course=graded.layout.course)
    with target.open(newline="", encoding="utf-8") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def test_a_graded_submission_is_exported_with_its_score(exported):
    row = exported["solved"]
    assert (row["status"], float(row["score"]), float(row["max_score"])) == ("graded", ALL, ALL)
    assert (exported["untouched"]["status"], float(exported["untouched"]["score"])) == ("graded", 0.0)


def test_a_failed_grading_is_not_exported_as_zero(exported):
    assert exported["broken"]["status"] == "not graded: the notebook is not JSON"
    assert (exported["broken"]["score"], exported["broken"]["raw_score"]) == ("", "")


def test_a_renamed_notebook_is_graded(exported):
    assert (exported["renamed"]["status"], float(exported["renamed"]["score"])) == ("graded", ALL)


def test_who_did_not_submit_has_no_score_and_a_quoted_name(exported):
    row = exported["absent"]
    assert (row["status"], row["score"], row["last_name"], row["first_name"]) == (
        "not submitted",
        "",
        "Long, Very",
        '"Q"',
    )


@pytest.mark.parametrize(
    ("name", "key", "above"), [("Canvas", "SIS Login ID", ["Points Possible"]), ("Moodle", "ID number", [])]
)
def test_other_systems_get_a_column_for_each_lesson(graded, exported, name, key, above, monkeypatch):
    target = graded.layout.course / f"{name}.csv"
    guide = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
    (written,) = re.findall(rf"^\| {name} \| `(.*) --to ", guide, re.MULTILINE)
    command = (
        f"{written} --to {shlex.quote(str(target))} --CourseDirectory.root={shlex.quote(str(graded.layout.course))}"
    )
    monkeypatch.delenv("PYTHONPATH")  # as an instructor has it
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(["bash", "-c", command], cwd=ROOT / "autograder", check=True, capture_output=True)
    with target.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["Student"] for row in rows if not row[key]] == above
    assert all(float(row[TINY]) == ALL for row in rows if not row[key])
    found = {row[key]: row for row in rows if row[key]}
    assert set(found) == set(exported)
    assert float(found["solved"][TINY]) == ALL
    assert (found["broken"][TINY], found["absent"][TINY]) == ("", "")
    named = {"Canvas": ["Student"], "Moodle": ["Last name", "First name"]}[name]
    assert ", ".join(found["absent"][column] for column in named) == 'Long, Very, "Q"'


def test_names_come_from_a_list_of_students_as_the_guide_says(graded):
    guide = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^nbgrader (db student import) \.\./class\.csv$", guide, re.MULTILINE)
    (columns,) = re.findall(r"columns ((?:`\w+`(?:, | and )?){4})", guide)
    named = re.findall(r"`(\w+)`", columns)
    table = graded.layout.course / "class.csv"
    rows = {"solved": "Ada,Lovelace,ada@example.org", "untouched": "Bob,Müller-Lüdenscheidt,bob@example.org"}
    lines = [",".join(named), *(f"{student},{about}" for student, about in rows.items())]
    before = total(graded, "solved")
    for _ in range(2):
        table.write_text("\n".join(lines), encoding="utf-8")
        nbgrader(*command.split(), str(table), course=graded.layout.course)
        with graded.course.gradebook() as gradebook:
            found = {student: gradebook.find_student(student) for student in rows}
            told = {name: f"{one.first_name},{one.last_name},{one.email}" for name, one in found.items()}
        assert told == rows
        rows["untouched"] = rows["untouched"].replace("Bob", "Robert")
        lines[2] = f"untouched,{rows['untouched']}"
    assert total(graded, "solved") == before > 0


def test_a_submission_that_breaks_later_loses_its_old_score(graded, exported):
    path = graded.submit("later", RIGHT)
    assert graded.course.autograde(TINY, "later") is None
    assert total(graded, "later") == pytest.approx(ALL, abs=0)
    path.write_text("[]", encoding="utf-8")
    assert graded.course.autograde(TINY, "later") is not None
    target = graded.layout.course / "later.csv"
    nbgrader("export", "--to", str(target), "--student", "['later']", course=graded.layout.course)
    with target.open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["score"] == ""
    assert row["status"].startswith("not graded: ")


def test_feedback_has_the_diagnosis_and_not_the_hidden_test(graded):
    nbgrader("generate_feedback", TINY, "--force", course=graded.layout.course)
    pages = {
        path.parts[-3]: path.read_text(encoding="utf-8") for path in graded.layout.course.glob("feedback/*/*/*.html")
    }
    assert {"solved", "cosine", "nothing_defined", "dies"} <= set(pages)
    assert "this is cosine similarity" in pages["cosine"]
    assert "SyntaxError" in pages["nothing_defined"]
    for student, page in pages.items():
        text = re.sub(r"<[^>]*>", "", page)
        assert "HIDDEN TESTS" not in text, student
        assert "grade as check" not in text, student


@pytest.fixture
def server(graded, tmp_path):
    """The formgrader of a copy of the graded course."""
    shutil.copytree(graded.layout.course, tmp_path / "course")
    with formgrader(tmp_path / "course", tmp_path) as get:
        yield get


def test_the_formgrader_shows_and_grades(server):
    assert "nbgrader formgrade" in server("formgrader/manage_assignments")
    (assignment,) = [a for a in json.loads(server("formgrader/api/assignments")) if a["name"] == TINY]
    assert assignment["max_score"] == pytest.approx(ALL, abs=0)
    submissions = {s["student"]: s for s in json.loads(server(f"formgrader/api/submissions/{TINY}"))}
    assert submissions["solved"]["score"] == pytest.approx(ALL, abs=0)
    assert submissions["broken"]["autograded"] is False
    notebooks = json.loads(server(f"formgrader/api/submitted_notebooks/{TINY}/{TINY}"))
    (cosine,) = [n for n in notebooks if n["student"] == "cosine"]
    page = server(f"formgrader/submissions/{cosine['id']}/")
    assert "this is cosine similarity" in page
    assert submissions["untouched"]["autograded"] is True  # a timestamp of words is none
    again = json.loads(server(f"formgrader/api/submission/{TINY}/solved/autograde", method="POST"))
    assert again["success"], again
    (solved,) = [n for n in notebooks if n["student"] == "solved"]
    with pytest.raises(AssertionError, match="404"):
        server(f"formgrader/submissions/{solved['id']}/page.html")


def test_each_assistant_sees_a_share_in_the_formgrader(graded, tmp_path, monkeypatch):
    shutil.copytree(graded.layout.course, tmp_path / "course")
    seen = {}
    for share in ("1/1", "1/2", "2/2"):
        monkeypatch.setenv("AUTOGRADER_SHARE", share)
        with formgrader(tmp_path / "course", tmp_path) as get:
            notebooks = json.loads(get(f"formgrader/api/submitted_notebooks/{TINY}/{TINY}"))
            seen[share] = {n["id"]: n["student"] for n in notebooks}
            if share == "2/2":  # an address of the other share's leads to its page, and from there to the list
                page = get(f"formgrader/submissions/{min(seen['1/2'])}/next")
                assert f"{TINY}" in page
                assert "notebook_submissions" in page
                last = get(f"formgrader/submissions/{max(seen[share])}/prev")
                assert sorted(seen[share])[-2] in last
    assert {} != seen["1/2"] != seen["1/1"]
    assert {**seen["1/2"], **seen["2/2"]} == seen["1/1"]
    assert len(seen["1/2"]) + len(seen["2/2"]) == len(seen["1/1"])


def test_a_share_that_is_none_is_one_sentence(graded, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_SHARE", "3/2")
    result = nbgrader("list", course=graded.layout.course, check=False)
    assert result.returncode == 1
    assert (
        result.stderr.splitlines()[-1] == "AUTOGRADER_SHARE should be like 2/3, the second of three shares, got '3/2'."
    )
    assert "Traceback" not in result.stderr
