import math

import pytest
import torch

from attnlib import LanguageModel, generate, sample_next

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 1.0])
DRAWS = 10_000


def shares(logits, *options):
    generator = torch.Generator().manual_seed(0)
    drawn = sample_next(logits.expand(DRAWS, -1), *options, generator=generator)
    return torch.bincount(drawn, minlength=logits.shape[-1]) / DRAWS


def fits(found, expected):
    """Pearson's chi-square with up to four degrees of freedom: beyond 33 in one of a million draws."""
    possible = expected > 0
    distance = (DRAWS * (found - expected)[possible].square() / expected[possible]).sum()
    return not found[~possible].any() and distance < 33


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_draws_follow_the_softmax(temperature):
    assert fits(shares(LOGITS, temperature), (LOGITS / temperature).softmax(dim=-1))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_top_k_keeps_what_ties(temperature):
    kept = LOGITS.masked_fill(LOGITS < 1, -math.inf)
    assert fits(shares(LOGITS, temperature, 2), (kept / temperature).softmax(dim=-1))
    assert fits(shares(LOGITS, temperature, 3), (kept / temperature).softmax(dim=-1))
    assert fits(shares(LOGITS, temperature, 99), (LOGITS / temperature).softmax(dim=-1))


def test_the_nucleus_is_the_smallest_set_that_reaches_p():
    logits = torch.tensor([0.2, 0.5, 0.1, 0.2]).log()
    assert fits(shares(logits, 1.0, None, 0.45), torch.tensor([0.0, 1, 0, 0]))
    assert fits(shares(logits, 1.0, None, 0.85), torch.tensor([2, 5, 0, 2]) / 9)
    assert fits(shares(logits, 1.0, None, 1.0), torch.tensor([0.2, 0.5, 0.1, 0.2]))
    assert fits(
        shares(torch.tensor([0.5, 0.3, 0.15, 0.05]).log(), 1.0, 2, 0.6), torch.tensor([1.0, 0, 0, 0])
    )  # 5/8 > 0.6


def test_temperature_0_and_errors():
    assert sample_next(torch.tensor([[1.0, 3.0, 3.0]]), 0).tolist() == [1]
    for wrong in ({"temperature": -1}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            sample_next(LOGITS[None], **wrong)


def test_the_greedy_text_is_the_one_token_by_token():
    torch.manual_seed(0)
    model, ids = LanguageModel(13, 12, 3, depth=2, max_len=5).train(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    expected = ids
    for _ in range(7):
        expected = torch.cat([expected, model(expected[:, -5:])[:, -1:].argmax(dim=-1)], dim=1)
    assert torch.equal(generate(model, ids, 7, temperature=0), expected)
    assert model.training
    first, second = (generate(model, ids, 7, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


class Counter(torch.nn.Module):
    """Says that the next number follows, and falls over what is too large for it."""

    max_len = 4

    def forward(self, ids):
        return torch.nn.functional.one_hot(ids + 1, 20).float()


def test_a_row_that_has_stopped_is_filled_and_the_text_ends_with_the_last():
    written = generate(Counter(), torch.tensor([[3], [1]]), 10, temperature=0, stop_id=5)
    assert written.tolist() == [[3, 4, 5, 5, 5], [1, 2, 3, 4, 5]]
    assert generate(Counter(), torch.tensor([[5]]), 2, temperature=0, stop_id=5).tolist() == [[5, 6, 7]]


def test_the_mode_is_put_back_after_an_error():
    model = Counter().train()
    with pytest.raises(RuntimeError):
        generate(model, torch.tensor([[18]]), 3, temperature=0)
    assert model.training


def test_each_module_gets_its_own_mode_back():
    model = LanguageModel(13, 12, 3, depth=2, max_len=5).train()
    model.blocks.layers[0].eval()
    generate(model, torch.tensor([[1]]), 1)
    assert [layer.training for layer in model.blocks.layers] == [False, True]
    with pytest.raises(ValueError, match=r"at least one token in each row, got \(2, 0\)"):
        generate(model, torch.zeros(2, 0, dtype=torch.long), 1)


def test_half_precision_has_the_same_nucleus_and_any_temperature():
    logits = torch.zeros(1000, dtype=torch.bfloat16)
    assert shares(logits, 1.0, None, 0.5)[500:].sum() == 0
    assert sample_next(torch.tensor([[30.0, 20.0]]).half(), 1e-4).tolist() == [0]
