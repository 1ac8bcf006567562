"""Lesson 11: a head that copies, by hand and trained, and experiments that show what heads do."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import attnlib
from attnlib.checks.asking.given import OPTIMISER, described
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.trained import trained
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "11_reading_heads"

PREDICT_FIXED_PERIOD = prediction(
    name="predict_fixed_period",
    lesson=LESSON,
    contract="what a model learns if the block has the same length in every sequence, say 16",
    reference="B",
    explanation="With a period of 16, the next token is always the one 15 places back. Rotary positions can say “15 "
    "places back” in one layer, without comparing any tokens, and that head is useless once the period changes.",
)

_SIZES: dict[str, Any] = {"vocab": 11, "d_model": 12, "heads": 3, "depth": 2}
_WIDE: dict[str, Any] = {"vocab": 7, "d_model": 20, "heads": 2, "depth": 3}


def _model(
    draw: Draw,
    *,
    vocab: int,
    d_model: int,
    heads: int,
    depth: int,
    training: bool = False,
    hooks: int = 0,
    learns: bool = False,
) -> dict[str, Any]:
    """Draw an AttentionOnly with weights large enough that its heads look somewhere."""
    sizes = (vocab, d_model, heads, depth)
    with torch.random.fork_rng(devices=[]):  # on "meta", an embedding imports torch's compiler, which takes 2 s
        shapes = {name: weight.shape for name, weight in attnlib.AttentionOnly(*sizes).named_parameters()}
    weights = {
        name: draw.normal(*shape, scale=1.0 if name == "embed.weight" else 1.2 * d_model**-0.5)
        for name, shape in shapes.items()
    }
    return described("AttentionOnly", sizes, weights, training=training, hooks=hooks, learns=learns)


def _blocks(b: int, n: int, vocab: int, period: int) -> Tensor:
    """Repeat BOS and a block of distinct tokens: once it repeats, the next token is certain."""
    draw = Draw("blocks", b, n, vocab, period)
    blocks = 1 + torch.stack([draw.normal(vocab - 1).argsort()[:period] for _ in range(b)])
    return F.pad(blocks.repeat(1, n // period + 1)[:, : n - 1], (1, 0))


def _looks(x: Tensor, w_qk: Tensor) -> Tensor:
    """Return the weights of a head by its W^QK, each query on itself and on what came before."""
    allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return (x @ w_qk @ x.mT).masked_fill(~allowed, -torch.inf).softmax(dim=-1)


def _what_it_predicts(asked: Asked, inputs: Inputs, periods: tuple[int, int]) -> tuple[Tensor, ...]:
    """Return the share of repeats the two heads get right and, unless that is all of them, what they do instead.

    They are left out for designs that work, because designs differ and any that predicts is right.
    """
    (vocab, n), (matrices,) = inputs, asked(*inputs)
    qk_0, ov_0, qk_1, ov_1 = matrices.double()
    right, instead = [], []
    for period in periods:
        ids = _blocks(8, n, vocab, period)
        rest = torch.zeros(len(ids), n, 2 * vocab), torch.eye(n).expand(len(ids), n, n)
        x = torch.cat([F.one_hot(ids, vocab), *rest], dim=-1).double()
        first = _looks(x, qk_0)
        x = x + first @ x @ ov_0
        second = _looks(x, qk_1)
        guess = (x + second @ x @ ov_1)[..., 2 * vocab : 3 * vocab].argmax(dim=-1)
        when = slice(period + 1, n - 1)
        right.append((guess[:, when] == ids[:, period + 2 :]).double().mean())
        instead += [(guess[:, when] == ids.roll(back, 1)[:, when]).double().mean().round() for back in (0, 1)]
        instead += [
            weights.diagonal(-back, dim1=-2, dim2=-1).mean().round()
            for weights in (first, second)
            for back in (0, 1, period - 1, period, period + 1)
        ]
        instead += [weights[:, when].max(dim=-1).values.mean().round() for weights in (first, second)]
        instead += [(guess[:, when] == 0).double().mean().round()]
    off = torch.stack(right).min() < 1
    return (torch.cat([torch.stack(right), off * torch.stack(instead)]),)


def _sized(name: str, vocab: int, n: int, periods: tuple[int, int], **more: Any) -> Case:
    return Case(
        name=name,
        inputs=lambda _draw: (vocab, n),
        probe=partial(_what_it_predicts, periods=periods),
        measures="the share of repeats predicted with each period, and what is done instead",
        **more,
    )


INDUCTION_BY_HAND = WrittenExercise(
    name="induction_by_hand",
    lesson=LESSON,
    contract="vocab, n -> W^QK and W^OV of a head of layer 0, then those of a head of layer 1, all in one tensor "
    "(4, D, D), D = 3 * vocab + n; together they predict each token of a block that repeats",
    parts={"values": 4, "other sizes": 1},
    outputs=("matrices",),
    cases=(
        _sized("blocks of 5 and of 16 tokens", 23, 41, (5, 16)),
        _sized("blocks of 2 and of 7 tokens", 13, 29, (2, 7)),
        _sized("a small vocabulary, a long text", 11, 61, (4, 9), part="other sizes"),
        _sized("a large vocabulary, a short text", 47, 23, (3, 11), part="other sizes"),
        _sized("the lesson's sizes", 64, 128, (16, 48), part="other sizes"),
        _sized("sizes of the grader's own", 31, 53, (6, 19), part="other sizes", hidden=True),
    ),
)


def _to_film(
    draw: Draw, *, steps: int, b: int, n: int, every: int, lr: float = 0.3, optimiser: str = "SGD"
) -> tuple[Any, ...]:
    sizes = {"vocab": 7, "d_model": 4, "heads": 2, "depth": 1}
    ids = draw.integers(0, 7, (steps, b, n))
    return _model(draw, **sizes, training=True, learns=True), ids, lr, every, {OPTIMISER: optimiser}


TRAIN_AND_FILM = WrittenExercise(
    name="train_and_film",
    lesson=LESSON,
    contract="model, batches (steps, b, n), lr, every, make=torch.optim.AdamW -> losses (steps,), one before each "
    "step, and frames (1 + steps / every, P): all P weights in a row, at the start and after every `every` steps",
    parts={"values": 3, "other optimisers": 1},
    outputs=("losses", "frames"),
    excused={
        "the device that was given": "The losses may be collected as Python's numbers.",
        "large scores": "The model is given, and takes its softmax by itself.",
        "memory that is not contiguous": "Its batches are whole numbers, and a model's weights are its own.",
        "a model in evaluation mode": "The model comes in training mode.",
    },
    cases=(
        Case(name="six steps, a frame every two", inputs=partial(_to_film, steps=6, b=3, n=5, every=2)),
        Case(name="a frame every step", inputs=partial(_to_film, steps=3, b=2, n=7, every=1)),
        Case(name="a single frame after the first", inputs=partial(_to_film, steps=5, b=2, n=3, every=5)),
        Case(name="float64", inputs=partial(_to_film, steps=6, b=2, n=5, every=3), dtype=torch.float64),
        Case(
            name="results without a history",
            inputs=partial(_to_film, steps=2, b=2, n=3, every=1),
            detached=True,
        ),
        Case(
            name="the model after the last step",
            inputs=partial(_to_film, steps=2, b=2, n=3, every=2),
            dtype=torch.float64,
            probe=trained,
            mutation=True,
        ),
        Case(
            name="AdamW",
            inputs=partial(_to_film, steps=6, b=3, n=5, every=2, lr=0.01, optimiser="AdamW"),
            dtype=torch.float64,
            part="other optimisers",
        ),
        Case(
            name="another rate, RMSprop",
            inputs=partial(_to_film, steps=4, b=2, n=5, every=2, lr=0.02, optimiser="RMSprop"),
            dtype=torch.float64,
            part="other optimisers",
        ),
        Case(name="more steps", inputs=partial(_to_film, steps=11, b=5, n=3, every=11), hidden=True),
    ),
    few={"training": ("gradients_pile_up", "uphill")},
)


def _to_search(
    draw: Draw, *, b: int, n: int, period: int, sizes: Mapping[str, Any] | None = None, training: bool = False
) -> tuple[Any, ...]:
    sizes = sizes or _SIZES
    return _model(draw, **sizes, training=training), F.pad(draw.integers(1, sizes["vocab"], (b, n - 1)), (1, 0)), period


def _searched(name: str, b: int, n: int, period: int, **more: Any) -> Case:
    made = {name: more.pop(name) for name in ("sizes", "training") if name in more}
    return Case(name=name, inputs=partial(_to_search, b=b, n=n, period=period, **made), **more)


FIND_HEADS = WrittenExercise(
    name="find_heads",
    lesson=LESSON,
    contract="model, ids (b, n), BOS and a block of `period` tokens over and over -> scores (3, depth, h): previous "
    "token, induction, sink; the same three of even weights, (3,); layer and head of each best score, (3, 2)",
    parts={"values": 5, "robustness": 1},
    outputs=("scores", "baseline", "best"),
    excused={
        "large scores": "The model is given, and takes its softmax by itself.",
        "the device that was given": "Layer and head may be collected as Python's numbers.",
    },
    cases=(
        _searched("a period of 4, three blocks", 3, 13, 4),
        _searched("a period of 5, two whole blocks", 2, 11, 5),
        _searched("a period of 7, one query with a match", 2, 9, 7),
        _searched("one sequence", 1, 13, 4),
        _searched("three layers, two heads", 2, 12, 3, sizes=_WIDE),
        _searched("a single layer", 2, 9, 4, sizes={**_WIDE, "depth": 1}),
        replace(
            _searched("called before with another period", 3, 13, 4),
            after=(partial(_to_search, b=3, n=13, period=5),),
        ),
        _searched("float64", 3, 13, 4, dtype=torch.float64, part="robustness", mutation=True),
        _searched("a model in training mode", 3, 13, 4, part="robustness", mutation=True, training=True),
        _searched("other sizes", 5, 23, 6, sizes=_WIDE, hidden=True),
        _searched("other sizes, float64", 2, 31, 11, dtype=torch.float64, part="robustness", hidden=True),
    ),
    pairs=("own_token", "same_token", "first_query_counted", "even_over_all_keys"),
)


def _repeats_left(ids: Tensor, period: int) -> Tensor:
    """Return the induction score of a perfect head, which looks evenly behind all earlier copies of its token."""
    n = ids.shape[1]
    match = (F.pad(ids, (1, 0), value=-1)[:, None, :n] == ids[:, :, None]).tril().double()
    weights = match / match.sum(dim=-1, keepdim=True).clamp(min=1)
    return weights.diagonal(1 - period, dim1=-2, dim2=-1)[:, 2:].mean()


LEFT = 0.25
"""The most that may be left of a score that is about 0.8 before: more than chance brings about where n is large."""


def _as_a_control(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Mark what is wrong with a control: BOS moved, tokens exchanged, the repeats still there; all 0 for a good one."""
    (ids, period), (control,) = inputs, asked(*inputs)
    if control.shape != ids.shape or control.is_floating_point():
        return (control,)
    others = (control.sort(dim=1).values != ids.sort(dim=1).values).any()
    in_all = (control.flatten().sort().values != ids.flatten().sort().values).any()
    repeats = _repeats_left(control, period) > LEFT
    wrong = [(control[:, 0] != 0).any(), others, in_all, repeats, repeats & (control != ids).any()]
    return (torch.stack(wrong).long(),)


