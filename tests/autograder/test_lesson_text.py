"""A lesson's text: a notebook that saving leaves as it is, from which the build makes exercises."""

import re

import jupytext
import nbformat
import pytest
from tiny_course import RIGHT, TINY, cell

from attnlib.checks import exercises
from autograder.building.build_course import changed_by_saving
from autograder.lesson_text.figures import as_image
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import FOLDED, SHOWS_A_PICTURE, read_lesson
from autograder.lesson_text.notebook import read_notebook, to_text
from autograder.lesson_text.round_trip import changed_by_jupyterlab
from autograder.showing.errors import CourseError


@pytest.mark.parametrize("lesson", Layout().lessons())
def test_saving_a_lesson_in_jupyterlab_leaves_it_as_it_was(lesson):
    assert not changed_by_jupyterlab(Layout().solutions / f"{lesson}.py")


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("01_metadata.py", 'cell_metadata_filter = "tags,-all"', '# %% nbgrader={"grade": true}\nx = 1\n'),
        ("02_paired.py", 'formats = "ipynb,py:percent"', "# %%\nx = 1\n"),
    ],
)
def test_a_lesson_that_saving_would_change_is_named(layout, name, settings, text):
    (layout.solutions / "jupytext.toml").write_text(settings, encoding="utf-8")
    (layout.solutions / name).write_text(text, encoding="utf-8")
    changed = changed_by_saving(layout, (name.removesuffix(".py"),))
    assert changed == [f"{layout.solutions / name} is not as JupyterLab saves it"]


def test_a_lesson_that_is_not_in_utf_8_is_named(layout):
    layout.text(TINY).write_bytes("# %% [markdown]\n# # Übung".encode("cp1252"))
    with pytest.raises(CourseError, match=r"00_tiny\.py is not in UTF-8: invalid continuation byte at byte 20\."):
        read_lesson(layout.text(TINY))


def test_the_source_is_nothing_but_the_text(source):
    assert set(source.metadata) == {"kernelspec", "language_info"}
    assert all(set(c.metadata) <= {"nbgrader", "tags"} for c in source.cells)  # and no picture to fold
    nbformat.validate(source)
    assert to_text(source) == to_text(nbformat.reads(to_text(source), as_version=4))


def test_a_check_makes_its_answer_and_itself_an_exercise(source):
    points = exercises()["pairwise_dot"].points
    answer, test = cell(source, "pairwise_dot"), cell(source, "test_pairwise_dot")
    same = {"schema_version": 3, "task": False}
    assert answer.metadata.nbgrader == same | {
        "grade_id": "pairwise_dot", "grade": False, "solution": True, "locked": False
    }  # fmt: skip
    assert test.metadata.nbgrader == same | {
        "grade_id": "test_pairwise_dot", "grade": True, "solution": False, "locked": True, "points": points
    }  # fmt: skip
    assert test.source.split("\n") == [
        "### BEGIN HIDDEN TESTS",
        "from attnlib.checks import grade as check",
        "",
        "### END HIDDEN TESTS",
        'check("pairwise_dot", pairwise_dot)',
    ]


def test_points_in_the_text_are_those_of_the_declaration(source):
    one, several = (cell(source, name) for name in RIGHT)
    told = source.cells[source.cells.index(one) - 1].source, source.cells[source.cells.index(several) - 1].source
    assert exercises()["predict_largest_dot"].points == 1
    assert told[0] == "### Predict (1 point)"
    exercise = exercises()["pairwise_dot"]
    parts = ", ".join(f"{part} {points}" for part, points in exercise.parts.items())
    assert told[1] == f"### Exercise ({exercise.points} points)\n\n{parts}"


