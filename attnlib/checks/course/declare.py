"""An exercise whose misconceptions are wrong lines of a plain right answer (see `wronglines`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

from attnlib.checks import course
from attnlib.checks.course.promises import promised
from attnlib.checks.course.right import plain_answer, plain_source
from attnlib.checks.course.tensors import mishandled
from attnlib.checks.course.usual import as_given
from attnlib.checks.course.wronglines import BadCatalogue, NoPlace, WrongLine, applied, made, read
from attnlib.checks.exercise import Exercise, Misconception


@dataclass(frozen=True)
class Wrong:
    """A wrong answer: the whole program, the name it defines, and its explanation."""

    told: Misconception
    program: str
    change: str = ""
    """The spelling, if it is a single slip."""
    where: str = ""
    """File and line of the slip, if it is a single one."""


@dataclass(frozen=True, kw_only=True)
class WrittenExercise(Exercise):
    """An exercise whose slips are in catalogues, together with the slips of any tensor code.

    Nothing is read until somebody asks for its misconceptions, which a right answer never does.
    """

    reference: Any = None
    """By default the plain right answer of that name, in `right/plain`."""
    catalogues: tuple[str, ...] = ()
    """Files with lines of several lessons, without `.md`, besides the lesson's own `slips.md`."""
    few: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """More such files, written for earlier exercises, with those of their slips that matter here."""
    pairs: tuple[str, ...] = ()
    """The commonest slips. Any two that fit together are also known as a pair: `one_and_other`."""
    without: tuple[str, ...] = ()
    """Slips, spellings and pairs that are right here, or meaningless."""
    same: Mapping[str, str] = field(default_factory=dict)
    """Slips and pairs that no case of this exercise can tell from another one."""

    def __post_init__(self) -> None:
        if self.reference is None:
            object.__setattr__(self, "reference", plain_answer(self.lesson, self.name))
        object.__setattr__(self, "cases", (*self.cases, *promised(self)))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files its slips are written in."""
        lesson = f"lesson_{self.lesson[:2]}"
        places = sorted(map(Path, course.__path__), key=lambda place: not (place / lesson).is_dir())  # its own first
        names = f"{lesson}/slips", *self.catalogues, *self.few
        return tuple(_first_of([place / f"{name}.md" for place in places]) for name in names)

    @cached_property
    def right(self) -> str:
        """The right answer whose lines are changed."""
        written = (plain_source(self.lesson, self.name), *(read(file).right.get(self.name) for file in self.files))
        found = [source for source in written if source]
        if len(found) != 1:
            required = f"required is one right answer, in right/plain or below `# right {self.name}`"
            raise BadCatalogue(f"{self.files[0]}: {required}, found {len(found)}")
        return found[0]

    @cached_property
    def programs(self) -> dict[str, str]:
        """Its wrong programs by their misconceptions' ids; the slips of any tensor code have no program."""
        return {wrong.told.id: wrong.program for wrong in self.wrongs}

    @cached_property
    def wrongs(self) -> tuple[Wrong, ...]:
        """Its wrong programs, each with its explanation."""
        return tuple(wrong for wrong in self._wrong if self._stays(wrong.told))

    def wrong_called(self, id: str) -> Wrong:
        """Return the wrong program of this id, making no other if it is a single slip; KeyError if there is none."""
        for file in self.files:
            for slip in read(file).slips.values():
                if (id == slip.id or id.startswith(f"{slip.id}_")) and self.has(slip, file):
                    for wrong in self._spelled(slip):
                        if wrong.told.id == id:
                            return wrong
        for wrong in self.wrongs:
            if wrong.told.id == id:
                return wrong
        raise KeyError(f"{self.name} has no wrong line called {id!r}")

    def why_not(self, slip: WrongLine) -> str:
        """Return the reason why the slip's first spelling doesn't fit the right answer; empty if any spelling fits."""
        reasons = []
        for change in slip.spellings:
            try:
                made(applied(self.right, change, slip.where), self.name)
                return ""
            except NoPlace as error:
                reasons.append(str(error))
        return reasons[0]

    def _stays(self, told: Misconception) -> bool:
        return not {told.id, told.same_as} & {*self.without}

    @cached_property
    def misconceptions(self) -> tuple[Misconception, ...]:
        """Its slips in the order of the files, then pairs, then the slips of any tensor code."""
        if self.kind == "choice":
            letters = read(self.files[0]).letters.get(self.name, {}).values()
            return tuple(replace(_told(slip), implementation=slip.spellings[0]) for slip in letters)
        told = [wrong.told for wrong in self._wrong]
        if given := read(self.files[0]).given.get(self.name):
            told.append(as_given(made(given, self.name)))
        own = {misconception.id for misconception in told}
        told += [m for m in mishandled(self, made(self.right, self.name)) if m.id not in own]
        known = {misconception.id for misconception in told}
        if unknown := {*self.same, *self.same.values(), *self.without} - known:
            raise BadCatalogue(f"{self.files[0]}: {self.name} has no such slips: {', '.join(sorted(unknown))}")
        return tuple(filter(self._stays, told))

    @cached_property
    def _wrong(self) -> tuple[Wrong, ...]:
        if self.kind == "choice":
            return ()
        first: dict[str, WrongLine] = {}
        found: list[Wrong] = []
        for slip in (slip for file in self.files for slip in read(file).slips.values() if self.has(slip, file)):
            for wrong in self._spelled(slip):
                if wrong.told.id in first:
                    raise BadCatalogue(
                        f"{slip.where}: {slip.id} is there a second time, first at {first[slip.id].where}"
                    )
                first[wrong.told.id] = replace(slip, spellings=(wrong.change, *slip.spellings))
                found.append(wrong)
        if unknown := {*self.pairs} - {*first}:
            raise BadCatalogue(f"{self.files[0]}: {self.name} has no such slips to pair: {', '.join(sorted(unknown))}")
        told = {wrong.told.id: wrong.told for wrong in found}
        for one, other in combinations(self.pairs, 2):
            if (program := self._both(first[one], first[other])) is not None:
                both = _together(told[one], told[other])
                same_as = self.same.get(both["id"])
                answer = made(program, self.name)
                found.append(Wrong(Misconception(**both, implementation=answer, same_as=same_as), program))
        return tuple(found)

    def has(self, slip: WrongLine, file: Path) -> bool:
        """True if the exercise wants this slip of the file, provided its lines fit."""
        return slip.id in self.few.get(file.stem, (slip.id,))

    def _spelled(self, slip: WrongLine) -> Iterator[Wrong]:
        """Yield the slip in each spelling that fits here: `no_scale`, and another one as `no_scale_2`."""
        number = 0
        for change in slip.spellings:
            try:
                program = applied(self.right, change, slip.where)
                answer = made(program, self.name)
            except NoPlace:
                continue
            number += 1
            id = slip.id if number == 1 else f"{slip.id}_{number}"
            same_as = self.same.get(id, None if number == 1 else slip.id)
            same_as = self.same.get(same_as, same_as) if same_as else None
            told = replace(_told(slip), id=id, implementation=answer, same_as=same_as)
            yield Wrong(told, program, change, slip.where)

    def _both(self, one: WrongLine, other: WrongLine) -> str | None:
        """Return the program with both slips, each in its first spelling that fits; None if they need the same line."""
        alone = self._first(self.right, other)
        try:
            program = self._first(self._first(self.right, one), other)
            made(program, self.name)
        except NoPlace:
            return None
        return program if program != alone else None

    def _first(self, source: str, slip: WrongLine) -> str:
        for change in slip.spellings:
            try:
                return applied(source, change, slip.where)
            except NoPlace:
                continue
        raise NoPlace(slip.id)


