"""Exercises of lesson 10: a softmax block by block, parts put together, and attention without its table."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.asking import ready_made
from attnlib.checks.asking.given import BLOCKS, FLEETING
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "10_flash_attention"
FAR = 1e30
"""Scores below -FAR are lower than any number that people take for -inf, except the lowest of the dtype."""
Three = tuple[Tensor, Tensor, Tensor]


def _based(highest: Tensor) -> Tensor:
    """Return the number to subtract: the largest score, or 0 if no key has been open yet."""
    return highest.masked_fill(highest == -torch.inf, 0.0)


def _cut(scores: Tensor, widths: tuple[int, ...]) -> list[Tensor]:
    """Cut blocks of these widths, over and over, until nothing is left."""
    pieces: list[Tensor] = []
    while scores.shape[-1]:
        width = min(widths[len(pieces) % len(widths)], scores.shape[-1])
        pieces.append(scores[..., :width].clone())
        scores = scores[..., width:]
    return pieces


Close = Callable[[Tensor], None]


def _rows(
    draw: Draw,
    *,
    b: int,
    q: int,
    k: int,
    lead: tuple[int, ...] | None = None,
    widths: tuple[int, ...] = (2, 1, 3),
    scale: float = 1.5,
    shift: float = 0.0,
    close: Close | None = None,
    fleeting: bool = False,
) -> tuple[Any, ...]:
    scores = draw.normal(*((b, q) if lead is None else lead), k, scale=scale, shift=shift)
    if close is not None:
        close(scores)
    return ({FLEETING if fleeting else BLOCKS: _cut(scores, widths)},)


def _first_keys(scores: Tensor) -> None:
    scores[:, ::2, :3] = -torch.inf


def _keys_between(scores: Tensor) -> None:
    scores[:, 1:, 3:6] = -torch.inf


def _whole_rows(scores: Tensor) -> None:
    scores[:, 1] = -torch.inf


def _far_below_zero(scores: Tensor) -> None:
    """One score of each row gets all of the weight, so that nothing depends on rounding."""
    scores.abs_().add_(1).mul_(-FAR)


def _of_rows(name: str, *, part: str = "values", hidden: bool = False, **inputs: Any) -> Case:
    return Case(name=name, inputs=partial(_rows, **inputs), part=part, hidden=hidden)


def _many_blocks(name: str, *, b: int, q: int, k: int, width: int, hidden: bool = False) -> Case:
    """A case with one block at a time: nothing larger than four of them may be made, and no three may be held."""
    inputs = partial(_rows, b=b, q=q, k=k, widths=(width,), fleeting=True)
    return Case(name=name, inputs=inputs, part="one block at a time", hidden=hidden, largest=4 * b * q * width)


ONLINE_SOFTMAX = WrittenExercise(
    name="online_softmax",
    lesson=LESSON,
    contract="an iterator of blocks of scores, each (…, k) with a k of its own -> the largest score m and the sum l of "
    "exp(s - m) of each row, both (…)",
    parts={"values": 2, "closed blocks": 1, "one block at a time": 1, "robustness": 1},
    excused={"large scores": "The scores are inputs, and a case has some of 10,000 and of -10,000."},
    outputs=("m", "l"),
    cases=(
        *usual_cases(
            _rows,
            {"b": 2, "q": 5, "k": 7},
            one={"b": 1, "q": 2, "k": 5},
            more=[{"b": 3, "q": 2, "k": 11, "widths": (5, 1)}, {"b": 2, "q": 7, "k": 13, "widths": (1,)}],
            gradient=False,
        ),
        _of_rows("one block", b=2, q=3, k=5, widths=(5,)),
        _of_rows("a single row", b=1, q=1, k=7, lead=()),
        _of_rows("an axis of heads", b=2, q=5, k=7, lead=(2, 3, 5)),
        _of_rows("all scores are negative", b=2, q=3, k=7, shift=-9.0),
        _of_rows("scores of 10,000 and of -10,000", b=2, q=3, k=7, scale=1e4, part="robustness"),
        _of_rows("scores below -10³⁰", b=2, q=3, k=7, close=_far_below_zero, part="robustness"),
        _of_rows("the first blocks are closed", b=2, q=5, k=7, close=_first_keys, part="closed blocks"),
        _of_rows("a block between is closed", b=2, q=3, k=7, close=_keys_between, part="closed blocks"),
        _of_rows("a row is closed", b=2, q=3, k=7, close=_whole_rows, part="closed blocks"),
        _many_blocks("forty blocks", b=2, q=3, k=800, width=20),
        _of_rows("a row is closed, other sizes", b=3, q=5, k=11, close=_whole_rows, part="closed blocks", hidden=True),
        _many_blocks("thirty blocks", b=1, q=7, k=450, width=15, hidden=True),
    ),
    same={"sum_not_rescaled": "old_sums_not_rescaled"},
)


def _row_and_values(
    draw: Draw,
    *,
    b: int,
    k: int,
    d: int,
    h: int = 0,
    block: int = 3,
    scale: float = 1.5,
    close: int = 0,
    low: float = 0,
    far: bool = False,
) -> tuple[Tensor, Tensor, int]:
    """Draw scores and values. Every other row closes its first `close` keys and lowers its scores; `h` adds an axis."""
    shape = (b, h) if h else (b,)
    scores = draw.normal(*shape, k, scale=scale)
    scores[::2, ..., :close] = -torch.inf
    scores[::2] -= low
    if far:
        _far_below_zero(scores[::2])
    return scores, draw.normal(*shape, k, d, shift=0.4), block


def _in_blocks(
    name: str, *, hidden: bool = False, magnitude: float = 0.0, mutation: bool = False, **inputs: Any
) -> Case:
    make = partial(_row_and_values, **inputs)
    return Case(name=name, inputs=make, hidden=hidden, magnitude=magnitude, mutation=mutation)


MEND_ONLINE = WrittenExercise(
    name="mend_online",
    lesson=LESSON,
    contract="scores (…, k), values (…, k, d), block_size -> (…, d), the softmax of the scores times the values",
    parts={"values": 2},
    excused={"large scores": "The scores are inputs, and a case has large ones."},
    cases=(
        _in_blocks("seven keys in blocks of 3", b=5, k=7, d=2),
        _in_blocks("six keys in blocks of 3", b=4, k=6, d=5, close=2, mutation=True),
        _in_blocks("one block", b=3, k=5, d=2, block=5),
        _in_blocks("blocks of one key", b=3, k=5, d=2, block=1),
        _in_blocks("a block longer than the row", b=3, k=5, d=2, block=9),
        _in_blocks("the first block is closed", b=5, k=7, d=2, close=3),
        _in_blocks("the first two blocks are closed", b=5, k=11, d=3, close=6),
        _in_blocks("closed keys, then scores far below zero", b=5, k=7, d=2, close=3, low=500.0, magnitude=500.0),
        _in_blocks("closed keys, then scores below -10³⁰", b=5, k=7, d=2, close=3, far=True),
        _in_blocks("large scores", b=5, k=7, d=2, scale=80.0),
        _in_blocks("some rows far below the others", b=5, k=7, d=2, low=500.0, magnitude=500.0),
        _in_blocks("two axes in front", b=2, h=5, k=7, d=3, close=3),
        _in_blocks("one row", b=1, k=7, d=3),
        _in_blocks("one row far below zero", b=1, k=7, d=3, low=500.0, magnitude=500.0),
        _in_blocks("other sizes", b=7, k=13, d=2, block=4, close=5, hidden=True),
    ),
    without=("starts_at_the_lowest_number", "first_block_read_alone"),
)


def part_of(scores: Tensor, v: Tensor) -> Three:
    """Return the contribution of a part of the keys: scores (…, q, k) and values (…, k, d) -> o, m, l."""
    highest = scores.amax(dim=-1)
    powers = (scores - _based(highest)[..., None]).exp()
    return powers @ v, highest, powers.sum(dim=-1)


def _parts(
    draw: Draw,
    *,
    b: int,
    q: int,
    d: int,
    h: int = 0,
    parts: int = 2,
    scale: float = 1.5,
    shift: float = 0.0,
    empty: tuple[int, ...] = (),
) -> tuple[Tensor, ...]:
    """Draw parts of 3, 4, 5 … keys; those named in `empty` are closed in every other row."""
    lead = (b, h) if h else (b,)
    found: list[Tensor] = []
    for number in range(parts):
        scores = draw.normal(*lead, q, 3 + number, scale=scale, shift=shift)
        if number in empty:
            scores[:, ::2] = -torch.inf
        found += part_of(scores, draw.normal(*lead, 3 + number, d, shift=0.4))
    return tuple(found)


def _left_first(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """The first two parts together, then the third."""
    return asked(*asked(*inputs[:6]), *inputs[6:])


def _right_first(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """The last two parts together, then the first before them."""
    return asked(*inputs[:3], *asked(*inputs[3:]))


def _of_parts(name: str, *, part: str = "values", hidden: bool = False, probe: Any = None, **inputs: Any) -> Case:
    return Case(name=name, inputs=partial(_parts, **inputs), part=part, hidden=hidden, probe=probe)


MERGE = WrittenExercise(
    name="merge",
    lesson=LESSON,
    contract="two parts o (…, d), m (…), l (…), from different keys for the same queries -> o, m and l of both "
    "together; o is not divided by l",
    parts={"values": 2, "in any order": 1, "empty parts": 1, "robustness": 1},
    excused={"large scores": "The largest scores are inputs, and a case has some of some 100."},
    outputs=("o", "m", "l"),
    cases=(
        *usual_cases(
            _parts,
            {"b": 2, "q": 5, "d": 3},
            one={"b": 1, "q": 2, "d": 7},
            more=[{"b": 3, "q": 2, "d": 5}, {"b": 2, "q": 7, "d": 2}],
            gradient=False,
        ),
        _of_parts("an axis of heads", b=2, q=5, d=3, h=3),
        _of_parts("scores of some 100", b=2, q=5, d=3, scale=200.0, part="robustness"),
        _of_parts("scores far below zero", b=2, q=5, d=3, shift=-2e4, part="robustness"),
        _of_parts("scores of -10³⁰", b=2, q=5, d=3, shift=-FAR, part="robustness"),
        _of_parts("three parts, the first two first", b=2, q=5, d=3, parts=3, part="in any order", probe=_left_first),
        _of_parts("three parts, the last two first", b=2, q=5, d=3, parts=3, part="in any order", probe=_right_first),
        _of_parts("the first part is empty", b=2, q=5, d=3, empty=(0,), part="empty parts"),
        _of_parts("the second part is empty", b=2, q=5, d=3, empty=(1,), part="empty parts"),
        _of_parts("both parts are empty", b=2, q=5, d=3, empty=(0, 1), part="empty parts"),
        _of_parts(
            "three parts, other sizes", b=3, q=2, d=5, parts=3, part="in any order", probe=_right_first, hidden=True
        ),
        _of_parts("both parts are empty, other sizes", b=3, q=3, d=2, empty=(0, 1), part="empty parts", hidden=True),
    ),
    example=lambda: (
        *part_of(torch.tensor([[1.0, 3.0]]), torch.tensor([[10.0], [20.0]])),
        *part_of(torch.tensor([[2.0, 5.0]]), torch.tensor([[30.0], [40.0]])),
    ),
    pairs=("merged_as_they_are", "highest_of_the_first"),
)


def _blocks_of(length: int, size: int) -> list[slice]:
    """Blocks of positions; the last one may be shorter."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _scores(q: Tensor, k: Tensor, rows: slice, columns: slice, is_causal: bool) -> Tensor:
    """The scores of a block of queries and a block of keys."""
    scores = q[..., rows, :] @ k[..., columns, :].mT / math.sqrt(q.shape[-1])
    if is_causal and columns.stop > rows.start + 1:
        queries, keys = (torch.arange(part.start, part.stop, device=q.device) for part in (rows, columns))
        scores = scores.masked_fill(queries[:, None] < keys, -torch.inf)
    return scores


