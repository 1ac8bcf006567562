"""One clumsy and hostile class through both ways, `nbgrader autograde` and `grade`: the same rows, and nothing lent."""

import csv
import dataclasses
import io
import os
import shutil
import zipfile
from datetime import datetime
from types import SimpleNamespace

import pytest
from test_nbgrader import nbgrader
from tiny_course import RIGHT, TINY, Class, tables

from autograder.grading.grade_course import How, grade
from autograder.grading.table import grading_tables
from autograder.in_nbgrader.course_files import course_seed
from autograder.in_nbgrader.handed_in import record_all_received
from autograder.in_nbgrader.status import status_of
from autograder.lesson_text.notebook import read_notebook
from autograder.sandbox.probe import probe
from autograder.showing.terminal import Terminal

pytestmark = pytest.mark.slow

SECRET = "what another student wrote"
TIME = "2026-01-02 03:04:05.000000 UTC"
RECEIVED = "2026-01-09 10:00:00 +0100"
FORMULA, ESCAPE = "=1+cmd", "\x1b[2J[bold]esc"
WRONG = {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return y @ x.mT"}
HELPED = {**RIGHT, "pairwise_dot": "from helper import dot\n\ndef pairwise_dot(x, y):\n    return dot(x, y)"}
HELPER = {"helper.py": "def dot(x, y):\n    return x @ y.mT\n"}
BESIDE = {"data.csv": "a,b\n", "sub/data.json": "{}", "PLOT.PNG": "png", "helper.py": "x = 1"}
ACTIVE = (
    "page.html",
    "page.HTM",
    "drawing.svg",
    "script.js",
    "page.xhtml",
    "page.xml",
    "paper.pdf",
    "data.pkl",
    "none",
)


def hand_in(klass):
    """The class: a student's name says what is odd about the submission."""
    for student in ("honest", FORMULA, ESCAPE):
        klass.submit(student, RIGHT)
    klass.submit("a\nline", RIGHT)
    klass.submit("[ok]", RIGHT)
    klass.submit("wrong", WRONG)
    klass.submit("untouched")
    beside(klass, "honest", {"timestamp.txt": TIME, "submission_secret.txt": SECRET, "data.csv": SECRET})

    klass.submit("links", RIGHT)
    folder = klass.submitted / "links" / TINY
    (folder / "seed.txt").symlink_to(klass.layout.course / "seed")
    (folder / "other.txt").symlink_to("../../honest/00_tiny/submission_secret.txt")
    (folder / "all").symlink_to(klass.layout.course, target_is_directory=True)
    os.mkfifo(folder / "pipe.txt")
    (klass.submitted / "linked_lesson").mkdir()
    (klass.submitted / "linked_lesson" / TINY).symlink_to(f"../honest/{TINY}", target_is_directory=True)

    (klass.submitted / "linked_student").symlink_to("honest", target_is_directory=True)
    (klass.submitted / "alone.ipynb").write_text("{}", encoding="utf-8")

    def links_to_pages(notebook):
        for one in notebook.cells:
            if one.cell_type == "markdown":
                one.source += "\n\n".join(f"\n\n[link]({name}) ![image]({name})" for name in ACTIVE)

    klass.submit("pages", RIGHT, links_to_pages)
    beside(klass, "pages", {**BESIDE, **dict.fromkeys(ACTIVE, "<script>hostile()</script>")})

    for student, words in {"words": "tomorrow", "digits": "9" * 40, "year_1": "0001-01-01 00:00:00 UTC"}.items():
        klass.submit(student, RIGHT)
        beside(klass, student, {"timestamp.txt": words})
    klass.submit("folder", RIGHT)
    (klass.submitted / "folder" / TINY / "timestamp.txt").mkdir()
    klass.submit("timely", RIGHT)
    beside(klass, "timely", {"timestamp.txt": TIME})

    klass.submit("backdated", RIGHT)
    beside(klass, "backdated", {"timestamp.txt": TIME})

    klass.submit("helped", HELPED)
    beside(klass, "helped", HELPER)
    renamed = klass.submit("renamed", HELPED)
    beside(klass, "renamed", HELPER)
    renamed.rename(renamed.with_name("my homework, final.ipynb"))
    deeper = klass.submit("deeper", WRONG)
    deeper.parent.joinpath("homework").mkdir()
    deeper.rename(deeper.parent / "homework" / "x.ipynb")
    zipped = klass.submit("zipped", RIGHT)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"homework/{TINY}.ipynb", zipped.read_bytes())
    zipped.unlink()
    zipped.with_name("homework.zip").write_bytes(data.getvalue())
    twice = klass.submit("two_names", RIGHT)
    shutil.copy(twice, twice.with_name("one.ipynb"))
    twice.rename(twice.with_name("two.ipynb"))
    klass.submit("empty", RIGHT).unlink()
    klass.submit("broken").write_text("{", encoding="utf-8")


