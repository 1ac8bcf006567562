"""CausalSelfAttention(d_model, num_heads, bias=True): several heads, none of which looks ahead or at padding."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.lesson_05.wrong_causal_attention import LISTED
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Exercise, Inputs

LESSON = "05_causal_attention"


class CausalSelfAttention(attnlib.MultiHeadAttention):
    """The contract's form: causal always, the weights always returned."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, bias=bias, is_causal=True)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, key_mask=key_mask, return_weights=True)
        return output, weights


def _sentences(draw: Draw, *, b: int, n: int, heads: int, d: int, bias: bool | None = None) -> Inputs:
    """Arguments of the constructor, without `bias` where it is None, and of `forward` without a key mask."""
    d_model = heads * draw.d_head(d)
    return (d_model, heads) if bias is None else (d_model, heads, bias), (draw.normal(b, n, d_model),)


def _padded(draw: Draw, *, padding: str, b: int, n: int, heads: int, d: int) -> Inputs:
    """The same with a key mask: padding on one side of the sentences, or holes in them."""
    sizes, (x,) = _sentences(draw, b=b, n=n, heads=heads, d=d)
    if padding == "holes":
        return sizes, (x, draw.integers(0, 3, (b, n)) > 0)
    lengths = draw.integers(2, n, (b, 1))
    places = torch.arange(n)
    return sizes, (x, places < lengths if padding == "right" else places >= n - lengths)


def _at_real_queries(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """What the contract speaks of: padded queries may get anything finite, so theirs are set to zero.

    Not so where real queries look at padded keys. That is wrong in any case, and what padded queries get then tells one
    mistake from another.
    """
    output, weights = asked(*inputs)
    x, key_mask = inputs
    padded = ~key_mask[:, None, :, None]
    if output.shape != x.shape or weights.dim() != 4 or weights.shape[-2:] != (x.shape[1], x.shape[1]):
        return output, weights
    if bool((weights.detach() * (~padded & padded.mT)).nan_to_num().any()):
        return output, weights
    return (
        output.masked_fill(padded[:, 0] & output.isfinite(), 0.0),
        weights.masked_fill(padded & weights.isfinite(), 0.0),
    )


SIZES: dict[str, Any] = {"b": 2, "n": 7, "heads": 3, "d": 5}
OTHER_SIZES: dict[str, Any] = {"b": 5, "n": 11, "heads": 2, "d": 3}

CAUSAL_SELF_ATTENTION = Exercise(
    name="CausalSelfAttention",
    lesson=LESSON,
    contract="CausalSelfAttention(d_model, num_heads, bias=True), forward(x, key_mask=None): (b, n, d_model), "
    "bool (b, n) -> output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 3, "padding": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=CausalSelfAttention,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _sentences,
            SIZES,
            one={"b": 1, "n": 5, "heads": 2, "d": 3},
            more=[
                {"b": 3, "n": 13, "heads": 1, "d": 7, "bias": True},
                {"b": 5, "n": 2, "heads": 7, "d": 3},
                {"b": 3, "n": 3, "heads": 3, "d": 3},
            ],
        ),
        Case(name="a longer text", inputs=partial(_sentences, b=2, n=17, heads=2, d=3)),
        Case(name="bias=False", inputs=partial(_sentences, b=2, n=5, heads=3, d=7, bias=False)),
        *(
            Case(
                name=f"{where}{', other sizes' if hidden else ''}",
                inputs=partial(_padded, padding=padding, **(OTHER_SIZES if hidden else SIZES)),
                probe=_at_real_queries,
                part="padding",
                gradient=padding == "left",
                dtype=torch.float64 if padding == "left" else torch.float32,
                hidden=hidden,
            )
            for hidden in (False, True)
            for padding, where in (
                ("right", "padding on the right"),
                ("left", "padding on the left, gradients too"),
                ("holes", "padding here and there"),
            )
        ),
        Case(
            name="called before without a key mask, and with another one",
            inputs=partial(_padded, padding="holes", **SIZES),
            probe=_at_real_queries,
            part="padding",
            after=(partial(_sentences, **SIZES), partial(_padded, padding="right", **SIZES)),
        ),
        Case(
            name="called before with a key mask, now without one",
            inputs=partial(_sentences, **SIZES),
            part="padding",
            after=(partial(_padded, padding="right", **SIZES),),
        ),
        Case(
            name="padding, and memory that is not contiguous",
            inputs=partial(_padded, padding="right", **SIZES),
            probe=_at_real_queries,
            part="robustness",
            strided=True,
            mutation=True,
        ),
        Case(
            name="4 heads for a width of 15",
            inputs=lambda draw: ((15, 4), (draw.normal(2, 5, 15),)),
            raises=True,
            part="robustness",
        ),
    ),
    misconceptions=LISTED,
)
