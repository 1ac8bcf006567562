"""Exercise `mend_multi_head`: heads folded into the batch, and unfolded in another order."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.usual import as_given, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LESSON = "03_multi_head_attention"

RIGHT = "(h b) n d -> b n (h d)"


def _folded(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    num_heads: int,
    *,
    joined: str | None = RIGHT,
    shown: str | None = "(h b) q k -> b h q k",
    fold: str = "b n (h d) -> (h b) n d",
    scale: Callable[[int, int, int], float] = lambda d, width, d_model: d**-0.5,
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """Multi-head attention with the heads folded into the batch; where a pattern is None, a bare reshape."""
    b, n, _ = x.shape
    q, k, v = (rearrange(x @ w, fold, h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT * scale(q.shape[-1], w_q.shape[-1], x.shape[-1]), dim=axis)
    heads = weights @ v
    output = heads if joined is None else rearrange(heads, joined, h=num_heads)
    apart = weights.reshape(b, num_heads, n, n) if shown is None else rearrange(weights, shown, h=num_heads)
    return output.reshape(b, n, -1) @ w_o, apart


def _reference(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    return _folded(x, w_q, w_k, w_v, w_o, num_heads)


def _reversed(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    backwards = rearrange(w_o, "(h d) m -> h d m", h=num_heads).flip(0).flatten(0, 1)
    weights = _folded(x, w_q, w_k, w_v, w_o, num_heads)[1]
    return _folded(x, w_q, w_k, w_v, backwards, num_heads)[0], weights


def _averaged(*inputs: Any) -> tuple[Tensor, Tensor]:
    output, weights = _folded(*inputs)
    return output, weights.mean(dim=1)


def _not_projected(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> tuple[Tensor, Tensor]:
    return _folded(x, w_q, w_k, w_v, torch.eye(len(w_o), dtype=x.dtype, device=x.device), num_heads)


def _one_sentence(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> tuple[Tensor, Tensor]:
    q, k, v = (rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
    outputs = (weights @ v).transpose(0, 1).reshape(1, x.shape[1], -1)
    return outputs @ w_o, rearrange(weights, "(h b) q k -> b h q k", h=num_heads)


def _sentences(b: int, n: int, h: int, d: int, d_model: int):
    """Words and matrices, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor | int, ...]:
        width, grow = h * draw.d_head(d), 1.2 * d_model**-0.5
        projections = [draw.normal(d_model, width, scale=grow) for _ in range(3)]
        return (draw.normal(b, n, d_model), *projections, draw.normal(width, d_model, scale=width**-0.5), h)

    return inputs


