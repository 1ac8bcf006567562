"""The exercise `project_qkv` of lesson 01."""

import torch
import torch.nn.functional as F
from torch import Tensor

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong

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


PROJECT_QKV = Exercise(
    name="project_qkv",
    lesson="01_qkv_projections",
    contract="(b, n, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.project_qkv,
    outputs=QKV,
    forbidden=("attnlib.project_qkv", "attnlib.project_qkv_fused"),
    cases=usual_cases(
        _three_matrices,
        {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
        one={"b": 1, "n": 3, "d_model": 5, "d_k": 2, "d_v": 7},
        more=[
            {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
            {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
            {"b": 2, "n": 7, "d_model": 5, "d_k": 5, "d_v": 5},
        ],
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
        *usual_misconceptions(_project, example=_small_projection),
    ),
)
