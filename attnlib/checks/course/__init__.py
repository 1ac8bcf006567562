"""All exercises of the course, in the order in which a student meets them; a lesson is imported when it is needed."""

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path

from attnlib.checks.course import places
from attnlib.checks.exercise import Exercise

OTHERS, FAULTS = places.find(Path(__file__).parent)
"""The packages with other authors' lessons, and why some can't be loaded."""
__path__ += [str(package) for package in OTHERS]


def _lessons() -> list[str]:
    return sorted({m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("lesson_")})


def module_of(lesson: str) -> str:
    """The module that holds the exercises of a lesson such as `lesson_07`."""
    written = any(Path(place, lesson, "exercises.py").exists() for place in __path__)
    return f"{__name__}.{lesson}.exercises" if written else f"{__name__}.{lesson}"


@functools.cache
def _exercises_of(lesson: str) -> Sequence[Exercise]:
    try:
        found: Sequence[Exercise] = importlib.import_module(module_of(lesson)).EXERCISES
    except Exception as error:
        if not any(Path(package, lesson).is_dir() for package in OTHERS):
            raise
        raise places.BadCourse(f"{lesson} of others cannot be read: {type(error).__name__}: {error}") from error
    return found


def exercises() -> dict[str, Exercise]:
    """Every exercise by its name, in course order.

    >>> list(exercises())[0]
    'predict_largest_dot'
    """
    if FAULTS:
        raise places.BadCourse(" ".join(FAULTS))
    found: dict[str, Exercise] = {}
    for exercise in (exercise for lesson in _lessons() for exercise in _exercises_of(lesson)):
        if exercise.name in found:
            lessons = f"one of {found[exercise.name].lesson}, one of {exercise.lesson}"
            raise places.BadCourse(f"two exercises are called {exercise.name!r}: {lessons}")
        found[exercise.name] = exercise
    return found


def find(name: str) -> Exercise:
    """The exercise of that name; a ValueError that lists the nearest names if there is none."""
    if isinstance(name, str) and (exercise := called(name)) is not None:
        return exercise
    near = difflib.get_close_matches(str(name), exercises(), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(exercises())}"
    raise ValueError(f"no exercise is called {name!r:.60}; {hint}")


@functools.cache
def called(name: str) -> Exercise | None:
    """Return the exercise of that name, or None, without importing every lesson, which takes half a second."""
    for lesson in sorted(_lessons(), key=lambda lesson: not _is_written_in(lesson, name)):
        for exercise in _exercises_of(lesson):
            if exercise.name == name:
                return exercise
    return None


def _is_written_in(lesson: str, name: str) -> bool:
    files = [
        file for folder in map(Path, __path__) for file in (folder / f"{lesson}.py", *folder.glob(f"{lesson}/*.py"))
    ]
    return any(f'"{name}"' in file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


def lesson_called(name: str) -> str:
    """Return the name if there is such a lesson; else a ValueError lists near names, or all."""
    lessons = list(dict.fromkeys(exercise.lesson for exercise in exercises().values()))
    if name in lessons:
        return name
    near = difflib.get_close_matches(str(name), lessons, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(lessons)}"
    raise ValueError(f"no lesson is called {name!r:.60}; {hint}")
