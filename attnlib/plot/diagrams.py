"""The diagrams of the course, each a few lines of boxes and arrows."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attnlib.plot.boxes import Arrow, Box, plot_boxes
from attnlib.softmax import softmax

if TYPE_CHECKING:
    import matplotlib.axes

LESSONS = (
    "start\nhere", "queries,\nkeys, values", "scaled\ndot-product", "multi-head\nattention", "cross-\nattention",
    "causal\nmasks", "the encoder\nblock", "positions", "a language\nmodel", "fast\ndecoding",
    "flash\nattention", "reading\nheads", "a real\nmodel",
)  # fmt: skip
CORE = 7  # lessons 00 to 06


def plot_flow(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    asks: Sequence[str] = (),
    answers: Sequence[str] = (),
    features: Sequence[str] = (),
    gives: Sequence[str] = (),
    shapes: bool = False,
    **more: Any,
) -> "matplotlib.axes.Axes":
    """Attention as a flow, computed from the tensors: queries and keys → scores → softmax → mix of the values.

    With numbers for one query (d) or a few (q, d), or with `shapes` for tensors of any size. `asks` and `answers` name
    the queries and the keys, `features` the columns of both, `gives` those of the values.

    >>> import torch
    >>> ax = plot_flow(torch.ones(2, 5, 4), torch.ones(2, 7, 4), torch.ones(2, 7, 3), shapes=True)
    >>> [text.get_text() for text in ax.texts if "×" in text.get_text()]
    ['2 × 5 × 4', '2 × 7 × 4', '2 × 7 × 3', '2 × 5 × 7', '2 × 5 × 7', '2 × 5 × 3']
    """
    queries, keys, values = (x.float() for x in (queries, keys, values))
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    weights = softmax(scores)
    lead, one = " ".join(("bh" if queries.ndim < 5 else "…bh")[: max(queries.ndim - 2, 0)]), queries.ndim == 1
    axes = ["q d_k", "k d_k", "k d_v", "q k", "q k", "q d_v"]
    tensors = [queries, keys, values, scores, weights, weights @ values]
    names = ["query" if one else "queries", "keys", "values", "scores", "weights", "output"]
    places = [(0, 0), (0, 1), (0, 2), (1, 0.5), (2, 0.5), (3, 1)]
    rows = [asks, answers, answers, (), (), ()]
    columns = [features, features, gives, answers, answers, gives]
    boxes = [
        Box(
            name=name,
            at=place,
            value=tensor,
            axes=f"{lead} {letters.removeprefix('q ') if one else letters}",
            rows=down,
            columns=across,
            accent=name == "weights",
            decimals=3 if name == "weights" else 2,
        )
        for name, place, tensor, letters, down, across in zip(names, places, tensors, axes, rows, columns, strict=True)
    ]
    arrows = [
        Arrow(start=names[0], end="scores", label="q · k / √d"),
        Arrow(start="keys", end="scores"),
        Arrow(start="scores", end="weights", label="softmax"),
        Arrow(start="weights", end="output", label="mix"),
        Arrow(start="values", end="output"),
    ]
    return plot_boxes(boxes, arrows, shapes=shapes, **more)


def plot_encoder_decoder(
    source: Tensor,
    memory: Tensor,
    target: Tensor,
    output: Tensor,
    *,
    names: Sequence[str] = ("source", "encoder", "memory", "target", "decoder", "cross-\nattention", "output"),
    shapes: bool = True,
    **more: Any,
) -> "matplotlib.axes.Axes":
    """Encoder and decoder: the memory is made once, and its arrow brings keys and values to every step of the decoder.

    `names` are those of the seven boxes, in the order of the picture.

    >>> import torch
    >>> sizes = (2, 11, 5), (2, 11, 8), (2, 7, 3), (2, 7, 8)
    >>> ax = plot_encoder_decoder(*(torch.zeros(size) for size in sizes))
    >>> "keys and values" in [text.get_text() for text in ax.texts]
    True
    """
    first, encoder, second, third, decoder, cross, last = names
    boxes = [
        Box(name=first, at=(0, 0), value=source, axes=_axes(source, "k", "d")),
        Box(name=encoder, at=(1, 0)),
        Box(name=second, at=(2, 0), value=memory, axes=_axes(memory, "k", "d"), accent=True),
        Box(name=third, at=(0, 1), value=target, axes=_axes(target, "q", "d")),
        Box(name=decoder, at=(1, 1)),
        Box(name=cross, at=(2, 1), accent=True),
        Box(name=last, at=(3, 1), value=output, axes=_axes(output, "q", "d")),
    ]
    arrows = [
        *_chain(first, encoder, second),
        *_chain(third, decoder),
        Arrow(start=decoder, end=cross, label="queries"),
        Arrow(start=cross, end=last),
        Arrow(start=second, end=cross, label="keys and values", accent=True),
    ]
    return plot_boxes(boxes, arrows, shapes=shapes, **more)


def plot_block(
    x: Tensor,
    found: Tensor,
    thought: Tensor,
    *,
    columns: Sequence[str] = (),
    names: Sequence[str] = ("norm1", "attention", "norm2", "MLP"),
    norm_first: bool = True,
    shapes: bool = False,
    **more: Any,
) -> "matplotlib.axes.Axes":
    """The encoder block, downwards: norm, attention, add, norm, MLP, add, and what each part brings to the stream `x`.

    `found` is what attention adds and `thought` what the MLP adds. With `norm_first=False` the norms come after
    the sums, and their results are not shown.

    >>> import torch
    >>> ax = plot_block(torch.tensor([0.0, 1.0]), torch.tensor([3.0, 0.0]), torch.tensor([0.0, 0.5]))
    >>> [text.get_text() for text in ax.texts if text.get_text() in ("+", "3", "0.50")]
    ['+', '+', '3', '0.50', '3']
    """
    norm1, attention, norm2, mlp = names
    order = [attention, "+", norm1, mlp, "+ ", norm2]
    steps = [norm1, attention, "+", norm2, mlp, "+ "] if norm_first else order
    place = {name: number + 1 for number, name in enumerate(steps)}
    letters = _axes(x, "n", "d")
    values = [
        ("x", "in", 0, x),
        ("it finds", attention, place[attention], found),
        ("it adds", mlp, place[mlp], thought),
    ]
    if norm_first:
        values += [("the sum", "+", place["+"], x + found), ("the new x", "+ ", place["+ "], x + found + thought)]
    boxes = [Box(name="x", id="in", at=(0, 0), faint=True), Box(name="x", id="out", at=(0, 7), faint=True)]
    boxes += [Box(name=name.strip(), id=name, at=(0, place[name]), accent=name.strip() == "+") for name in steps]
    boxes += [
        Box(name=name, id=f"value {beside}", at=(1, row), value=value, axes=letters, columns=columns)
        for name, beside, row, value in values
    ]
    arrows = [
        *_chain("in", *steps, "out"),
        Arrow(start="in", end="+", via=[(-0.75, 0), (-0.75, place["+"])], accent=True),
        Arrow(start=steps[2], end="+ ", via=[(0, 3.4), (-0.75, 3.4), (-0.75, place["+ "])], accent=True),
        *(Arrow(start=beside, end=f"value {beside}", dotted=True) for _, beside, _, _ in values),
    ]
    return plot_boxes(boxes, arrows, shapes=shapes, **more)


def plot_course_map(here: int | None = None, **more: Any) -> "matplotlib.axes.Axes":
    """The lessons 00 to 12 and the ways between them; `here` is marked.

    >>> ax = plot_course_map(3)
    >>> [text.get_text() for text in ax.texts][:3]
    ['00', 'start', 'here']
    """
    names = [f"{number:02}\n{title}" for number, title in enumerate(LESSONS)]
    boxes = [
        Box(name=name, at=(number, 0) if number < CORE else (number - CORE + 1, 1), accent=number == here)
        for number, name in enumerate(names)
    ]
    arrows = [
        *_chain(*names[:CORE]),
        Arrow(start=names[6], end=names[7], via=[(6, 0.55), (1, 0.55)]),
        *_chain(*names[CORE:]),
    ]
    return plot_boxes(boxes, arrows, **more)


def _axes(tensor: Tensor, *last: str) -> str:
    """The names of a tensor's axes, as many as it has: batch, positions, features."""
    return " ".join(("b", *last)[-tensor.ndim :])


def _chain(*names: str) -> list[Arrow]:
    return [Arrow(start=start, end=end) for start, end in pairwise(names)]
