"""Show a mistake as a program: the right answer to an exercise with the wrong line of a slip in it."""

import difflib
from collections.abc import Iterator, Sequence

from attnlib.checks import exercises
from attnlib.checks.course import find
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.practising.programs import wrong_lines
from autograder.showing.errors import CourseError


def wrong_programs(id: str, names: Sequence[str] = ()) -> list[str]:
    """Return the report and the program for each exercise that has the slip, of all or of those named.

    Raises CourseError if there is none.
    """
    asked = [find(name) for name in names] if names else list(exercises().values())
    found = [text for exercise in asked if isinstance(exercise, WrittenExercise) for text in _shown(exercise, id)]
    if not found:
        known = {one for exercise in asked if isinstance(exercise, WrittenExercise) for one in exercise.programs}
        near = difflib.get_close_matches(id, known, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise CourseError(f"no wrong line is called {id!r}{' in ' + ', '.join(names) if names else ''}{hint}")
    return found


def _shown(exercise: WrittenExercise, id: str) -> Iterator[str]:
    if id not in exercise.programs:
        return
    [told] = [misconception for misconception in exercise.misconceptions if misconception.id == id]
    program = exercise.programs[id].split("\n")
    wrong = wrong_lines(exercise.right, exercise.programs[id])
    rows = [f"{'>' if number in wrong else ' '} {line}".rstrip() for number, line in enumerate(program, 1)]
    yield "\n".join([f"{exercise.name}: {told.title}", "", *rows])
