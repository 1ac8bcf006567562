"""Exercises of lesson 07: where the words stand."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.attention import equation
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.usual import of_sizes, usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case

LESSON = "07_positions"

PREDICT_NO_POSITION = WrittenExercise(
    name="predict_no_position",
    lesson=LESSON,
    contract="which outputs of causal attention without positions differ when the first two words are swapped",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="The third word sees the same three words in either order, and every later word sees the same words "
    "as before, too: a sum has no order. Only at the first two positions does a word see different words, or ask a "
    "different question.",
)


def _sinusoidal_positions(n: int, d_model: int, base: float = 10000.0) -> Tensor:
    """The contract's form, without device and dtype."""
    return attnlib.sinusoidal_positions(n, d_model, base=base)


SINUSOIDAL_POSITIONS = WrittenExercise(
    name="sinusoidal_positions",
    lesson=LESSON,
    contract="n, d_model, base -> float32 (n, d_model): sin and cos of position / base^(2i / d_model) in columns 2i, "
    "2i + 1",
    parts={"values": 3, "far positions": 1},
    reference=_sinusoidal_positions,
    forbidden=("attnlib.sinusoidal_positions", "attnlib.SinusoidalPositions.__init__"),
    cases=(
        of_sizes("eleven words, six columns", 11, 6),
        of_sizes("one word", 1, 8),
        of_sizes("more columns than words", 3, 10),
        of_sizes("another base", 7, 6, 500.0),
        of_sizes("an odd width", 5, 7),
        of_sizes("30011 words, base 2", 30011, 6, 2.0, part="far positions"),
        of_sizes("other sizes", 13, 16, hidden=True),
        of_sizes("one column", 5, 1, hidden=True),
        of_sizes("4096 words, an odd width, another base", 4096, 9, 777.0, part="far positions", hidden=True),
    ),
    example=lambda: (3, 4),
    pairs=("sin_cos_exchanged", "exponent_doubled", "times_the_base", "places_from_one", "sines_then_cosines"),
)


def _rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """The contract's form."""
    return attnlib.rotate(x, positions, base=base)


def _words(draw: Draw, *, b: int, n: int, d: int, h: int = 3) -> tuple[Tensor, Tensor]:
    """Positions that go up, with holes, and not from 0."""
    return draw.normal(b, h, n, d), draw.integers(1, 9, (n,)).cumsum(0)


def _words_anywhere(draw: Draw, *, of_each: bool = False, far: int = 50) -> tuple[Tensor, Tensor]:
    """Positions in any order, for each sentence its own if `of_each`."""
    positions = draw.integers(-far, far, (2, 1, 7) if of_each else (7,))
    return draw.normal(2, 3, 7, 6), positions


def _words_between(draw: Draw) -> tuple[Tensor, Tensor]:
    return draw.normal(2, 3, 7, 6), (draw.integers(0, 40, (7,)) / 4).to(draw.dtype)


def _words_far_out(draw: Draw) -> tuple[Tensor, Tensor]:
    return draw.normal(2, 3, 7, 6), torch.arange(100003, 100010)


def _in_an_example() -> tuple[Tensor, ...]:
    return torch.tensor([[1.0, 0.0, 0.0, 2.0], [1.0, 0.0, 0.0, 2.0]]), torch.tensor([0, 1])


