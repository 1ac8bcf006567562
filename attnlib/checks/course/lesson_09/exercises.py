"""Exercises of lesson 09: what is kept, who shares it, and how far back it goes."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.asking import ready_made
from attnlib.checks.asking.given import HELD, described
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "09_fast_decoding"
LAYERS = ("w_q", "w_k", "w_v", "w_o")

Cache = dict[str, Any]
"""{"k": (b, h, room, d), "v": the same, "length": the number of filled positions}."""

PREDICT_WHAT_TO_KEEP = prediction(
    name="predict_what_to_keep",
    lesson=LESSON,
    contract="what is needed of the earlier tokens, in every layer, to compute the next one",
    reference="B",
    explanation="The new token brings one query, which meets all earlier keys and takes home their values. The earlier "
    "queries have been answered already. Asking them again would only repeat a computation.",
)

PREDICT_REACH = prediction(
    name="predict_reach",
    lesson=LESSON,
    contract="how far back the farthest token is that can change the last output: two layers, a window of 4 in each",
    reference="C",
    explanation="The last token sees three positions back, and in the first layer the token there saw three further: "
    "2 · (4 - 1) = 6. Each layer adds window - 1. Mistral has 32 layers and a window of 4096.",
)


def new_cache(draw: Draw, *, b: int, h: int, room: int, d: int, past: int, scale: float = 1.0) -> Cache:
    """Return a cache that holds `past` positions, followed by another text's leftovers."""
    k, v = (draw.normal(b, h, room, d, scale=scale, shift=0.4) for _ in range(2))
    return {"k": k, "v": v, "length": past}


def cache_left(asked: Asked) -> Cache:
    """Return the cache as the attempt left it, its first input or its last."""
    left = asked.left()
    k, v, length = left[:3] if left[1].dim() == 4 and left[2].dim() == 0 else left[-3:]
    return {"k": k, "v": v, "length": int(length)}


def _pieces(
    draw: Draw, *, b: int, n: int, d: int, h: int = 3, past: int = 2, room: int = 11
) -> tuple[Cache, Tensor, Tensor]:
    return new_cache(draw, b=b, h=h, room=room, d=d, past=past), draw.normal(b, h, n, d), draw.normal(b, h, n, d)


