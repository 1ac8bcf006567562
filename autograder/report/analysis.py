"""The item analysis: for each exercise who passed, the points earned, and who is stuck on the same mistake."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnlib.checks.exercise import Exercise
from attnlib.checks.naming.names import names_in
from autograder.grading.results import NOT_ANSWERED
from autograder.report.collect import Mark, Submission
from autograder.report.statistics import chance, discrimination, wilson

MISCONCEPTION, OTHER = "misconception", "other"
NO_USUAL_MISTAKE = "none of the usual mistakes"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A mistake in one exercise, and the students who made it: a misconception's id, or the kind of failure."""

    kind: str
    what: str
    title: str = ""
    explanation: str = ""
    count: int
    students: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """The number of students who earned one part of an exercise's points, of those whose report tells."""

    name: str
    earned: int
    known: int
    without: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The share that earned it."""
        return self.earned / self.known


@dataclass(frozen=True, kw_only=True)
class Item:
    """One exercise over all graded submissions of its lesson."""

    lesson: str
    exercise: str
    submissions: int
    passed: int
    points: float
    not_answered: Finding
    findings: tuple[Finding, ...]
    parts: tuple[Part, ...]
    discrimination: float | None

    @property
    def share(self) -> float:
        """The share of the submissions that passed."""
        return self.passed / self.submissions

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return wilson(self.passed, self.submissions)

    def count(self, kind: str) -> int:
        """The number of submissions with a finding of that kind."""
        return sum(finding.count for finding in self.findings if finding.kind == kind)


@dataclass(frozen=True, kw_only=True)
class LessonAnalysis:
    """The exercises of a lesson in order, and the submissions that could not be graded, which count nowhere."""

    lesson: str
    graded: int
    items: tuple[Item, ...]
    not_graded: tuple[Submission, ...]
    without_grade: int

    @property
    def chance(self) -> float | None:
        """The discrimination that may be due to chance in a class of this size."""
        return chance(self.graded)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A misconception over all exercises, and the students who made it in at least one of them."""

    what: str
    titles: tuple[str, ...]
    exercises: tuple[str, ...]
    count: int
    students: tuple[str, ...] = ()


def analyse(
    submissions: Iterable[Submission], known: Mapping[str, Exercise], *, names: bool = True
) -> list[LessonAnalysis]:
    """The analysis of each lesson that has submissions.

    Without `names` no student, and nothing that a student wrote, is in it: mistakes that are no misconception become
    one, and submissions that could not be graded are only counted.
    """
    everything = list(submissions)
    return [
        _lesson(lesson, [one for one in everything if one.lesson == lesson], known, names)
        for lesson in sorted({one.lesson for one in everything})
    ]


def shared_misconceptions(
    submissions: Iterable[Submission], known: Mapping[str, Exercise], *, names: bool = True
) -> list[Shared]:
    """Return every misconception that occurred, the most common first."""
    met: dict[str, list[tuple[str, str]]] = {}
    for one in submissions:
        for attempt in one.attempts:
            if _kind(attempt, known) == MISCONCEPTION:
                met.setdefault(str(attempt.diagnosis), []).append((attempt.exercise, one.student))
    shared = []
    for what, where in met.items():
        exercises = [name for name in known if name in {exercise for exercise, _ in where}]
        students = sorted({student for _, student in where})
        shared.append(
            Shared(
                what=what,
                titles=tuple(dict.fromkeys(names_in(known.get(name))[what].title for name in exercises)),
                exercises=tuple(exercises),
                count=len(students),
                students=tuple(students) if names else (),
            )
        )
    return sorted(shared, key=lambda one: (-one.count, one.what))


def _lesson(lesson: str, of: list[Submission], known: Mapping[str, Exercise], names: bool) -> LessonAnalysis:
    graded = [one for one in of if one.problem is None]
    failed = tuple(one for one in of if one.problem is not None)
    met = {attempt.exercise: None for one in graded for attempt in one.attempts}
    order = [name for name in known if name in met] + [name for name in met if name not in known]
    return LessonAnalysis(
        lesson=lesson,
        graded=len(graded),
        items=tuple(_item(lesson, name, graded, known, names) for name in order),
        not_graded=failed if names else (),
        without_grade=len(failed),
    )


