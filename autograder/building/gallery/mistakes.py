"""The mistakes that have a page: each slip that a check names, with every exercise in which it occurs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attnlib.checks import Exercise, Misconception
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.verdict.gallery import gives_away


@dataclass(frozen=True)
class Place:
    """A mistake in one exercise: its text, and its program, unless no single line is wrong."""

    exercise: Exercise
    told: Misconception
    right: str = ""
    program: str = ""
    others: tuple[str, ...] = ()
    """Programs with the same report: other spellings, and slips that no case tells from this one."""


@dataclass(frozen=True)
class Mistake:
    """A misconception with all its places, in course order."""

    id: str
    places: tuple[Place, ...]

    @property
    def title(self) -> str:
        """The title that checks give it, the same in every exercise."""
        return self.places[0].told.title

    @property
    def threads(self) -> list[str]:
        """Published discussions of somebody who made it."""
        return [*dict.fromkeys(place.told.thread for place in self.places if place.told.thread)]


def mistakes(asked: Iterable[Exercise]) -> list[Mistake]:
    """All mistakes with a name in these exercises; pairs are listed under the names of both."""
    found: dict[str, list[Place]] = {}
    for exercise in asked:
        if not gives_away(exercise):
            for place in _places(exercise):
                found.setdefault(place.told.id, []).append(place)
    return [Mistake(id, tuple(places)) for id, places in found.items()]


def _places(exercise: Exercise) -> Iterator[Place]:
    single = [told for told in exercise.misconceptions if not told.both]
    programs = exercise.programs if isinstance(exercise, WrittenExercise) else {}
    for told in single:
        if told.same_as is None:
            same = [other.id for other in single if other.same_as == told.id]
            others = dict.fromkeys(programs[id] for id in same if id in programs)
            right = exercise.right if isinstance(exercise, WrittenExercise) and told.id in programs else ""
            yield Place(exercise, told, right, programs.get(told.id, ""), tuple(others))
