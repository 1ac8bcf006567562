"""Exercises of lesson 01: a recurrent network, vectors by counting, and queries, keys and values."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Inputs

LESSON = "01_qkv_projections"
QKV = ("q", "k", "v")
PAIRS = ("scaled_query", "q_k_exchanged", "keys_values_exchanged", "qkv_reordered")
NO_PAIRS = ("q_k_exchanged_and_qkv_reordered", "keys_values_exchanged_and_qkv_reordered")
"""Pairs of two exchanges, which amount to another order."""


class QKVProjection(attnlib.QKVProjection):
    """The contract's signature: `bias` by position."""

    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, bias=bias)


PREDICT_QUERY_OF_IT = prediction(
    name="predict_query_of_it",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": is the query of “it” the same in both sentences?',
    reference="A",
    explanation="The same token has the same row of the table, and the same row times the same matrix is the same "
    "query. A projection never looks at another word. Only attention, in lesson 02, lets one word learn about another.",
)


def _three_matrices(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    scale = d_model**-0.5
    x = draw.normal(b, n, d_model)
    shapes = ((d_model, d_k), (d_model, d_k), (d_model, d_v))
    return (x, *(draw.normal(*shape, scale=scale) for shape in shapes))


PROJECT_QKV = WrittenExercise(
    name="project_qkv",
    lesson=LESSON,
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
        Case(name="every width is 1", inputs=partial(_three_matrices, b=2, n=5, d_model=1, d_k=1, d_v=1)),
    ),
    example=lambda: (
        torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
        torch.tensor([[9.0], [10.0]]),
    ),
    pairs=PAIRS,
    without=NO_PAIRS,
)


def _module_inputs(draw: Draw, *, b: int, n: int, sizes: tuple[int, ...]) -> tuple[Inputs, Inputs]:
    return sizes, (draw.normal(b, n, sizes[0]),)


QKV_PROJECTION = WrittenExercise(
    name="QKVProjection",
    lesson=LESSON,
    contract="QKVProjection(d_model, d_k, d_v, bias=True), forward: (b, n, d_model) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=QKVProjection,
    outputs=QKV,
    forbidden=("attnlib.QKVProjection.forward",),
    cases=(
        *usual_cases(
            _module_inputs,
            {"b": 2, "n": 5, "sizes": (7, 3, 11)},
            one={"b": 1, "n": 3, "sizes": (5, 2, 7, False)},
            more=[
                {"b": 3, "n": 11, "sizes": (13, 5, 2, True)},
                {"b": 5, "n": 2, "sizes": (3, 3, 3)},
                {"b": 2, "n": 7, "sizes": (5, 7, 3, False)},
            ],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="all axes of one length", inputs=partial(_module_inputs, b=3, n=3, sizes=(3, 3, 3))),
        Case(name="bias=True is said", inputs=partial(_module_inputs, b=2, n=5, sizes=(7, 3, 11, True))),
        Case(name="every width is 1", inputs=partial(_module_inputs, b=2, n=5, sizes=(1, 1, 1))),
    ),
    pairs=PAIRS,
    without=NO_PAIRS,
)


def _query_key(draw: Draw, *, d_model: int, d_k: int) -> tuple[Tensor, ...]:
    return draw.normal(d_model, d_k), draw.normal(d_k), draw.normal(d_model, d_k), draw.normal(d_k)


FOLD_QUERY_KEY = WrittenExercise(
    name="fold_query_key",
    lesson=LESSON,
    contract="w_q (d_model, d_k), b_q (d_k), w_k (d_model, d_k), b_k (d_k) -> m (d_model, d_model), u (d_model)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    outputs=("m", "u"),
    cases=(
        *usual_cases(
            _query_key,
            {"d_model": 7, "d_k": 3},
            one={"d_model": 5, "d_k": 2},
            more=[{"d_model": 3, "d_k": 11}, {"d_model": 13, "d_k": 5}, {"d_model": 2, "d_k": 7}],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="a square", inputs=partial(_query_key, d_model=5, d_k=5)),
        Case(name="queries and keys of one number", inputs=partial(_query_key, d_model=5, d_k=1)),
        Case(name="words of one number", inputs=partial(_query_key, d_model=1, d_k=3)),
        Case(name="every width is 1", inputs=partial(_query_key, d_model=1, d_k=1)),
    ),
)


