"""The notebooks of an assignment of bugs: a student's own, with and without answers, and nbgrader's, without bugs."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attnlib.checks.practising.assigned import LINE, POINTS, REASON
from attnlib.checks.practising.bug import numbered
from attnlib.checks.practising.records import record
from attnlib.checks.practising.table import Row
from autograder.lesson_text.assignment import DEALT, Assignment
from autograder.lesson_text.lesson import FOLDED, KERNEL, LANGUAGE

INTRODUCTION = """# Find the bug: lesson {lesson}, for {student}

Each program below is a right answer to an exercise of lesson {lesson}, with one wrong line. Above it is what it must
do, and what is seen when it's called. Find the line, and say which of the explanations is true of it.

The line is worth {line} points, the explanation {reason}. Below each program is the same code in a folded cell, to run
and to change as you like: only your two answers are graded. Your neighbours' bugs are different, or at least their
letters."""
GENERIC = """# {assignment}: each student has a different notebook

This one has no bugs in it: nbgrader's gradebook needs it, and nobody should get it. The students' own are in
`individual/release/STUDENT/{assignment}/`."""
BUG = """## Bug {number}: `{exercise}`

**What it must do.** {contract}

**What you see.**

```
{symptom}
```

**The code.**

```
{code}
```

**What is true of it?**

{options}"""
ANSWER = """### BEGIN SOLUTION
{right}
### BEGIN STUB
# line_{number} = None  # the number of the wrong line
# reason_{number} = None  # "A", "B", "C" or "D"
### END SOLUTION"""


@functools.cache
def told(row: Row) -> Mapping[str, Any]:
    """Describe a bug in full, with the change that repairs it."""
    return record(row) | {"title": row.bug.title, "diff": row.bug.diff()}


def own_source(assignment: str, student: str, bugs: Sequence[Mapping[str, Any]]) -> NotebookNode:
    """Return a student's notebook with the right answers, and what the grader needs to know of its bugs."""
    lesson = assignment.rpartition("_")[2]
    introduction = INTRODUCTION.format(lesson=lesson, student=f"`{student}`", line=POINTS[LINE], reason=POINTS[REASON])
    cells = [new_markdown_cell(introduction), *_first_cell()]
    for number, bug in enumerate(bugs, 1):
        cells += [_text(number, bug), _code(bug), *_questions(number, bug["lines"][0], bug["letter"])]
    return _notebook(cells, {DEALT: [dict(bug) for bug in bugs]})


def generic_source(assignment: str, count: int) -> NotebookNode:
    """Return the part that all students' notebooks share: the cells that are answered, and those that are graded."""
    cells = [new_markdown_cell(GENERIC.format(assignment=assignment)), *_first_cell()]
    cells += [cell for number in range(1, count + 1) for cell in _questions(number, None, None)]
    return _notebook(cells, {})


def own_release(assignment: str, source: NotebookNode) -> NotebookNode:
    """Return the student's own release: no answer, and nothing that the grader knows."""
    released = Assignment(assignment, source).released
    cells = []
    for cell in source.cells:
        was = released.get(cell.id)
        own = {"nbgrader": was.metadata()} if was is not None else dict(cell.metadata)
        cells.append(NotebookNode({**cell, "source": cell.source if was is None else was.source, "metadata": own}))
    return _notebook(cells, {})


def _notebook(cells: Sequence[NotebookNode], more: Mapping[str, Any]) -> NotebookNode:
    """The cells as a notebook, the same bytes each time."""
    for number, cell in enumerate(cells):
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id", f"cell-{number}")
    metadata = {"kernelspec": dict(KERNEL), "language_info": dict(LANGUAGE), **more}
    found: NotebookNode = new_notebook(cells=list(cells), metadata=metadata)
    found.nbformat_minor = 5
    return found


def _first_cell() -> Iterator[NotebookNode]:
    yield new_code_cell("from attnlib.checks.practising.assigned import check")


def _text(number: int, bug: Mapping[str, Any]) -> NotebookNode:
    options = "\n".join(f"- {letter}. {title}" for letter, title in bug["options"].items())
    shown = {"code": numbered(bug["code"]), "options": options}
    cell: NotebookNode = new_markdown_cell(BUG.format(number=number, **{**bug, **shown}))
    return cell


def _code(bug: Mapping[str, Any]) -> NotebookNode:
    cell: NotebookNode = new_code_cell(bug["code"], metadata=NotebookNode(FOLDED))
    return cell


def _questions(number: int, line: int | None, letter: str | None) -> Iterator[NotebookNode]:
    """The cell with both answers, and the two that are graded."""
    right = f"line_{number} = {line!r}\nreason_{number} = {letter!r}".replace("'", '"')
    yield _graded(f"bug_{number}", ANSWER.format(right=right, number=number), 0)
    for kind, points in POINTS.items():
        answer = f"bug_{number}_{kind}"
        yield _graded(f"test_{answer}", f'check("{answer}", str({kind}_{number}))', points)


def _graded(name: str, source: str, points: int) -> NotebookNode:
    own = {"schema_version": 3, "grade_id": name, "solution": not points, "grade": bool(points)}
    own |= {"locked": bool(points), "task": False, **({"points": points} if points else {})}
    cell: NotebookNode = new_code_cell(source, metadata={"nbgrader": own})
    return cell
