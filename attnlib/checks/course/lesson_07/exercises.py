"""Exercises of lesson 07: where the words stand."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.given import OPTIMISER, described
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.trained import trained
from attnlib.checks.course.usual import of_sizes, usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case

LESSON = "07_positions"

PREDICT_NO_POSITION = prediction(
    name="predict_no_position",
    lesson=LESSON,
    contract="which outputs of causal attention without positions differ when the first two words are swapped",
    reference="B",
    explanation="The third word and all later ones see the same words as before in another order, and a sum has no "
    "order. Only at the first two positions does a word see different words, or ask a different question.",
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
    """Draw words with positions that increase, with gaps, and don't start at 0."""
    return draw.normal(b, h, n, d), draw.integers(1, 9, (n,)).cumsum(0)


def _words_anywhere(draw: Draw, *, of_each: bool = False, far: int = 50) -> tuple[Tensor, Tensor]:
    """Draw words with positions in any order, different for each sentence if `of_each`."""
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
        Case(
            name="each head its own",
            inputs=lambda draw: (draw.normal(2, 3, 7, 6), draw.integers(-50, 50, (3, 7))),
            part="positions",
        ),
        Case(name="fractions", inputs=_words_between, part="positions"),
        Case(
            name="gradients, of fractions too",
            inputs=_words_between,
            part="gradient",
            dtype=torch.float64,
            gradient=True,
        ),
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


def _alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """The contract's form, without the device."""
    return attnlib.alibi_bias(num_heads, q_len, k_len)


