"""Exercise `mend_decoder_attention`: a decoder that never reads what the encoder wrote."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.usual import as_given, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Exercise, Inputs

LESSON = "04_cross_attention"


def _attend(
    x: Tensor,
    memory: Tensor,
    x_is_real: Tensor,
    memory_is_real: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    *,
    queries: str = "x",
    keys: str = "memory",
    values: str = "memory",
    mask: str | None = "memory",
    along: str = "keys",
    blocked: float = float("-inf"),
    inverted: bool = False,
    scaled: bool = True,
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """Attention with padding, and every way of taking one text for the other that the lesson knows."""
    texts, real = {"x": x, "memory": memory}, {"x": x_is_real, "memory": memory_is_real}
    q, k, v = texts[queries] @ w_q, texts[keys] @ w_k, texts[values] @ w_v
    scores = q @ k.transpose(-2, -1) * (k.shape[-1] ** -0.5 if scaled else 1.0)
    if mask is not None:
        closed = real[mask] if inverted else ~real[mask]
        scores = scores.masked_fill(closed[:, None, :] if along == "keys" else closed[:, :, None], blocked)
    weights = torch.softmax(scores, dim=axis)
    return weights @ v, weights


def _reference(
    x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor]:
    return _attend(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v)


def _memory_as(
    change: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Right, but for `change(x, memory, memory_is_real)` in place of memory and mask."""

    def attend(
        x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
    ) -> tuple[Tensor, Tensor]:
        memory, memory_is_real = change(x, memory, memory_is_real)
        return _attend(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v)

    return attend


def _matrices_as(order: tuple[int, int, int]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Right, but for the order in which the matrices are used."""

    def attend(
        x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, *matrices: Tensor
    ) -> tuple[Tensor, Tensor]:
        return _attend(x, memory, x_is_real, memory_is_real, *(matrices[i] for i in order))

    return attend


def _masked_too_late(
    x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor]:
    k = memory @ w_k
    weights = torch.softmax(x @ w_q @ k.mT * k.shape[-1] ** -0.5, dim=-1) * memory_is_real[:, None, :]
    return weights @ (memory @ w_v), weights


def _mask_added(
    x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor]:
    k = memory @ w_k
    weights = torch.softmax(x @ w_q @ k.mT * k.shape[-1] ** -0.5 + memory_is_real[:, None, :], dim=-1)
    return weights @ (memory @ w_v), weights


def _values_zeroed(
    x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor]:
    k = memory @ w_k
    weights = torch.softmax(x @ w_q @ k.mT * k.shape[-1] ** -0.5, dim=-1)
    return weights @ (memory * memory_is_real[:, :, None] @ w_v), weights


def _real(draw: Draw, b: int, n: int) -> Tensor:
    """(b, n): the first positions are real, at least two; each text is padded, but for the first."""
    lengths = draw.integers(2, n, (b, 1))
    lengths[0] = n
    return torch.arange(n) < lengths


def _texts(b: int, q: int, k: int, d_model: int, d_k: int, d_v: int):
    """A padded batch and matrices, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor, ...]:
        width, grow = draw.d_head(d_k), 1.2 * d_model**-0.5
        texts = draw.normal(b, q, d_model), draw.normal(b, k, d_model)
        real = _real(draw, b, q), _real(draw, b, k).flip(0)
        return (*texts, *real, *(draw.normal(d_model, d, scale=grow) for d in (width, width, d_v)))

    return inputs


def _where_x_is_real(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """What is computed at padded queries is left open."""
    padded = ~inputs[2][..., None]
    return tuple(t.masked_fill(padded, 0) if t.shape[:2] == padded.shape[:2] else t for t in asked(*inputs))


STILL_LEFT: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("values_left", "The values still come from x", {"values": "x"}),
    ("keys_left", "The keys still come from x", {"keys": "x"}),
    ("keys_and_values_left", "Keys and values still come from x", {"keys": "x", "values": "x"}),
)
SPOILT: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "mask_upside_down",
        "the mask is upside down",
        "`memory_is_real` is True where there *is* something, so that `~` is needed to close the others",
        {"inverted": True},
    ),
    ("mask_dropped", "the mask is gone", "padding must not be heard", {"mask": None}),
    ("scale_dropped", "the scale is gone", "the scores are divided by √d_k", {"scaled": False}),
    (
        "over_queries",
        "the softmax runs over the queries",
        "each query shares out 1 among the keys, dim=-1",
        {"axis": -2},
    ),
)

