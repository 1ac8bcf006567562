"""What is said of numbers that a probe measures, and of inputs too wide for a line."""

import torch
from torch import Tensor

from attnlib.checks import run


def exchanged(vocab: int, n: int) -> Tensor:
    """An induction head by hand, with W^QK and W^OV in each other's place."""
    matrices = torch.zeros(4, 3 * vocab + n, 3 * vocab + n)
    ov_0, qk_0, ov_1, qk_1 = matrices
    token, before, guess = (slice(i * vocab, (i + 1) * vocab) for i in range(3))
    qk_0[3 * vocab :, 3 * vocab :] = 100 * torch.ones(n - 1).diag(-1)
    ov_0[token, before] = torch.eye(vocab)
    qk_1[token, before] = 100 * torch.eye(vocab)
    ov_1[token, guess] = torch.eye(vocab)
    return matrices


def test_what_a_probe_measures_is_no_relation_of_the_result_to_the_right_one() -> None:
    report = run("induction_by_hand", exchanged)
    assert report.diagnosis != "in_other_places"
    assert "the share of repeats predicted with each period" in " ".join(report.message.split())


def one_direction(weights: Tensor, before: Tensor, after: Tensor, elements: Tensor) -> tuple[Tensor, Tensor]:
    """Map atoms by what the product asks alone."""
    same = elements[after][:, None] == elements[before]
    both = weights[..., after, :][..., before] * same
    shares = both / both.sum(dim=-1, keepdim=True)
    return shares.argmax(dim=-1), shares


def test_a_table_too_wide_for_a_line_is_shown_row_by_row() -> None:
    assert "weights = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.5],\n" in run("atom_map", one_direction).message