def _one_more(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Append the first of the new positions once more, to the cache that the call left, and return what comes back."""
    asked(*inputs)
    return asked(cache_left(asked), *(t[:, :, :1] for t in inputs[1:]))


def _held_by_the_caller(draw: Draw) -> tuple[Any, ...]:
    cache, k, v = _pieces(draw, b=2, n=3, d=5)
    return {HELD: cache}, k, v


def _buffers(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return the contents, after the call, of the two buffers that were in the cache before."""
    asked(*inputs)
    left = cache_left(asked)
    return left["k"], left["v"]


_FULL = partial(_pieces, b=2, n=3, d=5, past=5, room=7)

APPEND_TO_CACHE = WrittenExercise(
    name="append_to_cache",
    lesson=LESSON,
    contract="cache {k, v, length}, new k and v (b, h, n, d) -> all keys and all values so far, written into the cache",
    parts={"values": 2, "the next call": 1, "in place, while there is room": 1, "robustness": 1},
    outputs=("keys", "values"),
    forbidden=("attnlib.KVCache.append",),
    cases=(
        *usual_cases(
            _pieces,
            {"b": 2, "n": 3, "d": 5},
            one={"b": 1, "n": 5, "d": 7},
            more=[{"b": 3, "n": 2, "d": 7, "h": 5, "past": 6}, {"b": 5, "n": 1, "d": 3, "past": 4, "room": 13}],
            gradient=False,
            room=False,
        ),
        Case(name="one head", inputs=partial(_pieces, b=2, n=3, d=5, h=1)),
        Case(name="an empty cache", inputs=partial(_pieces, b=2, n=4, d=5, past=0)),
        Case(name="the last place is filled", inputs=partial(_pieces, b=2, n=3, d=5, past=4, room=7)),
        Case(
            name="then one position more", inputs=partial(_pieces, b=2, n=3, d=5), part="the next call", probe=_one_more
        ),
        Case(
            name="a prompt, then one position more",
            inputs=partial(_pieces, b=3, n=5, d=2, past=0),
            part="the next call",
            probe=_one_more,
        ),
        Case(
            name="the buffers afterwards",
            inputs=_held_by_the_caller,
            part="in place, while there is room",
            probe=_buffers,
        ),
        Case(name="one position too many", inputs=_FULL, raises=True, part="in place, while there is room"),
        Case(
            name="a full cache",
            inputs=partial(_pieces, b=1, n=1, d=3, past=5, room=5),
            raises=True,
            part="in place, while there is room",
            hidden=True,
        ),
        Case(
            name="then one position more, other sizes",
            inputs=partial(_pieces, b=1, n=2, d=7, h=2, past=5),
            part="the next call",
            probe=_one_more,
            hidden=True,
        ),
    ),
)


def _words(draw: Draw, *, b: int, n: int, d: int, h: int = 3, past: int = 4, room: int = 17) -> tuple[Any, ...]:
    d = draw.d_head(d)
    weights = {f"{name}.weight": draw.normal(h * d, h * d, scale=1.3 * (h * d) ** -0.5) for name in LAYERS}
    weights |= {f"{name}.bias": draw.normal(h * d, scale=0.5) for name in LAYERS}
    attn = described("FourLayers", (h * d,), weights)
    return draw.normal(b, n, h * d), attn, new_cache(draw, b=b, h=h, room=room, d=d, past=past)


def _in_chunks(asked: Asked, inputs: Inputs, *, chunk: int) -> tuple[Tensor, ...]:
    """Process the words a few at a time, each time with the cache that was left; join all outputs."""
    x, attn, cache = inputs
    outputs = []
    for piece in x.split(chunk, dim=1):
        outputs.append(asked(piece, attn, cache)[0])
        cache = cache_left(asked)
    return (torch.cat(outputs, dim=1),)


def _chunks(name: str, chunk: int, *, hidden: bool = False, **inputs: Any) -> Case:
    probe = partial(_in_chunks, chunk=chunk)
    return Case(name=name, inputs=partial(_words, **inputs), part="the next call", probe=probe, hidden=hidden)


CACHED_ATTENTION = WrittenExercise(
    name="cached_attention",
    lesson=LESSON,
    contract="new words x (b, n, d_model), a layer attn with w_q, w_k, w_v, w_o, cache {k, v, length} -> "
    "(b, n, d_model): causal attention to the cache and to one another",
    parts={"values": 3, "the next call": 2, "robustness": 1},
    attends=True,
    forbidden=("attnlib.MultiHeadAttention.forward", "attnlib.KVCache.append"),
    cases=(
        *usual_cases(
            _words,
            {"b": 2, "n": 5, "d": 2},
            one={"b": 1, "n": 3, "d": 1},
            more=[{"b": 3, "n": 2, "d": 3, "h": 2, "past": 11}, {"b": 5, "n": 7, "d": 1, "past": 1}],
            gradient=False,
            room=False,
        ),
        Case(name="an empty cache", inputs=partial(_words, b=2, n=5, d=2, past=0)),
        Case(name="one head", inputs=partial(_words, b=2, n=5, d=2, h=1)),
        Case(name="the cache is filled to its last place", inputs=partial(_words, b=2, n=3, d=2, past=4, room=7)),
        _chunks("word by word", 1, b=2, n=4, d=2, past=0),
        _chunks("in chunks of 3", 3, b=2, n=8, d=2, past=2),
        _chunks("word by word, other sizes", 1, b=3, n=5, d=1, h=2, past=3, hidden=True),
        _chunks("in chunks of 4", 4, b=1, n=11, d=3, past=0, hidden=True),
    ),
    few={
        "heads": ("split_by_reshape", "merged_by_reshape", "no_output_projection"),
        "attention": ("no_scale", "scaled_by_root_d_model", "over_queries"),
    },
)


def _to_write(
    draw: Draw, *, b: int, n: int, more: int, depth: int = 2, heads: int = 3, vocab: int = 11, training: bool = False
) -> tuple[Any, ...]:
    d, max_len = 4 * heads, n + more + 3
    shapes = {"embed": (vocab, d), "positions": (max_len, d), "norm": (d,), "head": (vocab, d)}
    for i in range(depth):
        block = f"blocks.{i}."
        shapes |= {block + norm: (d,) for norm in ("norm1", "norm2")}
        shapes |= {f"{block}attn.{name}": (d, d) for name in LAYERS}
        shapes |= {f"{block}mlp.up": (4 * d, d), f"{block}mlp.down": (d, 4 * d)}
    weights = {}
    for name, shape in shapes.items():
        weights[f"{name}.weight"] = draw.normal(*shape, scale=1.0 if len(shape) == 1 else 1.5 * shape[-1] ** -0.5)
        if name not in ("embed", "positions", "head"):
            weights[f"{name}.bias"] = draw.normal(shape[0], scale=0.3)
    model = described("SmallWriter", (vocab, d, heads, depth, max_len, b * (n + more)), weights, training=training)
    return model, draw.integers(0, vocab, (b, n)), more


WRITE_WITH_CACHE = WrittenExercise(
    name="write_with_cache",
    lesson=LESSON,
    contract="a model of lesson 08, ids (b, n), num_tokens -> (b, n + num_tokens): the likeliest token each time; each "
    "token goes through the model once",
    parts={"values": 5, "robustness": 1},
    forbidden=("attnlib.generate", "attnlib.KVCache.append"),
    excused={"large scores": "The model is given, and its scores are not large."},
    cases=(
        Case(name="three texts, five tokens", inputs=partial(_to_write, b=3, n=5, more=5)),
        Case(name="one text", inputs=partial(_to_write, b=1, n=4, more=5)),
        Case(name="a prompt of one token", inputs=partial(_to_write, b=2, n=1, more=6)),
        Case(name="one token more", inputs=partial(_to_write, b=2, n=6, more=1)),
        Case(name="one block, one head", inputs=partial(_to_write, b=2, n=3, more=7, depth=1, heads=1)),
        Case(name="three blocks", inputs=partial(_to_write, b=2, n=4, more=4, depth=3, heads=2)),
        Case(
            name="called a second time, with another prompt",
            inputs=partial(_to_write, b=3, n=5, more=4),
            after=(partial(_to_write, b=2, n=4, more=3), partial(_to_write, b=3, n=5, more=4)),
        ),
        Case(
            name="float64, nothing changed",
            inputs=partial(_to_write, b=3, n=5, more=6, training=True),
            dtype=torch.float64,
            mutation=True,
            part="robustness",
        ),
        Case(name="other sizes", inputs=partial(_to_write, b=5, n=7, more=12, vocab=17), hidden=True),
    ),
)

PREDICT_CACHE_SIZE = prediction(
    name="predict_cache_size",
    lesson=LESSON,
    contract="how large the cache of LLaMA 2 7B is for a conversation of 4096 tokens",
    reference="C",
    explanation="2 (keys and values) · 32 layers · 32 heads · 128 columns · 2 bytes is half a MiB for each token. "
    "Times 4096, that's 2 GiB, and every conversation needs its own.",
)


def _groups(draw: Draw, *, b: int, q: int, k: int, d: int, h: int = 6, g: int = 2) -> tuple[Tensor, ...]:
    d = draw.d_head(d)
    return (
        draw.normal(b, h, q, d, scale=1.3),
        draw.normal(b, g, k, d, scale=1.3),
        draw.normal(b, g, k, d + 2, shift=0.4),
    )


GROUPED_QUERY_ATTENTION = WrittenExercise(
    name="grouped_query_attention",
    lesson=LESSON,
    contract="q (b, h, q, d), k (b, g, k, d), v (b, g, k, d_v), g divides h -> (b, h, q, d_v): head i reads group "
    "i // (h / g)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    attends=True,
    forbidden=(ready_made.ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _groups,
            {"b": 2, "q": 5, "k": 7, "d": 3},
            one={"b": 1, "q": 3, "k": 5, "d": 2},
            more=[
                {"b": 3, "q": 7, "k": 2, "d": 5, "h": 6, "g": 3},
                {"b": 2, "q": 1, "k": 11, "d": 3, "h": 10, "g": 2},
            ],
        ),
        Case(name="three groups of two heads", inputs=partial(_groups, b=2, q=5, k=7, d=3, g=3)),
        Case(name="one group", inputs=partial(_groups, b=2, q=5, k=7, d=3, g=1)),
        Case(name="a group for each head", inputs=partial(_groups, b=2, q=5, k=7, d=3, h=3, g=3)),
        Case(name="one head", inputs=partial(_groups, b=2, q=5, k=7, d=3, h=1, g=1)),
        Case(
            name="six heads, four groups",
            inputs=partial(_groups, b=2, q=5, k=7, d=3, g=4),
            raises=True,
            part="robustness",
        ),
    ),
    few={
        "attention": (
            "exchanged",
            "no_scale",
            "scaled_by_d",
            "exp_overflows",
            "over_queries",
            "over_heads",
            "no_softmax",
            "causal",
        )
    },
    pairs=("groups_taking_turns", "no_scale"),
)