def prediction(**told: Any) -> WrittenExercise:
    """Declare a question for one point, whose `reference` is the right letter."""
    return WrittenExercise(kind="choice", parts={"prediction": 1}, **told)


def _together(one: Misconception, other: Misconception) -> dict[str, Any]:
    """Return the fields of a misconception that is both at once."""
    return {
        "id": f"{one.id}_and_{other.id}",
        "title": f"{one.title}, and {_inside(other.title)}",
        "explanation": "Two things at once." + "".join(f"\n{m.title}. {m.explanation}" for m in (one, other)),
        "thread": one.thread or other.thread,
        "unless": "|".join(filter(None, (one.unless, other.unless))),
        "both": (one.id, other.id),
    }


def _inside(title: str) -> str:
    """Return a title as it is written inside a sentence, where a word such as GELU keeps its capitals."""
    first = title.split()[0]
    return title if first[1:] != first[1:].lower() else title[0].lower() + title[1:]


def _first_of(paths: Sequence[Path]) -> Path:
    return next((path for path in paths if path.exists()), paths[0])


def _told(slip: WrongLine) -> Misconception:
    return Misconception(
        id=slip.id,
        title=slip.title,
        explanation=slip.explanation,
        implementation=None,
        thread=slip.thread,
        unless=slip.unless,
    )
