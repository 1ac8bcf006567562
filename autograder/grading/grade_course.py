"""`python -m autograder grade`: every submission judged in a sandbox, and entered into nbgrader's gradebook."""

import logging
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy.exc import OperationalError

from autograder.building.build_course import NotReleased, prepare
from autograder.grading.certificates import Certificates
from autograder.grading.chosen import chosen_submissions
from autograder.grading.cluster import Cluster
from autograder.grading.entering import Entered, Entries, digest_of
from autograder.grading.results import Result, results_from
from autograder.grading.workers import Crew
from autograder.in_nbgrader.course_files import course_seed, faults_file, record_fault
from autograder.in_nbgrader.handed_in import record_all_received, time_of
from autograder.in_nbgrader.names import fault_of_name
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.rows import Sheet
from autograder.judging.intake.folder import collect
from autograder.judging.submission import Judged, Task
from autograder.judging.version import version_of_the_grader
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.layout import Layout
from autograder.sandbox.layers import Layers
from autograder.showing.errors import CourseError, NotGraded, first_line, trace_of
from autograder.showing.text import printable

logging.getLogger("tornado").addHandler(logging.NullHandler())  # else nbgrader prints what it raises as well

BATCH = 100
"""The most submissions entered at once, which a killed run has to repeat."""


@dataclass(frozen=True)
class Graded:
    """One submission: its results, or why there are none."""

    student: str
    lesson: str
    results: list[Result] = field(default_factory=list)
    problem: str | None = None
    remarks: tuple[str, ...] = ()
    fault: bool = False
    """True if it was not graded because of a fault of the grader's own."""
    refused: str = ""
    """Why nbgrader cannot release its lesson."""

    @property
    def points(self) -> float:
        """All points of the submission."""
        return sum(result.points for result in self.results)

    @property
    def max_points(self) -> float:
        """All points that the lesson has."""
        return sum(result.max_points for result in self.results)


@dataclass(frozen=True)
class State:
    """The progress of a run: `done` of `total` submissions, and how many are judged per second."""

    total: int
    done: int
    rate: float
    what: str


@dataclass(frozen=True)
class Claim:
    """A submission as its folder describes it: its digest, the time it was handed in, and anything unusual."""

    digest: str = ""
    told: datetime | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class How:
    """Settings of a run: the layers, the number of workers or the cluster, and whether to grade everything anew."""

    layers: Layers | None
    workers: int = 1
    scheduler: str | None = None
    shown: Certificates | None = None
    """The certificates shown to a scheduler at a tls:// address."""
    again: bool = False
    received: Path | None = None
    """A table of the times at which a learning platform received the submissions."""

    def judges(self) -> Crew | Cluster:
        """Start the workers of this machine, or find the cluster's."""
        return Crew(self.workers) if self.scheduler is None else Cluster(self.scheduler, self.shown)


def grade(
    layout: Layout,
    folder: Path,
    wanted: tuple[str, ...],
    how: How,
    step: Callable[[State], None] = lambda _: None,
) -> list[Graded]:
    """Grade the submissions in `folder` into the course's gradebook; one that fails never stops the others.

    What an earlier run has entered is not judged again, unless the submission, the lesson or the grader has changed, or
    the gradebook does not hold it any more.
    """
    (submissions, strays), lessons = chosen_submissions(layout, folder, wanted), layout.gradable(wanted)
    why_not: dict[str, str] = {}
    try:
        prepare(layout, tuple(sorted({lesson for _, lesson in submissions if lesson in lessons})) or tuple(lessons))
    except NotReleased as error:
        why_not = error.why
        lessons = [lesson for lesson in lessons if lesson not in why_not]
    course = NbgraderCourse(layout.course, submitted=folder.resolve())
    if how.received is not None:
        record_all_received(course.directory, how.received, layout.gradable(()))
    found = [Graded(printable(one.student), "", problem=f"not graded: {printable(one.why)}") for one in strays]
    for student, lesson in (pair for pair in submissions if pair[1] not in lessons):
        refused = why_not.get(lesson, "")
        why = "its lesson cannot be released" if refused else "there is no such lesson"
        found.append(Graded(printable(student), printable(lesson), problem=f"not graded: {why}", refused=refused))
    submissions = [pair for pair in submissions if pair[1] in lessons]
    found += [
        Graded(printable(student), lesson, problem=f"not graded: {why}")
        for student, lesson in submissions
        if (why := fault_of_name(student))
    ]
    faults_file(layout.course).unlink(missing_ok=True)
    with closing(how.judges()) as judges:
        run = Run(layout, course, folder, how, judges, step)
        found += run.grade([pair for pair in submissions if not fault_of_name(pair[0])])
    return sorted(found, key=lambda graded: (graded.student, graded.lesson))


