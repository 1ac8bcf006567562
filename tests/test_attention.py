import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    DTYPES,
    assert_agrees,
    assert_same_gradients,
    devices,
    quick,
    random_mask,
    randoms,
    slow_attention,
    untyped,
)

from attnlib import causal_mask, scaled_dot_product_attention
from attnlib.attention import equation

backends = pytest.mark.parametrize("backend", ["eager", "fused"])


def masks(q_len: int, k_len: int) -> dict[str, torch.Tensor | None]:
    """Every shape that a mask may have, each with a query that may attend to nothing."""
    whole = random_mask(2, 3, q_len, k_len)
    whole[0, :, 1] = False
    rows = random_mask(q_len, k_len, seed=1)
    rows[0] = False
    keys = random_mask(2, 1, 1, k_len, seed=2)
    keys[1] = False
    return {"none": None, "whole": whole, "rows": rows, "keys": keys, "heads": random_mask(3, 1, 1, seed=3)}


@pytest.mark.parametrize("name", masks(5, 7))
@pytest.mark.parametrize(("d_k", "d_v"), [(7, 11), (7, 7)])
def test_both_backends_are_the_slow_loop(name, d_k, d_v):
    q, k, v = randoms((2, 3, 5, d_k), (2, 3, 7, d_k), (2, 3, 7, d_v))
    mask = masks(5, 7)[name]
    expected, expected_weights = slow_attention(q, k, v, mask)
    output, weights = scaled_dot_product_attention(q, k, v, mask=mask, return_weights=True)
    fused = scaled_dot_product_attention(q, k, v, mask=mask, backend="fused")
    for result in (output, fused):
        assert_agrees(result, expected)
    assert_agrees(weights, expected_weights)
    assert_same_gradients(output, fused, [q, k, v])


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", masks(5, 7))
@pytest.mark.parametrize("h_kv", [1, 3])
def test_the_fast_forms_are_the_equation(h_kv, name, is_causal):
    q, k, v, bias = randoms((2, 3, 5, 7), (2, h_kv, 7, 7), (2, h_kv, 7, 11), (3, 5, 7))
    options = {"mask": masks(5, 7)[name], "score_bias": bias, "is_causal": is_causal, "scale": 0.3}
    output, weights = scaled_dot_product_attention(q, k, v, return_weights=True, **options)
    assert_agrees(weights, equation(q, k, v, **options)[1])
    for result in (output, scaled_dot_product_attention(q, k, v, backend="fused", **options)):
        expected, _ = equation(q, k, v, **options)
        assert_agrees(result, expected)
        assert_same_gradients(result, expected, [q, k, v, bias])


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3, 1)])
@backends
def test_any_leading_axes(lead, backend):
    q, k, v = randoms((*lead, 5, 7), (*lead, 11, 7), (*lead, 11, 2))
    assert_agrees(scaled_dot_product_attention(q, k, v, backend=backend), slow_attention(q, k, v)[0])
    mask = random_mask(*lead, 5, 11)
    masked = scaled_dot_product_attention(q, k, v, mask=mask, backend=backend)
    assert_agrees(masked, slow_attention(q, k, v, mask)[0])


