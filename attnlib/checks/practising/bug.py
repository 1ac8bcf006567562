"""A bug: a right answer with one wrong line, what its contract promises, and what is said of it once it is found."""

import linecache
import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnlib.checks.course import find
from attnlib.checks.course.declare import WrittenExercise, Wrong
from attnlib.checks.course.wronglines import BadCatalogue, NoPlace, applied, made
from attnlib.checks.exercise import Exercise
from attnlib.checks.practising.dialects import dialects
from attnlib.checks.practising.programs import Change, changes, size, with_imports, without_alias


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A program with a wrong line, or with two.

    >>> bug = bug_of("attention_scores", "no_scale")
    >>> bug.lines
    (6,)
    >>> print(bug.repair)
        scores = (q @ k.mT) / math.sqrt(q.shape[-1])
    """

    exercise: str
    slip: str
    """The id of the misconception that its check names."""
    dialect: int = 0
    """Which of the right answers has the wrong line: 0 for the catalogue's own, n for the bank's nth."""
    right: str
    code: str
    title: str
    explanation: str

    @property
    def key(self) -> str:
        """What it is called in the table, in the benchmark and in the progress file."""
        return f"{self.exercise}/{self.slip}" + (f"/{self.dialect}" if self.dialect else "")

    @property
    def declared(self) -> Exercise:
        """Its exercise."""
        return find(self.exercise)

    @property
    def contract(self) -> str:
        """What a right answer computes."""
        return self.declared.contract

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Its wrong places: one, or two."""
        return changes(self.right, self.code)

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the wrong lines, from 1."""
        return tuple(line for change in self.changes for line in change.lines)

    @property
    def repair(self) -> str:
        """The lines that stand there in a right answer; empty where the wrong line is one too many."""
        return "\n".join(change.repair for change in self.changes)

    @property
    def size(self) -> int:
        """How many words the repair changes."""
        return size(self.right, self.code)

    @property
    def answer(self) -> Any:
        """The function or class of the code."""
        return defined(self.code, self.exercise, self.key)

    def diff(self) -> str:
        """The wrong lines with a minus and the right ones with a plus, as a patch has them."""
        rows, code = [], self.code.split("\n")
        for change in self.changes:
            wrong = textwrap.dedent("\n".join(code[line - 1] for line in change.lines)).split("\n")
            right = textwrap.dedent(change.repair).split("\n") if change.repair else []
            rows += [f"line {change.lines[0]}:", *(f"- {row}" for row in wrong), *(f"+ {row}" for row in right)]
        return "\n".join(rows)


def defined(code: str, name: str, file: str) -> Any:
    """What the code defines under this name; tracebacks and checks find its lines, as if they were in a file."""
    path = f"<practice {file} {zlib.crc32(code.encode()):08x}>"  # another code has other lines
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, path, "exec"), names)
    return names[name]


def bug_of(exercise: str, slip: str, dialect: int = 0) -> Bug:
    """The bug of this slip in one of the right answers.

    Raises KeyError if the exercise has no such slip, and NoPlace if that answer has no such line.
    """
    declared = find(exercise)
    if not isinstance(declared, WrittenExercise):
        raise KeyError(f"{exercise} has no wrong lines")
    return made_of(declared, declared.wrong_called(slip), dialect)


def made_of(exercise: WrittenExercise, wrong: Wrong, dialect: int = 0) -> Bug:
    """The same, where the slip has been looked up."""
    right, code = exercise.right, wrong.program
    if dialect:
        right = dialects(exercise)[dialect]
        if not right or not wrong.change:
            raise NoPlace(f"{exercise.name} has no right answer {dialect} that stands by itself")
        try:
            code = applied(right, wrong.change, wrong.where)
            made(code, exercise.name)
        except (BadCatalogue, SyntaxError) as error:  # the line stands twice, or is right here, or only looks alike
            raise NoPlace(str(error)) from None
    right, code = with_imports(*without_alias(right, code))
    return Bug(
        exercise=exercise.name,
        slip=wrong.told.id,
        dialect=dialect,
        right=right,
        code=code,
        title=wrong.told.title,
        explanation=wrong.told.explanation,
    )


def numbered(code: str, marked: Sequence[int] = ()) -> str:
    r"""The code with the numbers of its lines.

    >>> print(numbered("a = 1\nb = 2", [2]))
      1  a = 1
    > 2  b = 2
    """
    rows = code.split("\n")
    wide = len(str(len(rows)))
    return "\n".join(f"{'>' if n in marked else ' '} {n:>{wide}}  {row}".rstrip() for n, row in enumerate(rows, 1))