def received(klass):
    """A table of when a learning platform has received what some students handed in."""
    path = klass.layout.course / "received.csv"
    path.write_text(f"student_id,assignment,timestamp\nbackdated,{TINY},{RECEIVED}\nelsewhere,{TINY},{RECEIVED}\n")
    return path


def beside(klass, student, files):
    for name, text in files.items():
        path = klass.submitted / student / TINY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def ways(prepared, tmp_path_factory):
    """The class graded both ways, each in a course of its own with the same seed."""
    layers, found = probe(), {}
    for way in ("nbgrader", "grade"):
        folder = tmp_path_factory.mktemp(way)
        shutil.copytree(prepared.course, folder / "course")
        klass = Class(dataclasses.replace(prepared, course=folder / "course"))
        (klass.layout.course / "seed").write_text("7\n", encoding="ascii")
        hand_in(klass)
        found[way] = klass
    record_all_received(found["nbgrader"].course.directory, received(found["nbgrader"]), [TINY])
    log = nbgrader("autograde", TINY, course=found["nbgrader"].layout.course, check=False).stderr
    nbgrader("generate_feedback", TINY, course=found["nbgrader"].layout.course)
    graded = grade(
        found["grade"].layout, found["grade"].submitted, (TINY,), How(layers=layers, received=received(found["grade"]))
    )
    assert course_seed(found["grade"].layout.course) == 7
    return SimpleNamespace(**found, log=log, graded={one.student: one for one in graded})


def rows(klass):
    """What the gradebook and the export hold of each student."""
    found = {}
    with klass.course.gradebook() as book:
        for student in sorted(path.name for path in klass.submitted.iterdir() if path.is_dir()):
            status = status_of(book, klass.course.directory, TINY, student)
            if status.kind != "graded":
                found[student] = str(status)
                continue
            submission = book.find_submission(TINY, student)
            notebook = book.find_submission_notebook(TINY, TINY, student)
            cells = {g.name: (g.auto_score, g.manual_score, g.needs_manual_grade) for g in notebook.grades}
            comments = {c.name: c.auto_comment for c in notebook.comments}
            found[student] = (cells, comments, notebook.late_submission_penalty, submission.timestamp)
    return found


def test_both_ways_enter_the_same_rows(ways):
    one, other = rows(ways.nbgrader), rows(ways.grade)
    assert one == other
    assert one.pop("linked_student").startswith("not graded")
    assert one["helped"][0] == one["renamed"][0] == one["honest"][0]
    graded = {student for student, row in one.items() if not isinstance(row, str)}
    assert {"renamed", "deeper", "zipped", "words", "digits", "year_1", "folder", "links", "pages"} <= graded
    assert {"a\nline", "linked_lesson", "two_names", "empty", "broken"} == set(one) - graded


def test_both_ways_fill_the_same_tables(ways):
    one, other = tables(ways.nbgrader), tables(ways.grade)
    assert len(one["grade"]) >= 2 * 16
    for name, found in one.items():
        assert found == other[name], name


def test_the_time_of_receipt_counts_and_the_table_says_so(ways):
    for klass in (ways.nbgrader, ways.grade):
        times = {student: row[-1] for student, row in rows(klass).items() if not isinstance(row, str)}
        assert times["backdated"] == datetime(2026, 1, 9, 9)
        assert times["timely"] == datetime(2026, 1, 2, 3, 4, 5)
    remark = "timestamp.txt says 2026-01-02 03:04, but it was received at 2026-01-09 09:00, which counts"
    assert f"backdated, {TINY}: {remark}" in ways.log
    assert ways.graded["backdated"].remarks == (remark,)
    terminal = Terminal(file=io.StringIO(), width=200)
    for table in grading_tables([ways.graded["backdated"]], {}):
        terminal.print(table)
    assert remark in terminal.file.getvalue()


