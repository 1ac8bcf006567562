"""Find lessons besides the course's own: they live in packages by other authors, and need no fork.

A package has folders such as `lesson_20`, written as the course's own are, and perhaps `right` with its bank of right
answers. It is found by an entry point of the group `attnlib.course` that names the package, or in a folder that
`ATTNLIB_COURSE_PATH` names; the lessons' texts are in `solutions`, beside it.
"""

import os
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

GROUP, VARIABLE = "attnlib.course", "ATTNLIB_COURSE_PATH"
LESSONS = "lesson_[0-9][0-9]"


class BadCourse(ValueError):
    """Raised for other authors' lessons that can't be loaded; says whose, what is required, and what was found."""


def find(own: Path) -> tuple[list[Path], list[str]]:
    """Return other authors' packages, and a sentence for each that can't be loaded; `own` is the course's folder."""
    found: list[Path] = []
    faults: list[str] = []
    wanted = [(f"{VARIABLE}={name}", name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    for said, look, name in [
        *((said, _in_folder, name) for said, name in wanted),
        *((f"the entry point {point.name} = {point.value}", _called, point.value) for point in _points()),
    ]:
        try:
            package = look(name)
            for other in (place for place in (own, *found) if place != package):
                if both := _lessons(package) & _lessons(other):
                    raise BadCourse(f"{', '.join(sorted(both))} is in {other}, too: a lesson needs a number of its own")
        except Exception as error:  # a package may do anything while it is looked up
            faults.append(f"{said}: {error if isinstance(error, BadCourse) else f'{type(error).__name__}: {error}'}.")
            continue
        if package not in found:
            found.append(package)
    return found, faults


def _points() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def _lessons(package: Path) -> set[str]:
    return {path.name for path in package.glob(LESSONS) if path.is_dir()}


def _in_folder(name: str) -> Path:
    """Return the one package with lessons in a folder."""
    folder = Path(name).resolve()
    if not folder.is_dir():
        raise BadCourse("there is no such folder")
    found = sorted(path for path in folder.iterdir() if path.is_dir() and any(path.glob(f"{LESSONS}/exercises.py")))
    if len(found) != 1:
        told = ", ".join(path.name for path in found) or "none"
        raise BadCourse(f"it needs one package with lessons, such as my_course/lesson_20/exercises.py, found {told}")
    return found[0]


def _called(name: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise BadCourse(f"there is no package {name}")
    package = Path(spec.submodule_search_locations[0]).resolve()
    if not _lessons(package):
        raise BadCourse(f"{package} has no lesson, such as lesson_20")
    return package
