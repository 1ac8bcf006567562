"""A class is graded, reported and given bugs in a lesson of another repository, as in the course's own."""

import json

import pytest
from test_lessons_of_others import python, small  # noqa: F401

LESSON = "20_my_topic"
HAND_IN = """
import sys
from pathlib import Path
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import write_notebook

for student, answer in {"ada": "return x.mean(dim=1)", "bob": "return x.sum(dim=1)"}.items():
    notebook = read_lesson(Layout().text("20_my_topic"))
    for cell in notebook.cells:
        cell.source = cell.source.replace("return x.mean(dim=1)", answer)
    write_notebook(notebook, Path(sys.argv[1], student, "20_my_topic", "20_my_topic.ipynb"))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_grade_report_and_practice_take_a_lesson_of_others(small, tmp_path):  # noqa: F811
    where, submitted = ["--course", str(tmp_path / "graded")], str(tmp_path / "class")
    roster = tmp_path / "roster.csv"
    roster.write_text("id\nada\nbob\n", encoding="utf-8")

    def autograder(*command: str) -> str:
        return python("-m", "autograder", *command, course=small).stdout

    python("-c", HAND_IN, submitted, course=small)
    graded = autograder("grade", submitted, *where)
    assert "A sum, not a mean" in graded
    autograder("report", LESSON, *where, "--csv", str(tmp_path / "class.csv"))
    assert f"{LESSON},my_topic,misconception,summed," in (tmp_path / "class.csv").read_text(encoding="utf-8")
    autograder("bugs", "my_topic")
    autograder("practice", "--lesson", "20", "--students", str(roster), "--bugs", "1", *where)
    release = tmp_path / "graded" / "individual" / "release"
    (ada, bob) = (
        (release / s / "practice_20" / "practice_20.ipynb").read_text(encoding="utf-8") for s in ("ada", "bob")
    )
    assert json.loads(ada)["cells"] != json.loads(bob)["cells"]