class Run:
    """One run over a course's submissions."""

    def __init__(
        self,
        layout: Layout,
        course: NbgraderCourse,
        folder: Path,
        how: How,
        judges: Crew | Cluster,
        step: Callable[[State], None] = lambda _: None,
    ) -> None:
        self.layout, self.course, self.folder = layout, course, folder
        self.how, self.judges, self.step = how, judges, step
        self.assignments: dict[Path, Assignment] = {}
        self.handed_in: dict[tuple[str, str], Claim] = {}
        self.new: list[Graded] = []
        self.done = self.entered_before = 0
        self.most_memory = 0
        self.began = time.monotonic()

    def grade(self, submissions: list[tuple[str, str]]) -> Generator[Graded]:
        """Judge what is new, as the workers finish; yields each submission once it is entered."""
        with warnings.catch_warnings(), self.course.gradebook() as gradebook:
            warnings.simplefilter("ignore")  # warnings inside nbgrader and its libraries, which we can't fix
            self.entries = Entries(self.course, gradebook)
            self.total = len(submissions)
            for batch in self.judges.judge(self._tasks(submissions), self.how.layers):
                self._enter(batch)
                yield from self._noted()
            yield from self._noted()

    def _noted(self) -> list[Graded]:
        noted, self.new = self.new, []
        return noted

    def _tasks(self, submissions: list[tuple[str, str]]) -> Iterator[Task]:
        """Yield the submissions that have to be judged, and deal with the others at once."""
        seed = course_seed(self.layout.course)
        for student, lesson in submissions:
            try:
                task = self._task(student, lesson, self._assignment(student, lesson), seed)
            except Exception as error:  # whatever a student's folder holds, only that student is affected
                self._enter([Judged.failed(student, lesson, error)])
                continue
            if task is not None:
                yield task

    def _task(self, student: str, lesson: str, assignment: Assignment, seed: int) -> Task | None:
        """Return the task of judging it, or None if this very submission was entered before."""
        folder = self.folder / student / lesson
        handed_in = collect(folder, lesson)
        told, doubt = time_of(self.course.directory, student, lesson, handed_in)
        remarks = (*handed_in.remarks, *([doubt] if doubt else []))
        beside = {"/timestamp": str(told).encode(), "/remarks": str(remarks).encode()}  # names that no file can have
        known = {**handed_in.files, **beside}
        image = str(self.how.layers and self.how.layers.container)  # a container has libraries of its own
        conditions = (assignment.digest, version_of_the_grader(), str(seed), image)
        claim = Claim(digest_of(known, *conditions), told, remarks)
        self.handed_in[student, lesson] = claim
        before = None if self.how.again else self.entries.find(lesson, student, claim.digest, told)
        if before is None:
            return Task(student, lesson, assignment.text, handed_in.files, seed)
        self.entered_before += 1
        self._note(self._graded(before, self.entries.charge(lesson, student)))
        return None

    def _assignment(self, student: str, lesson: str) -> Assignment:
        source = self.layout.source_for(student, lesson)
        if source not in self.assignments:
            if not source.is_file():
                raise NotGraded(f"no {lesson} was made for this student: put them on the roster and make it again")
            self.assignments[source] = Assignment.read(source)
        return self.assignments[source]

    def _enter(self, judged: list[Judged]) -> None:
        """Enter judgements, many at once; if that fails, one by one, so that no other submission is affected."""
        for place in range(0, len(judged), BATCH):
            batch = [self._ready(one) for one in judged[place : place + BATCH]]
            if len(batch) == 1:
                self._enter_alone(batch[0])
                continue
            try:
                sheets = self.entries.enter(batch)
                found = [self._graded(one.judged, sheet) for one, sheet in zip(batch, sheets, strict=True)]
            except Exception as error:
                went_well = [self._enter_alone(one) for one in batch]
                if all(went_well) and not _is_the_machine_s(error):
                    record_fault(self.layout.course, "a batch", "on entering it", trace_of(error))
                continue
            for one, graded in zip(batch, found, strict=True):
                self._entered(one.judged, graded)

    def _ready(self, judged: Judged) -> Entered:
        claim = self.handed_in.pop((judged.student, judged.lesson), Claim())
        return Entered(replace(judged, remarks=(*claim.remarks, *judged.remarks)), claim.digest, claim.told)

    def _enter_alone(self, one: Entered) -> bool:
        """Enter one submission and return whether that worked; if not, enter the failure instead."""
        judged, well = one.judged, True
        try:
            (sheet,) = self.entries.enter([one])
            graded = self._graded(judged, sheet)
        except Exception as error:
            judged, well = Judged.failed(judged.student, judged.lesson, error), False
            graded = self._graded(judged)
            self._enter_failure(judged)
        self._entered(judged, graded)
        return well

    def _entered(self, judged: Judged, graded: Graded) -> None:
        for trace in filter(None, (judged.overcome, judged.fault)):
            record_fault(self.layout.course, judged.student, judged.lesson, trace)
        self.most_memory = max(self.most_memory, judged.memory)
        self._note(graded)

    def _enter_failure(self, judged: Judged) -> None:
        try:
            self.entries.enter([Entered(judged, "", None)])
        except Exception as error:  # nothing of it was written, and the next run tries again
            if _is_the_machine_s(error):
                raise CourseError(
                    f"The result of {judged.student}, {judged.lesson}, cannot be entered, so the run ends here: "
                    f"{first_line(error)}. What was entered before is kept, and the same command goes on from there."
                ) from error
            record_fault(self.layout.course, judged.student, f"{judged.lesson}, on entering that", trace_of(error))

    def _graded(self, judged: Judged, sheet: Sheet | None = None) -> Graded:
        if judged.problem is not None or sheet is None:
            problem = f"not graded: {judged.problem}"
            return Graded(
                judged.student, judged.lesson, problem=problem, remarks=judged.remarks, fault=bool(judged.fault)
            )
        marks = sheet.marks.items()
        by_hand = {name: mark.score for name, mark in marks if mark.manual is not None or mark.extra}
        results = list(results_from(judged, self._assignment(judged.student, judged.lesson), by_hand))
        score, penalty = sheet.score, sheet.penalty
        counts = [f"late: {penalty:g} of {score:g} points are taken off"] if penalty else []
        if score != (automatic := sum(judged.points.values())):
            counts = [f"with points given by hand: {score:g} in place of {automatic:g}", *counts]
        return Graded(judged.student, judged.lesson, results, remarks=(*judged.remarks, *counts))

    def _note(self, graded: Graded) -> None:
        self.new.append(graded)
        self.done += 1
        judged_now = self.done - self.entered_before
        rate = judged_now / max(time.monotonic() - self.began, 1e-9) if judged_now > 1 else 0.0
        self.step(State(self.total, self.done, rate, f"{graded.student} {graded.lesson}"))


def _is_the_machine_s(error: Exception) -> bool:
    """True if a disk or a database failed, as it would for the next submission too; nbgrader raises its own errors."""
    return any(isinstance(one, (OSError, OperationalError)) for one in (error, error.__context__))