def _item(lesson: str, name: str, graded: list[Submission], known: Mapping[str, Exercise], names: bool) -> Item:
    of = [(one, attempt) for one in graded for attempt in one.attempts if attempt.exercise == name]
    rest = [sum(other.points for other in one.attempts) - attempt.points for one, attempt in of]
    untouched = [one.student for one, attempt in of if _kind(attempt, known) == NOT_ANSWERED]
    mistakes: dict[tuple[str, str], list[str]] = {}
    for one, attempt in of:
        kind = _kind(attempt, known)
        if kind in (MISCONCEPTION, OTHER):
            what = (attempt.in_short or NO_USUAL_MISTAKE) if kind == OTHER else str(attempt.diagnosis)
            what = NO_USUAL_MISTAKE if kind == OTHER and not names else what
            mistakes.setdefault((kind, what), []).append(one.student)
    findings = [_finding(kind, what, students, names, known, name) for (kind, what), students in mistakes.items()]
    return Item(
        lesson=lesson,
        exercise=name,
        submissions=len(of),
        passed=sum(attempt.passed for _, attempt in of),
        points=sum(attempt.points / attempt.max_points for _, attempt in of) / len(of),
        not_answered=_finding(NOT_ANSWERED, NOT_ANSWERED, untouched, names, known, name),
        findings=tuple(sorted(findings, key=lambda one: (one.kind != MISCONCEPTION, -one.count, one.what))),
        parts=_parts(name, of, known, names),
        discrimination=discrimination([attempt.passed for _, attempt in of], rest),
    )


def _kind(attempt: Mark, known: Mapping[str, Exercise]) -> str | None:
    """Return the kind of an attempt without full points; None for one that passed."""
    if attempt.passed:
        return None
    if attempt.diagnosis == NOT_ANSWERED:
        return NOT_ANSWERED
    return MISCONCEPTION if attempt.diagnosis in names_in(known.get(attempt.exercise)) else OTHER


def _finding(
    kind: str, what: str, students: list[str], names: bool, known: Mapping[str, Exercise], exercise: str
) -> Finding:
    misconception = names_in(known.get(exercise)).get(what) if kind == MISCONCEPTION else None
    return Finding(
        kind=kind,
        what=what,
        title=misconception.title if misconception else "",
        explanation=misconception.explanation if misconception else "",
        count=len(students),
        students=tuple(dict.fromkeys(students)) if names else (),  # who has several bugs of a kind is named once
    )


def _parts(
    name: str, of: list[tuple[Submission, Mark]], known: Mapping[str, Exercise], names: bool
) -> tuple[Part, ...]:
    """The share of students who earned each part; empty where an exercise has only one."""
    worth = known[name].parts if name in known else {}
    if len(worth) < 2:
        return ()
    earned = [(one.student, parts) for one, attempt in of if (parts := _earned(attempt, worth)) is not None]
    if not earned:
        return ()
    return tuple(
        Part(
            name=part,
            earned=sum(parts[part] for _, parts in earned),
            known=len(earned),
            without=tuple(dict.fromkeys(student for student, parts in earned if not parts[part])) if names else (),
        )
        for part in worth
    )


def _earned(attempt: Mark, worth: Mapping[str, int]) -> Mapping[str, bool] | None:
    """Return the parts an attempt earned; None if the report doesn't add up to the points in the gradebook."""
    if attempt.points in (0, attempt.max_points):
        return dict.fromkeys(worth, attempt.points > 0)
    if attempt.parts is None or attempt.parts.keys() != worth.keys():
        return None
    right = {part: attempt.parts[part] is True for part in worth}
    return right if sum(worth[part] for part in worth if right[part]) == attempt.points else None
