"""All exercises of the course, in the order in which a student meets them."""

import difflib
import functools
import importlib
import pkgutil

from attnlib.checks.exercise import Exercise


@functools.cache
def _all() -> dict[str, Exercise]:
    found: dict[str, Exercise] = {}
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("lesson_"))
    for module in modules:
        for exercise in importlib.import_module(f"{__name__}.{module}").EXERCISES:
            if exercise.name in found:
                raise ValueError(f"two exercises are called {exercise.name!r}")
            found[exercise.name] = exercise
    return found


def exercises() -> dict[str, Exercise]:
    """Every exercise by its name, in course order.

    >>> list(exercises())[0]
    'predict_largest_dot'
    """
    return dict(_all())


def find(name: str) -> Exercise:
    """The exercise of that name; a ValueError that lists the nearest names if there is none."""
    if isinstance(name, str) and name in _all():
        return _all()[name]
    near = difflib.get_close_matches(str(name), _all(), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(_all())}"
    raise ValueError(f"no exercise is called {name!r:.60}; {hint}")