@pytest.mark.parametrize(("q_len", "k_len"), [(7, 7), (5, 11), (11, 5), (1, 7), (7, 1)])
@backends
def test_causal_is_aligned_bottom_right(q_len, k_len, backend):
    q, k, v = randoms((2, 3, q_len, 7), (2, 3, k_len, 7), (2, 3, k_len, 7))
    causal = scaled_dot_product_attention(q, k, v, is_causal=True, backend=backend)
    assert_agrees(causal, slow_attention(q, k, v, causal_mask(q_len, k_len))[0])
    for mask in masks(q_len, k_len).values() if q_len > 1 else ():
        both = causal_mask(q_len, k_len) if mask is None else causal_mask(q_len, k_len) & mask
        result = scaled_dot_product_attention(q, k, v, mask=mask, is_causal=True, backend=backend)
        assert_agrees(result, slow_attention(q, k, v, both)[0])


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", masks(5, 7))
@pytest.mark.parametrize("h_kv", [1, 2])
@backends
def test_grouped_queries_equal_repeated_keys(h_kv, name, is_causal, backend):
    q, k, v = randoms((2, 6, 5, 3), (2, h_kv, 7, 3), (2, h_kv, 7, 11))
    mask = masks(5, 7)[name]
    if mask is not None and mask.ndim > 2 and mask.shape[-3] == 3:
        mask = mask.repeat_interleave(2, dim=-3)
    grouped = scaled_dot_product_attention(q, k, v, mask=mask, is_causal=is_causal, backend=backend)
    repeated = scaled_dot_product_attention(
        q, k.repeat_interleave(6 // h_kv, 1), v.repeat_interleave(6 // h_kv, 1), mask=mask, is_causal=is_causal
    )
    assert_agrees(grouped, repeated)
    assert_same_gradients(grouped, repeated, [q, k, v])


@backends
def test_score_bias_and_scale(backend):
    q, k, v, bias = randoms((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 7), (3, 5, 11))
    mask = random_mask(2, 1, 5, 11)
    mask[0, 0, 2] = False
    scores = (q @ k.transpose(-2, -1) * 0.3 + bias).masked_fill(~mask, -torch.inf)
    expected = torch.softmax(scores, dim=-1).nan_to_num(0.0) @ v
    result = scaled_dot_product_attention(q, k, v, mask=mask, score_bias=bias, scale=0.3, backend=backend)
    assert_agrees(result, expected)
    filled = torch.softmax(scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0), dim=-1)
    right = (filled * mask.any(dim=-1, keepdim=True)) @ v
    assert_same_gradients(result, right, [q, k, v, bias])
    causal = scaled_dot_product_attention(q, k, v, score_bias=bias, is_causal=True, backend=backend)
    masked = scaled_dot_product_attention(q, k, v, score_bias=bias, mask=causal_mask(5, 11), backend=backend)
    assert_agrees(causal, masked)


@backends
def test_agrees_with_pytorch(backend):
    q, k, v = randoms((2, 3, 11, 7), (2, 3, 11, 7), (2, 3, 11, 7), dtype=torch.float32)
    mask = random_mask(2, 3, 11, 11) | torch.eye(11, dtype=torch.bool)
    for options, theirs in (
        ({}, {}),
        ({"mask": mask}, {"attn_mask": mask}),
        ({"is_causal": True}, {"is_causal": True}),
    ):
        ours = scaled_dot_product_attention(q, k, v, backend=backend, **options)
        pytorch = F.scaled_dot_product_attention(q, k, v, **theirs)
        assert_agrees(ours, pytorch)
        assert_same_gradients(ours, pytorch, [q, k, v], tolerance=2e-6)


@devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", masks(5, 7))
@pytest.mark.parametrize("d_v", [3, 7])
@backends
def test_dtypes_and_empty_rows(backend, d_v, name, dtype, device):
    q, k, v = randoms((2, 3, 5, 7), (2, 3, 7, 7), (2, 3, 7, d_v), dtype=dtype, device=device)
    mask = masks(5, 7)[name]
    mask = None if mask is None else mask.to(device)
    result = scaled_dot_product_attention(q, k, v, mask=mask, backend=backend)
    assert result.dtype == dtype
    assert_agrees(result, slow_attention(q.cpu(), k.cpu(), v.cpu(), None if mask is None else mask.cpu())[0])
    gradients = torch.autograd.grad(result.sum(), [q, k, v])
    assert all(torch.isfinite(g).all() for g in gradients)
    if mask is not None:
        empty = ~mask.expand(2, 3, 5, 7).any(dim=-1)
        assert (result[empty] == 0).all()
        assert (gradients[0][empty] == 0).all()


@backends
def test_half_precision_survives_scores_beyond_its_range(backend):
    q, k, v = randoms((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 7))
    large = [(x.detach() * 1000).half().requires_grad_() for x in (q, k)] + [v.detach().half().requires_grad_()]
    result = scaled_dot_product_attention(*large, backend=backend)
    assert_agrees(result, slow_attention(*[x.double() for x in large])[0])
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(result.sum(), large))


