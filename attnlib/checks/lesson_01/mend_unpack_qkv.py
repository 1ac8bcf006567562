"""The exercise `mend_unpack_qkv` of lesson 01."""

import torch
from torch import Tensor

from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong

QKV = ("q", "k", "v")


def _packed(draw: Draw, *, b: int, n: int, d_model: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 3 * d, scale=d_model**-0.5)


def _unpack_qkv(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return (x @ w_qkv).chunk(3, dim=-1)


def _take_turns(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return (x @ w_qkv).unflatten(-1, (-1, 3)).unbind(dim=-1)


def _example() -> tuple[Tensor, ...]:
    return torch.ones(1, 1, 1), torch.arange(6.0).unsqueeze(0)


MEND_UNPACK_QKV = Exercise(
    name="mend_unpack_qkv",
    lesson="01_qkv_projections",
    contract="(b, n, d_model), (d_model, 3·d) -> q, k, v; columns: all of q, then all of k, then all of v",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=_unpack_qkv,
    outputs=QKV,
    cases=usual_cases(
        _packed,
        {"b": 2, "n": 5, "d_model": 7, "d": 3},
        one={"b": 1, "n": 3, "d_model": 5, "d": 2},
        more=[{"b": 3, "n": 11, "d_model": 13, "d": 5}, {"b": 5, "n": 2, "d_model": 3, "d": 7}],
    ),
    example=_example,
    misconceptions=(
        wrong(
            "take_turns",
            "q, k and v take turns",
            "With `(d three)` the name on the right runs fastest, so columns 0, 3, 6 … become q. The weights here "
            "have all of q first: the place inside one vector has to run fastest, and the choice among q, k and v "
            "slowest.",
            _take_turns,
        ),
        wrong(
            "reshaped_across",
            "The positions are mixed",
            "The reshape put the axis of q, k and v in front, although its numbers stand on the last axis in "
            "memory. A reshape never moves an axis. Split the last axis where it is, and then move the new one.",
            lambda x, w: (x @ w).reshape(3, x.shape[0], x.shape[1], -1).unbind(0),
        ),
        wrong(
            "reshaped_positions",
            "The positions are mixed",
            "The reshape put the axis of q, k and v before the positions, although its numbers stand on the last "
            "axis in memory. Split the last axis where it is, and then move the new one.",
            lambda x, w: (x @ w).reshape(x.shape[0], 3, x.shape[1], -1).unbind(1),
        ),
        wrong(
            "order_k_q_v",
            "Queries and keys are exchanged",
            "The first third of the columns came back as k. The order is q, k, v.",
            lambda x, w: tuple(_unpack_qkv(x, w)[i] for i in (1, 0, 2)),
        ),
        wrong(
            "order_v_k_q",
            "Returned in reverse order",
            "The first third of the columns came back as v. The order is q, k, v.",
            lambda x, w: _unpack_qkv(x, w)[::-1],
        ),
        wrong(
            "order_q_v_k",
            "Keys and values are exchanged",
            "The last third of the columns came back as k. The order is q, k, v.",
            lambda x, w: tuple(_unpack_qkv(x, w)[i] for i in (0, 2, 1)),
        ),
        wrong(
            "first_third_for_all",
            "Three times the same third",
            "q, k and v all hold the first third of the columns: each needs its own.",
            lambda x, w: (_unpack_qkv(x, w)[0],) * 3,
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "q, k and v came back as (b, d, n). Leave the tokens where they are: (b, n, d).",
            lambda x, w: tuple(part.mT for part in _unpack_qkv(x, w)),
        ),
        *usual_misconceptions(_unpack_qkv, example=_example),
    ),
)