ROTATE = WrittenExercise(
    name="rotate",
    lesson=LESSON,
    contract="x (…, n, d), positions (n,) or broadcast to (…, n), base -> (…, n, d): the columns 2i, 2i + 1 turned by "
    "position / base^(2i / d)",
    parts={"values": 3, "positions": 1, "gradient": 1, "robustness": 1},
    reference=_rotate,
    forbidden=("attnlib.rotate", "attnlib.apply_rotary", "attnlib.Rotary.forward"),
    cases=(
        *usual_cases(
            _words,
            {"b": 2, "n": 7, "d": 6},
            one={"b": 1, "n": 5, "d": 8},
            more=[{"b": 3, "n": 5, "d": 10}, {"b": 5, "n": 11, "d": 2, "h": 1}, {"b": 2, "n": 13, "d": 16, "h": 2}],
        ),
        Case(name="no batch, no heads", inputs=lambda draw: (draw.normal(5, 6), torch.arange(3, 8))),
        Case(name="another base", inputs=lambda draw: (draw.normal(2, 3, 5, 6), torch.arange(5), 500.0)),
        Case(name="any order, and negative ones", inputs=_words_anywhere, part="positions"),
        Case(name="each sentence its own", inputs=partial(_words_anywhere, of_each=True), part="positions"),
        Case(
            name="as many heads as words",
            inputs=lambda draw: (draw.normal(2, 5, 5, 6), draw.integers(1, 9, (5,)).cumsum(0)),
            part="positions",
        ),
        Case(name="fractions", inputs=_words_between, part="positions"),
        Case(name="far out", inputs=_words_far_out, part="positions"),
        Case(
            name="each sentence its own, other numbers",
            inputs=partial(_words_anywhere, of_each=True, far=900),
            part="positions",
            hidden=True,
        ),
        Case(
            name="an odd width",
            inputs=lambda draw: (draw.normal(2, 3, 5, 7), torch.arange(5)),
            raises=True,
            part="robustness",
        ),
    ),
    example=_in_an_example,
    pairs=("turned_backwards", "halves_paired", "exponent_doubled", "positions_assumed", "sin_cos_mixed_up"),
)


def _to_half_pairs(w: Tensor, num_heads: int, back: bool = False) -> Tensor:
    """The contract's form."""
    return attnlib.to_half_pairs(w, num_heads, back=back)


def _projection(draw: Draw, *, n: int, heads: int, d: int, back: bool = False) -> tuple[Any, ...]:
    w = draw.normal(n, heads * d)
    return (w, heads, True) if back else (w, heads)


PROJECTION: dict[str, Any] = {"n": 7, "heads": 3, "d": 10}
OTHER_PROJECTION: dict[str, Any] = {"n": 5, "heads": 5, "d": 6}

TO_HALF_PAIRS = WrittenExercise(
    name="to_half_pairs",
    lesson=LESSON,
    contract="w (d_model, h·d), num_heads, back=False -> the columns of each head from neighbour pairs to half pairs",
    parts={"values": 2, "back": 1, "robustness": 1},
    reference=_to_half_pairs,
    forbidden=("attnlib.to_half_pairs",),
    cases=(
        *(
            replace(case, part="robustness") if case.part == "gradient" else case
            for case in usual_cases(
                _projection,
                PROJECTION,
                one={"n": 2, "heads": 1, "d": 6},
                more=[OTHER_PROJECTION, {**PROJECTION, "n": 11}],
            )
        ),
        Case(name="back", inputs=partial(_projection, **PROJECTION, back=True), part="back"),
        Case(name="back, for one head", inputs=partial(_projection, n=5, heads=1, d=8, back=True), part="back"),
        Case(
            name="back, other sizes",
            inputs=partial(_projection, **OTHER_PROJECTION, back=True),
            part="back",
            hidden=True,
        ),
    ),
    example=lambda: (torch.arange(12.0)[None], 2),
)


def _alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """The contract's form, without the device; the paper has no other numbers of heads."""
    if num_heads & (num_heads - 1):
        raise ValueError(f"num_heads must be a power of two, got {num_heads}")
    return attnlib.alibi_bias(num_heads, q_len, k_len)


