"""Restore the released order of a submission's cells, whatever an editor did to them."""

from copy import deepcopy

from nbformat import NotebookNode

from autograder.judging.settle.distrust_metadata import distrust_metadata
from autograder.judging.settle.keep_one_copy import keep_one_copy
from autograder.judging.settle.put_tests_below import put_test_below_answer
from autograder.lesson_text.released import Released

# Copies can only be told apart once grade ids are trusted, and a test can only be placed once its answer is known.
STEPS = (distrust_metadata, keep_one_copy, put_test_below_answer)


def settle(notebook: NotebookNode, released: Released) -> NotebookNode:
    """Return the submission with its cells as grading needs them: every test once, below its answer."""
    settled = deepcopy(notebook)
    for step in STEPS:
        settled = step(settled, released)
    return settled
