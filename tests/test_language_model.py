import math

import pytest
import torch
from oracles import assert_agrees

from attnlib import LanguageModel, causal_mask


def model(**options):
    torch.manual_seed(0)
    return LanguageModel(13, 12, 3, depth=2, max_len=11, **options).double()


def test_by_its_parts():
    ids = torch.randint(0, 13, (2, 7))
    ours = model()
    x = ours.embed.weight[ids] + ours.positions.table[:7]
    for layer in ours.blocks.layers:
        x = x + layer.attn(layer.norm1(x), mask=causal_mask(7, 7))
        x = x + layer.mlp(layer.norm2(x))
    assert_agrees(ours(ids), ours.blocks.norm(x) @ ours.embed.weight.T)


def test_how_many_parameters():
    block = 12 * 12**2 + 13 * 12  # 4 + 8 matrices; 4 + 4 + 1 biases, and two norms with gain and bias
    without_head = 13 * 12 + 11 * 12 + 2 * block + 2 * 12
    assert sum(p.numel() for p in model().parameters()) == without_head
    assert sum(p.numel() for p in model(tie=False).parameters()) == without_head + 13 * 12


def test_the_future_changes_nothing_and_guessing_is_even_at_first():
    ids = torch.randint(0, 13, (2, 7))
    other = ids.clone()
    other[:, 5:] = (other[:, 5:] + 1) % 13
    ours = model()
    assert_agrees(ours(ids)[:, :5], ours(other)[:, :5])
    loss = torch.nn.functional.cross_entropy(ours(ids).flatten(0, 1), torch.randint(0, 13, (14,)))
    assert abs(loss.item() - math.log(13)) < 0.3


def test_with_caches_it_is_the_same():
    ids, ours = torch.randint(0, 13, (2, 9)), model()
    caches = ours.caches(2)
    pieces = [ours(ids[:, a:b], caches=caches) for a, b in ((0, 4), (4, 5), (5, 9))]
    assert_agrees(torch.cat(pieces, dim=1), ours(ids))
    with pytest.raises(ValueError, match="positions must be within max_len = 11, got 9 to 11"):
        ours(ids[:, :3], caches=caches)
