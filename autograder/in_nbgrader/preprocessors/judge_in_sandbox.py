"""Judge a submission inside nbgrader: for its command line, and for the formgrader's autograde button."""

import atexit
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import TraitError, Unicode, validate

from autograder.in_nbgrader.course_files import course_seed, record_fault
from autograder.judging.intake.bounded import bounded
from autograder.judging.intake.custody import take_in
from autograder.judging.intake.folder import collect
from autograder.judging.judge import Judge
from autograder.judging.submission import SECOND_ATTEMPT
from autograder.judging.verdict import write_verdicts
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.layout import Layout
from autograder.sandbox.probe import check_choice, open_sandbox
from autograder.sandbox.process import Sandbox
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

POINTS = "attnlib_points"


class JudgeInSandbox(NbGraderPreprocessor):
    """Replaces nbgrader's Execute: judges each answer in the sandbox, as `python -m autograder grade` does."""

    sandbox = Unicode("auto", help="What student code runs behind; see python -m autograder grade --help").tag(
        config=True
    )

    @validate("sandbox")
    def _check_sandbox(self, proposal: Any) -> str:
        try:
            check_choice(proposal["value"])
        except CourseError as error:
            raise TraitError(str(error)) from None
        return str(proposal["value"])

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        place, directory = resources["nbgrader"], self.parent.parent.coursedir
        course = Path(directory.root)
        assignment = Assignment.read(Layout(course=course).source_for(place["student"], place["assignment"]))
        sandbox = _sandbox(self.sandbox)
        submitted = Path(directory.format_path(directory.submitted_directory, place["student"], place["assignment"]))
        with bounded():
            handed_in = collect(submitted, place["notebook"])
            beside = take_in(handed_in.files, place["notebook"], assignment.released).beside
        judge = Judge(sandbox, course_seed(course))
        verdicts = judge.verdicts(nb, assignment, beside=beside)
        for trace in judge.overcome:
            self.log.warning("%s, %s: %s", printable(place["student"]), place["assignment"], SECOND_ATTEMPT)
            record_fault(course, place["student"], place["assignment"], trace)
        resources[POINTS] = {verdict.question.test: verdict.points for verdict in verdicts}
        return write_verdicts(nb, verdicts), resources


@cache
def _sandbox(choice: str) -> Sandbox:
    """One sandbox for all submissions that this process grades."""
    sandbox = open_sandbox(choice)
    atexit.register(sandbox.close)
    return sandbox
