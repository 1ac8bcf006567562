"""What a notebook has set, inference mode or another default device, is nothing to a check."""

import sys

import torch
from torch import Tensor

from attnlib.checks import run


def test_what_a_cell_has_set_changes_no_verdict_not_even_a_later_one() -> None:
    def scores(q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / q.shape[-1] ** 0.5

    def causal(q: int, k: int, window: int | None = None) -> Tensor:
        seen = torch.ones(q, k, dtype=torch.bool).tril(k - q)
        return seen if window is None else seen.triu(k - q - window + 1)

    sys.modules["attnlib.checks.check"]._MEMORIES.clear()
    with torch.inference_mode():
        assert run("attention_scores", scores).passed
    assert run("attention_scores", scores).passed
    sys.modules["attnlib.checks.check"]._MEMORIES.clear()
    torch.set_default_device("meta")
    try:
        assert run("causal_mask", causal).passed
        assert torch.ones(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
