import pytest
import torch
from oracles import DTYPES, TOLERANCE, assert_agrees, randoms, untyped

from attnlib import attention_scores


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_are_dot_products_over_the_root_of_the_width(dtype):
    q, k = randoms((2, 3, 5, 7), (2, 3, 11, 7), dtype=dtype)
    expected = torch.einsum("bhqd,bhkd->bhqk", q.double(), k.double()) / 7**0.5
    scores = attention_scores(q, k)
    assert scores.dtype == dtype
    assert_agrees(scores, expected, tolerance=2 * TOLERANCE[dtype])


def test_a_given_scale_replaces_the_root():
    q, k = randoms((5, 7), (11, 7))
    assert_agrees(attention_scores(q, k, scale=0.3), 0.3 * q @ k.T)
    assert_agrees(attention_scores(q, k, scale=0.0), torch.zeros(5, 11))


def test_scaled_scores_of_random_vectors_have_variance_one_at_any_width():
    for d in (2, 1021):
        q, k = randoms((211, d), (223, d), seed=d)
        assert abs(attention_scores(q, k).var().item() - 1) < 0.1


def test_gradients():
    q, k = randoms((2, 3, 5), (2, 7, 5))
    assert torch.autograd.gradcheck(attention_scores, (q, k))


def test_different_widths_are_an_error():
    with untyped(), pytest.raises(ValueError, match=r"same width d, got d = 7 for q and 5 for k"):
        attention_scores(torch.zeros(2, 7), torch.zeros(3, 5))