@pytest.mark.parametrize("return_weights", [False, True])
def test_gradcheck(return_weights):
    q, k, v = randoms((2, 3, 5), (2, 7, 5), (2, 7, 2))
    mask = random_mask(2, 3, 7)
    mask[0, 1] = False
    for options in ({}, {"mask": mask}, {"is_causal": True}, {"mask": mask, "is_causal": True}):
        assert torch.autograd.gradcheck(
            lambda *x, options=options: scaled_dot_product_attention(*x, return_weights=return_weights, **options),
            (q, k, v),
        )


sizes = st.integers(1, 7)


@quick
@given(sizes, sizes, sizes, sizes, st.integers(0, 100), st.sampled_from(["eager", "fused"]))
def test_each_output_is_a_mean_of_open_values(q_len, k_len, d_k, d_v, seed, backend):
    q, k, v = randoms((2, q_len, d_k), (2, k_len, d_k), (2, k_len, d_v), seed=seed)
    mask = random_mask(2, q_len, k_len, seed=seed, share=0.5)
    output, weights = scaled_dot_product_attention(q, k, v, mask=mask, return_weights=True)
    assert_agrees(weights.sum(dim=-1), mask.any(dim=-1).double())
    assert (weights >= 0).all()
    ones = scaled_dot_product_attention(q, k, torch.ones_like(v), mask=mask, backend=backend)
    assert_agrees(ones, mask.any(dim=-1, keepdim=True).expand_as(output).double())


@quick
@given(st.integers(2, 11), st.integers(0, 100), st.data(), st.sampled_from(["eager", "fused"]))
def test_an_edit_to_the_future_never_changes_the_past(n, seed, data, backend):
    q, k, v = randoms((2, n, 5), (2, n, 5), (2, n, 3), seed=seed)
    t = data.draw(st.integers(1, n - 1))
    edited = [torch.cat([x[:, :t], 9 * x[:, t:] + 1], dim=1) for x in (q, k, v)]
    before = scaled_dot_product_attention(q, k, v, is_causal=True, backend=backend)
    after = scaled_dot_product_attention(*edited, is_causal=True, backend=backend)
    assert_agrees(after[:, :t], before[:, :t])
    assert not torch.allclose(after[:, t:], before[:, t:], atol=1e-6, rtol=0)


@quick
@given(st.integers(1, 11), st.integers(0, 100), st.sampled_from(["eager", "fused"]))
def test_permuting_queries_permutes_the_output_and_permuting_keys_changes_nothing(n, seed, backend):
    q, k, v = randoms((2, 5, 3), (2, n, 3), (2, n, 7), seed=seed)
    result = scaled_dot_product_attention(q, k, v, backend=backend)
    order, keys = torch.randperm(5), torch.randperm(n)
    assert_agrees(scaled_dot_product_attention(q[:, order], k, v, backend=backend), result[:, order])
    assert_agrees(scaled_dot_product_attention(q, k[:, keys], v[:, keys], backend=backend), result)


@backends
def test_dropout_acts_in_training_only_and_keeps_the_mean(backend):
    q, k, v = randoms((1, 5, 7), (1, 11, 7), (1, 11, 3))
    still = scaled_dot_product_attention(q, k, v, dropout=0.5, backend=backend)
    assert_agrees(still, scaled_dot_product_attention(q, k, v))
    many = [x.detach().expand(20011, -1, -1) for x in (q, k, v)]
    torch.manual_seed(0)
    dropped = scaled_dot_product_attention(*many, dropout=0.3, training=True, backend=backend)
    assert not torch.equal(dropped[0], dropped[1])
    assert_agrees(dropped.mean(dim=0, keepdim=True), still, tolerance=2e-2)


def test_returned_weights_are_those_before_dropout():
    q, k, v = randoms((2, 5, 7), (2, 11, 7), (2, 11, 3))
    _, weights = scaled_dot_product_attention(q, k, v, dropout=0.5, training=True, return_weights=True)
    assert_agrees(weights, slow_attention(q, k, v)[1])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("backend", [None, "eager", "fused"])