def _in_the_past(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Set the bias of future keys to zero: they are masked anyway, and the contract leaves them open."""
    (bias,) = asked(*inputs)
    if bias.shape != inputs:
        return (bias,)
    return (bias.masked_fill(~attnlib.causal_mask(*inputs[1:]), 0.0),)


def _bias(name: str, *sizes: int, **more: Any) -> Case:
    return of_sizes(name, *sizes, probe=_in_the_past, **more)


ALIBI_BIAS = WrittenExercise(
    name="alibi_bias",
    lesson=LESSON,
    contract="num_heads, q_len, k_len -> float32 (h, q, k): minus slope times distance, the last query at the last key",
    parts={"values": 3, "more keys than queries": 1, "any number of heads": 2},
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
        _bias("three heads", 3, 5, 5, part="any number of heads"),
        _bias("five heads", 5, 5, 5, part="any number of heads"),
        _bias("six heads", 6, 5, 5, part="any number of heads"),
        _bias("twelve heads", 12, 3, 3, part="any number of heads"),
        _bias("seven heads", 7, 3, 3, part="any number of heads"),
        _bias("twenty-five heads", 25, 3, 3, part="any number of heads", hidden=True),
        _bias("fifteen heads", 15, 2, 5, part="any number of heads", hidden=True),
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
        "first_slope_is_one_and_slopes_reversed",
        "aligned_to_the_first_key_and_keys_counted_alone",
        "aligned_to_the_first_key_2_and_keys_counted_alone",
    ),
)


def _step_after_a_cache(draw: Draw, *, b: int, n: int, k: int, d: int, h: int = 3) -> tuple[Tensor, ...]:
    """Draw new queries, keys and values, and a cache of k (rotated) keys and values."""
    new = (draw.normal(b, h, n, d, scale=1.3) for _ in range(3))
    return (*new, *(draw.normal(b, h, k, d, scale=1.3) for _ in range(2)))


def _far_below_zero(draw: Draw) -> tuple[Tensor, ...]:
    """Draw the same with scores near -20,000, all of them: what counts is in the pair that hardly turns."""
    q, k, v, past_k, past_v = _step_after_a_cache(draw, b=2, n=3, k=7, d=6)
    size = (2e4 * q.shape[-1] ** 0.5) ** 0.5
    q[..., -2] = size
    k[..., -2] = past_k[..., -2] = -size
    return q, k, v, past_k, past_v


_STEP = partial(_step_after_a_cache, b=2, n=3, k=7, d=6)

MEND_ROTARY = WrittenExercise(
    name="mend_rotary",
    lesson=LESSON,
    contract="new q, k, v (b, h, n, d), turned past_k and past_v (b, h, m, d) -> (b, h, n, d): causal rotary attention",
    parts={"values": 2},
    attends=True,
    cases=(
        Case(name="three new words after seven", inputs=_STEP, mutation=True),
        Case(name="one new word", inputs=partial(_step_after_a_cache, b=3, n=1, k=5, d=8)),
        Case(name="five new words after two", inputs=partial(_step_after_a_cache, b=2, n=5, k=2, d=4)),
        Case(name="gradients", inputs=_STEP, dtype=torch.float64, gradient=True),
        Case(name="scores far below zero", inputs=_far_below_zero, dtype=torch.float64, magnitude=1e5),
        Case(name="on another device", inputs=_STEP, other_device=True),
        Case(name="other sizes (1)", inputs=partial(_step_after_a_cache, b=5, n=2, k=11, d=10), hidden=True),
        Case(name="other sizes (2)", inputs=partial(_step_after_a_cache, b=1, n=4, k=4, d=6, h=1), hidden=True),
    ),
)


def _small_model(draw: Draw, vocab: int, max_len: int, *, learns: bool) -> dict[str, Any]:
    weights = {"embed": draw.normal(vocab, 6), "places": draw.normal(max_len, 6)}
    return described("SmallModel", (vocab, max_len, 6, 0, None, learns), weights, learns=learns)


def _to_train(
    draw: Draw, *, steps: int, b: int, n: int, m: int, vocab: int, warmup: int, optimiser: str = ""
) -> tuple[Any, ...]:
    """Draw tokens of which the last m of n have a target."""
    model = _small_model(draw, vocab, n + 2, learns=True)
    ids, targets = draw.integers(0, vocab, (steps, b, n)), draw.integers(0, vocab, (steps, b, m))
    return model, ids, targets, 0.3, warmup, *(({OPTIMISER: optimiser},) if optimiser else ())


_STEPS: dict[str, Any] = {"steps": 7, "b": 3, "n": 5, "m": 4, "vocab": 11, "warmup": 3}

TRAIN_WITH_WARMUP = WrittenExercise(
    name="train_with_warmup",
    lesson=LESSON,
    contract="model, ids (steps, b, n), targets (steps, b, m) of the last m tokens, lr, warmup, make -> losses "
    "(steps,); the rate rises over the first steps, and falls to 0",
    parts={"values": 3, "robustness": 1},
    excused={
        "the device that was given": "The losses may be collected as Python's numbers.",
        "large scores": "The model is given, and its logits are not large.",
        "a model in evaluation mode": "The model comes in training mode.",
    },
    cases=(
        Case(name="seven steps", inputs=partial(_to_train, **_STEPS)),
        Case(name="one step", inputs=partial(_to_train, **{**_STEPS, "steps": 1})),
        Case(name="no warm-up to speak of", inputs=partial(_to_train, **{**_STEPS, "warmup": 1})),
        Case(name="a target for every token", inputs=partial(_to_train, **{**_STEPS, "m": 5})),
        Case(name="one target a sentence", inputs=partial(_to_train, **{**_STEPS, "m": 1})),
        Case(name="a warm-up longer than the training", inputs=partial(_to_train, **{**_STEPS, "warmup": 11})),
        Case(
            name="the model after the last step",
            inputs=partial(_to_train, **{**_STEPS, "steps": 3}),
            dtype=torch.float64,
            probe=trained,
        ),
        Case(
            name="an optimiser that remembers",
            inputs=partial(_to_train, steps=5, b=2, n=3, m=2, vocab=5, warmup=2, optimiser="Adagrad"),
        ),
        Case(
            name="seven steps, in float64",
            inputs=partial(_to_train, **_STEPS),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(
            name="called a second time, with another model",
            inputs=partial(_to_train, **_STEPS),
            after=(partial(_to_train, **_STEPS),),
        ),
        Case(
            name="other sizes",
            inputs=partial(_to_train, steps=11, b=2, n=7, m=5, vocab=3, warmup=4),
            hidden=True,
        ),
    ),
    few={
        "training": (
            "gradients_pile_up",
            "uphill",
            "nothing_learned",
            "one_step_only",
            "last_loss_alone",
            "mean_of_the_losses",
        )
    },
    pairs=("rate_never_rises", "rate_never_falls", "gradients_pile_up"),
    without=("rate_never_rises_and_rate_never_falls",),  # which is `rate_stays`
)


def _to_read(draw: Draw, *, b: int, n: int, vocab: int, window: int) -> tuple[Any, ...]:
    """Draw a model with enough positions for all that a window holds, and for the whole text."""
    return _small_model(draw, vocab, n + 2, learns=False), draw.integers(0, vocab, (b, n)), window


READ_IN_WINDOWS = WrittenExercise(
    name="read_in_windows",
    lesson=LESSON,
    contract="model, ids (b, n), window -> losses (n - 1,): of each token but the first, from the last `window` tokens "
    "before it alone, averaged over the batch",
    parts={"values": 3, "robustness": 1},
    excused={
        "the device that was given": "The losses may be collected as Python's numbers.",
        "large scores": "The model is given, and its logits are not large.",
    },
    cases=(
        Case(name="a window of three", inputs=partial(_to_read, b=2, n=11, vocab=7, window=3), mutation=True),
        Case(name="a window of one", inputs=partial(_to_read, b=3, n=7, vocab=5, window=1)),
        Case(name="a window longer than the text", inputs=partial(_to_read, b=2, n=5, vocab=7, window=13)),
        Case(name="two tokens", inputs=partial(_to_read, b=3, n=2, vocab=5, window=2)),
        Case(name="a single text", inputs=partial(_to_read, b=1, n=7, vocab=5, window=2)),
        Case(
            name="in float64",
            inputs=partial(_to_read, b=2, n=7, vocab=5, window=3),
            dtype=torch.float64,
            part="robustness",
        ),
        Case(
            name="losses without a history",
            inputs=partial(_to_read, b=2, n=5, vocab=7, window=2),
            part="robustness",
            detached=True,
        ),
        Case(
            name="called a second time, with another model",
            inputs=partial(_to_read, b=2, n=7, vocab=5, window=3),
            after=(partial(_to_read, b=2, n=7, vocab=5, window=3),),
        ),
        Case(name="other sizes", inputs=partial(_to_read, b=5, n=13, vocab=11, window=4), hidden=True),
        Case(
            name="other sizes, in float64",
            inputs=partial(_to_read, b=3, n=11, vocab=5, window=5),
            dtype=torch.float64,
            part="robustness",
            hidden=True,
        ),
    ),
    few={"training": ("last_loss_alone", "mean_of_the_losses")},
    pairs=("window_one_short", "window_one_long", "token_just_read"),
)

EXERCISES = (
    PREDICT_NO_POSITION,
    SINUSOIDAL_POSITIONS,
    ROTATE,
    ALIBI_BIAS,
    TRAIN_WITH_WARMUP,
    READ_IN_WINDOWS,
    MEND_ROTARY,
)