def _words_to_read(draw: Draw, *, b: int, n: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, n, d, scale=0.7), draw.normal(d, d, scale=d**-0.5)


RECURRENT_STATES = WrittenExercise(
    name="recurrent_states",
    lesson=LESSON,
    contract="words (b, n, d), one matrix (d, d) -> the state after each word (b, n, d)",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    cases=(
        *usual_cases(
            _words_to_read,
            {"b": 2, "n": 5, "d": 7},
            one={"b": 1, "n": 3, "d": 5},
            more=[{"b": 3, "n": 11, "d": 2}, {"b": 5, "n": 2, "d": 13}],
        ),
        Case(name="all axes of one length", inputs=partial(_words_to_read, b=3, n=3, d=3)),
        Case(name="vectors of one number", inputs=partial(_words_to_read, b=2, n=5, d=1)),
    ),
    pairs=("no_tanh", "matrix_transposed", "last_state_alone", "batch_second"),
)


def _texts(draw: Draw, *, b: int, n: int, vocabulary: int, window: int, absent: int = 0) -> tuple[Any, ...]:
    """Draw texts in which the last `absent` words of the vocabulary don't occur."""
    return draw.integers(0, vocabulary - absent, (b, n)), vocabulary, window


COMPANY = WrittenExercise(
    name="company",
    lesson=LESSON,
    contract="texts (b, n) of ids, vocabulary, window -> (vocabulary, vocabulary): ln(count / count by chance), or 0 "
    "where that's negative",
    parts={"values": 5, "robustness": 1},
    excused={
        "the device that was given": "The pairs may be counted in Python.",
    },
    cases=(
        Case(name="texts of seven words", inputs=partial(_texts, b=5, n=7, vocabulary=6, window=2)),
        Case(name="a window of one", inputs=partial(_texts, b=3, n=5, vocabulary=4, window=1)),
        Case(name="a single text", inputs=partial(_texts, b=1, n=13, vocabulary=5, window=3)),
        Case(name="a window wider than the texts", inputs=partial(_texts, b=5, n=3, vocabulary=7, window=11)),
        Case(name="a window that just fits", inputs=partial(_texts, b=5, n=4, vocabulary=5, window=3)),
        Case(
            name="words that are in no text",
            inputs=partial(_texts, b=3, n=7, vocabulary=11, window=2, absent=3),
            part="robustness",
        ),
        Case(name="texts of one word", inputs=partial(_texts, b=3, n=1, vocabulary=5, window=2), part="robustness"),
        Case(
            name="a vocabulary of one word", inputs=partial(_texts, b=2, n=5, vocabulary=1, window=2), part="robustness"
        ),
        Case(
            name="the texts after the call",
            inputs=partial(_texts, b=5, n=7, vocabulary=6, window=2),
            part="robustness",
            mutation=True,
        ),
        Case(name="other texts", inputs=partial(_texts, b=11, n=5, vocabulary=7, window=2), hidden=True),
        Case(name="longer texts", inputs=partial(_texts, b=2, n=17, vocabulary=13, window=5), hidden=True),
    ),
    pairs=("own_place_counted", "following_words_alone", "negative_kept", "no_logarithm"),
    without=("negative_kept_and_no_logarithm",),
)

EXERCISES = (
    RECURRENT_STATES,
    PREDICT_QUERY_OF_IT,
    PROJECT_QKV,
    QKV_PROJECTION,
    COMPANY,
    FOLD_QUERY_KEY,
)
