"""The exercise `mend_unpack_qkv` of lesson 01."""

from functools import partial

import torch
from torch import Tensor

from attnlib.checks.course.lesson_00.slips import slips, slips_with_floats
from attnlib.checks.course.lesson_01.three_layers import (
    mistakes_before_and_after,
    mistakes_of_order,
    scaled_projections,
    unpacked,
)
from attnlib.checks.course.usual import as_given, usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

QKV = ("q", "k", "v")


def _packed(draw: Draw, *, b: int, n: int, d_model: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 3 * d, scale=d_model**-0.5)


def _unpack_qkv(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return (x @ w_qkv).chunk(3, dim=-1)


def _take_turns(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return (x @ w_qkv).unflatten(-1, (-1, 3)).unbind(dim=-1)


def _three_in_place_of_d(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x @ w_qkv).unflatten(-1, (-1, 3)).movedim(-2, 0)
    return q, k, v


def _three_in_place_of_d_in_turns(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x @ w_qkv).unflatten(-1, (3, -1)).movedim(-1, 0)
    return q, k, v


def _weights_shuffled(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return _unpack_qkv(x, w_qkv.unflatten(-1, (3, -1)).mT.flatten(-2))


def _shuffled_and_in_turns(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return _take_turns(x, w_qkv.unflatten(-1, (-1, 3)).mT.flatten(-2))


def _around(compute):
    """The attempt whose `compute(x, to_q, to_k, to_v)` gets the three right pieces as steps."""
    return lambda x, w_qkv: compute(x, *(lambda t, w=w: t @ w for w in w_qkv.chunk(3, dim=-1)))


def _reordered(order):
    return lambda *inputs: tuple(_unpack_qkv(*inputs)[i] for i in order)


def _example() -> tuple[Tensor, ...]:
    return torch.ones(1, 1, 1), torch.arange(6.0).unsqueeze(0)


MEND_UNPACK_QKV = Exercise(
    name="mend_unpack_qkv",
    lesson="01_qkv_projections",
    contract="(b, n, d_model), (d_model, 3·d) -> q, k, v; columns: all of q, then all of k, then all of v",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=_unpack_qkv,
    outputs=QKV,
    cases=(
        *usual_cases(
            _packed,
            {"b": 2, "n": 5, "d_model": 7, "d": 11},
            one={"b": 1, "n": 3, "d_model": 5, "d": 2},
            more=[{"b": 3, "n": 11, "d_model": 13, "d": 5}, {"b": 5, "n": 2, "d_model": 3, "d": 7}],
        ),
        Case(name="as many columns as features, and d = 3", inputs=partial(_packed, b=2, n=5, d_model=9, d=3)),
    ),
    example=_example,
    misconceptions=(
        as_given(_take_turns),
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
            "same_block_twice",
            "Keys cut from the queries' columns",
            "q and k are the same columns. After the first third of the columns, the next third belongs to the keys.",
            lambda x, w: tuple(_unpack_qkv(x, w)[i] for i in (0, 0, 2)),
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "q, k and v came back as (b, d, n). Leave the tokens where they are: (b, n, d).",
            lambda x, w: tuple(part.mT for part in _unpack_qkv(x, w)),
        ),
        wrong(
            "words_cut",
            "The words were cut, not the columns",
            "dim=1 is the axis of the words. The columns are the last axis: chunk(3, dim=-1).",
            lambda x, w: (x @ w).chunk(3, dim=1),
        ),
        wrong(
            "batch_cut",
            "The batch was cut, not the columns",
            "What comes back are pieces of the first axis, the batch. (chunk without `dim` cuts there, and so does "
            "unpacking a tensor.) The columns are the last axis: chunk(3, dim=-1).",
            lambda x, w: (x @ w).chunk(3),
        ),
        wrong(
            "pieces_of_three",
            "Pieces of three columns, not three pieces",
            "`split(3)` cuts pieces that are 3 columns wide. Three pieces of d columns are wanted: chunk(3, dim=-1).",
            lambda x, w: (x @ w).split(3, dim=-1),
        ),
        wrong(
            "three_in_place_of_d",
            "Pieces of three columns, not three pieces",
            "`(three d)` with d=3, or `split(3)`, says that each vector has three numbers. It is the number of pieces "
            "that is 3: three=3, or chunk(3, dim=-1).",
            _three_in_place_of_d,
        ),
        wrong(
            "three_in_place_of_d_in_turns",
            "d was set to 3, and q, k and v still take turns",
            "In `(d three)` the name on the right runs fastest, and the weights have blocks: `(three d)`. And it is "
            "`three` that is 3: three=3.",
            _three_in_place_of_d_in_turns,
        ),
        wrong(
            "picked_from_last_axis",
            "q, k and v are picked along the wrong axis",
            "After the split the axes are (b, n, 3, d). The one to pick from is the 3, not the last: p[..., 0, :], or "
            "unbind(dim=-2).",
            lambda x, w: tuple((x @ w).unflatten(-1, (3, -1))[..., i] for i in range(3)),
        ),
        wrong(
            "weights_shuffled",
            "The weights are reordered the wrong way",
            "The columns were in the right order for three blocks, and have been made to take turns. Reorder the "
            "weights, or cut in blocks, not both.",
            _weights_shuffled,
        ),
        wrong(
            "take_turns_v_k_q",
            "q, k and v still take turns",
            "Another order of the three names does not help: columns 0, 3, 6 … are still cut out as one. The weights "
            "have blocks: `(three d)`.",
            lambda x, w: _take_turns(x, w)[::-1],
        ),
        wrong(
            "take_turns_k_q_v",
            "q, k and v still take turns",
            "Another order of the three names does not help: columns 0, 3, 6 … are still cut out as one. The weights "
            "have blocks: `(three d)`.",
            lambda x, w: tuple(_take_turns(x, w)[i] for i in (1, 0, 2)),
        ),
        wrong(
            "values_with_keys",
            "The values begin where the keys begin",
            "v is everything from column d on, the keys' columns among it. It begins at column 2·d.",
            lambda x, w: (*_unpack_qkv(x, w)[:2], torch.cat(_unpack_qkv(x, w)[1:], dim=-1)),
        ),
        wrong(
            "as_wide_as_x",
            "The pieces are as wide as x",
            "The cuts are at d_model and 2·d_model. d is a third of the columns, and need not be d_model.",
            lambda x, w: (x @ w).tensor_split([x.shape[-1], 2 * x.shape[-1]], dim=-1),
        ),
        wrong(
            "split_as_wide_as_x",
            "The pieces are as wide as x",
            "`split(d_model)` goes on cutting pieces of d_model columns. d is a third of the columns, and need not be "
            "d_model: chunk(3, dim=-1).",
            lambda x, w: (x @ w).split(x.shape[-1], dim=-1),
        ),
        wrong(
            "fixed_places",
            "The width is a fixed number",
            "The cuts are at columns 4, 8 and 12, however many there are. d is a third of the columns: "
            "w_qkv.shape[1] // 3.",
            lambda x, w: ((x @ w)[..., :4], (x @ w)[..., 4:8], (x @ w)[..., 8:12]),
        ),
        wrong(
            "transposed_weights",
            "The matrix is transposed",
            "`x @ w.T`, or F.linear, is for a matrix stored as (out, in). This one is (in, out), as it was before.",
            lambda x, w: _unpack_qkv(x, w.T),
        ),
        wrong(
            "scaled_query",
            "The query is scaled",
            "q is divided by the root of d. Many libraries hide the scale there; here it has its place in lesson 02.",
            lambda x, w: (_unpack_qkv(x, w)[0] / (w.shape[1] / 3) ** 0.5, *_unpack_qkv(x, w)[1:]),
        ),
        *mistakes_of_order(_reordered, "k_q_v", "q_v_k", "v_k_q", "q_q_v", "q_q_q"),
        *mistakes_before_and_after(_around),
        *scaled_projections(_around),
        wrong(
            "shuffled_and_in_turns",
            "The weights are reordered the wrong way, and q, k and v still take turns",
            "The columns stand in three blocks already. Reordering them as if they took turns mixes them, and reading "
            "every third column mixes them once more. Cut in blocks, `(three d)`, and leave the weights alone.",
            _shuffled_and_in_turns,
        ),
        wrong(
            "sliced_as_wide_as_x",
            "The pieces are as wide as x",
            "Each slice is d_model columns long. d is a third of the columns, and need not be d_model: "
            "w_qkv.shape[1] // 3.",
            lambda x, w: tuple((x @ w)[..., i * x.shape[-1] : (i + 1) * x.shape[-1]] for i in range(3)),
        ),
        *(
            wrong(f"{name}_unpacked", title, explanation, unpacked(implementation))
            for name, title, explanation, implementation in (
                (
                    "batch_cut",
                    "The batch was cut, not the columns",
                    "What comes back are pieces of the first axis, the batch. (chunk without `dim` cuts there, and so "
                    "does unpacking a tensor.) The columns are the last axis: chunk(3, dim=-1).",
                    lambda x, w: (x @ w).chunk(3),
                ),
                (
                    "split_as_wide_as_x",
                    "The pieces are as wide as x",
                    "`split(d_model)` goes on cutting pieces of d_model columns. d is a third of the columns, and need "
                    "not be d_model: chunk(3, dim=-1).",
                    lambda x, w: (x @ w).split(x.shape[-1], dim=-1),
                ),
            )
        ),
        *slips(_unpack_qkv, outputs=3),
        *slips_with_floats(_unpack_qkv),
        *usual_misconceptions(_unpack_qkv, example=_example),
    ),
)
