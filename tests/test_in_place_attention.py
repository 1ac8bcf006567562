import pytest
import torch
from oracles import assert_agrees, randoms

from attnlib import scaled_dot_product_attention
from attnlib.in_place_attention import biased_softmax_


def test_is_the_softmax_of_the_sum_and_overwrites_what_it_was_given():
    scores, bias = randoms((6, 5, 7), (3, 1, 7))
    given = scores.detach().clone()
    weights = biased_softmax_(given, bias.detach(), (2, 3, 5, 7))
    assert_agrees(weights, torch.softmax(scores.view(2, 3, 5, 7) + bias, dim=-1).view(6, 5, 7))
    assert weights.data_ptr() == given.data_ptr()
    assert_agrees(biased_softmax_(scores.detach().clone(), None, (6, 5, 7)), torch.softmax(scores, dim=-1))


def test_first_and_second_derivative():
    scores, bias = randoms((2, 3, 5), (1, 5))

    def weights(scores, bias):
        return biased_softmax_(scores * 1, bias, (1, 2, 3, 5))

    assert torch.autograd.gradcheck(weights, (scores, bias))
    assert torch.autograd.gradgradcheck(weights, (scores, bias))


@pytest.mark.parametrize(("lead", "key_lead"), [((0, 4), (0, 2)), ((2, 0), (2, 0)), ((0,), (0,))])
def test_no_sequence_or_no_head_is_no_error(lead, key_lead):
    q, k, v = randoms((*lead, 3, 7), (*key_lead, 5, 7), (*key_lead, 5, 2))
    output, weights = scaled_dot_product_attention(q, k, v, is_causal=True, return_weights=True)
    assert output.shape == (*lead, 3, 2)
    assert weights.shape == (*lead, 3, 5)
    assert torch.autograd.grad(output.sum(), q)[0].shape == q.shape
