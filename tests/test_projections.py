import pytest
import torch
from oracles import assert_agrees, randoms, untyped

from attnlib import QKVProjection, embed, project_qkv, project_qkv_fused


def test_embed_looks_rows_up_and_passes_gradients_to_the_table():
    (table,) = randoms((11, 7))
    token_ids = torch.tensor([[3, 5, 2], [10, 3, 0]])
    vectors = embed(token_ids, table)
    assert vectors.shape == (2, 3, 7)
    assert all(torch.equal(vectors[b, n], table[token_ids[b, n]]) for b in range(2) for n in range(3))
    (gradient,) = torch.autograd.grad(vectors.sum(), table)
    assert gradient[:, 0].tolist() == [1, 0, 1, 2, 0, 1, 0, 0, 0, 0, 1]
    assert torch.equal(embed(token_ids.int(), table), vectors)


@pytest.mark.parametrize("outside", [-1, 11])
def test_embed_refuses_what_is_outside_the_vocabulary(outside):
    with pytest.raises(IndexError, match="out of range"):
        embed(torch.tensor([[outside]]), torch.zeros(11, 7))


def test_projections_are_products_and_one_product_is_as_good_as_three():
    x, w_q, w_k, w_v = randoms((2, 11, 7), (7, 3), (7, 3), (7, 5))
    q, k, v = project_qkv(x, w_q, w_k, w_v)
    assert_agrees(q, torch.einsum("bnm,md->bnd", x, w_q))
    assert_agrees(k, torch.einsum("bnm,md->bnd", x, w_k))
    assert_agrees(v, torch.einsum("bnm,md->bnd", x, w_v))
    for one, three in zip(project_qkv_fused(x, torch.cat([w_q, w_k, w_v], dim=-1), 3, 5), (q, k, v), strict=True):
        assert_agrees(one, three)
    assert torch.autograd.gradcheck(project_qkv, (x, w_q, w_k, w_v))


def test_fused_refuses_another_number_of_columns():
    with pytest.raises(ValueError, match=r"2 d_k \+ d_v = 11 columns, got 13"):
        project_qkv_fused(torch.zeros(2, 7), torch.zeros(7, 13), 3, 5)


@pytest.mark.parametrize("bias", [True, False])
def test_the_module_is_three_linear_layers(bias):
    module = QKVProjection(7, 3, 5, bias=bias).double()
    (x,) = randoms((2, 11, 7))
    expected = {name: (width, 7) for name, width in (("w_q.weight", 3), ("w_k.weight", 3), ("w_v.weight", 5))}
    expected |= {"w_q.bias": (3,), "w_k.bias": (3,), "w_v.bias": (5,)} if bias else {}
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == expected
    products = project_qkv(x, module.w_q.weight.T, module.w_k.weight.T, module.w_v.weight.T)
    for made, product, layer in zip(module(x), products, (module.w_q, module.w_k, module.w_v), strict=True):
        assert_agrees(made, product + layer.bias if bias else product)


def test_the_module_refuses_another_width():
    with untyped(), pytest.raises(ValueError, match=r"x must have d_model = 7 features .* got \(2, 11, 5\)"):
        QKVProjection(7, 3, 5)(torch.zeros(2, 11, 5))
