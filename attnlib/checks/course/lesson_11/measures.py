"""Where a head looks: scores of its attention weights, their entropy, and how much a head copies."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.course.slips.lesson11_measures import (
    AddTerms,
    AverageByHead,
    LargestOfRow,
    Logarithms,
    OnDiagonal,
    PickFirst,
    PickInduction,
    PickPrevious,
    ReadWeights,
    ShareOfRows,
    Terms,
)
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "11_reading_heads"


def previous_token_score(weights: Tensor) -> Tensor:
    """Of each head, the mean weight on the token before the query's own."""
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, -1))


def _weights(draw: Draw, *, b: int, h: int, n: int, causal: bool = False) -> tuple[Tensor]:
    scores = draw.normal(b, h, n, n, scale=1.5)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
    return (scores.softmax(dim=-1),)


def _score_cases(make: Callable[..., tuple[Any, ...]], **more: Any) -> tuple[Case, ...]:
    """Cases of a score (b, h, n, n) -> (h,). Nothing is asked of a sequence of one token: it has no pairs."""
    sizes = {"b": 2, "h": 7, "n": 11, **more}
    return (
        *usual_cases(
            make,
            sizes,
            one={**sizes, "b": 1, "h": 2, "n": 7},
            more=[{**sizes, "b": 3, "h": 2, "n": 13}, {**sizes, "b": 5, "h": 3, "n": 7}],
            word=sizes,
            gradient=False,
        ),
        Case(name="one head", inputs=partial(make, **{**sizes, "h": 1})),
        Case(name="causal weights", inputs=partial(make, **sizes, causal=True)),
        Case(name="causal weights, other sizes", inputs=partial(make, **{**sizes, "n": 17}, causal=True), hidden=True),
    )


A_HEAD_AND_ANOTHER = torch.tensor(
    [[[[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.8, 0.2]], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.3, 0.1, 0.6]]]]
)

PREVIOUS_TOKEN_SCORE = CourseExercise(
    name="previous_token_score",
    lesson=LESSON,
    contract="weights (b, h, n, n), rows are queries -> (h,), the mean weight on key i - 1 over the batch and all "
    "queries i ≥ 1",
    parts={"values": 2, "robustness": 1},
    reference=previous_token_score,
    cases=(*_score_cases(_weights), Case(name="two tokens", inputs=partial(_weights, b=3, h=2, n=2))),
    example=lambda: (A_HEAD_AND_ANOTHER,),
    made_of=(ReadWeights, PickPrevious, AverageByHead),
    pairs=("transposed", "own_token", "wraps_around", "heads_averaged", "summed"),
    without=("transposed_and_own_token",),
)


def induction_score(weights: Tensor, period: int) -> Tensor:
    """Of each head, the mean weight on the token that followed the query's token one period ago."""
    return weights[..., period:, :].diagonal(1, dim1=-2, dim2=-1).mean(dim=(0, -1))


def _repeated(draw: Draw, *, period: int, **sizes: Any) -> tuple[Tensor, int]:
    return (*_weights(draw, **sizes), period)


def _of_period(name: str, period: int, n: int, *, hidden: bool = False, causal: bool = False) -> Case:
    inputs = partial(_repeated, b=2, h=3, n=n, period=period, causal=causal)
    return Case(name=name, inputs=inputs, hidden=hidden)


INDUCTION_SCORE = CourseExercise(
    name="induction_score",
    lesson=LESSON,
    contract="weights (b, h, n, n), rows are queries, of tokens that repeat after `period` ≥ 2 -> (h,), the mean "
    "weight on key i - period + 1 over the batch and all queries i ≥ period",
    parts={"values": 3, "robustness": 1},
    reference=induction_score,
    cases=(
        *_score_cases(_repeated, period=3),
        _of_period("two whole blocks", 5, 10),
        _of_period("one query with a match", 7, 8),
        _of_period("a period of 2", 2, 11),
        _of_period("a long period", 11, 29, causal=True),
        _of_period("other periods", 5, 17, hidden=True),
    ),
    example=lambda: (
        torch.tensor([[[[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.1, 0.8, 0.1, 0.0], [0.1, 0.1, 0.6, 0.2]]]]),
        2,
    ),
    made_of=(ReadWeights, PickInduction, AverageByHead),
    pairs=("same_token", "one_query_too_many", "heads_averaged", "summed"),
)


def sink_score(weights: Tensor) -> Tensor:
    """Of each head, the mean weight on the first key."""
    return weights[..., 1:, 0].mean(dim=(0, -1))


SINK_SCORE = CourseExercise(
    name="sink_score",
    lesson=LESSON,
    contract="weights (b, h, n, n), rows are queries -> (h,), the mean weight on key 0 over the batch and all queries "
    "i ≥ 1",
    parts={"values": 1, "robustness": 1},
    reference=sink_score,
    cases=_score_cases(_weights),
    example=lambda: (A_HEAD_AND_ANOTHER,),
    made_of=(ReadWeights, PickFirst, AverageByHead),
    pairs=("first_query_counted", "heads_averaged", "summed"),
)


def attention_entropy(weights: Tensor) -> Tensor:
    """Of each query, the entropy of its weights in nats; a weight of 0 adds nothing."""
    return -torch.xlogy(weights, weights).sum(dim=-1)


