"""The exercise `project_qkv_fused` of lesson 01."""

import torch
from torch import Tensor

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong

QKV = ("q", "k", "v")


def _one_matrix(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, int, int]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 2 * d_k + d_v, scale=d_model**-0.5), d_k, d_v


def _cut(x: Tensor, w_qkv: Tensor, *sizes: int) -> tuple[Tensor, ...]:
    return (x @ w_qkv).split(sizes, dim=-1)


def _cut_qkv(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    return _cut(x, w_qkv, d_k, d_k, d_v)


def _words_cut(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    fused = x @ w_qkv
    return fused[:, :d_k], fused[:, d_k : 2 * d_k], fused[:, 2 * d_k :]


def _interleaved(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    packed = x @ w_qkv
    return packed[..., 0 : 2 * d_k : 2], packed[..., 1 : 2 * d_k : 2], packed[..., 2 * d_k :]


def _example() -> tuple[Tensor, Tensor, int, int]:
    return (
        torch.eye(2).unsqueeze(0),
        torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]]),
        2,
        1,
    )


PROJECT_QKV_FUSED = Exercise(
    name="project_qkv_fused",
    lesson="01_qkv_projections",
    contract="(b, n, d_model), (d_model, 2·d_k + d_v), d_k, d_v -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.project_qkv_fused,
    outputs=QKV,
    forbidden=("attnlib.project_qkv", "attnlib.project_qkv_fused"),
    cases=usual_cases(
        _one_matrix,
        {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
        one={"b": 1, "n": 3, "d_model": 5, "d_k": 2, "d_v": 7},
        more=[
            {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
            {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
            {"b": 2, "n": 3, "d_model": 7, "d_k": 2, "d_v": 3},
        ],
    ),
    example=_example,
    misconceptions=(
        wrong(
            "columns_k_q_v",
            "Keys taken from the first columns",
            "The columns stand in the order q, k, v, but your first d_k columns came back as k.",
            lambda x, w, d_k, d_v: tuple(_cut(x, w, d_k, d_k, d_v)[i] for i in (1, 0, 2)),
        ),
        wrong(
            "columns_v_first",
            "Values taken from the first columns",
            "The columns stand in the order q, k, v, but your first d_v columns came back as v.",
            lambda x, w, d_k, d_v: tuple(_cut(x, w, d_v, d_k, d_k)[i] for i in (1, 2, 0)),
        ),
        wrong(
            "equal_thirds",
            "Cut into three equal parts",
            "`chunk(3)` makes three parts of one size. The values may be wider or narrower than the keys: the widths "
            "are d_k, d_k and d_v.",
            lambda x, w, d_k, d_v: (x @ w).chunk(3, dim=-1),
        ),
        wrong(
            "widths_exchanged",
            "d_k and d_v are exchanged",
            "The cut was made at d_v, d_v and d_k. Queries and keys share the width d_k, because they meet in a dot "
            "product.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_v], (x @ w)[..., d_v : 2 * d_v], (x @ w)[..., 2 * d_v :]),
        ),
        wrong(
            "interleaved",
            "The columns are read interleaved",
            "Every second column went to k. Some codebases pack q, k, v column by column like that; here they stand "
            "in blocks: first all of q, then all of k, then all of v.",
            _interleaved,
        ),
        wrong(
            "same_block_twice",
            "Keys cut from the queries' columns",
            "q and k are the same columns. After the first d_k columns, the next d_k belong to the keys.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., :d_k], (x @ w)[..., 2 * d_k :]),
        ),
        wrong(
            "values_overlap",
            "The values start d_k columns too early",
            "v was cut from column d_k on, where the keys stand. It begins after both blocks, at column 2·d_k.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k : 2 * d_k], (x @ w)[..., d_k : d_k + d_v]),
        ),
        wrong(
            "scaled_query",
            "The query is scaled",
            "q is divided by the root of d_k. Many libraries hide the scale there; here it has its place in lesson 02.",
            lambda x, w, d_k, d_v: (_cut(x, w, d_k, d_k, d_v)[0] / d_k**0.5, *_cut(x, w, d_k, d_k, d_v)[1:]),
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "q, k and v came back as (b, d, n). Cut along the last axis and leave the tokens where they are: (b, n, "
            "d).",
            lambda x, w, d_k, d_v: tuple(part.mT for part in _cut(x, w, d_k, d_k, d_v)),
        ),
        wrong(
            "words_cut",
            "The words were cut, not the columns",
            "`fused[:, :d_k]` cuts the second axis, which counts the words. The columns are the last axis: "
            "fused[..., :d_k], or torch.split(fused, [d_k, d_k, d_v], dim=-1).",
            _words_cut,
        ),
        *usual_misconceptions(_cut_qkv, example=_example),
    ),
)