MEND_DECODER_ATTENTION = Exercise(
    name="mend_decoder_attention",
    lesson=LESSON,
    contract="(b, q, d_model), (b, k, d_model), bool (b, q), bool (b, k), three matrices -> "
    "output (b, q, d_v), weights (b, q, k)",
    parts={"values": 2},
    reference=_reference,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="two texts of one length", inputs=_texts(3, 7, 7, 11, 5, 2), probe=_where_x_is_real),
        Case(name="a longer memory", inputs=_texts(2, 5, 11, 13, 3, 7), probe=_where_x_is_real, mutation=True),
        Case(
            name="float64",
            inputs=_texts(3, 5, 5, 7, 3, 11),
            dtype=torch.float64,
            probe=_where_x_is_real,
        ),
        Case(name="a shorter memory", inputs=_texts(5, 11, 3, 7, 5, 13), probe=_where_x_is_real, hidden=True),
        Case(name="one query", inputs=_texts(3, 3, 7, 5, 2, 3), probe=_where_x_is_real, hidden=True),
        Case(name="d_v as large as d_k", inputs=_texts(3, 5, 5, 7, 3, 3), probe=_where_x_is_real, hidden=True),
    ),
    misconceptions=(
        as_given(partial(_attend, keys="x", values="x", mask="x")),
        wrong(
            "mask_of_x_left",
            "The mask is still that of x",
            "Keys and values come from the memory now. But the mask still says which positions of *x* are padding, "
            "and it is laid over the positions of the memory. Where both have the same length, nothing crashes.",
            partial(_attend, mask="x"),
        ),
        wrong(
            "values_left",
            "The values still come from x",
            "The weights are right. They say where in the memory to look, but what is fetched comes from x, at the "
            "same place. Key and value describe the same position: both belong to the memory.",
            partial(_attend, values="x"),
        ),
        wrong(
            "keys_left",
            "The keys still come from x",
            "The values come from the memory, but the weights compare x with x. Key and value describe the same "
            "position: both belong to the memory.",
            partial(_attend, keys="x"),
        ),
        wrong(
            "only_mask_mended",
            "Only the mask is mended",
            "The mask is that of the memory now, but keys and values still come from x, and the memory is not read.",
            partial(_attend, keys="x", values="x"),
        ),
        wrong(
            "only_values_mended",
            "Only the values are mended",
            "The values come from the memory. The keys and the mask still belong to x.",
            partial(_attend, keys="x", mask="x"),
        ),
        wrong(
            "only_keys_mended",
            "Only the keys are mended",
            "The keys come from the memory. The values and the mask still belong to x.",
            partial(_attend, values="x", mask="x"),
        ),
        wrong(
            "mask_dropped",
            "Padding answers, too",
            "Keys and values are right. But each row gives part of its attention to positions that hold nothing: the "
            "mask is gone, or it closes rows, [:, :, None], where it should close columns, memory_is_real[:, None, :].",
            partial(_attend, mask=None),
        ),
        wrong(
            "mask_upside_down",
            "The mask is upside down",
            "`memory_is_real` is True where there *is* something. You closed those positions and left the padding "
            "open. The `~` in front of it turns it round.",
            partial(_attend, inverted=True),
        ),
        wrong(
            "mask_upside_down_filled",
            "The mask is upside down",
            "`memory_is_real` is True where there *is* something. You closed those positions and left the padding "
            "open, and where there is none, all positions get the same share. The `~` in front of it turns it round.",
            partial(_attend, inverted=True, blocked=-1e9),
        ),
        wrong(
            "padded_queries_masked",
            "The mask lies on the queries, not on the keys",
            "[:, :, None] closes whole rows: those of padded questions. What must not be heard are padded *answers*, "
            "the columns: memory_is_real[:, None, :].",
            partial(_attend, mask="x", along="queries"),
            same_as="mask_dropped",
        ),
        wrong(
            "memory_mask_on_queries",
            "The mask lies on the queries, not on the keys",
            "[:, :, None] closes whole rows. What must not be heard are padded *answers*, the columns: "
            "memory_is_real[:, None, :]. Where the texts are of different lengths it does not even fit.",
            partial(_attend, along="queries"),
        ),
        wrong(
            "mask_added",
            "The mask itself is added to the scores",
            "True counts as 1, so real positions get a bonus of 1 and the padding stays in. A closed score is -inf.",
            _mask_added,
        ),
        wrong(
            "values_zeroed",
            "Only the values of the padding are zero",
            "The padding brings nothing back, but it still takes its share of the weights. Close its *scores*.",
            _values_zeroed,
        ),
        wrong(
            "all_from_memory",
            "The memory asks itself",
            "The mask, the keys and the values are right now. But the queries come from the memory, too. Who asks is "
            "x: x @ w_q.",
            partial(_attend, queries="memory"),
        ),
        wrong(
            "filled_with_zero",
            "Closed scores are 0, not -inf",
            "A score of 0 is a middling score: e⁰ = 1, so padding still gets its share. e to the power of -inf is 0.",
            partial(_attend, blocked=0.0),
        ),
        wrong(
            "masked_after_softmax",
            "Masked after the softmax",
            "The padding gets no weight, but it has already taken its share from the sum: your rows add up to less "
            "than 1. Close the scores before the softmax.",
            _masked_too_late,
        ),
        wrong(
            "roles_exchanged",
            "The memory asks, and x answers",
            "You exchanged the two texts. The decoder asks: queries from x. The encoder answers: keys and values from "
            "the memory.",
            partial(_attend, queries="memory", keys="x", values="x", mask="x"),
        ),
        wrong(
            "memory_cut",
            "The memory is cut to the length of x",
            "Whose is whose is right now. But memory[:, :n] drops the positions of the memory beyond the length of x, "
            "and with a shorter memory nobody notices. The two texts need not be of one length.",
            _memory_as(lambda x, memory, real: (memory[:, : x.shape[1]], real[:, : x.shape[1]])),
        ),
        wrong(
            "first_mask_for_all",
            "The first text's mask is used for the whole batch",
            "memory_is_real[0] says which positions of one text are real, and the others are of other lengths. Keep "
            "the batch, and give the mask an axis for the queries: memory_is_real[:, None, :].",
            _memory_as(lambda x, memory, real: (memory, real[:1].expand_as(real))),
        ),
        wrong(
            "one_memory_for_all",
            "Every text of the batch asks the first memory",
            "memory[0] is one text. Each x has a memory of its own: keep the batch axis.",
            _memory_as(lambda x, memory, real: (memory[:1].expand_as(memory), real)),
        ),
        *(
            wrong(
                f"over_{name}",
                f"The softmax runs over the {said}",
                "Each query shares out 1 among the keys, the last axis. It was right as it stood: dim=-1.",
                partial(_attend, axis=axis),
            )
            for name, said, axis in (("queries", "queries", -2), ("first_axis", "batch", 0))
        ),
        *(
            wrong(
                f"{names[0]}_{names[1]}_exchanged",
                f"{names[0]} and {names[1]} are exchanged",
                "The three matrices were right as they stood: w_q makes the queries, w_k the keys and w_v the values. "
                "It is the text in front of them that has to change.",
                _matrices_as(order),
            )
            for names, order in (
                (("w_q", "w_k"), (1, 0, 2)),
                (("w_k", "w_v"), (0, 2, 1)),
            )
        ),
        *(
            wrong(
                f"{one}_and_{other}",
                f"{title}, and {also}",
                "Not all is mended yet, or something that was right is not any more. Keys, values and mask belong to "
                f"the memory; and {rather}.",
                partial(_attend, **left, **spoilt),
            )
            for one, title, left in STILL_LEFT
            for other, also, rather, spoilt in SPOILT
        ),
        wrong(
            "scale_dropped",
            "The scale is gone",
            "Whose is whose is right now. But the scores are no longer divided by √d_k.",
            partial(_attend, scaled=False),
        ),
    ),
)