def _words(
    draw: Draw, *, b: int, n: int, d: int, block: int = 3, causal: bool = True, h: int = 0, apart: float = 0.0
) -> tuple[Tensor, Tensor, Tensor, int, bool]:
    """Values are two columns wider than queries and keys; with h heads there is one more axis."""
    shape, d = (b, h, n) if h else (b, n), draw.d_head(d)
    q, k = draw.normal(*shape, d, scale=1.3, shift=apart), draw.normal(*shape, d, scale=1.3, shift=-apart)
    return q, k, draw.normal(*shape, d + 2, shift=0.4), block, causal


def _visits(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return a table of 0 and 1 for which block of queries meets which block of keys, and the number of meetings.

    A value that is NaN spoils every output into which it is multiplied, even with a weight of zero.
    """
    q, k, v, size, is_causal = inputs
    blocks = _blocks_of(q.shape[-2], size)
    met = torch.zeros(len(blocks), len(blocks), dtype=torch.long)
    for j, columns in enumerate(blocks):
        spoiled = v.clone()
        spoiled[..., columns, :] = torch.nan
        output = asked(q, k, spoiled, size, is_causal)[0]
        for i, rows in enumerate(blocks):
            met[i, j] = output[..., rows, :].isnan().any()
    return met, met.sum()


def _of_words(name: str, *, hidden: bool = False, **inputs: Any) -> Case:
    return Case(name=name, inputs=partial(_words, **inputs), hidden=hidden)


def _small(name: str, make: Any, *, b: int, n: int, block: int, hidden: bool = False, **inputs: Any) -> Case:
    """Allow four times the scores of all queries with one block of keys, less than half of the table."""
    inputs_of = partial(make, b=b, n=n, block=block, d=3, **inputs)
    return Case(name=name, inputs=inputs_of, part="no table", largest=4 * b * n * block, hidden=hidden)


FLASH_ATTENTION = WrittenExercise(
    name="flash_attention",
    lesson=LESSON,
    contract="q, k (…, n, d), v (…, n, d_v), block_size, is_causal -> output (…, n, d_v) and log-sum-exp (…, n), "
    "without a tensor of n × n; blocks closed by the causal mask are skipped",
    parts={"values": 4, "no table": 2, "closed blocks are skipped": 1, "robustness": 1},
    attends=True,
    outputs=("output", "lse"),
    forbidden=(ready_made.ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _words,
            {"b": 2, "n": 7, "d": 3},
            one={"b": 1, "n": 5, "d": 2},
            more=[{"b": 3, "n": 11, "d": 2, "block": 4, "causal": False}, {"b": 2, "n": 13, "d": 5, "block": 5}],
            gradient=False,
        ),
        _of_words("not causal", b=2, n=7, d=3, causal=False),
        _of_words("two blocks of the same length", b=2, n=6, d=2, causal=False),
        _of_words("a block longer than the text", b=2, n=5, d=3, block=9),
        _of_words("blocks of one word", b=2, n=5, d=3, block=1),
        _of_words("with heads", b=2, h=3, n=7, d=5),
        *(
            Case(
                name=name,
                inputs=partial(_words, b=2, n=7, d=3, apart=apart),
                part="robustness",
                dtype=torch.float64,
                magnitude=1e4,
            )
            for name, apart in (("scores far below zero", 60.0), ("scores near -900", 15.0))
        ),
        _small("160 words in blocks of 16", _words, b=1, n=160, block=16),
        _small("160 words in blocks of 16, not causal", _words, b=1, n=160, block=16, causal=False),
        Case(
            name="which blocks are visited",
            inputs=partial(_words, b=2, n=20, d=3, block=4),
            part="closed blocks are skipped",
            probe=_visits,
        ),
        _of_words("with heads, not causal", b=1, h=2, n=11, d=3, block=4, causal=False, hidden=True),
        _small("190 words in blocks of 10", _words, b=2, n=190, block=10, hidden=True),
        Case(
            name="which blocks are visited, other sizes",
            inputs=partial(_words, b=1, n=11, d=5, block=3),
            part="closed blocks are skipped",
            probe=_visits,
            hidden=True,
        ),
    ),
    example=lambda: (
        torch.ones(4, 1),
        torch.tensor([[1.0], [3.0], [2.0], [5.0]]),
        torch.tensor([[10.0], [20.0], [30.0], [40.0]]),
        2,
        True,
    ),
    pairs=("no_scale", "closed_blocks_computed", "old_sums_not_rescaled"),
    without=(
        "nothing_minus_nothing",
        "zero_kept_as_highest",
        "starts_at_the_lowest_number",
        "first_block_read_alone",
        "subtracted_number_too_high_2",  # scores near -1e9 are tried nowhere
    ),
)


def _weights_and_gradient(
    draw: Draw, *, b: int, q: int, k: int, h: int = 0, closed: bool = False
) -> tuple[Tensor, Tensor]:
    shape = (b, h, q, k) if h else (b, q, k)
    scores = draw.normal(*shape, scale=1.3)
    if closed:
        scores[..., ::2, 1] = -torch.inf
    return scores.softmax(dim=-1), draw.normal(*shape, shift=0.5)


SOFTMAX_GRADIENT = WrittenExercise(
    name="softmax_gradient",
    lesson=LESSON,
    contract="weights P (…, k), the softmax of scores S, and the gradient dP of the weights (…, k) -> the gradient dS "
    "of the scores (…, k)",
    parts={"values": 4, "robustness": 1},
    excused={"large scores": "The scores are not among the inputs, and their weights are."},
    outputs=("grad_scores",),
    cases=(
        *(
            replace(case, magnitude=10.0)  # for a single key, nothing is left of dP - D
            for case in usual_cases(
                _weights_and_gradient,
                {"b": 2, "q": 3, "k": 5},
                one={"b": 1, "q": 2, "k": 7},
                more=[{"b": 3, "q": 7, "k": 2}, {"b": 2, "q": 5, "k": 11}],
                gradient=False,
            )
        ),
        Case(name="as many queries as keys", inputs=partial(_weights_and_gradient, b=2, q=5, k=5)),
        Case(name="a key with no weight", inputs=partial(_weights_and_gradient, b=2, q=3, k=5, closed=True)),
        Case(name="with heads", inputs=partial(_weights_and_gradient, b=2, h=3, q=5, k=7)),
        Case(name="one row", inputs=lambda draw: tuple(x[0, 0] for x in _weights_and_gradient(draw, b=1, q=1, k=5))),
        Case(
            name="with heads, other sizes",
            inputs=partial(_weights_and_gradient, b=3, h=2, q=7, k=3, closed=True),
            hidden=True,
        ),
    ),
    example=lambda: (torch.tensor([0.25, 0.75]), torch.tensor([10.0, 20.0])),
)


def _kept(
    draw: Draw, *, b: int, n: int, d: int, block: int = 3, causal: bool = True, h: int = 0, times: float = 1.0
) -> tuple[Any, ...]:
    """Return what the forward pass keeps, all rows computed at once for speed, and a gradient of the output."""
    q, k, v, size, is_causal = _words(draw, b=b, n=n, d=d, block=block, causal=causal, h=h)
    q = q * times
    scores = _scores(q.double(), k.double(), slice(0, n), slice(0, n), is_causal)
    o, lse = scores.softmax(dim=-1) @ v.double(), scores.logsumexp(dim=-1)
    return q, k, v, o.to(q.dtype), lse.to(q.dtype), draw.normal(*o.shape, shift=0.3), size, is_causal


def _of_kept(name: str, **inputs: Any) -> Case:
    return Case(name=name, inputs=partial(_kept, **inputs))


FLASH_BACKWARD = WrittenExercise(
    name="flash_backward",
    lesson=LESSON,
    contract="q, k (…, n, d), v, o and grad_o (…, n, d_v), lse (…, n), block_size, is_causal -> the gradients of q, k "
    "and v, without a tensor of n × n",
    parts={"values": 5, "no table": 2, "robustness": 1},
    excused={"large scores": "The log-sum-exp is an input that fits its scores alone, and a case has large ones."},
    outputs=("grad_q", "grad_k", "grad_v"),
    forbidden=(ready_made.ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *(
            replace(case, magnitude=10.0)  # dP - D: for a sentence of one word, nothing is left of it
            for case in usual_cases(
                _kept,
                {"b": 2, "n": 7, "d": 3},
                one={"b": 1, "n": 5, "d": 2},
                more=[{"b": 3, "n": 11, "d": 2, "block": 4, "causal": False}, {"b": 2, "n": 13, "d": 5, "block": 5}],
                gradient=False,
            )
        ),
        _of_kept("not causal", b=2, n=7, d=3, causal=False),
        _of_kept("two blocks of the same length", b=2, n=6, d=2, causal=False),
        _of_kept("one block", b=2, n=5, d=3, block=5),
        _of_kept("a block longer than the text", b=2, n=5, d=3, block=9),
        _of_kept("blocks of one word", b=2, n=5, d=3, block=1),
        _of_kept("with heads", b=2, h=3, n=7, d=5),
        Case(
            name="scores too large for exp",
            inputs=partial(_kept, b=2, n=7, d=3, times=1e3, causal=False),
            part="robustness",
            dtype=torch.float64,
            magnitude=1e7,  # a weight's exponent, some 1e3, and the query it is multiplied by
        ),
        _small("144 words in blocks of 16", _kept, b=1, n=144, block=16),
        _small("144 words in blocks of 16, not causal", _kept, b=1, n=144, block=16, causal=False, hidden=True),
        _small("190 words in blocks of 10", _kept, b=2, n=190, block=10, hidden=True),
    ),
    pairs=("row_sum_left_out", "scale_forgotten"),
    without=("closed_blocks_computed", "closed_scores_finite"),
)

EXERCISES = (
    ONLINE_SOFTMAX,
    MEND_ONLINE,
    MERGE,
    FLASH_ATTENTION,
    SOFTMAX_GRADIENT,
    FLASH_BACKWARD,
)