def test_both_ways_name_what_is_no_submission(ways):
    assert ways.graded["linked_student"].problem == "not graded: it is a link, and no folder of its own"
    assert ways.graded["alone.ipynb"].problem.startswith("not graded: it is no student's folder")
    assert "Logging error" not in ways.log
    assert "linked_student: not graded: it is a link, and no folder of its own" in ways.log
    assert "alone.ipynb: not graded: it is no student's folder" in ways.log
    assert ways.graded["a\\nline"].problem.endswith("has a line break")
    assert "has a line break" in ways.log


def test_both_ways_write_the_same_notebooks(ways):
    def notebooks(klass):
        paths = klass.layout.course.glob(f"autograded/*/{TINY}/{TINY}.ipynb")
        return {path.parts[-3]: read_notebook(path) for path in paths}

    one, other = notebooks(ways.nbgrader), notebooks(ways.grade)
    assert set(one) == set(other)
    for student, notebook in one.items():
        assert [c.source for c in notebook.cells] == [c.source for c in other[student].cells], student
        assert [c.get("outputs") for c in notebook.cells] == [c.get("outputs") for c in other[student].cells], student
        assert notebook == other[student], student


def test_no_link_is_followed_to_where_others_see_it(ways):
    seed = "7\n"
    for klass in (ways.nbgrader, ways.grade):
        for path in (*klass.layout.course.glob("autograded/**/*"), *klass.layout.course.glob("feedback/**/*")):
            assert not path.is_symlink()
            if path.is_file() and "honest" not in path.parts:
                text = path.read_bytes().decode(errors="replace")
                assert text != seed, path
                assert SECRET not in text, path
    assert ways.graded["linked_lesson"].problem == "not graded: the folder is a link, and no folder of its own"


def test_only_listed_files_lie_where_the_formgrader_serves_them(ways):
    for klass in (ways.nbgrader, ways.grade):
        folder = klass.layout.course / "autograded" / "pages" / TINY
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert found == {*BESIDE, f"{TINY}.ipynb"}
    feedback = ways.nbgrader.layout.course / "feedback" / "pages" / TINY
    assert {str(p.relative_to(feedback)) for p in feedback.rglob("*") if p.is_file()} == {*BESIDE, f"{TINY}.html"}
    page = (feedback / f"{TINY}.html").read_text(encoding="utf-8")
    assert 'href="page.html"' not in page  # a student's page is no place to send anybody to
    for name in ACTIVE:
        assert f'href="{name}"' not in page
        assert f'src="{name}"' not in page


def test_a_folder_whose_name_could_be_a_pattern_gets_its_feedback(ways):
    assert (ways.nbgrader.layout.course / "feedback" / "[ok]" / TINY / f"{TINY}.html").is_file()


def test_the_files_that_a_release_of_feedback_reads_are_there(ways):
    for path in ways.nbgrader.layout.course.glob(f"feedback/honest/{TINY}"):
        assert (path / "submission_secret.txt").read_text(encoding="utf-8") == SECRET
        assert (path / "timestamp.txt").read_text(encoding="utf-8").startswith("2026-01-02 03:04:05")
    assert (ways.grade.layout.course / "autograded" / "honest" / TINY / "submission_secret.txt").is_file()


def test_a_name_is_exported_as_text_and_a_score_as_a_number(ways):
    target = ways.nbgrader.layout.course / "grades.csv"
    nbgrader("export", "--to", str(target), course=ways.nbgrader.layout.course)
    text = target.read_text(encoding="utf-8")
    assert "\x1b" not in text
    with target.open(newline="", encoding="utf-8") as file:
        found = {row["student_id"]: row for row in csv.DictReader(file)}
    assert {f"'{FORMULA}", r"\x1b[2J[bold]esc"} <= set(found)
    assert found[f"'{FORMULA}"]["score"] == found["honest"]["score"] == found["honest"]["max_score"]
    assert found["linked_lesson"]["status"] == "not graded: the folder is a link, and no folder of its own"
    assert found["renamed"]["status"] == "graded"
