"""Entering what was judged: the one writer of the gradebook and of the graded notebooks."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader import utils
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import AssignLatePenalties

from autograder.in_nbgrader.copying import copy_listed
from autograder.in_nbgrader.course_files import write_whole
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.record_failures import forget, reason_file, reason_line, record
from autograder.judging.intake.folder import digest_of_files
from autograder.judging.submission import Judged


class Entries:
    """Writes to one course. A submission is entered in this order: gradebook, notebook, entry; the entry says "done".

    A run that is killed in between enters the same submission again, and the same things come of it.
    """

    def __init__(self, course: NbgraderCourse, gradebook: Gradebook) -> None:
        self.course, self.gradebook = course, gradebook
        self.folder = Path(course.directory.root) / "entries"

    def path(self, lesson: str, student: str) -> Path:
        """Where the entry of a submission stands."""
        return self.folder / lesson / f"{hashlib.sha256(student.encode()).hexdigest()[:32]}.json"

    def find(self, lesson: str, student: str, digest: str, told: datetime | None) -> Judged | None:
        """What came of a submission, if this very submission was entered already, and still stands where it was."""
        try:
            found = json.loads(self.path(lesson, student).read_text(encoding="utf-8"))
            if found.pop("digest", None) != digest:
                return None
            before = Judged(**{**found, "remarks": tuple(found["remarks"]), "unanswered": tuple(found["unanswered"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or one of another version
            return None
        return before if self._stands(before, told) else None

    def _stands(self, before: Judged, told: datetime | None) -> bool:
        """Whether gradebook and folders hold what was entered: nbgrader's own commands write there, too."""
        student, lesson, directory = before.student, before.lesson, self.course.directory
        try:
            submission = self.gradebook.find_submission(lesson, student)
        except MissingEntry:  # entered into another gradebook
            return False
        grades = {grade.name: grade.auto_score for notebook in submission.notebooks for grade in notebook.grades}
        reason = reason_file(directory, student, lesson)
        if submission.timestamp != told:
            return False
        if before.problem is not None:
            return set(grades.values()) <= {None} and _text(reason) == reason_line(before.problem)
        if reason.exists() or {name: grades.get(name) for name in before.points} != before.points:
            return False
        comments = {one.name: one.auto_comment for notebook in submission.notebooks for one in notebook.comments}
        graded = self.course.path(directory.autograded_directory, student, lesson) / f"{lesson}.ipynb"
        return comments == _comments(comments, before) and _sha256(_text(graded)) == before.notebook

    def enter(self, judged: Judged, digest: str, told: datetime | None) -> None:
        """Write down what came of a submission that was `told` to be handed in at that time.

        A fault of the grader's own is no result: the next run judges such a submission again.
        """
        student, lesson = judged.student, judged.lesson
        path = self.path(lesson, student)
        path.unlink(missing_ok=True)
        reason = reason_file(self.course.directory, student, lesson)
        if judged.problem is not None:
            self._submission(judged, told)
            forget(self.gradebook, lesson, student)
            record(reason, judged.problem)
        else:
            self._write_grades(judged, told)
            self._write_notebook(judged)
            reason.unlink(missing_ok=True)
        digest = "" if judged.fault or judged.passing else digest
        entry = {**asdict(judged), "notebook": _sha256(judged.notebook), "digest": digest}
        write_whole(path, json.dumps(entry, ensure_ascii=True))

    def _submission(self, judged: Judged, told: datetime | None) -> Any:
        """The gradebook's row; there is one also where there are no points, as in nbgrader's own way."""
        self.gradebook.update_or_create_student(judged.student)
        return self.gradebook.update_or_create_submission(judged.lesson, judged.student, timestamp=told)

    def _write_grades(self, judged: Judged, told: datetime | None) -> None:
        """All scores of a submission, in one transaction."""
        book = self.gradebook
        self._submission(judged, told)
        notebook = book.find_submission_notebook(judged.lesson, judged.lesson, judged.student)
        by_hand = any(grade.name not in judged.points for grade in notebook.grades)
        cells = {c.metadata.nbgrader.grade_id: c for c in _graded_cells(judged)} if by_hand else {}
        for grade in notebook.grades:
            if grade.name in judged.points:
                grade.auto_score = judged.points[grade.name]
                grade.needs_manual_grade = grade.manual_score is not None
            elif grade.name in cells:  # what is graded by hand
                grade.auto_score, _ = utils.determine_grade(cells[grade.name])
                grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
        comments = _comments((comment.name for comment in notebook.comments), judged)
        for comment in notebook.comments:
            comment.auto_comment = comments[comment.name]
        book.db.commit()

    def by_hand(self, judged: Judged) -> dict[str, float]:
        """The points that a person has given, by the test's grade id."""
        notebook = self.gradebook.find_submission_notebook(judged.lesson, judged.lesson, judged.student)
        return {g.name: float(g.score) for g in notebook.grades if g.manual_score is not None or g.extra_credit}

    def charge(self, judged: Judged) -> tuple[float, float]:
        """Take off what lateness costs by now; the score, points given by hand included, and what is taken off it.

        Every run does it for every submission: a deadline may be set, or moved, after the verdict.
        """
        notebook = self.gradebook.find_submission_notebook(judged.lesson, judged.lesson, judged.student)
        penalty = self._late_penalty(notebook.assignment, notebook)
        if penalty != notebook.late_submission_penalty:
            notebook.late_submission_penalty = penalty
            self.gradebook.db.commit()
        return notebook.score, penalty or 0.0

    def _late_penalty(self, submission: Any, notebook: Any) -> float | None:
        """What nbgrader's plugin takes off for lateness, not below 0 and not above the score."""
        late = submission.total_seconds_late
        if late <= 0:
            return None
        assign = AssignLatePenalties(config=self.course.config)
        assign.init_plugin()
        penalty = assign.plugin_inst.late_submission_penalty(submission.student.id, notebook.score, late)
        return None if penalty is None else min(max(penalty, 0.0), notebook.score)

    def _write_notebook(self, judged: Judged) -> None:
        """The graded notebook in place of an earlier one, with the student's listed files and the instructor's."""
        directory = self.course.directory
        target = self.course.path(directory.autograded_directory, judged.student, judged.lesson)
        new, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        new.mkdir(parents=True)
        copy_listed(self.course.path(directory.submitted_directory, judged.student, judged.lesson), new, judged.lesson)
        source = self.course.path(directory.source_directory, ".", judged.lesson)
        for path in utils.find_all_files(str(source), [*directory.ignore, "*.ipynb"]):
            beside = new / os.path.relpath(path, source)
            beside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, beside)
        (new / f"{judged.lesson}.ipynb").write_text(judged.notebook, encoding="utf-8")
        if target.exists():
            target.rename(old)
        new.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _graded_cells(judged: Judged) -> list[Any]:
    import nbformat

    cells = nbformat.reads(judged.notebook, as_version=4).cells
    return [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]


def _comments(names: Iterable[str], judged: Judged) -> dict[str, str | None]:
    """What stands below the answers of these names, as nbgrader has it."""
    return {name: "No response." if name in judged.unanswered else None for name in names}


def _text(path: Path) -> str | None:
    """A file's text; None where there is no such file."""
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _sha256(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()


def digest_of(files: Mapping[str, bytes], *others: str) -> str:
    """What a verdict depends on: the files handed in, and others of its conditions such as the lesson's digest."""
    return hashlib.sha256("\n".join([digest_of_files(files), *others]).encode()).hexdigest()
