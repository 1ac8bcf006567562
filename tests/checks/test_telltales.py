"""What stands beside a mistake and gives it away, or misleads: such bugs are not served."""

import pytest

from attnlib.checks.practising.bug import Bug
from attnlib.checks.practising.table import rows
from autograder.proof.bugs import unreadable
from autograder.proof.telltales import telltale

RIGHT = """def f(x, mask=None):
    a, b = x.shape
    scores = x * 2
    for _step in range(3):
        scores += 1
    closed = scores if mask is None else scores + mask
    return closed / a"""
HELPED = "def g(x):\n    return x\n\n\ndef f(x):\n    y = g(x) + 1\n    return y"
ABOVE = "class A:\n    def forward(self, x):\n        return x\n\n\nclass f(A):\n    def forward(self, x):\n"


IMPORTED = "import math\nimport torch\nimport torch.nn.functional as F\n\n\ndef f(x):\n    return F.relu(x)"
LAYERS = """class f:
    def __init__(self):
        self.a, self.b = 1, 2

    def forward(self, x):
        return x + self.a"""


def bug(right, old="", new=""):
    assert not old or right.count(old) == 1
    wrong = right.replace(old, new) if old else right
    return Bug(exercise="softmax", slip="x", right=right, code=wrong, title="", explanation="")


@pytest.mark.parametrize(
    ("right", "old", "new", "said"),
    [
        (RIGHT, "    return closed / a", "    return scores / a", "a name that is left over"),
        (RIGHT, "scores = x * 2", "scores = x", "a line that nobody writes"),
        (RIGHT, "a, b = x.shape", "a, b = a, b", "a line that nobody writes"),
        (RIGHT, "closed / a", "(closed if a > 1 else scores) / a", "a condition that the right line does without"),
        (HELPED, "g(x) + 1", "x + 1", "a name that is left over"),
        (IMPORTED, "F.relu(x)", "x * 2", "a name that is left over"),
        (f"{ABOVE}        y = x + 1\n        return y", "x + 1", "x - 1", "a right answer with code that never runs"),
        (LAYERS, "x + self.a", "x - self.a", "a right answer with code that never runs"),
    ],
)
def test_what_gives_a_bug_away_is_named(right, old, new, said):
    assert telltale(bug(right, old, new)) == said


@pytest.mark.parametrize(
    ("right", "old", "new"),
    [
        (RIGHT, "x * 2", "x * 3"),
        (RIGHT, "scores += 1", "scores += 2"),
        (RIGHT, "is None else scores + mask", "is None else scores - mask"),  # the right line has a condition as well
        (RIGHT, "closed / a", "closed / b"),  # what is unpacked may stay unread
        (HELPED, "g(x) + 1", "g(x) - 1"),
        (IMPORTED, "F.relu(x)", "F.gelu(x)"),
        (LAYERS.replace("+ self.a", "+ self.a * self.b"), "+ self.a * self.b", "+ self.a"),  # the mistake itself
        (f"{ABOVE}        y = super().forward(x) + 1\n        return y", "x) + 1", "x) - 1"),
    ],
)
def test_a_plain_mistake_stands_by_itself(right, old, new):
    assert telltale(bug(right, old, new)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("level", sorted({row.level for row in rows()}))
def test_nothing_that_is_served_is_given_away(level):
    """The static half of what `python -m autograder bugs` asks; the other half runs the code."""
    refused = {}
    for row in [row for row in rows() if row.level == level]:
        bug = row.bug
        if reason := unreadable(bug.declared.wrong_called(row.slip), bug):
            refused[row.key] = reason
    assert refused == {}
