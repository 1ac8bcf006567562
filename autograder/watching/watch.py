"""The loop that answers: look, take what is new, judge it, enter it, release its feedback, and note that."""

import contextlib
import html
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field

from autograder.building.build_course import NotReleased, prepare
from autograder.grading.cluster import Cluster
from autograder.grading.grade_course import Graded, How, Run
from autograder.grading.workers import Crew
from autograder.in_nbgrader.copying import copy_listed
from autograder.in_nbgrader.course_files import write_whole
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.version import is_up_to_date, version_of_the_grader
from autograder.lesson_text.layout import Layout
from autograder.showing.errors import CourseError, NotGraded, first_line
from autograder.showing.text import printable
from autograder.watching.arrivals import Arrivals, HandIn
from autograder.watching.journal import Answered, Journal

ROUND = 4
"""Attempts for each worker that are judged before the feedback of the first is released."""
LOOK_SECONDS, PAUSE_SECONDS = 1.0, 5.0
TRIES, AGAIN_SECONDS = 3, 60.0
"""The most tries for an attempt that failed by a fault of the grader's own, and the wait between them."""
OUTDATED = (
    "The grader has changed on disk since this watch began, which goes on with the old one: "
    "stop it and start it again. `grade` will judge anew what it answers until then."
)
REASON = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{lesson}</title>
<h1>{lesson}</h1><p>This submission was not graded: {reason}.</p></html>
"""


@dataclass
class Trouble:
    """An attempt that failed through a fault that isn't its own, or a lesson that nbgrader refused to release."""

    tries: int
    since: float