def _new_words(draw: Draw, *, b: int, n: int, d: int, h: int = 3, window: int = 5, past: int = 0) -> Inputs:
    """Draw n words, to come one after another, and a ring into which `past` words have been written."""
    new = (draw.normal(b, h, n, d, scale=1.3) for _ in range(3))
    return *new, new_cache(draw, b=b, h=h, room=window, d=d, past=past, scale=1.3)


def _one_by_one(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Join the outputs of all words, each asked with the ring that the one before left."""
    *new, cache = inputs
    outputs = []
    for word in zip(*(t.split(1, dim=2) for t in new), strict=True):
        outputs.append(asked(*word, cache)[0])
        cache = cache_left(asked)
    return (torch.cat(outputs, dim=2),)


def _ring(name: str, *, hidden: bool = False, **inputs: Any) -> Case:
    probe = _one_by_one if inputs["n"] > 1 else None
    return Case(name=name, inputs=partial(_new_words, **inputs), probe=probe, hidden=hidden)


MEND_ROLLING_CACHE = WrittenExercise(
    name="mend_rolling_cache",
    lesson=LESSON,
    contract="q, k, v (b, h, 1, d) of one new word, a cache of `window` slots and the number of words so far -> "
    "(b, h, 1, d): attention to the last `window` words",
    parts={"values": 3},
    attends=True,
    cases=(
        _ring("thirteen words, a window of 5", b=2, n=13, d=6),
        _ring("three words, a window of 5", b=2, n=3, d=6),
        _ring("the ring is half full", b=2, n=1, d=6, past=3),
        _ring("the last free slot", b=3, n=1, d=2, past=4),
        _ring("the ring is full", b=2, n=1, d=4, past=5),
        _ring("far into the text", b=1, n=2, d=6, past=23),
        _ring("a window of 1", b=2, n=3, d=6, window=1),
        _ring("one head", b=2, n=7, d=6, h=1),
        Case(name="on another device", inputs=partial(_new_words, b=2, n=1, d=6, past=3), other_device=True),
        _ring("a window of 3, other sizes", b=3, n=11, d=4, h=2, window=3, hidden=True),
        _ring("a window of 7", b=1, n=10, d=2, window=7, past=2, hidden=True),
    ),
    without=("empty_places_attended",),
)


MANY = 2000
"""Rows whose frequencies are counted."""
UNLIKELY = 50.0
"""Pearson's chi-square with four degrees of freedom, for five tokens, is above this once in 10^9 times."""

DRAFT = torch.tensor([[0.0, 0.45, 0.45, 0.1, 0.0], [0.0, 0.2, 0.1, 0.35, 0.35]], dtype=torch.float64)
TARGET = torch.tensor(
    [[0.15, 0.25, 0.0, 0.25, 0.35], [0.2, 0.15, 0.25, 0.2, 0.2], [0.45, 0.1, 0.25, 0.2, 0.0]], dtype=torch.float64
)
"""Distributions with which every mistake in drawing shows in some share, and most in the same one."""


def _many_guesses(
    draw: Draw, *, draft: Tensor = DRAFT, target: Tensor = TARGET, rows: int = MANY
) -> tuple[Tensor, Tensor, Tensor]:
    """Repeat the two distributions in every row, with guesses drawn from the draft's."""
    tokens = torch.stack([draw.tokens(row, rows) for row in draft], dim=1)
    draft_p, target_p = (t.to(draw.dtype).repeat(rows, 1, 1) for t in (draft, target))
    return draft_p, target_p, tokens


def _frequencies(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return by position the share of each token among the rows that got there, and the share of these rows."""
    draft_p, target_p, _ = inputs
    row = asked(*inputs)[0].long()
    vocab = draft_p.shape[-1]
    found = []
    for place in range(row.shape[1]):
        came = row[:, place][(row[:, place] >= 0) & (row[:, place] < vocab)]
        kept = torch.minimum(draft_p[0, :place], target_p[0, :place]).sum(dim=-1).prod()
        shares = _as_expected(torch.bincount(came, minlength=vocab), target_p[0, place])
        got_there = _as_expected(torch.tensor([len(came), len(row) - len(came)]), torch.stack([kept, 1 - kept]))
        found.append(torch.cat([shares, got_there[:1]]))
    return (torch.stack(found),)


def _whether_drawn_anew(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    (first,), (second,) = asked(*inputs), asked(*inputs)
    return (torch.tensor([first.shape == second.shape and not torch.equal(first, second)]).long(),)


def _as_expected(counts: Tensor, expected: Tensor) -> Tensor:
    """Return the expected shares if chance may explain the gap; else move the one that is farthest off by 0.1.

    So two answers that make the same mistake, and draw in different ways, show the same.
    """
    off = counts / max(1, int(counts.sum())) - expected
    misfit = counts.sum() * (off.square() / expected.clamp(min=1e-9)).sum()
    farthest = torch.nn.functional.one_hot(off.abs().argmax(), len(off)) * off.sign()
    return expected + 0.1 * farthest * (misfit > UNLIKELY)


def _certain(draw: Draw, *, b: int, n: int, vocab: int, agree: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Distributions with all probability on one token: nothing is left to chance."""
    guessed = draw.integers(0, vocab, (b, n))
    wanted = torch.cat([guessed, draw.integers(0, vocab, (b, 1))], dim=1)
    if not agree:
        wanted[torch.arange(b), draw.integers(0, n, (b,))] += 1
        wanted %= vocab
    one_hot = torch.nn.functional.one_hot
    return one_hot(guessed, vocab).to(draw.dtype), one_hot(wanted, vocab).to(draw.dtype), guessed


def _sure(name: str, *, agree: bool, hidden: bool = False, b: int = 7, n: int = 5, vocab: int = 11) -> Case:
    return Case(name=name, inputs=partial(_certain, b=b, n=n, vocab=vocab, agree=agree), hidden=hidden)


ACCEPT = WrittenExercise(
    name="accept",
    lesson=LESSON,
    contract="draft_p (b, n, V), target_p (b, n + 1, V), tokens (b, n) drawn from draft_p -> (b, n + 1): the accepted "
    "ones, one more token, then -1",
    parts={"values": 2},
    stretch=True,
    cases=(
        _sure("all guesses are certain, and right", agree=True),
        _sure("one guess in each row is certainly wrong", agree=False),
        _sure("one guess", agree=False, n=1, b=3, vocab=4),
        _sure("one row", agree=False, n=3, b=1, vocab=5),
        Case(name="2000 rows, how often each token comes out", inputs=_many_guesses, probe=_frequencies),
        Case(
            name="2000 rows, draft and target are alike",
            inputs=partial(_many_guesses, target=torch.cat([DRAFT, TARGET[:1]])),
            probe=_frequencies,
        ),
        Case(name="called twice", inputs=partial(_many_guesses, rows=50), probe=_whether_drawn_anew),
        _sure("certain, other sizes", agree=False, b=13, n=3, vocab=5, hidden=True),
        _sure("a vocabulary of one token", agree=True, b=3, n=2, vocab=1, hidden=True),
        Case(
            name="2000 rows, other distributions",
            inputs=partial(_many_guesses, draft=DRAFT.roll(2, -1), target=TARGET.roll(2, -1)),
            probe=_frequencies,
            hidden=True,
        ),
    ),
)

EXERCISES = (
    PREDICT_WHAT_TO_KEEP,
    APPEND_TO_CACHE,
    CACHED_ATTENTION,
    WRITE_WITH_CACHE,
    PREDICT_CACHE_SIZE,
    GROUPED_QUERY_ATTENTION,
    PREDICT_REACH,
    MEND_ROLLING_CACHE,
    ACCEPT,
)
