"""Bring a submission's cells back into the order that grading needs, whatever the student's editor did to them."""

from copy import deepcopy
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.in_nbgrader.disarm_markup import disarm_markup
from autograder.judging.settle.distrust_metadata import distrust_metadata
from autograder.judging.settle.keep_one_copy import keep_one_copy
from autograder.judging.settle.test_below_answer import test_below_answer
from autograder.lesson_text.released import released_cells

# Copies can only be told apart once grade ids are trusted, and a test can only be placed once its answer is known. What
# is text is known once each cell has its released type back.
STEPS = (distrust_metadata, keep_one_copy, test_below_answer, disarm_markup)


class SettleCells(NbGraderPreprocessor):
    """Runs the steps above, in place of nbgrader's DeduplicateIds."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        place = resources["nbgrader"]
        released = released_cells(place["db_url"], place["assignment"], place["notebook"])
        nb = deepcopy(nb)
        for step in STEPS:
            nb = step(nb, released)
        return nb, resources
