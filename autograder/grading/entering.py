"""Enter judgements: the one writer of the gradebook and of the graded notebooks."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from nbgrader import utils
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties

from autograder.in_nbgrader.copying import copy_listed
from autograder.in_nbgrader.course_files import write_whole
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.record_failures import reason_file, reason_line, record
from autograder.in_nbgrader.rows import Sheet, hand_in, read, save
from autograder.judging.intake.folder import digest_of_files
from autograder.judging.submission import Judged

WRITERS = 8


@dataclass(frozen=True)
class Entered:
    """One submission to be entered: its judgement, a digest of its files, and the time."""

    judged: Judged
    digest: str
    told: datetime | None


class Entries:
    """Writes to one course, many submissions at a time, in this order: gradebook, notebooks, entries.

    An entry says "done", and is written once the gradebook has committed. A run that is killed in between enters the
    same submissions again, and the same things come of it.
    """

    def __init__(self, course: NbgraderCourse, gradebook: Gradebook) -> None:
        self.course, self.gradebook = course, gradebook
        self.folder = Path(course.directory.root) / "entries"

    def path(self, lesson: str, student: str) -> Path:
        """The file of a submission's entry."""
        return self.folder / lesson / f"{hashlib.sha256(student.encode()).hexdigest()[:32]}.json"

    def find(self, lesson: str, student: str, digest: str, told: datetime | None) -> Judged | None:
        """Return the outcome of this very submission, if it was entered before and nothing has changed since."""
        try:
            found = json.loads(self.path(lesson, student).read_text(encoding="utf-8"))
            if found.pop("digest", None) != digest:
                return None
            before = Judged(**{**found, "remarks": tuple(found["remarks"]), "unanswered": tuple(found["unanswered"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # no entry, or one of another version
            return None
        return before if self._stands(before, told) else None

    def _stands(self, before: Judged, told: datetime | None) -> bool:
        """True if gradebook and folders still hold what was entered: nbgrader's own commands write there as well."""
        student, lesson, directory = before.student, before.lesson, self.course.directory
        sheet = read(self.gradebook, lesson, [student]).get(student)
        if sheet is None or sheet.told != told:  # entered into another gradebook, or at another time
            return False
        points = {name: mark.auto for name, mark in sheet.marks.items()}
        reason = reason_file(directory, student, lesson)
        if before.problem is not None:
            return set(points.values()) <= {None} and _text(reason) == reason_line(before.problem)
        if reason.exists() or {name: points.get(name) for name in before.points} != before.points:
            return False
        comments = {name: text for name, (_, text) in sheet.comments.items()}
        graded = self.course.path(directory.autograded_directory, student, lesson) / f"{lesson}.ipynb"
        return comments == _comments(comments, before) and _sha256(_text(graded)) == before.notebook

    def enter(self, batch: list[Entered]) -> list[Sheet]:
        """Enter these submissions, all of them or none; return their rows in the gradebook.

        A fault of the grader's own is no result: the next run judges such a submission again.
        """
        for one in batch:
            self.path(one.judged.lesson, one.judged.student).unlink(missing_ok=True)
        sheets = self._write_rows(batch)
        problems: dict[Path, str] = {}
        for one in batch:
            judged = one.judged
            reason = reason_file(self.course.directory, judged.student, judged.lesson)
            if judged.problem is None:
                self._write_notebook(judged)
                reason.unlink(missing_ok=True)
            else:
                problems[reason] = judged.problem
        _side_by_side(record, problems)
        _side_by_side(write_whole, {self.path(one.judged.lesson, one.judged.student): _entry(one) for one in batch})
        return sheets

    def _write_rows(self, batch: list[Entered]) -> list[Sheet]:
        """Write all scores of the submissions, in one transaction; submissions without points get rows as well."""
        book = self.gradebook
        found: dict[tuple[str, str], Sheet] = {}
        try:
            for lesson in {one.judged.lesson for one in batch}:
                told = {one.judged.student: one.told for one in batch if one.judged.lesson == lesson}
                hand_in(book, lesson, told)
                found |= {(student, lesson): sheet for student, sheet in read(book, lesson, list(told)).items()}
            before = [found[one.judged.student, one.judged.lesson] for one in batch]
            after = [self._filled(sheet, one.judged) for sheet, one in zip(before, batch, strict=True)]
            save(book, zip(before, after, strict=True))
            book.db.commit()
        except BaseException:
            book.db.rollback()
            raise
        return after

    def _filled(self, sheet: Sheet, judged: Judged) -> Sheet:
        """Fill the rows with the judgement; leave them without one if nothing could be judged."""
        if judged.problem is not None:
            return replace(sheet, marks={n: replace(m, auto=None, waits=True) for n, m in sheet.marks.items()})
        by_hand = not sheet.marks.keys() <= judged.points.keys()
        cells = {c.metadata.nbgrader.grade_id: c for c in _graded_cells(judged)} if by_hand else {}
        marks = dict(sheet.marks)
        for name, mark in sheet.marks.items():
            if name in judged.points:
                marks[name] = replace(mark, auto=judged.points[name], waits=mark.manual is not None)
            elif name in cells:  # cells graded by hand
                auto, _ = utils.determine_grade(cells[name])
                marks[name] = replace(mark, auto=auto, waits=mark.manual is not None or auto is None)
        said = _comments(sheet.comments, judged)
        comments = {name: (id_, said[name]) for name, (id_, _) in sheet.comments.items()}
        return self._charged(replace(sheet, marks=marks, comments=comments), judged.student)

    def charge(self, lesson: str, student: str) -> Sheet:
        """Take off what lateness costs by now; returns the rows of a submission that was entered before.

        Every run does it for every submission: a deadline may be set, or moved, after the verdict.
        """
        sheet = read(self.gradebook, lesson, [student])[student]
        charged = self._charged(sheet, student)
        save(self.gradebook, [(sheet, charged)])
        self.gradebook.db.commit()
        return charged

    def _charged(self, sheet: Sheet, student: str) -> Sheet:
        """Set the penalty that nbgrader's plugin gives for lateness, between 0 and the score."""
        if sheet.late <= 0:
            return replace(sheet, penalty=None)
        penalty = self._penalties.late_submission_penalty(student, sheet.score, sheet.late)
        return replace(sheet, penalty=None if penalty is None else min(max(penalty, 0.0), sheet.score))

    @cached_property
    def _penalties(self) -> Any:
        assign = AssignLatePenalties(config=self.course.config)
        assign.init_plugin()
        return assign.plugin_inst

    def _write_notebook(self, judged: Judged) -> None:
        """Replace the graded notebook, with the student's listed files and the instructor's."""
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


def _entry(one: Entered) -> str:
    judged = one.judged
    digest = "" if judged.fault or judged.passing else one.digest
    return json.dumps({**vars(judged), "notebook": _sha256(judged.notebook), "digest": digest}, ensure_ascii=True)


def _side_by_side(write: Callable[[Path, str], None], texts: dict[Path, str]) -> None:
    """Write files side by side, each whole or not at all: a disk then waits once for many."""
    if len(texts) == 1:
        write(*texts.popitem())
    elif texts:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, texts, texts.values()))


def _graded_cells(judged: Judged) -> list[Any]:
    import nbformat

    cells = nbformat.reads(judged.notebook, as_version=4).cells
    return [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]


def _comments(names: Iterable[str], judged: Judged) -> dict[str, str | None]:
    """Return the comments below the answers of these names, as nbgrader words them."""
    return {name: "No response." if name in judged.unanswered else None for name in names}


def _text(path: Path) -> str | None:
    """A file's text; None where there is no such file."""
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _sha256(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()


def digest_of(files: Mapping[str, bytes], *others: str) -> str:
    """Digest what a verdict depends on: the files handed in, and other conditions such as the lesson's digest."""
    return hashlib.sha256("\n".join([digest_of_files(files), *others]).encode()).hexdigest()
