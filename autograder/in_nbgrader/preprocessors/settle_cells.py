"""Bring a submission's cells back into the order that grading needs, whatever the student's editor did to them."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.judging.intake.bounded import bounded
from autograder.judging.settle import settle
from autograder.lesson_text.released import released_cells


class SettleCells(NbGraderPreprocessor):
    """Replaces nbgrader's DeduplicateIds: settles a submission's cells."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        place = resources["nbgrader"]
        released = released_cells(place["db_url"], place["assignment"], place["notebook"])
        with bounded():
            return settle(nb, released), resources
