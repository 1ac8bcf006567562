"""Run parts of a lesson outside of its notebook: the statements that bind some names, and what these need."""

import ast
from collections.abc import Collection
from pathlib import Path
from typing import Any

from attnlib.checks.standing.own_source import bound, used
from autograder.lesson_text.lesson import read_lesson


def statements_that_bind(names: Collection[str], source: str, given: Collection[str] = ()) -> str:
    r"""Return the statements that bind `names` and all that they use, in order, without those for what is `given`.

    >>> statements_that_bind(["b"], "import math, sys\na = 4\nprint(a)\nb = math.sqrt(a)")
    'import math, sys\na = 4\nb = math.sqrt(a)'
    """
    needed, found = set(names) - set(given), []
    for statement in reversed(ast.parse(source).body):
        binds = set(bound(statement))
        if binds & needed:
            text = ast.unparse(statement)
            found.append(text)
            needed = (needed - binds) | (set(used(text)) - set(given))
    return "\n".join(reversed(found))


def run_parts(lesson: Path, names: Collection[str], given: dict[str, Any]) -> dict[str, Any]:
    """Run the lesson's statements that bind `names`, and return the resulting names; `given` replaces its own."""
    cells = [cell.source for cell in read_lesson(lesson).cells if cell.cell_type == "code"]
    written = {"__name__": lesson.stem, **given}
    exec(compile(statements_that_bind(names, "\n".join(cells), given), lesson.name, "exec"), written)
    return written