MEND_MULTI_HEAD = Exercise(
    name="mend_multi_head",
    lesson=LESSON,
    contract="(b, n, d_model), three matrices (d_model, h·d), one (h·d, d_model), num_heads -> "
    "output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 3},
    reference=_reference,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="two sentences, three heads", inputs=_sentences(2, 7, 3, 5, 11)),
        Case(name="five sentences, two heads", inputs=_sentences(5, 3, 2, 7, 13), mutation=True),
        Case(name="one sentence", inputs=_sentences(1, 5, 3, 2, 7), gradient=True),
        Case(name="float64", inputs=_sentences(2, 5, 3, 7, 17), dtype=torch.float64, gradient=True),
        Case(name="one head", inputs=_sentences(3, 5, 1, 7, 11), hidden=True),
        Case(name="as many sentences as heads", inputs=_sentences(3, 3, 3, 3, 9), hidden=True),
    ),
    misconceptions=(
        as_given(partial(_folded, joined=None, shown=None)),
        wrong(
            "only_weights_mended",
            "The weights are right, the output is not yet",
            "The line that joins the heads still takes the numbers as they lie in memory: the first row of your result "
            "is made of head 0 at several words. It has to be made of all heads at one word.",
            partial(_folded, joined=None),
        ),
        wrong(
            "only_output_mended",
            "The output is right, the weights are not yet",
            "With a single sentence nobody would notice. With two, the weights that you return for sentence 0 are "
            "head 0 of sentence 0, then head 0 of sentence 1. The first axis is (h b), not (b h).",
            partial(_folded, shown=None),
        ),
        wrong(
            "both_read_as_b_h",
            "Both are unfolded as (b h)",
            "You moved the heads behind the words, which was needed. But you read the first axis as (b h), and it was "
            "folded as (h b), so heads of different sentences are mixed. With one sentence it would be right.",
            partial(_folded, joined="(b h) n d -> b n (h d)", shown="(b h) q k -> b h q k"),
        ),
        wrong(
            "output_read_as_b_h",
            "The output is unfolded as (b h)",
            "The weights are right. The output's first axis was folded as (h b), too, and you read it as (b h): a word "
            "gets heads that belong to another sentence.",
            partial(_folded, joined="(b h) n d -> b n (h d)"),
        ),
        wrong(
            "heads_taking_turns",
            "The heads are joined as (d h)",
            "The sentences are apart now. But the columns were cut as (h d), a run for each head, and w_o expects them "
            "like that. You let the heads take turns.",
            partial(_folded, joined="(h b) n d -> b n (d h)"),
        ),
        wrong(
            "sentences_apart_only",
            "The sentences are apart, heads and words are not",
            "You made (b, h, n, d) rightly, and then reshaped it to (b, n, h·d). The heads have to be moved behind the "
            "words before they can be joined.",
            partial(_folded, joined="(h b) n d -> b (h n d)"),
        ),
        wrong(
            "weights_heads_first",
            "The heads' weights stand in front of the batch",
            "The output is right. Your weights are (h, b, n, n): cut apart, (h b), but not exchanged. The batch comes "
            "first: (b, h, n, n).",
            partial(_folded, shown="(h b) q k -> h b q k"),
        ),
        wrong(
            "weights_returned_transposed",
            "The weights are returned transposed",
            "The output is right. But row i of your weights belongs to key i. Rows are queries, columns are keys.",
            partial(_folded, shown="(h b) q k -> b h k q"),
        ),
        wrong(
            "heads_reversed",
            "The heads are joined in reverse order",
            "The sentences are apart now, and the weights are right. But w_o expects head 0 first.",
            _reversed,
        ),
        *(
            wrong(
                f"{name}_weights_reshaped",
                f"{wrongly}, and the weights are still reshaped",
                "Neither is right yet. The first axis is (h b), heads slowest: unfold both from (h b), the output to "
                "b n (h d), the weights to b h n m.",
                partial(_folded, joined=joined, shown=None),
            )
            for name, wrongly, joined in (
                ("taking_turns", "The heads are joined as (d h)", "(h b) n d -> b n (d h)"),
                ("apart_only", "The sentences are apart, heads and words are not", "(h b) n d -> b (h n d)"),
            )
        ),
        wrong(
            "one_sentence",
            "It works for a batch of one only",
            "The weights are right. But the output is given a batch of 1, so the words of all sentences stand in one "
            "row. The first axis is (h b): unfold it to b n (h d).",
            _one_sentence,
        ),
        wrong(
            "not_projected",
            "w_o is gone",
            "The heads stand side by side and are returned like that. What they have found still has to be multiplied "
            "by w_o, as before.",
            _not_projected,
        ),
        wrong(
            "w_o_transposed",
            "w_o is transposed",
            "w_o is (h·d, d_model) and multiplies from the right, as it did before: outputs @ w_o.",
            lambda x, w_q, w_k, w_v, w_o, num_heads: _folded(x, w_q, w_k, w_v, w_o.T, num_heads),
        ),
        *(
            wrong(
                f"scale_{name}",
                title,
                "Both lines that were at fault are mended. But the scale was right as it stood: q.shape[-1] ** -0.5, "
                "because a head's scores are sums of d products.",
                partial(_folded, scale=scale),
            )
            for name, title, scale in (
                ("dropped", "The scale is gone", lambda d, width, d_model: 1.0),
                ("of_all_heads", "Scaled by the width of all heads together", lambda d, width, d_model: width**-0.5),
                ("of_d_model", "Scaled by √d_model", lambda d, width, d_model: d_model**-0.5),
                ("without_root", "Divided by d instead of √d", lambda d, width, d_model: 1 / d),
            )
        ),
        *(
            wrong(
                f"softmax_over_{name}",
                f"The softmax runs over the {name.replace('_', ' ')}",
                "Both lines that were at fault are mended. But the axis of the softmax was right as it stood: each "
                "query shares out 1 among the keys, dim=-1.",
                partial(_folded, axis=axis),
            )
            for name, axis in (("queries", -2), ("first_axis", 0))
        ),
        wrong(
            "averaged_weights",
            "The weights are averaged over the heads",
            "The contract keeps the heads: (b, h, n, n).",
            _averaged,
        ),
    ),
)
