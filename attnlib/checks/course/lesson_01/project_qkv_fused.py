"""The exercise `project_qkv_fused` of lesson 01."""

from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

import attnlib
from attnlib.checks.course.lesson_00.slips import slips, slips_with_floats
from attnlib.checks.course.lesson_01.three_layers import (
    mistakes_before_and_after,
    mistakes_of_order,
    scaled_projections,
    unpacked,
)
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

QKV = ("q", "k", "v")


def _one_matrix(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, int, int]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 2 * d_k + d_v, scale=d_model**-0.5), d_k, d_v


def _cut(x: Tensor, w_qkv: Tensor, *sizes: int) -> tuple[Tensor, ...]:
    return (x @ w_qkv).split(sizes, dim=-1)


def _cut_qkv(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    return _cut(x, w_qkv, d_k, d_k, d_v)


def _cut_and_scaled(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = _cut(x, w_qkv, d_k, d_k, d_v)
    return q / scale, k / scale, v


def _around(compute):
    """The attempt whose `compute(x, to_q, to_k, to_v)` gets the three right pieces as steps."""

    def attempt(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> tuple[Tensor, ...]:
        steps = (lambda t, w=w: t @ w for w in w_qkv.split([d_k, d_k, d_v], dim=-1))
        return compute(x, *steps)

    return attempt


def _reordered(order):
    return lambda *inputs: tuple(_cut_qkv(*inputs)[i] for i in order)


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
    cases=(
        *usual_cases(
            _one_matrix,
            {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
            one={"b": 1, "n": 3, "d_model": 7, "d_k": 2, "d_v": 5},  # three thirds of 9 are whole, and wrong
            more=[
                {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
                {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
                {"b": 2, "n": 3, "d_model": 7, "d_k": 2, "d_v": 3},
            ],
        ),
        # where nothing raises an error, the numbers tell which axis was cut
        Case(name="as many of everything as columns", inputs=partial(_one_matrix, b=9, n=9, d_model=9, d_k=3, d_v=3)),
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
        wrong(
            "columns_q_v_k",
            "Values taken from the middle columns",
            "The columns stand in the order q, k, v, but v was cut right behind q.",
            lambda x, w, d_k, d_v: tuple(_cut(x, w, d_k, d_v, d_k)[i] for i in (0, 2, 1)),
        ),
        wrong(
            "columns_v_k_q",
            "The columns are read from the wrong end",
            "The columns stand in the order q, k, v, but your first d_v columns came back as v and the last as q.",
            lambda x, w, d_k, d_v: _cut(x, w, d_v, d_k, d_k)[::-1],
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The cut is right, but the three come back as v, k, q. Here it is q, k, v.",
            lambda x, w, d_k, d_v: _cut_qkv(x, w, d_k, d_v)[::-1],
        ),
        wrong(
            "order_q_v_k",
            "Keys and values are exchanged",
            "The cut is right, but the three come back as q, v, k. Here it is q, k, v.",
            lambda x, w, d_k, d_v: tuple(_cut_qkv(x, w, d_k, d_v)[i] for i in (0, 2, 1)),
        ),
        wrong(
            "second_piece_d_v_wide",
            "The widths stand in another order",
            "The cut was made at d_k, d_v and d_k. The values come last: [d_k, d_k, d_v].",
            lambda x, w, d_k, d_v: _cut(x, w, d_k, d_v, d_k),
        ),
        wrong(
            "first_piece_d_v_wide",
            "The widths stand in another order",
            "The cut was made at d_v, d_k and d_k. The values come last: [d_k, d_k, d_v].",
            lambda x, w, d_k, d_v: _cut(x, w, d_v, d_k, d_k),
        ),
        wrong(
            "split_widths_exchanged",
            "d_k and d_v are exchanged",
            "The cut was made at d_v, d_v and d_k, which is more than there is. Queries and keys share the width d_k, "
            "because they meet in a dot product.",
            lambda x, w, d_k, d_v: _cut(x, w, d_v, d_v, d_k),
        ),
        wrong(
            "pieces_of_d_k",
            "All pieces are d_k wide",
            "`split(d_k)` goes on cutting pieces of d_k columns. The values have a width of their own: "
            "split([d_k, d_k, d_v], dim=-1).",
            lambda x, w, d_k, d_v: (x @ w).split(d_k, dim=-1),
        ),
        wrong(
            "values_d_k_wide",
            "The values are cut to the width of the keys",
            "v is columns 2·d_k to 3·d_k. It goes on to the end, d_v columns: fused[..., 2 * d_k :].",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k : 2 * d_k], (x @ w)[..., 2 * d_k : 3 * d_k]),
        ),
        wrong(
            "values_last_d_k",
            "The values are cut to the width of the keys",
            "v is the last d_k columns. It is the last d_v: fused[..., -d_v:].",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k : 2 * d_k], (x @ w)[..., -d_k:]),
        ),
        wrong(
            "values_with_keys",
            "The values begin where the keys begin",
            "v is everything from column d_k on, the keys' columns among it. It begins behind both blocks, at column "
            "2·d_k.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k : 2 * d_k], (x @ w)[..., d_k:]),
        ),
        wrong(
            "keys_with_values",
            "The keys go on to the end",
            "k is everything from column d_k on, the values' columns among it. It ends at column 2·d_k.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k:], (x @ w)[..., 2 * d_k :]),
        ),
        wrong(
            "widths_taken_for_ends",
            "A slice ends at a place, not after a width",
            "`fused[..., a:b]` goes from column a to column b. The keys go from d_k to 2·d_k, the values from there to "
            "2·d_k + d_v.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k:d_k], (x @ w)[..., 2 * d_k : d_v]),
        ),
        wrong(
            "widths_taken_for_places",
            "The places of the cuts are wanted, not the widths",
            "`tensor_split` takes the columns at which to cut: [d_k, 2 * d_k]. It is `split` that takes widths.",
            lambda x, w, d_k, d_v: (x @ w).tensor_split([d_k, d_k], dim=-1),
        ),
        wrong(
            "widths_taken_for_cuts",
            "The places of the cuts are wanted, not the widths",
            "Slices and `tensor_split` go by the columns at which to cut: d_k and 2·d_k. Yours cut at d_k and at d_v, "
            "so the keys go from d_k to d_v. It is `split` that takes widths.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k:d_v], (x @ w)[..., d_v:]),
        ),
        wrong(
            "one_column_skipped",
            "A column is skipped",
            "The end of a slice does not belong to it: `fused[..., :d_k]` ends at column d_k - 1, and the next slice "
            "begins at d_k, not at d_k + 1.",
            lambda x, w, d_k, d_v: (
                (x @ w)[..., :d_k],
                (x @ w)[..., d_k + 1 : 2 * d_k + 1],
                (x @ w)[..., 2 * d_k + 1 :],
            ),
        ),
        wrong(
            "fixed_widths",
            "The widths are fixed numbers",
            "4, 4 and 5 are the widths of the lesson's own example. Take them from the arguments: [d_k, d_k, d_v].",
            lambda x, w, d_k, d_v: (x @ w).split([4, 4, 5], dim=-1),
        ),
        wrong(
            "fixed_places",
            "The widths are fixed numbers",
            "Columns 4 and 8 are the places to cut in the lesson's own example. Take them from the arguments: d_k and "
            "2 * d_k.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :4], (x @ w)[..., 4:8], (x @ w)[..., 8:]),
        ),
        wrong(
            "split_along_words",
            "The words are split, not the columns",
            "dim=1 is the axis of the words. The columns are the last axis: split([d_k, d_k, d_v], dim=-1).",
            lambda x, w, d_k, d_v: (x @ w).split([d_k, d_k, d_v], dim=1),
        ),
        wrong(
            "split_along_batch",
            "The batch is split, not the columns",
            "Without `dim`, split cuts the first axis, the batch. The columns are the last axis: "
            "split([d_k, d_k, d_v], dim=-1).",
            lambda x, w, d_k, d_v: (x @ w).split([d_k, d_k, d_v]),
        ),
        wrong(
            "rows_of_the_matrix",
            "The rows of the matrix are cut",
            "The columns of w_qkv belong to q, k and v: w_qkv[:, :d_k]. Its rows are d_model, which all three share.",
            lambda x, w, d_k, d_v: tuple(x @ part for part in w.split([d_k, d_k, d_v], dim=0)),
        ),
        wrong(
            "rows_of_the_matrix_sliced",
            "The rows of the matrix are cut",
            "The columns of w_qkv belong to q, k and v: w_qkv[:, :d_k]. Its rows are d_model, which all three share.",
            lambda x, w, d_k, d_v: (x @ w[:d_k], x @ w[d_k : 2 * d_k], x @ w[2 * d_k :]),
        ),
        wrong(
            "reshaped_weights",
            "The matrix is reshaped",
            "`reshape` (or `view`) keeps the numbers in their order in memory and draws the lines elsewhere: no column "
            "is what it was. Nothing needs to be turned here, x @ w_qkv; for F.linear, turn it with w_qkv.T.",
            lambda x, w, d_k, d_v: _cut(x, w.reshape(w.shape[1], w.shape[0]).T, d_k, d_k, d_v),
        ),
        wrong(
            "scaled_all",
            "The projections are scaled",
            "All three are divided by the root of d_k. A projection is one matrix product and nothing else; the scale "
            "has its place in lesson 02.",
            lambda x, w, d_k, d_v: _cut(x / d_k**0.5, w, d_k, d_k, d_v),
        ),
        wrong(
            "scaled_both",
            "Queries and keys are scaled",
            "q and k are each divided by the root of d_k. The scale has its place in lesson 02, once.",
            lambda x, w, d_k, d_v: _cut_and_scaled(x, w, d_k, d_v, d_k**0.5),
        ),
        wrong(
            "scaled_both_by_fourth_root",
            "Queries and keys are scaled",
            "q and k are each divided by the fourth root of d_k. The scale has its place in lesson 02.",
            lambda x, w, d_k, d_v: _cut_and_scaled(x, w, d_k, d_v, d_k**0.25),
        ),
        wrong(
            "transposed_weights",
            "The matrix is transposed",
            "`x @ w.T`, or F.linear, is for a matrix stored as (out, in). This one is (in, out): x @ w_qkv.",
            lambda x, w, d_k, d_v: F.linear(x, w).split([d_k, d_k, d_v], dim=-1),
        ),
        wrong(
            "reshaped_to_thirds",
            "Cut into three equal parts",
            "A reshape to (…, 3, width) wants three parts of one size. The values may be wider or narrower than the "
            "keys: the widths are d_k, d_k and d_v.",
            lambda x, w, d_k, d_v: (x @ w).reshape(*x.shape[:2], 3, -1).unbind(dim=2),
        ),
        wrong(
            "rearranged_to_thirds",
            "Cut into three equal parts",
            "`(three d)` wants three parts of one size. The values may be wider or narrower than the keys: the widths "
            "are d_k, d_k and d_v.",
            lambda x, w, d_k, d_v: tuple(rearrange(x @ w, "b n (three d) -> three b n d", three=3)),
        ),
        wrong(
            "reshaped_across",
            "The positions are mixed",
            "The reshape put the axis of q, k and v in front, although its numbers stand on the last axis in memory. A "
            "reshape never moves an axis. Cut the last axis where it is.",
            lambda x, w, d_k, d_v: (x @ w).reshape(3, x.shape[0], x.shape[1], -1).unbind(0),
        ),
        wrong(
            "every_third_column",
            "The columns are read as if they took turns",
            "Columns 0, 3, 6 … became q. Some codebases pack q, k, v column by column like that; here they stand in "
            "blocks: first all of q, then all of k, then all of v.",
            lambda x, w, d_k, d_v: tuple((x @ w)[..., i::3] for i in range(3)),
        ),
        wrong(
            "weights_alone",
            "The matrix is cut, and not multiplied",
            "The three pieces are parts of w_qkv itself. Multiply x with it first, or with each of the pieces.",
            lambda x, w, d_k, d_v: w.split([d_k, d_k, d_v], dim=-1),
        ),
        wrong(
            "order_returned_scaled",
            "Queries and keys are exchanged, and the query is scaled",
            "Two things at once: the first d_k columns are q, and the root of d_k has its place in lesson 02.",
            lambda x, w, d_k, d_v: (_cut(x, w, d_k, d_k, d_v)[1] / d_k**0.5, *_cut(x, w, d_k, d_k, d_v)[::2]),
        ),
        *mistakes_of_order(_reordered, "k_q_v", "q_v_k", "v_k_q", "q_q_v"),
        *mistakes_before_and_after(_around),
        *scaled_projections(_around),
        wrong(
            "columns_v_k_q_scaled",
            "The columns are read from the wrong end, and the query is scaled",
            "Two things at once: the columns stand in the order q, k, v, and the root of d_k has its place in lesson "
            "02.",
            lambda x, w, d_k, d_v: (
                (pieces := _cut(x, w, d_v, d_k, d_k))[2] / d_k**0.5,
                pieces[1],
                pieces[0],
            ),
        ),
        wrong(
            "pieces_of_d_k_unpacked",
            "All pieces are d_k wide",
            "`split(d_k)` goes on cutting pieces of d_k columns, and there need not be three of them. The values have "
            "a width of their own: split([d_k, d_k, d_v], dim=-1).",
            unpacked(lambda x, w, d_k, d_v: (x @ w).split(d_k, dim=-1)),
        ),
        wrong(
            "batch_of_one_matrix",
            "It works for a batch of one only",
            "`torch.mm` wants a single matrix, and `squeeze(0)` makes one only where the batch has length 1. `@` takes "
            "the batch along: x @ w_qkv.",
            lambda x, w, d_k, d_v: tuple(
                part[None] for part in torch.mm(x.squeeze(0), w).split([d_k, d_k, d_v], dim=-1)
            ),
        ),
        *slips(_cut_qkv, outputs=3),
        *slips_with_floats(_cut_qkv),
        *usual_misconceptions(_cut_qkv, example=_example),
    ),
)
