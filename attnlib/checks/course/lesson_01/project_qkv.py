"""The exercise `project_qkv` of lesson 01."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.lesson_00.slips import slips, slips_with_floats
from attnlib.checks.course.lesson_01.three_layers import (
    chained_projections,
    mistakes_before_and_after,
    mistakes_of_order,
    scaled_projections,
)
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, without, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

QKV = ("q", "k", "v")


def _three_matrices(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    scale = d_model**-0.5
    x = draw.normal(b, n, d_model)
    shapes = ((d_model, d_k), (d_model, d_k), (d_model, d_v))
    return (x, *(draw.normal(*shape, scale=scale) for shape in shapes))


def _small_projection() -> tuple[Tensor, ...]:
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    return (
        x,
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
        torch.tensor([[9.0], [10.0]]),
    )


def _project(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
    return x @ w_q, x @ w_k, x @ w_v


def _each(change):
    """`change(x, w)` for each of the three matrices."""
    return lambda x, *matrices: tuple(change(x, w) for w in matrices)


def _around(compute):
    """The attempt whose `compute(x, to_q, to_k, to_v)` gets the three products as steps."""
    return lambda x, w_q, w_k, w_v: compute(x, lambda t: t @ w_q, lambda t: t @ w_k, lambda t: t @ w_v)


def _reordered(order):
    return lambda *inputs: tuple(_project(*inputs)[i] for i in order)


def _layer_with_bias(x: Tensor, w: Tensor) -> Tensor:
    layer = nn.Linear(w.shape[0], w.shape[1])
    return x @ w + layer.bias


def _copied_into_layer(x: Tensor, w: Tensor) -> Tensor:
    layer = nn.Linear(w.shape[0], w.shape[1], bias=False)
    with torch.no_grad():
        layer.weight.copy_(w.T)
    return layer(x)


def _chained(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
    q = x @ w_q
    k = q @ w_k
    return q, k, k @ w_v


PROJECT_QKV = Exercise(
    name="project_qkv",
    lesson="01_qkv_projections",
    contract="(b, n, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.project_qkv,
    outputs=QKV,
    forbidden=("attnlib.project_qkv", "attnlib.project_qkv_fused"),
    cases=(
        *usual_cases(
            _three_matrices,
            {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
            one={"b": 1, "n": 3, "d_model": 5, "d_k": 2, "d_v": 7},
            more=[
                {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
                {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
                {"b": 2, "n": 7, "d_model": 5, "d_k": 5, "d_v": 5},
            ],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="all axes of one length", inputs=partial(_three_matrices, b=3, n=3, d_model=3, d_k=3, d_v=3)),
    ),
    example=_small_projection,
    misconceptions=(
        wrong(
            "all_from_w_q",
            "Queries and keys come from the same matrix",
            "k is computed with w_q. Then every word looks for exactly what it offers, and fits itself best. The "
            "query and the key of a word answer two questions, and need two matrices.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_v),
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "q is computed with w_k, and k with w_q. The shapes cannot tell, the meaning can: in lesson 02 row i of "
            "the scores belongs to query i.",
            lambda x, w_q, w_k, w_v: (x @ w_k, x @ w_q, x @ w_v),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The three come back as v, k, q. Some codebases pass them in that order; here it is q, k, v.",
            lambda x, w_q, w_k, w_v: (x @ w_v, x @ w_k, x @ w_q),
        ),
        wrong(
            "keys_values_exchanged",
            "Keys and values are exchanged",
            "k is computed with w_v, and v with w_k. The key is what a word is found by, the value what it brings "
            "along.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_v, x @ w_k),
        ),
        wrong(
            "value_is_x",
            "The value is x itself",
            "w_v is not used. What a word brings along is not the word's whole vector but the part that w_v picks out.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, x),
        ),
        wrong(
            "scaled_query",
            "The query is scaled",
            "q is divided by the root of d_k. Many libraries hide the scale there; here it has its place in lesson 02.",
            lambda x, w_q, w_k, w_v: (x @ w_q / w_q.shape[1] ** 0.5, x @ w_k, x @ w_v),
        ),
        wrong(
            "nonlinear",
            "A nonlinearity after the projection",
            "The negative numbers have become zero. A projection is one matrix product and nothing else.",
            lambda x, w_q, w_k, w_v: (F.relu(x @ w_q), F.relu(x @ w_k), F.relu(x @ w_v)),
        ),
        wrong(
            "normalised_inputs",
            "The tokens are normalised first",
            "x is brought to mean 0 and variance 1 before the projection. That is LayerNorm, and it comes in lesson "
            "06.",
            lambda x, w_q, w_k, w_v: tuple(F.layer_norm(x, x.shape[-1:]) @ w for w in (w_q, w_k, w_v)),
        ),
        wrong(
            "transposed_weights",
            "The matrices are transposed",
            "`x @ w.T` is what nn.Linear does with *its* weight, which is stored as (out, in). These are (in, out): x "
            "@ w.",
            lambda x, w_q, w_k, w_v: (x @ w_q.T, x @ w_k.T, x @ w_v.T),
        ),
        wrong(
            "reshaped_weights",
            "The matrices are reshaped",
            "`reshape` (or `view`) keeps the numbers in their order in memory and draws the lines elsewhere: no column "
            "is what it was. Nothing needs to be turned here, x @ w; for F.linear, turn it with w.T.",
            lambda x, w_q, w_k, w_v: tuple(x @ w.reshape(w.shape[1], w.shape[0]).T for w in (w_q, w_k, w_v)),
        ),
        wrong(
            "chained",
            "Each projection starts from the one before",
            "k was computed from q, and v from k. All three are projections of the same x: x @ w_q, x @ w_k, x @ w_v.",
            _chained,
        ),
        wrong(
            "keys_from_queries",
            "The keys are computed from the queries",
            "k was computed from q. All three are projections of the same x: x @ w_q, x @ w_k, x @ w_v.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q @ w_k, x @ w_v),
        ),
        wrong(
            "values_from_keys",
            "The values are computed from the keys",
            "v was computed from k. All three are projections of the same x: x @ w_q, x @ w_k, x @ w_v.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, x @ w_k @ w_v),
        ),
        wrong(
            "all_from_w_k",
            "Queries and keys come from the same matrix",
            "q is computed with w_k, and w_q is never used. The query and the key of a word answer two questions, and "
            "need two matrices.",
            lambda x, w_q, w_k, w_v: (x @ w_k, x @ w_k, x @ w_v),
        ),
        wrong(
            "values_with_w_k",
            "The values are computed with the keys' matrix",
            "v is computed with w_k, and w_v is never used. The key is what a word is found by, the value what it "
            "brings along.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, x @ w_k),
        ),
        wrong(
            "one_matrix_for_all",
            "All three come from the same matrix",
            "q, k and v are all computed with w_q. Three questions need three matrices.",
            lambda x, w_q, w_k, w_v: (x @ w_q,) * 3,
        ),
        wrong(
            "values_cut_to_d_k",
            "The values are cut to the width of the keys",
            "v has d_k columns. Values may have a width of their own, d_v: they never meet the keys in a dot product.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, (x @ w_v)[..., : w_k.shape[1]]),
        ),
        wrong(
            "scaled_both",
            "Queries and keys are scaled",
            "q and k are each divided by the fourth root of d_k. The scale has its place in lesson 02.",
            lambda x, w_q, w_k, w_v: (x @ w_q / w_q.shape[1] ** 0.25, x @ w_k / w_k.shape[1] ** 0.25, x @ w_v),
        ),
        wrong(
            "scaled_both_by_root",
            "Queries and keys are scaled",
            "q and k are each divided by the root of d_k. The scale has its place in lesson 02, once.",
            lambda x, w_q, w_k, w_v: (x @ w_q / w_q.shape[1] ** 0.5, x @ w_k / w_k.shape[1] ** 0.5, x @ w_v),
        ),
        wrong(
            "scaled_by_root_d_model",
            "The projections are scaled",
            "All three are divided by the root of d_model. A projection is one matrix product and nothing else.",
            _each(lambda x, w: x @ w / x.shape[-1] ** 0.5),
        ),
        wrong(
            "scaled_by_own_width",
            "The projections are scaled",
            "All three are divided by the root of their width. A projection is one matrix product and nothing else.",
            _each(lambda x, w: x @ w / w.shape[1] ** 0.5),
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "q, k and v came back as (b, d, n). Leave the tokens where they are: (b, n, d).",
            _each(lambda x, w: (x @ w).mT),
        ),
        wrong(
            "matrix_first",
            "The matrix stands before x",
            "The words are the rows of x, so x comes first: x @ w. `w @ x` multiplies along the words.",
            _each(lambda x, w: w @ x),
        ),
        wrong(
            "transposed_matrix_first",
            "The matrix stands before x",
            "`w.T @ x` is for words that are columns. Here they are rows, so x comes first: x @ w.",
            _each(lambda x, w: w.T @ x),
        ),
        wrong(
            "entry_by_entry",
            "Multiplied entry by entry",
            "`*` multiplies numbers that stand in the same place. A projection is a matrix product: `@`.",
            _each(lambda x, w: x * w),
        ),
        wrong(
            "summed_apart",
            "Both are summed before they are multiplied",
            "x and the matrix name their shared axis with two different letters, so einsum sums each on its own. The "
            "axis over which the product runs needs one letter in both.",
            _each(lambda x, w: x.sum(dim=-1, keepdim=True) * w.sum(dim=0)),
        ),
        wrong(
            "averaged",
            "The words are averaged first",
            "The axis of the words is gone. Every word has a query, a key and a value of its own: (b, n, d).",
            _each(lambda x, w: x.mean(dim=1) @ w),
        ),
        wrong(
            "batch_added_up",
            "The batch is added up",
            "The letter b is missing after the arrow, so the vectors of all sequences are added into one. Every "
            "sequence keeps its own: (b, n, d).",
            _each(lambda x, w: (x @ w).sum(dim=0)),
        ),
        wrong(
            "softmax_taken",
            "A softmax after the projection",
            "The numbers of each vector add up to 1. A projection is one matrix product and nothing else.",
            _each(lambda x, w: torch.softmax(x @ w, dim=-1)),
        ),
        wrong(
            "new_layers",
            "New layers have weights of their own",
            "nn.Linear(...) is made with random numbers, and the matrices that you were given are not used: x @ w.",
            _each(lambda x, w: nn.Linear(w.shape[0], w.shape[1])(x)),
        ),
        wrong(
            "new_layers_without_bias",
            "New layers have weights of their own",
            "nn.Linear(...) is made with random numbers, and the matrices that you were given are not used: x @ w.",
            _each(lambda x, w: nn.Linear(w.shape[0], w.shape[1], bias=False)(x)),
        ),
        wrong(
            "bias_of_a_layer",
            "A layer adds a bias",
            "nn.Linear has a bias unless it is told not to, and starts with random numbers in it. A projection is one "
            "matrix product and nothing else: x @ w.",
            _each(_layer_with_bias),
        ),
        wrong(
            "exchanged_and_scaled",
            "Queries and keys are exchanged, and the query is scaled",
            "Two things at once: q comes from w_q and k from w_k, and the root of d_k has its place in lesson 02.",
            lambda x, w_q, w_k, w_v: (x @ w_k / w_k.shape[1] ** 0.5, x @ w_q, x @ w_v),
        ),
        wrong(
            "copied_into_layers",
            "The matrices are copied into layers",
            "A new nn.Linear owns its weight, and copying gives it the numbers alone: no gradient goes back to the "
            "matrices, and the new layer is float32, whatever they are. Use the matrices as they are: x @ w.",
            _each(_copied_into_layer),
        ),
        wrong(
            "equal_thirds",
            "Cut into three equal parts",
            "Of one product with all three matrices side by side, `chunk(3)` makes three parts of one size. The "
            "values may be wider or narrower than the keys: the widths are d_k, d_k and d_v.",
            lambda x, w_q, w_k, w_v: (x @ torch.cat([w_q, w_k, w_v], dim=1)).chunk(3, dim=-1),
        ),
        wrong(
            "matrices_stacked",
            "Matrices of different widths cannot be stacked",
            "`torch.stack` wants one shape, but values may have another width than keys. Multiply x with each of the "
            "three.",
            lambda x, w_q, w_k, w_v: (x.unsqueeze(0) @ torch.stack([w_q, w_k, w_v]).unsqueeze(1)).unbind(0),
        ),
        wrong(
            "stacked",
            "Tensors of different widths cannot be stacked",
            "`torch.stack` wants one shape, but values may have another width than keys. Return three tensors, with "
            "commas between.",
            lambda x, w_q, w_k, w_v: torch.stack([x @ w_q, x @ w_k, x @ w_v]),
        ),
        *mistakes_of_order(_reordered, "k_q_v", "q_v_k", "v_k_q", "q_q_v", "q_k_k", "k_k_v", "q_q_q"),
        *without(mistakes_before_and_after(_around), "normalised_inputs"),
        *without(chained_projections(_around), "keys_from_queries", "values_from_keys"),
        *scaled_projections(_around),
        wrong(
            "batch_of_one_matrix",
            "It works for a batch of one only",
            "`torch.mm` wants a single matrix, and `squeeze(0)` makes one only where the batch has length 1. `@` takes "
            "the batch along: x @ w.",
            _each(lambda x, w: torch.mm(x.squeeze(0), w).unsqueeze(0)),
        ),
        *slips(_project, outputs=3),
        *slips_with_floats(_project),
        *usual_misconceptions(_project, example=_small_projection),
    ),
)