def test_no_lesson_says_points_by_itself():
    for lesson in Layout().lessons():
        text = (Layout().solutions / f"{lesson}.py").read_text(encoding="utf-8")
        headings = re.findall(r"^# ### .*\(\{points\}(?:, difficulty [1-5])?, \d+ minutes\)$", text, re.MULTILINE)
        assert len(headings) == len([exercise for exercise in exercises().values() if exercise.lesson == lesson])
        assert not re.search(r"\b(\d+|one|two|three|four|five) points? (is|are )?(for|each)\b", text, re.IGNORECASE)


def test_every_picture_is_marked_for_nbval_and_the_text_marks_none():
    drawn = 0
    for lesson in Layout().lessons():
        for code in read_notebook(Layout().solutions / f"{lesson}.ipynb").cells:
            if any(
                {"image/png", "image/gif"} & as_image(out).get("data", {}).keys() for out in code.get("outputs", [])
            ):
                drawn += 1
                assert "nbval-ignore-output" in code.metadata.tags, (lesson, code.id)
        for code in jupytext.read(Layout().solutions / f"{lesson}.py").cells:
            if SHOWS_A_PICTURE.search(code.source):
                assert "nbval-ignore-output" not in code.metadata.get("tags", []), code.source
    assert drawn > 40


def test_why_an_output_is_not_compared_stands_in_the_text_alone(tmp_path):
    text = "# %%\n# nbval-ignore-output: times differ\nprint(1)\n\n# %%\nprint(2)  # nbval-ignore-output: no\n"
    (tmp_path / "00_a.py").write_text(text, encoding="utf-8")
    marked, other = read_lesson(tmp_path / "00_a.py").cells
    assert (marked.source, marked.metadata.tags) == ("print(1)", ["nbval-ignore-output"])
    assert "tags" not in other.metadata


@pytest.mark.parametrize(
    ("source", "folded"),
    [
        ("ax.plot([1])\nplt.show()", True),
        ('show("a line")', True),
        ('film(draw, frames, "a line")', True),
        ("drawn = hover_links(weights)\ndrawn", True),
        ("def show_all():\n    plt.show()", False),
        ("print(weights)", False),
    ],
)
def test_cells_that_show_a_picture_are_folded(tmp_path, source, folded):
    (tmp_path / "00_a.py").write_text(f"# %%\n{source}\n", encoding="utf-8")
    (cell_,) = read_lesson(tmp_path / "00_a.py").cells
    assert (
        (cell_.metadata.items() >= FOLDED.items())
        == folded
        == ("nbval-ignore-output" in cell_.metadata.get("tags", []))
    )
    (tmp_path / "00_a.py").write_text(f'# %% tags=["unfolded"]\n{source}\n', encoding="utf-8")
    assert "jupyter" not in read_lesson(tmp_path / "00_a.py").cells[0].metadata


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('check("pairwise_dot"', 'check("predict_largest_dot"', "two cells check 'predict_largest_dot'"),
        (
            'check("pairwise_dot"',
            'check("paarwise_dot"',
            "attnlib.checks has no exercise 'paarwise_dot'",
        ),
        ('check("predict_largest_dot", largest_dot)', "", r"cell cell-3: the solution has no check below it"),
        ('check("pairwise_dot", pairwise_dot)', "", r"cell cell-6: the solution has no check below it"),
        (
            "### BEGIN SOLUTION\nlargest_dot",
            "largest_dot",
            r"cell-4: check\(.*, …\) has no solution",
        ),
        ("# %%\n### BEGIN", '# %% nbgrader={"grade": false}\n### BEGIN', "cell-3: nbgrader's metadata is made by the"),
        (
            "# %% tags",
            "# %% [markdown]\n# {points}\n\n# %% tags",
            "and {parts} stand above the check that",
        ),
    ],
)
def test_an_exercise_that_is_not_whole_is_named(layout, old, new, message):
    text = layout.solutions / f"{TINY}.py"
    assert old in text.read_text()
    text.write_text(text.read_text().replace(old, new), encoding="utf-8")
    with pytest.raises(CourseError, match=message):
        read_lesson(text)
