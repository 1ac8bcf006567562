"""Changes that pass by accident, and are never made: of a layer, of what a loop runs over, of one design of many."""

import pytest
import torch
from notebook_cells import run_cell
from test_reasons import told

from attnlib.checks import run


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("b = nn.Parameter(torch.zeros(d))", "b = nn.Parameter(torch.zeros(d)).sum(dim=-1)"),  # no parameter any more
        ("y = nn.Linear(d, d)", "y = nn.Linear(d, d).squeeze(0)"),
        ("for y in x:\n    k = y", "for y in x.unsqueeze(1):\n    k = y"),
        ("y = [n for n in x]", "y = [n for n in x.unsqueeze(1)]"),
    ],
)
def test_such_a_change_is_not_made(wrong: str, right: str) -> None:
    assert told(wrong, right) == set()


NINE = """
def two_heads_by_hand(n, who, whom):
    w_q, w_k, w_v, w_o = torch.zeros(4, 2 * n, 2 * n)
    w_q[n - 1, 0] = 9
    w_q[n - 1, n] = 9
    w_k[who, 0] = 1
    w_k[whom, n] = 1
    w_v[n:, :n] = torch.eye(n)
    w_v[n:, n:] = torch.eye(n)
    w_o.fill_diagonal_(1)
    return torch.stack([w_q, w_k, w_v, w_o])
"""


def test_that_all_matrices_squared_would_do_as_well_is_not_told() -> None:
    report = run("two_heads_by_hand", run_cell(NINE, {"torch": torch})["two_heads_by_hand"])
    assert not report.passed
    assert "one more step" not in report.message