def _shared_out(draw: Draw, *, q: int, k: int, b: int = 0, h: int = 0, closed: bool = False) -> tuple[Tensor]:
    """Weights, (q, k) with the axes that are asked for before them; `closed`: about half of them 0, never a whole row.

    Few keys where digits count: ln(p + 1e-12), which is no mistake, is off by k · 1e-12.
    """
    shape = (*filter(None, (b, h)), q, k)
    scores = draw.normal(*shape, scale=1.5)
    if closed:
        scores = scores.masked_fill(draw.integers(0, 2, shape).bool() & (scores < scores.amax(-1, True)), -torch.inf)
    return (scores.softmax(dim=-1),)


def _rows(name: str, part: str = "values", hidden: bool = False, **sizes: Any) -> Case:
    return Case(name=name, inputs=partial(_shared_out, **sizes), part=part, hidden=hidden)


SHARES = {"b": 2, "h": 3, "q": 7, "k": 5}
"""One key has an entropy of 0, and beside nothing but zeros a harmless ln(p + 1e-12) would be a mistake."""

ATTENTION_ENTROPY = CourseExercise(
    name="attention_entropy",
    lesson=LESSON,
    contract="weights (…, q, k), each row adds up to 1 -> (…, q), -Σ p ln p of each row, in nats; 0 · ln 0 = 0",
    parts={"values": 1, "closed keys": 1, "robustness": 1},
    reference=attention_entropy,
    cases=(
        *usual_cases(
            _shared_out,
            SHARES,
            one={"b": 1, "h": 2, "q": 3, "k": 5},
            more=[{"b": 3, "h": 2, "q": 11, "k": 3}, {"b": 5, "h": 7, "q": 2, "k": 5}],
            word=SHARES,
            gradient=False,
            room=False,
        ),
        _rows("one table, no batch and no heads", q=7, k=5),
        _rows("three axes", b=3, q=2, k=5),
        _rows("some keys are closed", "closed keys", b=2, h=3, q=7, k=5, closed=True),
        Case(
            name="causal weights",
            inputs=partial(_weights, b=2, h=3, n=5, causal=True),
            part="closed keys",
            mutation=True,
        ),
        _rows("many queries", hidden=True, b=2, h=2, q=37, k=3),
        _rows("some keys are closed, other sizes", "closed keys", hidden=True, b=3, q=11, k=5, closed=True),
    ),
    example=lambda: (torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]),),
    made_of=(ReadWeights, Logarithms, Terms, AddTerms),
    few={ReadWeights: ("softmax_again",)},
    pairs=("in_bits", "zero_times_infinity", "sign_missing", "mean_over_the_keys"),
)


def copying_score(circuit: Tensor) -> Tensor:
    """The share of the rows whose largest entry is on the diagonal."""
    return (circuit.argmax(dim=-1) == torch.arange(len(circuit), device=circuit.device)).to(circuit.dtype).mean()


def _circuit(draw: Draw, *, vocab: int, own: float = 2.5, shift: float = 0.0, favourite: float = 0.0) -> tuple[Tensor]:
    """Random entries, with `own` added on the diagonal, and `favourite` to what the first token gets from any."""
    circuit = draw.normal(vocab, vocab, shift=shift)
    circuit.diagonal().add_(own)
    circuit[:, 0] += favourite
    return (circuit,)


def _share(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """A share counted in float32 is as right as one in the circuit's own dtype."""
    return (asked(*inputs)[0].float().to(inputs[0].dtype),)


def _of_tokens(name: str, vocab: int, *, hidden: bool = False, **more: Any) -> Case:
    """More keywords are for the case, but for those that `_circuit` takes."""
    circuit = {key: more.pop(key) for key in ("own", "shift", "favourite") if key in more}
    return Case(name=name, inputs=partial(_circuit, vocab=vocab, **circuit), probe=_share, hidden=hidden, **more)


COPYING_SCORE = CourseExercise(
    name="copying_score",
    lesson=LESSON,
    contract="circuit (V, V) -> a scalar tensor: the share of the rows whose largest entry is on the diagonal",
    parts={"values": 1},
    reference=copying_score,
    excused={"the dtype that was given": "A share that is counted in float32 is as right as in the circuit's dtype."},
    cases=(
        _of_tokens("61 tokens", 61),
        _of_tokens("53 tokens, every row copies", 53, own=20.0),
        _of_tokens("47 tokens, no row copies", 47, own=-20.0),
        _of_tokens("71 tokens, all entries above 0", 71, shift=9.0),
        _of_tokens("43 tokens, all entries below 0", 43, shift=-19.0),
        _of_tokens("59 tokens, one of which every row raises", 59, favourite=4.0),
        _of_tokens("one token", 1),
        _of_tokens("called a second time, with another circuit", 61, after=(partial(_circuit, vocab=61, own=1.5),)),
        _of_tokens("memory that is not contiguous", 61, strided=True, mutation=True),
        _of_tokens("on another device", 61, other_device=True),
        _of_tokens("97 tokens", 97, hidden=True),
        _of_tokens("67 tokens, one of which every row raises", 67, favourite=4.0, hidden=True),
    ),
    example=lambda: (torch.tensor([[2.0, 1.0, 0.0], [3.0, 1.0, 0.0], [-1.0, -2.0, -0.5]]),),
    made_of=(LargestOfRow, OnDiagonal, ShareOfRows),
    pairs=("along_columns", "counted"),
)
