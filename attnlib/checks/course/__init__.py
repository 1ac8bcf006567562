"""All exercises of the course, in the order in which a student meets them; a lesson is imported when it is needed."""

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path

from attnlib.checks.exercise import Exercise


def _lessons() -> list[str]:
    return sorted({m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("lesson_")})


def module_of(lesson: str) -> str:
    """The module that holds the exercises of a lesson such as `lesson_07`."""
    written = any(Path(place, lesson, "exercises.py").exists() for place in __path__)
    return f"{__name__}.{lesson}.exercises" if written else f"{__name__}.{lesson}"


@functools.cache
def _exercises_of(lesson: str) -> Sequence[Exercise]:
    found: Sequence[Exercise] = importlib.import_module(module_of(lesson)).EXERCISES
    return found


def exercises() -> dict[str, Exercise]:
    """Every exercise by its name, in course order.

    >>> list(exercises())[0]
    'predict_largest_dot'
    """
    found: dict[str, Exercise] = {}
    for exercise in (exercise for lesson in _lessons() for exercise in _exercises_of(lesson)):
        if exercise.name in found:
            raise ValueError(f"two exercises are called {exercise.name!r}")
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
    """The exercise of that name, or None; not all lessons are imported for it, which takes half a second."""
    for lesson in sorted(_lessons(), key=lambda lesson: not _is_written_in(lesson, name)):
        for exercise in _exercises_of(lesson):
            if exercise.name == name:
                return exercise
    return None


def _is_written_in(lesson: str, name: str) -> bool:
    files = [
        file for folder in map(Path, __path__) for file in (folder / f"{lesson}.py", *folder.glob(f"{lesson}/*.py"))
    ]
    return any(f'"{name}"' in file.read_text(encoding="utf-8") for file in files if file.is_file())


def lesson_called(name: str) -> str:
    """The name itself, if there is such a lesson; else a ValueError that says which is near, or which there are."""
    lessons = list(dict.fromkeys(exercise.lesson for exercise in exercises().values()))
    if name in lessons:
        return name
    near = difflib.get_close_matches(str(name), lessons, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(lessons)}"
    raise ValueError(f"no lesson is called {name!r:.60}; {hint}")