def _to_break(draw: Draw, *, b: int, n: int, period: int) -> tuple[Tensor, int]:
    blocks = draw.integers(1, 64, (b, period))
    return F.pad(blocks.repeat(1, n // period + 1)[:, : n - 1], (1, 0)), period


BREAK_REPEATS = WrittenExercise(
    name="break_repeats",
    lesson=LESSON,
    contract="ids (b, n), BOS and a block of `period` tokens over and over -> (b, n): each sequence's own tokens, "
    "BOS first, with next to nothing left for a head that looks for what followed the same token",
    parts={"values": 3},
    outputs=("control",),
    excused={
        "the device that was given": "A new order may be drawn on the CPU.",
        "a second call with the same objects": "A control may be drawn anew in each call.",
        "memory that is not contiguous": "Whole numbers are looked up, wherever they are.",
    },
    cases=tuple(
        Case(
            name=name,
            inputs=partial(_to_break, b=b, n=n, period=period),
            probe=_as_a_control,
            measures="what is wrong (BOS moved, a sequence's tokens, all tokens, repeats left, in a new order)",
            hidden=hidden,
        )
        for name, b, n, period, hidden in (
            ("four blocks of 16", 7, 65, 16, False),
            ("three blocks of 13, the last one cut off", 11, 37, 13, False),
            ("one block and a half", 13, 47, 29, False),
            ("five blocks of 11", 7, 56, 11, False),
            ("other sizes", 11, 73, 23, True),
        )
    ),
)


def _ablated(
    draw: Draw,
    *,
    b: int,
    n: int,
    at: tuple[Any, ...],
    sizes: Mapping[str, Any] = _SIZES,
    unknown: bool = False,
    **more: Any,
) -> tuple[Any, ...]:
    """Draw a model, sentences, and `at`: layer, head, perhaps the mean; one id may be unknown to the model."""
    ids = draw.integers(0, sizes["vocab"], (b, n))
    if unknown:
        ids[-1, -1] = sizes["vocab"]
    return _model(draw, **sizes, **more), ids, *at


def _at(name: str, *at: Any, part: str = "values", b: int = 3, n: int = 5, **more: Any) -> Case:
    made = {name: more.pop(name) for name in ("sizes", "unknown", "training", "hooks") if name in more}
    return Case(name=name, inputs=partial(_ablated, b=b, n=n, at=at, **made), part=part, **more)


def _model_alone(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return the shape of the logits: their values are compared where the mean is."""
    return (torch.tensor(asked(*inputs)[0].shape),)


_AS_IT_WAS: dict[str, Any] = {"part": "the model as it was", "mutation": True}

ABLATE_HEAD = WrittenExercise(
    name="ablate_head",
    lesson=LESSON,
    contract="model, ids (b, n), layer, head, mean=False -> logits (b, n, vocab), with what this head hands to w_o "
    "replaced by zeros, or by its mean over batch and positions; the model is left as it was",
    parts={"values": 2, "mean": 1, "the model as it was": 1},
    excused={
        "large scores": "The model is given, and takes its softmax by itself.",
        "the device that was given": "Its points are for numbers, and for the model that is left.",
    },
    cases=(
        _at("layer 0, head 1", 0, 1),
        _at("layer 1, head 2", 1, 2),
        _at("layer 1, head 0, one sentence", 1, 0, b=1),
        _at("a single token", 0, 2, n=1),
        _at("layer 2 of 3, two heads", 1, 1, sizes=_WIDE),
        replace(_at("called a second time", 0, 1), after=(partial(_ablated, b=3, n=5, at=(0, 1)),)),
        _at("float64", 1, 1, dtype=torch.float64),
        _at("layer 0, head 1: the mean", 0, 1, True, part="mean"),
        _at("layer 1, head 2: the mean", 1, 2, True, part="mean"),
        replace(
            _at("the mean, called a second time", 0, 1, True, part="mean"),
            after=(partial(_ablated, b=3, n=5, at=(0, 1, True)),),
        ),
        _at("layer 2 of 3, two heads: the mean", 1, 1, True, part="mean", sizes=_WIDE, dtype=torch.float64),
        _at("the model afterwards", 1, 1, **_AS_IT_WAS),
        _at("the model after the mean", 0, 2, True, **_AS_IT_WAS, probe=_model_alone),
        _at("a model in training mode", 0, 1, **_AS_IT_WAS, training=True),
        _at("a model with hooks of somebody else", 1, 1, **_AS_IT_WAS, hooks=8),
        _at("the model after an error: one id is unknown to it", 0, 1, **_AS_IT_WAS, unknown=True, raises=True),
        _at("other sizes", 2, 1, b=2, n=7, sizes=_WIDE, hidden=True),
        _at("other sizes: the mean", 2, 0, True, b=2, n=7, sizes=_WIDE, part="mean", hidden=True),
        _at(
            "other sizes, afterwards", 0, 0, True, **_AS_IT_WAS, b=2, n=7, sizes=_WIDE, probe=_model_alone, hidden=True
        ),
    ),
    pairs=("heads_interleaved", "in_every_layer", "mean_ignored", "mean_of_each_sentence", "behind_w_o"),
)


def _read(draw: Draw, *, at: tuple[int, ...], sizes: Mapping[str, Any] = _SIZES) -> tuple[Any, ...]:
    return _model(draw, **sizes, training=True), *at


def _of(name: str, *at: int, sizes: Mapping[str, Any] = _SIZES, part: str = "values", **more: Any) -> Case:
    return Case(name=name, inputs=partial(_read, at=at, sizes=sizes), part=part, **more)


OV_CIRCUIT = WrittenExercise(
    name="ov_circuit",
    lesson=LESSON,
    contract="model, layer, head -> (vocab, vocab): W_E W_V W_O W_U of this head; row = token attended to, "
    "column = token whose logit it moves",
    parts={"values": 3, "robustness": 1},
    cases=(
        _of("layer 0, head 1", 0, 1),
        _of("layer 1, head 0", 1, 0),
        _of("layer 1, head 2", 1, 2),
        _of("layer 2 of 3, two heads", 1, 1, sizes=_WIDE),
        replace(_of("called a second time", 0, 1), after=(partial(_read, at=(0, 1)),)),
        _of("float64", 1, 1, dtype=torch.float64, mutation=True, part="robustness"),
        _of("on another device", 0, 2, other_device=True, part="robustness"),
        _of("other sizes", 2, 0, sizes=_WIDE, hidden=True),
        _of("other sizes, float64", 0, 1, sizes=_WIDE, dtype=torch.float64, hidden=True, part="robustness"),
    ),
    pairs=("heads_interleaved", "output_rows_taken", "circuit_transposed", "embedding_for_unembedding"),
)


def _two_sentences(
    draw: Draw,
    *,
    b: int,
    n: int,
    head: int,
    sizes: Mapping[str, Any] = _SIZES,
    exchanged: bool = False,
    **more: Any,
) -> tuple[Any, ...]:
    """Draw two sentences; an id that is unknown to the model is in the first or, if they are exchanged, the other."""
    model, ids, head = _ablated(draw, b=b, n=n, at=(head,), sizes=sizes, **more)
    other = draw.integers(0, sizes["vocab"], (b, n))
    return (model, other, ids, head) if exchanged else (model, ids, other, head)


def _patched(name: str, head: int, part: str = "values", b: int = 3, n: int = 5, **more: Any) -> Case:
    made = {name: more.pop(name) for name in ("sizes", "unknown", "exchanged", "training") if name in more}
    return Case(name=name, inputs=partial(_two_sentences, b=b, n=n, head=head, **made), part=part, **more)


PATH_PATCH = WrittenExercise(
    name="path_patch",
    lesson=LESSON,
    contract="model, ids (b, n), other (b, n), head -> logits (b, n, vocab) on ids; what this head of layer 0 writes "
    "is replaced by what it writes on other, but only on its way into the keys of layer 1",
    parts={"values": 4, "the model as it was": 1},
    excused={
        "large scores": "The model is given, and takes its softmax by itself.",
        "the device that was given": "Its points are for numbers, and for the model that is left.",
    },
    cases=(
        _patched("head 1", 1),
        _patched("head 0", 0),
        _patched("head 2, one sentence", 2, b=1),
        _patched("three layers, two heads", 1, sizes=_WIDE),
        replace(_patched("called a second time", 1), after=(partial(_two_sentences, b=3, n=5, head=1),)),
        _patched("float64", 1, dtype=torch.float64),
        _patched("the model afterwards", 2, **_AS_IT_WAS),
        _patched("a model in training mode", 0, **_AS_IT_WAS, training=True),
        _patched("the model after an error: one id is unknown to it", 1, **_AS_IT_WAS, unknown=True, raises=True),
        _patched(
            "the model after an error: one id of the other sentence is unknown to it",
            1,
            **_AS_IT_WAS,
            unknown=True,
            exchanged=True,
            raises=True,
        ),
        _patched("other sizes", 0, b=2, n=7, sizes=_WIDE, hidden=True),
        _patched("other sizes, afterwards", 1, b=2, n=7, sizes=_WIDE, hidden=True, **_AS_IT_WAS),
    ),
    pairs=("all_heads", "old_part_left", "values_as_well"),
    without=(
        "hook_left_after_an_error_2",  # the error comes when the sentences are read for the first time
        "weights_left_changed",
    ),
)

EXERCISES = (
    INDUCTION_BY_HAND,
    TRAIN_AND_FILM,
    PREDICT_FIXED_PERIOD,
    FIND_HEADS,
    BREAK_REPEATS,
    ABLATE_HEAD,
    OV_CIRCUIT,
    PATH_PATCH,
)