def _in_the_past(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """What the contract speaks of: the future is masked anyway, so anything there is set to zero."""
    (bias,) = asked(*inputs)
    if bias.shape != inputs:
        return (bias,)
    return (bias.masked_fill(~attnlib.causal_mask(*inputs[1:]), 0.0),)


def _bias(name: str, *sizes: int, raises: bool = False, **more: Any) -> Case:
    return of_sizes(name, *sizes, raises=raises, probe=None if raises else _in_the_past, **more)


ALIBI_BIAS = WrittenExercise(
    name="alibi_bias",
    lesson=LESSON,
    contract="num_heads, q_len, k_len -> float32 (h, q, k): minus slope times distance, the last query at the last key",
    parts={"values": 2, "more keys than queries": 1, "other numbers of heads": 1},
    reference=_alibi_bias,
    forbidden=("attnlib.alibi_bias", "attnlib.alibi_slopes"),
    cases=(
        _bias("two heads", 2, 5, 5),
        _bias("four heads", 4, 3, 3),
        _bias("one head", 1, 7, 7),
        _bias("eight heads", 8, 6, 6),
        _bias("more keys than queries", 4, 3, 7, part="more keys than queries"),
        _bias("one new query", 2, 1, 5, part="more keys than queries"),
        _bias("more queries than keys", 2, 5, 3, part="more keys than queries"),
        _bias("three heads", 3, 5, 5, part="other numbers of heads", raises=True),
        _bias("six heads", 6, 5, 5, part="other numbers of heads", raises=True),
        _bias("twelve heads", 12, 5, 5, part="other numbers of heads", raises=True, hidden=True),
        _bias("sixteen heads", 16, 11, 11, hidden=True),
        _bias("two new queries", 8, 2, 13, part="more keys than queries", hidden=True),
    ),
    example=lambda: (2, 2, 3),
    pairs=(
        "first_slope_is_one",
        "slopes_reversed",
        "aligned_to_the_first_key",
        "aligned_to_the_first_key_2",
        "rewarded",
        "keys_counted_alone",
    ),
    without=(
        "aligned_to_the_first_key_and_keys_counted_alone",
        "aligned_to_the_first_key_2_and_keys_counted_alone",
    ),
)


def _step_after_a_cache(draw: Draw, *, b: int, n: int, k: int, d: int, h: int = 3) -> tuple[Tensor, ...]:
    """New queries, keys and values, and a cache of k keys (turned already) and values."""
    new = (draw.normal(b, h, n, d, scale=1.3) for _ in range(3))
    return (*new, *(draw.normal(b, h, k, d, scale=1.3) for _ in range(2)))


def _after_a_cache(q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor) -> Tensor:
    m = past_k.shape[-2]
    positions = torch.arange(m, m + q.shape[-2], device=q.device)
    keys = torch.cat([past_k, attnlib.rotate(k, positions)], dim=-2)
    values = torch.cat([past_v, v], dim=-2)
    return equation(attnlib.rotate(q, positions), keys, values, is_causal=True)[0]


_STEP = partial(_step_after_a_cache, b=2, n=3, k=7, d=6)

MEND_ROTARY = WrittenExercise(
    name="mend_rotary",
    lesson=LESSON,
    contract="new q, k, v (b, h, n, d), turned past_k and past_v (b, h, m, d) -> (b, h, n, d): causal rotary attention",
    parts={"values": 2},
    reference=_after_a_cache,
    attends=True,
    cases=(
        Case(name="three new words after seven", inputs=_STEP, mutation=True),
        Case(name="one new word", inputs=partial(_step_after_a_cache, b=3, n=1, k=5, d=8)),
        Case(name="five new words after two", inputs=partial(_step_after_a_cache, b=2, n=5, k=2, d=4)),
        Case(name="gradients", inputs=_STEP, dtype=torch.float64, gradient=True),
        Case(name="on another device", inputs=_STEP, other_device=True),
        Case(name="other sizes (1)", inputs=partial(_step_after_a_cache, b=5, n=2, k=11, d=10), hidden=True),
        Case(name="other sizes (2)", inputs=partial(_step_after_a_cache, b=1, n=4, k=4, d=6, h=1), hidden=True),
    ),
)


def _alibi_slopes(num_heads: int) -> Tensor:
    """The contract's form, without the device."""
    return attnlib.alibi_slopes(num_heads)


ALIBI_SLOPES = WrittenExercise(
    name="alibi_slopes",
    lesson=LESSON,
    contract="num_heads, any number from 1 -> float32 (h): the slopes of the paper's code",
    parts={"values": 1},
    stretch=True,
    reference=_alibi_slopes,
    forbidden=("attnlib.alibi_slopes", "attnlib.alibi_bias"),
    cases=(
        *(of_sizes(f"{h} heads", h) for h in (1, 8, 6, 5, 12, 3, 7)),
        *(of_sizes(f"{h} heads", h, hidden=True) for h in (2, 11, 15, 16, 25, 40)),
    ),
    example=lambda: (3,),
    without=("slopes_even",),
)

EXERCISES = (
    PREDICT_NO_POSITION,
    SINUSOIDAL_POSITIONS,
    ROTATE,
    TO_HALF_PAIRS,
    ALIBI_BIAS,
    MEND_ROTARY,
    ALIBI_SLOPES,
)
