import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    DTYPES,
    TOLERANCE,
    assert_agrees,
    assert_same_gradients,
    devices,
    quick,
    random_mask,
    randoms,
    untyped,
)

from attnlib import masked_softmax, softmax

finite = st.floats(-1e4, 1e4, width=32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_equals_pytorch(dtype):
    (scores,) = randoms((2, 3, 5, 7), dtype=dtype)
    assert softmax(scores).dtype == dtype
    assert_agrees(softmax(scores), torch.softmax(scores.double(), dim=-1))
    (scores,) = randoms((2, 5, 7))
    assert_same_gradients(softmax(scores), torch.softmax(scores, dim=-1), [scores])


@quick
@given(st.lists(st.lists(finite, min_size=7, max_size=7), min_size=1, max_size=5))
def test_rows_sum_to_one_and_a_constant_changes_nothing(rows):
    scores = torch.tensor(rows, dtype=torch.float64)
    weights = softmax(scores)
    assert torch.isfinite(weights).all()
    assert_agrees(weights.sum(dim=-1), torch.ones(len(rows)))
    assert_agrees(softmax(scores + 37.0), weights, tolerance=1e-11)


def test_gradcheck_of_both():
    (scores,) = randoms((3, 5))
    mask = random_mask(3, 5)
    mask[1] = False
    assert torch.autograd.gradcheck(softmax, scores)
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, mask), scores)


def test_without_a_mask_it_is_the_softmax():
    (scores,) = randoms((3, 5))
    assert_agrees(masked_softmax(scores), softmax(scores))


@quick
@given(st.integers(1, 5), st.integers(1, 7), st.integers(0, 1000), st.sampled_from(DTYPES))
def test_open_entries_sum_to_one_and_blocked_ones_are_zero(rows, columns, seed, dtype):
    (scores,) = randoms((2, rows, columns), seed=seed, dtype=dtype)
    mask = random_mask(rows, columns, seed=seed, share=0.4)
    weights = masked_softmax(scores, mask)
    some = mask.any(dim=-1).expand(2, rows).double()
    assert_agrees(weights.sum(dim=-1), some, tolerance=2 * TOLERANCE[dtype])
    assert (weights[~mask.expand_as(weights)] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("low", [-60000.0, -10.0, 0.0, 50000.0])
def test_blocked_scores_of_any_size_do_not_count(dtype, low):
    opened = torch.tensor([0.0, 1.0, 2.0]).to(dtype) * 64 + low
    scores = torch.cat([opened, torch.full((2,), torch.finfo(dtype).max, dtype=dtype)])
    mask = torch.tensor([True, True, True, False, False])
    assert_agrees(masked_softmax(scores, mask)[:3], torch.softmax(opened.double(), dim=-1))
    lowest = torch.full((5,), torch.finfo(dtype).min, dtype=dtype)
    assert_agrees(masked_softmax(lowest, mask), mask.double() / 3)


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_rows_are_zero_forward_and_gradient(dtype, device):
    (scores,) = randoms((2, 3, 5), dtype=dtype, device=device)
    mask = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5], device=device)
    weights = masked_softmax(scores, mask)
    (gradient,) = torch.autograd.grad(weights, scores, torch.ones_like(weights) * torch.arange(5, device=device))
    assert (weights[:, 1] == 0).all()
    assert (gradient[:, 1] == 0).all()
    assert torch.isfinite(gradient).all()
    assert (gradient[:, 0, 0] != 0).all()


def test_scores_are_not_changed():
    (scores,) = randoms((3, 5))
    before = scores.detach().clone()
    masked_softmax(scores.detach(), random_mask(3, 5))
    softmax(scores.detach())
    assert torch.equal(scores, before)


def test_vmap_over_scores_and_masks():
    (scores,) = randoms((2, 3, 5))
    mask = random_mask(2, 3, 5)
    mask[0, 1] = False
    assert_agrees(torch.func.vmap(masked_softmax)(scores, mask), masked_softmax(scores, mask))


def test_errors_name_what_was_required_and_what_came():
    scores = torch.zeros(2, 5, 7)
    with pytest.raises(ValueError, match=r"broadcastable to \(\.\.\., q, k\) = \(2, 5, 7\), got \(7, 5\)"):
        masked_softmax(scores, torch.ones(7, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"= \(2, 5, 7\), got \(3, 2, 5, 7\)"):
        masked_softmax(scores, torch.ones(3, 2, 5, 7, dtype=torch.bool))
    with untyped(), pytest.raises(TypeError, match=r"bool with True = may attend, got torch.float32.*mask_conventions"):
        masked_softmax(scores, torch.ones(5, 7))
