"""Replace nbgrader's ways of reading a student's folder.

nbgrader follows links, copies everything beside a notebook to where the formgrader serves it, and stops at a
timestamp.txt that is no time. No option names the classes that do so, so their methods are replaced, in every process
that reads `nbgrader_config.py`: the command line, the formgrader's buttons, and `python -m autograder`.
"""

import fnmatch
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde, BaseConverter, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory

from autograder.in_nbgrader.copying import copy_listed
from autograder.in_nbgrader.handed_in import time_of
from autograder.in_nbgrader.names import fault_of_name
from autograder.in_nbgrader.pages.page import Page
from autograder.in_nbgrader.record_failures import explain, reason_file, record
from autograder.judging.intake.survey import Stray, survey
from autograder.judging.intake.timestamp import told_time

WITHOUT_SANDBOX = (
    "Nothing was graded: c.Autograde.autograde_preprocessors is not that of autograder/nbgrader_config.py, so student "
    "code would run without a sandbox. See whether a config was not read to its end, and start nbgrader in autograder/."
)
UNCLEANED = (
    "No feedback was written: c.GenerateFeedback.exporter_class is not that of autograder/nbgrader_config.py, so a "
    "student's script would run in its page. See whether a config was not read to its end, and start nbgrader in "
    "autograder/."
)

init_assignment = Autograde.init_assignment
init_notebooks = BaseConverter.init_notebooks
copy_all = BaseConverter.init_assignment


def guard() -> None:
    """Replace them; a second call changes nothing."""
    Autograde.init_notebooks = _find_submissions
    GenerateFeedback.init_notebooks = _find_graded
    Autograde.init_assignment = _take_in
    BaseConverter.init_assignment = _copy
    CourseDirectory.get_existing_timestamp = _timestamp
    NbGraderAPI.get_submitted_timestamp = _submitted_timestamp


def _find_submissions(converter: Any) -> None:
    """Find everything that `grade` takes for a submission, whatever the notebook's name; all else gets a line.

    Refuse if the steps would run one themselves: a config that wasn't read to its end leaves nbgrader's own.
    """
    steps = {getattr(step, "__name__", str(step)).rpartition(".")[2] for step in converter.autograde_preprocessors}
    if "JudgeInSandbox" not in steps or "Execute" in steps:
        converter.log.error(WITHOUT_SANDBOX)
        raise NbGraderException(WITHOUT_SANDBOX)
    course = converter.coursedir
    submissions, strays = survey(_submitted(course)) if _submitted(course).is_dir() else ([], [])
    converter.assignments, converter.notebooks = {}, []
    for student, lesson in submissions:
        wanted = (student, course.student_id), (lesson, course.assignment_id), (lesson, course.notebook_id)
        if all(_is_meant(name, pattern) for name, pattern in wanted):
            if why := fault_of_name(student):
                strays.append(Stray(student, why))
                continue
            folder = course.format_path(course.submitted_directory, student, lesson)
            converter.assignments[folder] = [str(Path(folder) / f"{lesson}.ipynb")]
    for stray in strays:
        if _is_meant(stray.student, course.student_id):
            converter.log.warning("%s: not graded: %s", stray.student, stray.why)
    if not converter.assignments:
        init_notebooks(converter)  # logs what is missing


def _find_graded(converter: Any) -> None:
    """Find the graded notebooks as nbgrader does, but take a student's name literally: `[ok]` is no pattern.

    Refuse if the pages would show what a student wrote as it is.
    """
    if not issubclass(converter.exporter_class, Page):
        converter.log.error(UNCLEANED)
        raise NbGraderException(UNCLEANED)
    course = converter.coursedir
    graded = Path(converter._format_source("x", "x")).parents[1]
    converter.assignments, converter.notebooks = {}, []
    for path in sorted(graded.glob("*/*/*.ipynb")):
        of = (path.parents[1].name, course.student_id), (path.parent.name, course.assignment_id)
        if all(_is_meant(name, pattern) for name, pattern in (*of, (path.stem, course.notebook_id))):
            converter.assignments.setdefault(str(path.parent), []).append(str(path))
    if not converter.assignments:
        init_notebooks(converter)  # logs what is missing


def _is_meant(name: str, pattern: str) -> bool:
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def _submitted(course: Any) -> Path:
    """The folder of all students' folders."""
    return Path(course.format_path(course.submitted_directory, "x", "x")).parents[1]


def _take_in(converter: Any, assignment_id: str, student_id: str) -> None:
    """Prepare as nbgrader does; if that fails, keep the reason like any other.

    A submission without a timestamp has none in the gradebook either, even if the previous one had.
    """
    course = converter.coursedir
    try:
        init_assignment(converter, assignment_id, student_id)
    except Exception as error:
        record(reason_file(course, student_id, assignment_id), explain(error))
        raise
    finally:
        told, _ = time_of(course, student_id, assignment_id)
        with Gradebook(course.db_url, course.course_id) as gradebook:
            if converter.create_student:
                gradebook.update_or_create_student(student_id)
            gradebook.update_or_create_submission(assignment_id, student_id, timestamp=told)


def _copy(converter: Any, assignment_id: str, student_id: str) -> None:
    """Copy the files beside a notebook: everything from the instructor, little from a student."""
    if isinstance(converter, (Autograde, GenerateFeedback)):
        source = Path(converter._format_source(assignment_id, student_id))
        copy_listed(source, Path(converter._format_dest(assignment_id, student_id)), assignment_id)
    else:
        copy_all(converter, assignment_id, student_id)


def _timestamp(_: Any, folder: str) -> datetime | None:
    return told_time(Path(folder))[0]


def _submitted_timestamp(api: Any, assignment_id: str, student_id: str) -> datetime | None:
    return time_of(api.coursedir, student_id, assignment_id)[0]
