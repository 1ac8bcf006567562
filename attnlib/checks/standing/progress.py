"""The overview: exercises, points and the next step, for one lesson and over the course."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from attnlib.checks.course import exercises, lesson_called
from attnlib.checks.exercise import Exercise
from attnlib.checks.standing.kept import LAST, best_scores, place, shown

EARLIER = {
    "wrong": "passed earlier; the answer here is not right",
    "unanswered": "passed earlier; not answered here",
    "passed": "passed",
}
SO_FAR = {"wrong": ("✗", "not right yet"), "unanswered": ("○", "not answered yet")}
GRADED = "These are the points of the checks in the notebook. Grading tries more inputs."


@dataclass(frozen=True)
class Row:
    """One exercise's row in the overview."""

    name: str
    lesson: str
    score: float
    points: float
    most: int
    mark: str
    words: str

    @property
    def passed(self) -> bool:
        """True if its check has passed, now or earlier."""
        return self.score == 1

    @property
    def told(self) -> tuple[str, str, str]:
        """Its name, its points, and its state."""
        points = f"{self.points:g} of {self.most}" if self.most else "an extra"
        return self.name, points, f"{self.mark} {self.words}"


@dataclass(frozen=True)
class Progress:
    """Shown as tables in a notebook and as text elsewhere."""

    rows: Sequence[Row]
    lesson: str | None = None
    file: str = ""
    trouble: str = ""

    @property
    def lessons(self) -> dict[str, list[Row]]:
        """The rows by lesson, in course order."""
        return {lesson: list(rows) for lesson, rows in groupby(self.rows, key=lambda row: row.lesson)}

    @property
    def next_step(self) -> str:
        """The next exercise to pass: in this lesson, then after it, then before it; extras come last."""
        names = list(self.lessons)
        here = names.index(self.lesson) if self.lesson else 0
        inside = self.lessons[names[here]] if self.lesson else []
        around = [row for name in names[here:] + names[:here] for row in self.lessons[name]]
        first = next((row for row in (*inside, *around) if row.most and not row.passed), None)
        extra = next((row for row in (*inside, *around) if not row.passed), None)
        if first is None:
            return f"Next: {extra.name}, an extra in lesson {_title(extra.lesson)}." if extra else "All passed."
        where = "" if first.lesson == self.lesson else f" in lesson {_title(first.lesson)}"
        aside = f" Or an extra: {extra.name}." if extra and extra.lesson == self.lesson != first.lesson else ""
        return f"Next: {first.name}{where}, {first.most} point{'s' * (first.most != 1)}.{aside}"

    @property
    def notes(self) -> list[str]:
        """The lines below the tables."""
        kept = f"Kept on this machine alone, in {self.file}; delete the file to start afresh." if self.file else ""
        return [line for line in (self.next_step, self.trouble or kept, GRADED) if line]

    def __repr__(self) -> str:
        tables = []
        if self.lesson:
            rows = self.lessons[self.lesson]
            tables.append((_head(self.lesson, rows), [row.told for row in rows]))
        tables.append((_head("", self.rows), [_of_lesson(name, rows) for name, rows in self.lessons.items()]))
        return "\n\n".join([*(_as_text(*table) for table in tables), "\n".join(self.notes)])

    def _repr_mimebundle_(self, **_of_ipython: Any) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._as_html()}

    def _as_html(self) -> str:
        course = [_of_lesson(name, rows) for name, rows in self.lessons.items()]
        whole = _table("", ("Lesson", "Points", "Passed"), course)
        parts = []
        if self.lesson:
            rows = self.lessons[self.lesson]
            heads = ("Exercise", "Points", "Status")
            parts.append(_table(_head(self.lesson, rows), heads, [row.told for row in rows]))
        parts.append(f"<p><b>{escape(self.next_step)}</b></p>")
        unfolded = " open" if not self.lesson else ""
        parts.append(f"<details{unfolded}><summary>{escape(_head('', self.rows))}</summary>{whole}</details>")
        parts.append(f"<p>{'<br>'.join(escape(line) for line in self.notes[1:])}</p>")
        return f'<div style="max-width: 60em; overflow-x: auto">{"".join(parts)}</div>'


def progress(lesson: str | None = None, *, terminal: bool = False) -> Progress:
    """Say what is passed, the points, and what to do next: over the course, and in one lesson if it is named.

    Without a name it is the lesson whose exercise was checked last since the notebook was started, if there is one.
    The learner's file is read in notebooks, and in a `terminal`.

    >>> [row.name for row in progress("00_start_here").lessons["00_start_here"]][:2]
    ['predict_largest_dot', 'pairwise_dot']

    Raises ValueError for a lesson that does not exist.
    """
    known = exercises()
    best, trouble = best_scores(terminal=terminal)
    rows = [_row(exercise, best.get(exercise.name, 0.0)) for exercise in known.values()]
    if lesson is None and LAST:
        lesson = known[list(LAST)[-1]].lesson
    lesson = None if lesson is None else lesson_called(lesson)
    file = place(terminal=terminal)
    return Progress(rows, lesson, shown(file) if file else "", trouble)


def _row(exercise: Exercise, best: float) -> Row:
    last = LAST.get(exercise.name)
    if best == 1:
        score, mark, words = best, "✓", EARLIER[last.state] if last else "passed"
    elif last is not None:
        score, (mark, words) = last.score, SO_FAR[last.state]
    elif best:
        score, mark, words = best, "✗", "not right yet"
    else:
        score, mark, words = 0.0, "○", "not checked yet"
    points = float(round(score * exercise.points))
    return Row(exercise.name, exercise.lesson, score, points, exercise.points, mark, words)


def _title(lesson: str) -> str:
    return lesson.replace("_", " ")


def _head(lesson: str, rows: Sequence[Row]) -> str:
    what = f"Lesson {_title(lesson)}" if lesson else "The whole course"
    return f"{what}: {sum(row.points for row in rows):g} of {sum(row.most for row in rows)} points"


def _of_lesson(lesson: str, rows: Sequence[Row]) -> tuple[str, str, str]:
    graded = [row for row in rows if row.most]
    passed, points = sum(row.passed for row in graded), sum(row.points for row in rows)
    mark = "✓" if passed == len(graded) else "○"
    return _title(lesson), f"{points:g} of {sum(row.most for row in rows)}", f"{mark} {passed} of {len(graded)}"


def _as_text(head: str, rows: Sequence[tuple[str, str, str]]) -> str:
    name, worth = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join([head, *(f"  {a:<{name}}  {b:>{worth}}  {c}" for a, b, c in rows)])


def _table(caption: str, heads: Sequence[str], rows: Sequence[tuple[str, str, str]]) -> str:
    """A table that a screen reader can read out: its caption, and heads of columns and rows."""
    left = "text-align: left; padding: 0.15em 1em 0.15em 0"
    top = "".join(f'<th scope="col" style="{left}">{escape(head)}</th>' for head in heads)
    lines = [
        f'<tr><th scope="row" style="{left}; font-weight: normal">{escape(first)}</th>'
        + "".join(f'<td style="{left}">{escape(cell)}</td>' for cell in others)
        + "</tr>"
        for first, *others in rows
    ]
    said = f'<caption style="{left}; font-weight: bold">{escape(caption)}</caption>' if caption else ""
    return f'<table style="margin: 0.5em 0">{said}<thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
