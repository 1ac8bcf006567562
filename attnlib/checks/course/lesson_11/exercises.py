"""Lesson 11: scores that find a head by what it looks at, and the circuits that say what it does."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks.asking.given import described
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "11_reading_heads"

PREDICT_FIXED_PERIOD = WrittenExercise(
    name="predict_fixed_period",
    lesson=LESSON,
    contract="what a model learns if the block has the same length in every sequence, say 16",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="With a period of 16, the next token is always the one 15 places back. Rotary positions can say “15 "
    "places back” in one layer, without comparing any tokens, and such a head is lost as soon as the period changes.",
)

PREDICT_SINK = WrittenExercise(
    name="predict_sink",
    lesson=LESSON,
    contract="where the heads of layer 1 look in the first block, in which nothing repeats yet",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="The weights of a row add up to 1, so a head that has found nothing must put them somewhere. BOS is in "
    "every sequence and says nothing about the next token, so a look at it can be made harmless: an attention sink.",
)


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

PREVIOUS_TOKEN_SCORE = WrittenExercise(
    name="previous_token_score",
    lesson=LESSON,
    contract="weights (b, h, n, n), rows are queries -> (h,), the mean weight on key i - 1 over the batch and all "
    "queries i ≥ 1",
    parts={"values": 2, "robustness": 1},
    reference=previous_token_score,
    cases=(*_score_cases(_weights), Case(name="two tokens", inputs=partial(_weights, b=3, h=2, n=2))),
    example=lambda: (A_HEAD_AND_ANOTHER,),
    pairs=("transposed", "own_token", "wraps_around", "heads_averaged", "summed"),
)


def induction_score(weights: Tensor, period: int) -> Tensor:
    """Of each head, the mean weight on the token that followed the query's token one period ago."""
    return weights[..., period:, :].diagonal(1, dim1=-2, dim2=-1).mean(dim=(0, -1))


def _repeated(draw: Draw, *, period: int, **sizes: Any) -> tuple[Tensor, int]:
    return (*_weights(draw, **sizes), period)


def _of_period(name: str, period: int, n: int, *, hidden: bool = False, causal: bool = False) -> Case:
    inputs = partial(_repeated, b=2, h=3, n=n, period=period, causal=causal)
    return Case(name=name, inputs=inputs, hidden=hidden)


INDUCTION_SCORE = WrittenExercise(
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
    pairs=("same_token", "one_query_too_many", "heads_averaged", "summed"),
)


def sink_score(weights: Tensor) -> Tensor:
    """Of each head, the mean weight on the first key."""
    return weights[..., 1:, 0].mean(dim=(0, -1))


