"""A prediction that its cell simply assigns is read without a process."""

import pytest

from autograder.judging.cells_around import plain_text


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        (['largest = "B"'], "B"),
        (["# because of the angle\nlargest = 'B'"], "B"),
        (['largest = "B"', 'largest = "C"'], None),
        (['largest = "B"', 'print("largest")'], None),
        (['largest = other = "B"'], None),
        (['largest = "B" + ""'], None),
        (['if True:\n    largest = "B"'], None),
        (["largest = 3"], None),
        (['largest = "B'], None),
        ([], None),
    ],
)
def test_a_text_is_read_only_where_nothing_else_could_bind_it(sources, text):
    cells = [{"name": str(place), "source": source, "role": "answer"} for place, source in enumerate(sources)]
    assert plain_text(cells, "largest") == text
