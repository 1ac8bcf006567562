import pytest
import torch
from oracles import assert_agrees, random_mask, randoms, slow_attention, untyped

from attnlib import CrossAttention, SelfAttention, cross_attention


@pytest.mark.parametrize("masked", [False, True])
def test_queries_from_one_keys_and_values_from_the_other(masked):
    x, memory, w_q, w_k, w_v = randoms((2, 5, 7), (2, 11, 13), (7, 3), (13, 3), (13, 17))
    mask = random_mask(2, 5, 11) if masked else None
    output, weights = cross_attention(x, memory, w_q, w_k, w_v, mask=mask)
    expected, expected_weights = slow_attention(x @ w_q, memory @ w_k, memory @ w_v, mask)
    assert_agrees(output, expected)
    assert_agrees(weights, expected_weights)


def test_gradcheck_and_unbatched():
    tensors = randoms((3, 5), (7, 2), (5, 3), (2, 3), (2, 11))
    assert torch.autograd.gradcheck(cross_attention, tensors)


@pytest.mark.parametrize("bias", [False, True])
def test_the_module_is_the_function(bias):
    module = CrossAttention(7, 13, 3, 17, bias=bias).double()
    x, memory = randoms((2, 5, 7), (2, 11, 13))
    mask = random_mask(2, 5, 11)
    output, weights = module(x, memory, mask=mask, return_weights=True)
    expected, expected_weights = slow_attention(module.w_q(x), module.w_k(memory), module.w_v(memory), mask)
    assert_agrees(output, expected)
    assert_agrees(weights, expected_weights)
    assert_agrees(module(x, memory, mask=mask), expected)


def test_a_memory_that_is_the_sequence_itself_is_self_attention():
    cross, alone = CrossAttention(7, 7, 3, 5).double(), SelfAttention(7, 3, 5).double()
    alone.load_state_dict(cross.state_dict())
    (x,) = randoms((2, 11, 7))
    assert_agrees(cross(x, x), alone(x))


def test_the_order_of_the_memory_does_not_matter():
    module = CrossAttention(7, 13, 3, 5).double()
    x, memory = randoms((2, 5, 7), (2, 11, 13))
    assert_agrees(module(x, memory[:, torch.randperm(11)]), module(x, memory))


def test_errors():
    module = CrossAttention(7, 13, 3, 5)
    with untyped(), pytest.raises(ValueError, match=r"x must have d_model = 7 features .* got \(2, 5, 13\)"):
        module(torch.zeros(2, 5, 13), torch.zeros(2, 11, 13))
    with untyped(), pytest.raises(ValueError, match=r"memory must have d_memory = 13 features .* got \(2, 11, 7\)"):
        module(torch.zeros(2, 5, 7), torch.zeros(2, 11, 7))


@pytest.mark.parametrize("batch", [1, 2])
def test_another_batch_is_not_taken_for_grouped_heads(batch):
    x, memory = torch.zeros(6, 5, 7), torch.zeros(batch, 11, 13)
    message = rf"the same leading axes, got \(6, 5, 7\) and \({batch}, 11, 13\)"
    with untyped(), pytest.raises(ValueError, match=message):
        CrossAttention(7, 13, 3, 5)(x, memory)
    with untyped(), pytest.raises(ValueError, match=message):
        cross_attention(x, memory, torch.zeros(7, 3), torch.zeros(13, 3), torch.zeros(13, 5))