SINK_SCORE = WrittenExercise(
    name="sink_score",
    lesson=LESSON,
    contract="weights (b, h, n, n), rows are queries -> (h,), the mean weight on key 0 over the batch and all queries "
    "i ≥ 1",
    parts={"values": 1, "robustness": 1},
    reference=sink_score,
    cases=_score_cases(_weights),
    example=lambda: (A_HEAD_AND_ANOTHER,),
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

ATTENTION_ENTROPY = WrittenExercise(
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


COPYING_SCORE = WrittenExercise(
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
    pairs=("along_columns", "counted"),
)


def _model(
    draw: Draw, *, vocab: int, d_model: int, heads: int, depth: int, training: bool = False, hooks: int = 0
) -> dict[str, Any]:
    """An AttentionOnly with weights that are drawn: large enough that its heads look somewhere."""
    sizes = (vocab, d_model, heads, depth)
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in attnlib.AttentionOnly(*sizes).named_parameters()}
    weights = {
        name: draw.normal(*shape, scale=1.0 if name == "embed.weight" else 1.2 * d_model**-0.5)
        for name, shape in shapes.items()
    }
    return described("AttentionOnly", sizes, weights, training=training, hooks=hooks)


def _layer(model: nn.Module, layer: int) -> Any:
    layers: Any = model.layers
    return layers[layer]


def _own_columns(layer: Any, head: int) -> slice:
    d_head = layer.w_o.in_features // layer.num_heads
    return slice(head * d_head, (head + 1) * d_head)


def _ablate_head(model: nn.Module, ids: Tensor, layer: int, head: int, mean: bool = False) -> Tensor:
    at = _layer(model, layer)
    own = _own_columns(at, head)

    def ablate(_layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        merged = inputs[0].clone()
        merged[..., own] = merged[..., own].mean(dim=(0, 1)) if mean else 0.0
        return (merged,)

    with at.w_o.register_forward_pre_hook(ablate):
        logits: Tensor = model(ids)
    return logits


_SIZES: dict[str, Any] = {"vocab": 11, "d_model": 12, "heads": 3, "depth": 2}
_WIDE: dict[str, Any] = {"vocab": 7, "d_model": 20, "heads": 2, "depth": 3}


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
    """A model, sentences, and `at`: layer, head, perhaps the mean; one of the ids may be unknown to the model."""
    ids = draw.integers(0, sizes["vocab"], (b, n))
    if unknown:
        ids[-1, -1] = sizes["vocab"]
    return _model(draw, **sizes, **more), ids, *at


def _at(name: str, *at: Any, part: str = "values", b: int = 3, n: int = 5, **more: Any) -> Case:
    made = {name: more.pop(name) for name in ("sizes", "unknown", "training", "hooks") if name in more}
    return Case(name=name, inputs=partial(_ablated, b=b, n=n, at=at, **made), part=part, **more)


def _model_alone(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """How many logits come back: what they are is compared where the mean is."""
    return (torch.tensor(asked(*inputs)[0].shape),)


_AS_IT_WAS: dict[str, Any] = {"part": "the model as it was", "mutation": True}

ABLATE_HEAD = WrittenExercise(
    name="ablate_head",
    lesson=LESSON,
    contract="model, ids (b, n), layer, head, mean=False -> logits (b, n, vocab), with zeros in place of what this "
    "head hands to w_o, or with its mean over batch and positions; the model is as it was afterwards",
    parts={"values": 2, "mean": 1, "the model as it was": 1},
    reference=_ablate_head,
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
    pairs=("heads_interleaved", "in_every_layer", "mean_ignored", "mean_over_positions", "behind_w_o"),
)


def _ov_circuit(model: nn.Module, layer: int, head: int) -> Tensor:
    at: Any = _layer(model, layer)
    own, embed, unembed = _own_columns(at, head), _weight(model.embed), _weight(model.unembed)
    circuit: Tensor = (embed @ at.w_v.weight[own].T) @ (at.w_o.weight[:, own].T @ unembed.T)
    return circuit


def _weight(layer: Any) -> Tensor:
    weight: Tensor = layer.weight
    return weight


def _read(draw: Draw, *, at: tuple[int, ...], sizes: Mapping[str, Any] = _SIZES) -> tuple[Any, ...]:
    return _model(draw, **sizes), *at


def _of(name: str, *at: int, sizes: Mapping[str, Any] = _SIZES, part: str = "values", **more: Any) -> Case:
    return Case(name=name, inputs=partial(_read, at=at, sizes=sizes), part=part, **more)


OV_CIRCUIT = WrittenExercise(
    name="ov_circuit",
    lesson=LESSON,
    contract="model, layer, head -> (vocab, vocab): W_E W_V W_O W_U of this head; row = token attended to, "
    "column = token whose logit it moves",
    parts={"values": 3, "robustness": 1},
    reference=_ov_circuit,
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


def _qk_composition(w_ov: Tensor, w_qk: Tensor) -> Tensor:
    norm = torch.linalg.matrix_norm
    composed: Tensor = norm(w_qk @ w_ov.T) / (norm(w_ov) * norm(w_qk))
    return composed


def _two_heads(draw: Draw, *, d: int, d_head: int, size: float = 1.0) -> tuple[Tensor, Tensor]:
    """Two products of a tall and a wide matrix, as those of heads are."""
    return (
        size * draw.normal(d, d_head) @ draw.normal(d_head, d),
        size * draw.normal(d, d_head) @ draw.normal(d_head, d),
    )


def _in_tune(draw: Draw, *, d: int) -> tuple[Tensor, Tensor]:
    """The second head's keys read in exactly the one direction in which the first one writes."""
    written = draw.normal(1, d)
    return draw.normal(d, 1) @ written, draw.normal(d, 1) @ written


_HEADS: dict[str, Any] = {"d": 7, "d_head": 3}

QK_COMPOSITION = WrittenExercise(
    name="qk_composition",
    lesson=LESSON,
    contract="w_ov, w_qk (d_model, d_model), x @ w_ov is what the first head writes, the columns of w_qk are the keys "
    "of the second -> a scalar: |w_qk w_ov^T| / (|w_ov| |w_qk|), all of them Frobenius norms",
    parts={"values": 3, "robustness": 1},
    reference=_qk_composition,
    cases=(
        Case(name="d_model = 7, d_head = 3", inputs=partial(_two_heads, **_HEADS)),
        Case(name="d_model = 12, d_head = 2", inputs=partial(_two_heads, d=12, d_head=2)),
        Case(name="ten times as large", inputs=partial(_two_heads, **_HEADS, size=10.0)),
        Case(name="one direction, written and read", inputs=partial(_in_tune, d=5)),
        Case(
            name="called a second time",
            inputs=partial(_two_heads, **_HEADS),
            after=(partial(_two_heads, **_HEADS),),
        ),
        Case(
            name="float64",
            inputs=partial(_two_heads, **_HEADS),
            dtype=torch.float64,
            mutation=True,
            part="robustness",
        ),
        Case(
            name="memory that is not contiguous",
            inputs=partial(_two_heads, **_HEADS),
            strided=True,
            mutation=True,
            part="robustness",
        ),
        Case(name="on another device", inputs=partial(_two_heads, **_HEADS), other_device=True, part="robustness"),
        Case(name="other sizes", inputs=partial(_two_heads, d=20, d_head=5), hidden=True),
        Case(
            name="other sizes, float64",
            inputs=partial(_two_heads, d=3, d_head=2),
            dtype=torch.float64,
            hidden=True,
            part="robustness",
        ),
    ),
    example=lambda: (torch.tensor([[0.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.0, 3.0], [0.0, 4.0]])),
    pairs=("ov_not_transposed", "q_composition", "spectral_norm", "norm_squared", "not_divided_by_the_norms"),
)


def _path_patch(model: nn.Module, ids: Tensor, other: Tensor, head: int) -> Tensor:
    first, second = _layer(model, 0), _layer(model, 1)
    own, merged = _own_columns(first, head), []
    with first.w_o.register_forward_pre_hook(lambda _layer, inputs: merged.append(inputs[0][..., own])):
        model(other)
        model(ids)
    there, here = (heads @ first.w_o.weight[:, own].T for heads in merged)
    with second.w_k.register_forward_pre_hook(lambda _layer, inputs: (inputs[0] - here + there,)):
        logits: Tensor = model(ids)
    return logits


def _two_sentences(
    draw: Draw, *, b: int, n: int, head: int, sizes: Mapping[str, Any] = _SIZES, unknown: bool = False, **more: Any
) -> tuple[Any, ...]:
    model, ids, head = _ablated(draw, b=b, n=n, at=(head,), sizes=sizes, unknown=unknown, **more)
    return model, ids, draw.integers(0, sizes["vocab"], (b, n)), head


def _patched(name: str, head: int, part: str = "values", b: int = 3, n: int = 5, **more: Any) -> Case:
    made = {name: more.pop(name) for name in ("sizes", "unknown", "training", "hooks") if name in more}
    return Case(name=name, inputs=partial(_two_sentences, b=b, n=n, head=head, **made), part=part, **more)


PATH_PATCH = WrittenExercise(
    name="path_patch",
    lesson=LESSON,
    contract="model, ids (b, n), other (b, n), head -> logits (b, n, vocab) on ids; what this head of layer 0 writes "
    "is replaced by what it writes on other, but only on its way into the keys of layer 1",
    parts={"values": 3, "the model as it was": 1},
    stretch=True,
    reference=_path_patch,
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
    PREDICT_FIXED_PERIOD,
    PREVIOUS_TOKEN_SCORE,
    INDUCTION_SCORE,
    PREDICT_SINK,
    SINK_SCORE,
    ATTENTION_ENTROPY,
    ABLATE_HEAD,
    OV_CIRCUIT,
    COPYING_SCORE,
    QK_COMPOSITION,
    PATH_PATCH,
)
