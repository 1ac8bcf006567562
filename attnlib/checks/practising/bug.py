"""A bug: a right answer with one wrong line or two, its contract, and the explanation given once it is found."""

import linecache
import textwrap
import zlib
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
    """The right answer in which the line is wrong: 0 for the plain one, n for the bank's nth."""
    right: str
    code: str
    title: str
    explanation: str

    @property
    def key(self) -> str:
        """Its name in the table and in the benchmark."""
        return f"{self.exercise}/{self.slip}" + (f"/{self.dialect}" if self.dialect else "")

    @property
    def declared(self) -> Exercise:
        """Its exercise."""
        return find(self.exercise)

    @property
    def contract(self) -> str:
        """The contract of its exercise, which says what a right answer computes."""
        return self.declared.contract

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The places where it differs from the right answer: one, or two."""
        return changes(self.right, self.code)

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the wrong lines, from 1."""
        return tuple(line for change in self.changes for line in change.lines)

    @property
    def repair(self) -> str:
        """The right answer's lines in place of the wrong ones; empty if the wrong line is one too many."""
        return "\n".join(change.repair for change in self.changes)

    @property
    def size(self) -> int:
        """The number of words and signs that the repair changes."""
        return size(self.right, self.code)

    @property
    def answer(self) -> Any:
        """The function or class that the code defines."""
        return defined(self.code, self.exercise, self.key)

    def diff(self) -> str:
        """Return the wrong lines with a minus and the right ones with a plus, as in a patch."""
        rows, code = [], self.code.split("\n")
        for change in self.changes:
            wrong = textwrap.dedent("\n".join(code[line - 1] for line in change.lines)).split("\n")
            right = textwrap.dedent(change.repair).split("\n") if change.repair else []
            first, last = change.lines[0], change.lines[-1]
            where = f"line {first}:" if first == last else f"lines {first} to {last}:"
            rows += [where, *(f"- {row}" for row in wrong), *(f"+ {row}" for row in right)]
        return "\n".join(rows)


def defined(code: str, name: str, file: str) -> Any:
    """Run the code and return what it defines as `name`; tracebacks and checks find its lines, as if in a file."""
    path = f"<practice {file} {zlib.crc32(code.encode()):08x}>"  # other code has other lines
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, path, "exec"), names)
    return names[name]


def bug_of(exercise: str, slip: str, dialect: int = 0) -> Bug:
    """Make the bug of this slip in one of the right answers.

    Raises KeyError if the exercise has no such slip, and NoPlace if that answer has no such line.
    """
    declared = find(exercise)
    if not isinstance(declared, WrittenExercise):
        raise KeyError(f"{exercise} has no wrong lines")
    return made_of(declared, declared.wrong_called(slip), dialect)


def made_of(exercise: WrittenExercise, wrong: Wrong, dialect: int = 0) -> Bug:
    """Make the bug of a slip that has been looked up already."""
    right, code = exercise.right, wrong.program
    if dialect:
        right = dialects(exercise)[dialect]
        if not right or not wrong.change:
            raise NoPlace(f"{exercise.name} has no right answer {dialect} that stands by itself")
        try:
            code = applied(right, wrong.change, wrong.where)
            made(code, exercise.name)
        except (BadCatalogue, SyntaxError) as error:  # the line occurs twice, or is right here, or only looks similar
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


def numbered(code: str) -> str:
    r"""Number the code's lines.

    >>> numbered("a = 1\nb = 2")
    '  1  a = 1\n  2  b = 2'
    """
    rows = code.split("\n")
    wide = len(str(len(rows)))
    return "\n".join(f"  {n:>{wide}}  {row}".rstrip() for n, row in enumerate(rows, 1))
