"""A lesson goes on, and its assertions hold, whichever right answers a learner wrote, in it and in earlier lessons."""

import ast

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.building.run_lesson import run_lesson
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.showing.errors import CourseError

OTHERS = """
import attnlib.checks
from attnlib.checks.course.right import right_answers

def _other_answer(name, own):
    answers = right_answers(name)
    return answers[{number} % len(answers)] if answers else own

def _other_or_ours(name, written, *, called=None, chosen=attnlib.checks.yours_or_ours, **more):
    called = called or name
    answer = written[called] if called in written else _other_answer(name, None)
    used = chosen(name, {{called: answer}}, called=called, **more)
    assert used is answer or "asked" in more, "a right answer isn't used"
    return used

attnlib.checks.yours_or_ours = _other_or_ours
"""


def with_other_answers(lesson: str, number: int):
    """The lesson, in which each check only puts another right answer in the place of the solution above it."""
    notebook = read_lesson(Layout().text(lesson))
    for cell in notebook.cells:
        if cell.id.startswith("test_"):
            name, own = (ast.unparse(part) for part in ast.parse(cell.source).body[-1].value.args)
            cell.source = f"{own} = _other_answer({name}, {own})"
            cell.metadata.pop("nbgrader", None)  # a check without points has none
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = OTHERS.format(number=number) + first.source
    return notebook


@pytest.mark.again
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("lesson", Layout().own_lessons())
def test_a_lesson_goes_on_with_other_right_answers(lesson, number):
    done = run_lesson(with_other_answers(lesson, number), lesson, Layout().solutions)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    assert any(" = _other_answer(" in cell.source for cell in code)
    assert all(cell.execution_count for cell in code)  # to the end, and nothing raised


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"), [("raise KeyError('gone')", "KeyError: 'gone'"), ("assert 2 < 1", "AssertionError: assert 2 < 1")]
)
def test_what_a_lesson_stops_at_is_said(line, said, tmp_path):
    notebook = new_notebook(cells=[new_code_cell(f"x = 1\n{line}", id="the-cell")])
    with pytest.raises(CourseError) as caught:
        run_lesson(notebook, "20_lesson", tmp_path)
    assert str(caught.value) == f"20_lesson, cell the-cell: it raises {said}."