@dataclass
class Watch:
    """Answers arriving attempts; `round` does everything due once, and `forever` goes on until Ctrl-C."""

    layout: Layout
    course: NbgraderCourse
    arrivals: Arrivals
    how: How
    most: int | None = None
    """The most attempts of a student that are judged in an hour."""
    released: set[str] = field(default_factory=set)
    """The lessons that can be graded; any other is prepared once an attempt at it comes."""
    say: Callable[[str], None] = print
    clock: Callable[[], float] = time.time
    troubles: dict[str, Trouble] = field(default_factory=dict)

    def __post_init__(self) -> None:
        version_of_the_grader()  # read now: an update while this runs is not the program that judges
        self.journal = Journal(self.layout.course)
        self.judges: Crew | Cluster | None = None
        self.said, self.outdated = "", False

    def forever(self) -> None:
        """Answer until the process is ended; anything that can't be done now is reported once, and tried again."""
        while True:
            try:
                self._workers()
                waits = 0.0 if self.round() else LOOK_SECONDS
                self.said = ""
            except (CourseError, OSError) as error:
                self.close()
                self._say_once(
                    f"{first_line(error)}. Nothing is lost: it is tried again every {PAUSE_SECONDS:g} seconds."
                )
                waits = PAUSE_SECONDS
            time.sleep(waits)

    def close(self) -> None:
        """End the workers, or leave the cluster."""
        if self.judges is not None:
            self.judges.close()
            self.judges = None

    def round(self) -> int:
        """Answer waiting attempts, as many as the workers take at once; return how many are finished."""
        known = self.journal.keys if self.arrivals.keeps else {*self.journal.last.values()}
        made_since = self.layout.individual_assignments()
        self.arrivals.lessons = sorted({*self.arrivals.lessons, *made_since})
        due = self._turn([one for one in self.arrivals.look(known) if self._is_released(one.lesson)])
        if not due:
            return 0
        chosen = due[: ROUND * self._workers().size]
        judged = [attempt for attempt in chosen if self._is_taken(attempt)]
        if not judged:
            return len(chosen)
        if not self.outdated and not is_up_to_date():
            self.outdated = True
            self.say(OUTDATED)
        try:
            with contextlib.closing(self._grade(judged)) as graded:
                return sum(self._answer(attempt, one) for attempt, one in in_order(judged, graded))
        except BaseException:
            self.close()
            raise

    def _is_released(self, lesson: str) -> bool:
        """Return whether nbgrader has the lesson; attempts at one that it refuses wait until it is asked again."""
        if lesson not in self.released and self._is_due(lesson):
            try:
                prepare(self.layout, (lesson,))
            except NotReleased as error:
                if lesson not in self.troubles:
                    self.say(f"{error} What is handed in waits until then.")
                self.troubles[lesson] = Trouble(1, time.monotonic())
            else:
                self.released.add(lesson)
        return lesson in self.released

    def _turn(self, waiting: list[HandIn]) -> list[HandIn]:
        """Choose whose turn it is: the earliest attempt of each student who may be judged now.

        For a student who may not, only the last attempt at each lesson goes on waiting. One that is to be tried again
        holds up the student's later ones: the last to be entered is the last that came.
        """
        now = self.clock()
        chosen: dict[str, HandIn] = {}
        last: dict[tuple[str, str], HandIn] = {}
        for attempt in waiting:
            free = self.most is None or self.journal.free_at(attempt.student, self.most, now) <= now
            if not free:
                if older := last.get((attempt.student, attempt.lesson)):
                    self._note(older, "passed over", f"a newer attempt waits, and {self.most} an hour are judged")
                last[attempt.student, attempt.lesson] = attempt
            else:
                chosen.setdefault(attempt.student, attempt)
        return [attempt for attempt in chosen.values() if self._is_due(attempt.key)]

    def _is_due(self, key: str) -> bool:
        trouble = self.troubles.get(key)
        return trouble is None or time.monotonic() - trouble.since >= AGAIN_SECONDS * trouble.tries

    def _is_taken(self, attempt: HandIn) -> bool:
        why = self.arrivals.take(attempt)
        if not os.path.lexists(attempt.place):  # it has vanished since the look; the next one tells whether it is back
            return False
        if why:
            self._note(attempt, "refused", f"no submission: {why}")
        return not why

    def _workers(self) -> Crew | Cluster:
        """Return the workers; new ones start their sandboxes before there is anything to judge."""
        if self.judges is None:
            self.judges = self.how.judges()
            self.judges.get_ready(self.how.layers)
        return self.judges

    def _grade(self, attempts: list[HandIn]) -> Generator[Graded]:
        run = Run(self.layout, self.course, self.arrivals.submitted, self.how, self._workers())
        return run.grade([(attempt.student, attempt.lesson) for attempt in attempts])

    def _answer(self, attempt: HandIn, graded: Graded) -> bool:
        """Write and release the feedback, then note it; return whether the attempt is done with."""
        if graded.problem and not os.path.lexists(attempt.place):  # it vanished while it was read
            return False
        if graded.fault:
            return self._failed(attempt, graded.problem or "a fault of the grader's own")
        try:
            self._write_feedback(attempt, graded)
            self.arrivals.release(attempt)
        except OSError:
            raise
        except Exception as error:  # nbgrader's errors have no common base; each concerns one student
            with self.course.gradebook():  # unless it's the gradebook, which concerns all
                pass
            return self._failed(attempt, f"its feedback could not be released: {first_line(error)}")
        self.troubles.pop(attempt.key, None)
        score = graded.problem or f"{graded.points:g} of {graded.max_points:g} points"
        self._note(attempt, "judged", "; ".join([score, *graded.remarks]))
        return True

    def _write_feedback(self, attempt: HandIn, graded: Graded) -> None:
        if graded.problem is None:
            self.course.generate_feedback(attempt.lesson, attempt.student)
            return
        course = self.course.directory
        folder = self.course.path(course.feedback_directory, attempt.student, attempt.lesson)
        submitted = self.course.path(course.submitted_directory, attempt.student, attempt.lesson)
        with contextlib.suppress(NotGraded):  # which then is the reason on the page
            copy_listed(submitted, folder, attempt.lesson)
        text = REASON.format(lesson=attempt.lesson, reason=html.escape(graded.problem.removeprefix("not graded: ")))
        write_whole(folder / f"{attempt.lesson}.html", text)

    def _failed(self, attempt: HandIn, why: str) -> bool:
        """Try again later or, after some tries, leave it to `grade` as not graded; return whether it is done with."""
        tries = self.troubles[attempt.key].tries + 1 if attempt.key in self.troubles else 1
        self.troubles[attempt.key] = Trouble(tries, time.monotonic())
        if tries < TRIES:
            self.say(f"{printable(attempt.student)} {attempt.lesson}: {why}; it is tried again")
            return False
        self._note(attempt, "failed", f"{why}; run `python -m autograder grade`")
        return True

    def _note(self, attempt: HandIn, how: str, why: str) -> None:
        self.journal.add([Answered(attempt.key, attempt.student, attempt.lesson, self.clock(), how)])
        self.say(f"{printable(attempt.student)} {attempt.lesson}: {how}: {why}")

    def _say_once(self, text: str) -> None:
        if text != self.said:
            self.said = text
            with contextlib.suppress(OSError):
                self.say(text)


def in_order(attempts: list[HandIn], graded: Iterable[Graded]) -> Iterator[tuple[HandIn, Graded]]:
    """Yield the attempts in their order, each as soon as it and all before it are graded."""
    ready: dict[tuple[str, str], Graded] = {}
    left = deque(attempts)
    for one in graded:
        ready[one.student, one.lesson] = one
        while left and (left[0].student, left[0].lesson) in ready:
            attempt = left.popleft()
            yield attempt, ready.pop((attempt.student, attempt.lesson))
