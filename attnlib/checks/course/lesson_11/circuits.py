"""What a head does: ablation, its OV circuit, how two heads compose, and one path between them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks.asking.given import described
from attnlib.checks.course.slips.lesson11_circuits import (
    AttachAblation,
    AttachPatch,
    ChooseLayer,
    ChoosePath,
    Compose,
    HeadColumns,
    PatchStream,
    ReadValues,
    RecordBoth,
    Replace,
    RunHooked,
    RunPatched,
    ScoreTokens,
    ShareOfSizes,
    Size,
    WriteHead,
)
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "11_reading_heads"


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

ABLATE_HEAD = CourseExercise(
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
    made_of=(HeadColumns, ChooseLayer, Replace, AttachAblation, RunHooked),
    pairs=(
        "heads_interleaved",
        "in_every_layer",
        "mean_ignored",
        "mean_over_positions",
        "behind_w_o",
    ),
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


OV_CIRCUIT = CourseExercise(
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
    made_of=(HeadColumns, ReadValues, WriteHead, ScoreTokens),
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

QK_COMPOSITION = CourseExercise(
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
    made_of=(Compose, Size, ShareOfSizes),
    pairs=("ov_not_transposed", "q_composition", "spectral_norm", "norm_squared", "not_normalised"),
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


PATH_PATCH = CourseExercise(
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
    made_of=(HeadColumns, RecordBoth, PatchStream, ChoosePath, AttachPatch, RunPatched),
    pairs=("all_heads", "old_part_left", "values_as_well"),
    without=("hook_left_after_an_error",),  # the error comes when the sentences are read for the first time
)
