"""What can still be mended is told as soon as it is known, whatever else is hidden until later."""

from autograder.elsewhere import gradescope


def test_a_notebook_that_cannot_be_opened_is_told_at_once():
    found = gradescope.results({"problem": "the notebook is not JSON"}, "hidden")
    assert (found["score"], found["visibility"], found["stdout_visibility"]) == (0, "visible", "hidden")
