"""nbgrader's ways to read a student's folder, replaced by ours.

nbgrader follows links, copies whatever lies beside a notebook to where the formgrader serves it, and ends at a
timestamp.txt that is no time. No option names the classes that do so, so their methods are replaced, in every process
that reads `nbgrader_config.py`: the command line, the formgrader's buttons, and `python -m autograder`.
"""

import fnmatch
import glob
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde, BaseConverter, GenerateFeedback
from nbgrader.coursedir import CourseDirectory

from autograder.in_nbgrader.copying import copy_listed
from autograder.in_nbgrader.record_failures import explain, reason_file, record
from autograder.judging.intake.timestamp import told_time

init_assignment = Autograde.init_assignment
init_notebooks = Autograde.init_notebooks
copy_all = BaseConverter.init_assignment


def guard() -> None:
    """Replace them; a second time changes nothing."""
    Autograde.init_notebooks = _find_submissions
    Autograde.init_assignment = _take_in
    BaseConverter.init_assignment = _copy
    CourseDirectory.get_existing_timestamp = _timestamp
    NbGraderAPI.get_submitted_timestamp = _submitted_timestamp


def _find_submissions(converter: Any) -> None:
    """Every folder of the assignment is a submission: RecordFailures finds the notebook, whatever it is called."""
    course = converter.coursedir
    pattern = course.format_path(course.submitted_directory, "(?P<student>[^/]*)", "(?P<lesson>[^/]*)", escape=True)
    converter.assignments, converter.notebooks = {}, []
    for folder in glob.glob(course.format_path(course.submitted_directory, course.student_id, course.assignment_id)):
        found = re.fullmatch(pattern, folder)
        if found and not Path(folder).is_file() and fnmatch.fnmatch(found["lesson"], course.notebook_id):
            converter.assignments[folder] = [str(Path(folder) / f"{found['lesson']}.ipynb")]
    if not converter.assignments:
        init_notebooks(converter)  # which says what is missing


def _take_in(converter: Any, assignment_id: str, student_id: str) -> None:
    """nbgrader's preparations; where they fail, the reason is kept as any other.

    A submission without a timestamp has none in the gradebook either, whatever the last one had.
    """
    course = converter.coursedir
    try:
        init_assignment(converter, assignment_id, student_id)
        told = _timestamp(course, course.format_path(course.submitted_directory, student_id, assignment_id))
        with Gradebook(course.db_url, course.course_id) as gradebook:
            gradebook.update_or_create_submission(assignment_id, student_id, timestamp=told)
    except Exception as error:
        record(reason_file(course, student_id, assignment_id), explain(error))
        raise


def _copy(converter: Any, assignment_id: str, student_id: str) -> None:
    """Copy what lies beside a notebook: all that the instructor gave, little of what a student did."""
    if isinstance(converter, (Autograde, GenerateFeedback)):
        source = Path(converter._format_source(assignment_id, student_id))
        copy_listed(source, Path(converter._format_dest(assignment_id, student_id)), assignment_id)
    else:
        copy_all(converter, assignment_id, student_id)


def _timestamp(_: Any, folder: str) -> datetime | None:
    return told_time(Path(folder))[0]


def _submitted_timestamp(api: Any, assignment_id: str, student_id: str) -> datetime | None:
    course = api.coursedir
    return told_time(Path(course.format_path(course.submitted_directory, student_id, assignment_id)))[0]
