"""Several assistants, each with a share of the class: the same students in the formgrader and among the requests."""

import hashlib
import os
from typing import Any

from nbgrader.apps.api import NbGraderAPI
from nbgrader.server_extensions.formgrader import base
from nbgrader.server_extensions.formgrader.handlers import SubmissionNavigationHandler

from autograder.showing.errors import CourseError
from autograder.showing.text import printable

SHARE = "AUTOGRADER_SHARE"
"""The environment variable with the share of whoever starts the formgrader."""


def in_share(student: str, part: tuple[int, int]) -> bool:
    """True if a student is in the k-th of n shares; every student is in exactly one, the same each time."""
    number, shares = part
    return int.from_bytes(hashlib.sha256(student.encode(errors="surrogateescape")).digest()[:8]) % shares == number - 1


def read_share(text: str, said_in: str) -> tuple[int, int]:
    """Read a share: `2/3` is the second of three."""
    number, _, shares = text.partition("/")
    if not (number.isdecimal() and shares.isdecimal() and 1 <= int(number) <= int(shares)):
        raise CourseError(f"{said_in} should be like 2/3, the second of three shares, got {printable(text)!r}.")
    return int(number), int(shares)


class OfAShare(NbGraderAPI):
    """nbgrader's interface, whose lists of submissions to grade by hand hold one share of the students."""

    def _filter_existing_notebooks(self, assignment_id: str, notebooks: list[Any]) -> list[Any]:
        part = read_share(os.environ[SHARE], SHARE)
        mine = [notebook for notebook in notebooks if in_share(notebook.student.id, part)]
        return list(super()._filter_existing_notebooks(assignment_id, mine))


class _Ids(list[str]):
    """Submissions in the order of the pages; one of another share, opened by its address, is followed by the list."""

    def index(self, submission: str, *_: Any) -> int:
        return super().index(submission) if submission in self else len(self) - 1


def show_one_share() -> None:
    """Let the formgrader of this process show the students of AUTOGRADER_SHARE; a CourseError if that is no share."""
    read_share(os.environ[SHARE], SHARE)
    base.NbGraderAPI = OfAShare
    ids = SubmissionNavigationHandler._get_submission_ids
    SubmissionNavigationHandler._get_submission_ids = lambda *which: _Ids(ids(*which))
