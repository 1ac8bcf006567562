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
    slow_attention,
    untyped,
)

from attnlib import scaled_dot_product_attention, tiled_attention

length = st.integers(1, 11)


@quick
@given(length, length, st.integers(1, 13), st.integers(1, 13), st.booleans(), st.integers(0, 5), st.integers(0, 100))
def test_the_size_of_the_blocks_never_changes_the_result(q_len, k_len, block_q, block_k, is_causal, kind, seed):
    q, k, v = randoms((2, 3, q_len, 5), (2, 3, k_len, 5), (2, 3, k_len, 7), seed=seed)
    shapes = [(2, 3, q_len, k_len), (q_len, k_len), (2, 1, 1, k_len), (3, q_len, 1), (k_len,)]
    mask = None if kind == len(shapes) else random_mask(*shapes[kind], seed=seed)
    options = {"mask": mask, "is_causal": is_causal}
    expected = scaled_dot_product_attention(q, k, v, backend="eager", **options)
    output = tiled_attention(q, k, v, block_q=block_q, block_k=block_k, **options)
    assert_agrees(output, expected)
    assert_same_gradients(output, expected, [q, k, v])


def test_is_the_slow_loop():
    q, k, v = randoms((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 2))
    mask = random_mask(2, 3, 5, 11)
    mask[0, 1, 2] = False
    expected = slow_attention(q, k, v, mask, scale=0.3)[0]
    assert_agrees(tiled_attention(q, k, v, mask=mask, scale=0.3, block_q=2, block_k=3), expected)
    assert_agrees(tiled_attention(q, k, v, mask=mask, scale=0.3), expected)


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_dtypes_and_empty_rows(is_causal, dtype, device):
    q, k, v = randoms((2, 3, 11, 5), (2, 3, 7, 5), (2, 3, 7, 2), dtype=dtype, device=device)
    mask = random_mask(2, 3, 11, 7, device=device)
    mask[0, :, 6] = False
    output = tiled_attention(q, k, v, mask=mask, is_causal=is_causal, block_q=3, block_k=2)
    expected = scaled_dot_product_attention(q, k, v, mask=mask, is_causal=is_causal, backend="eager")
    assert output.dtype == dtype
    assert_agrees(output, expected)
    assert_same_gradients(output, expected, [q, k, v], tolerance=2 * TOLERANCE[dtype])
    gradients = torch.autograd.grad(output.sum(), [q, k, v])
    assert (output[0, :, 6] == 0).all()
    assert (gradients[0][0, :, 6] == 0).all()
    assert all(torch.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("order", [1, -1])
def test_scores_that_grow_or_fall_from_block_to_block(order):
    k = torch.linspace(-800.0, 800.0, 23, dtype=torch.float64).reshape(1, 23, 1)
    k = (k if order == 1 else k.flip(1)).requires_grad_()
    q, v = randoms((1, 3, 1), (1, 23, 5))
    output = tiled_attention(q, k, v, block_q=2, block_k=2)
    expected = scaled_dot_product_attention(q, k, v, backend="eager")
    assert_agrees(output, expected)
    assert_same_gradients(output, expected, [q, k, v], tolerance=1e-11)


def test_grouped_queries():
    q, k, v = randoms((2, 6, 5, 3), (2, 2, 7, 3), (2, 2, 7, 11))
    output = tiled_attention(q, k, v, is_causal=True, block_q=2, block_k=3)
    expected = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_agrees(output, expected)
    assert_same_gradients(output, expected, [q, k, v])


@pytest.mark.parametrize(("b", "q_len", "k_len"), [(0, 3, 5), (2, 0, 5), (2, 3, 0)])
def test_no_sequence_no_query_and_no_key_are_no_errors(b, q_len, k_len):
    q, k, v = randoms((b, q_len, 7), (b, k_len, 7), (b, k_len, 2))
    output = tiled_attention(q, k, v, block_k=2)
    expected = scaled_dot_product_attention(q, k, v)
    assert_agrees(output, expected)
    assert_same_gradients(output, expected, [q, k, v])


def test_gradcheck_first_and_second_derivative():
    q, k, v = randoms((3, 2), (5, 2), (5, 1))
    mask = random_mask(3, 5)
    mask[1] = False
    for options in ({"mask": mask}, {"is_causal": True}):

        def attend(*x, options=options):
            return tiled_attention(*x, block_q=2, block_k=3, **options)

        assert torch.autograd.gradcheck(attend, (q, k, v))
        assert torch.autograd.gradgradcheck(attend, (q, k, v))


@pytest.mark.parametrize("in_dims", [(0, 0, 0, 0), (0, None, None, 0), (None, None, 0, None)])
def test_vmap_forward_and_gradient(in_dims):
    tensors = [*randoms((3, 2, 5, 7), (3, 2, 11, 7), (3, 2, 11, 4)), random_mask(3, 5, 11)]
    tensors = [x if dim == 0 else x[0] for x, dim in zip(tensors, in_dims, strict=True)]

    def loss(attend):
        return lambda q, k, v, mask: attend(q, k, v, mask=mask).pow(3).sum()

    for transform in (lambda f: f, torch.func.grad):
        ours = torch.func.vmap(
            transform(loss(lambda *x, **y: tiled_attention(*x, block_q=2, block_k=3, **y))), in_dims=in_dims
        )
        theirs = torch.func.vmap(transform(loss(scaled_dot_product_attention)), in_dims=in_dims)
        assert_agrees(ours(*tensors), theirs(*tensors), tolerance=1e-11)


def test_under_autocast_forward_and_backward_pass_have_the_same_weights():
    q, k, v = randoms((2, 11, 7), (2, 11, 7), (2, 11, 7), dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = tiled_attention(4 * q, 4 * k, v)
    assert_same_gradients(output, tiled_attention(4 * q, 4 * k, v), [q, k, v])


def test_what_is_kept_for_the_backward_pass_grows_with_n_and_not_with_its_square():
    def kept(n: int) -> int:
        sizes = []
        q, k, v = randoms((1, n, 5), (1, n, 5), (1, n, 5))
        with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.nbytes) or x, lambda x: x):
            tiled_attention(q, k, v, block_q=8, block_k=8)
        return sum(sizes)

    assert kept(256) == 4 * kept(64)


def test_errors():
    x = torch.zeros(5, 7)
    with pytest.raises(ValueError, match="block_q and block_k must be at least 1, got 0 and 512"):
        tiled_attention(x, x, x, block_q=0)
    with untyped(), pytest.raises(ValueError, match="same width d, got d = 7 for q and 3 for k"):
        tiled_attention(x, torch.zeros(5, 3), x)
    with pytest.raises(ValueError, match=r"\(5, 5\), got \(3, 5\)"):
        tiled_attention(x, x, x, mask=torch.ones(3, 5, dtype=torch.bool))