def test_vmap_over_everything(backend):
    q, k, v = randoms((3, 2, 5, 7), (3, 2, 11, 7), (3, 2, 11, 7))
    mask = random_mask(3, 5, 11)
    mask[0, 1] = False

    def attend(q, k, v, mask):
        return scaled_dot_product_attention(q, k, v, mask=mask, backend=backend)

    expected = scaled_dot_product_attention(q, k, v, mask=mask[:, None])
    assert_agrees(torch.func.vmap(attend)(q, k, v, mask), expected)
    gradient = torch.func.vmap(torch.func.grad(lambda *x: attend(*x).pow(2).sum()))(q, k, v, mask)
    assert_agrees(gradient, torch.autograd.grad(expected.pow(2).sum(), q)[0])


@backends
def test_inputs_are_not_changed(backend):
    tensors = [x.detach() for x in randoms((2, 5, 7), (2, 11, 7), (2, 11, 7))] + [random_mask(2, 5, 11)]
    before = [x.clone() for x in tensors]
    scaled_dot_product_attention(*tensors[:3], mask=tensors[3], is_causal=True, backend=backend)
    assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))


ERRORS = [
    (ValueError, r"same width d, got d = 7 for q and 5 for k", [(2, 3, 7), (2, 11, 5), (2, 11, 5)], {}),
    (ValueError, r"same number of positions, got 11 and 13", [(2, 3, 7), (2, 11, 7), (2, 13, 5)], {}),
    (
        ValueError,
        r"the same leading axes, got \(2,\) and \(3,\)",
        [(2, 3, 7), (2, 5, 7), (3, 5, 7)],
        {},
    ),
    (ValueError, r"except for heads, got \(2, 6\) and \(3, 6\)", [(2, 6, 3, 7), (3, 6, 5, 7), (3, 6, 5, 7)], {}),
    (ValueError, r"multiple of the heads of k, got 3 and 2", [(3, 5, 7), (2, 5, 7), (2, 5, 7)], {}),
    (ValueError, r"at least two axes, got 1, 2 and 2", [(7,), (5, 7), (5, 7)], {}),
    (ValueError, r'None, "eager" or "fused", got \'flash\'', [(5, 7)] * 3, {"backend": "flash"}),
    (ValueError, r'"fused" never holds the weights', [(5, 7)] * 3, {"backend": "fused", "return_weights": True}),
    (ValueError, r"\(\.\.\., q, k\) = \(3, 11\), got \(11, 3\)", [(3, 7), (11, 7), (11, 7)], {"mask": (11, 3)}),
    (
        ValueError,
        r"score_bias must be .* = \(3, 11\), got \(11, 3\)",
        [(3, 7), (11, 7), (11, 7)],
        {"score_bias": (11, 3)},
    ),
]


@pytest.mark.parametrize(("error", "text", "shapes", "options"), ERRORS)
def test_errors_name_what_was_required_and_what_came(error, text, shapes, options):
    options = dict(options)
    if "mask" in options:
        options["mask"] = torch.ones(options["mask"], dtype=torch.bool)
    if "score_bias" in options:
        options["score_bias"] = torch.zeros(options["score_bias"])
    with untyped(), pytest.raises(error, match=text):
        scaled_dot_product_attention(*[torch.zeros(shape) for shape in shapes], **options)


def test_errors_about_dtypes():
    q = torch.zeros(5, 7)
    with pytest.raises(TypeError, match=r"same dtype, got torch.float32, torch.float64 and torch.float32"):
        scaled_dot_product_attention(q, q.double(), q)
    with untyped(), pytest.raises(TypeError, match=r"mask must be bool with True = may attend, got torch.int64"):
        scaled_dot_product_attention(q, q, q, mask=torch.ones(5, 5, dtype=torch.int64))


def test_the_default_under_vmap_does_not_warn():
    q, k, v = randoms((3, 2, 5, 7), (3, 2, 11, 7), (3, 2, 11, 7))
    assert_agrees(torch.func.vmap(scaled_dot_product_attention)(q, k, v), scaled_dot_product_attention(q, k, v))
