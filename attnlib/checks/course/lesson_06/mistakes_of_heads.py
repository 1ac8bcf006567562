"""Wrong blocks, third kind: attention written by hand, with the mistakes that lesson 03 knows."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.lesson_03.heads import Heads, but, causal
from attnlib.checks.course.lesson_03.mistakes_around import layer_mistakes, projection_mistakes
from attnlib.checks.course.lesson_03.mistakes_inside import axes_mistakes, scores_mistakes
from attnlib.checks.course.lesson_06.plain_block import PlainBlock
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception


class BlockHeads(Heads):
    """The attention of a block: x asks itself, padding is not seen, and the output is returned alone."""

    def __init__(self, d_model: int, num_heads: int, dropout: float) -> None:
        super().__init__(d_model, d_model, num_heads, None, True)
        self.dropout = dropout  # of the perceptron alone, but for the mistakes

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        output: Tensor = self.attend(x, x, None if key_mask is None else key_mask[:, None, None, :])[0]
        return output


def _around(attention: type[nn.Module]) -> type[nn.Module]:
    class Wrong(PlainBlock):
        def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
            super().__init__(d_model, 1, mlp_ratio, dropout)
            self.attn = attention(d_model, num_heads, dropout)  # type: ignore[call-arg, assignment]

    return Wrong


def _whole_layers(self: Heads, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Heads.make_layers(self, d_model, d_model, d_model, bias)


def _unrefused(**steps: Any) -> type[nn.Module]:
    """Layers of d_model columns for any number of heads: what does not divide is noticed when it is split."""
    steps["width_of_a_head"] = lambda self, d_model, num_heads, d_head: d_model // num_heads
    return _around(but(BlockHeads, make_layers=_whole_layers, **steps))


def _split_by_view(self: Heads, x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], self.num_heads, self.d_head).transpose(1, 2)


def _drop(self: BlockHeads, x: Tensor) -> Tensor:
    return F.dropout(x, self.dropout, self.training)


def _mix_dropped(self: BlockHeads, weights: Tensor, v: Tensor) -> Tensor:
    return _drop(self, weights) @ v


def _blocked_as(change: Callable[[Tensor, Tensor], Tensor]) -> type[nn.Module]:
    """A block whose weights are `change(scores, allowed)`, and right where there is no key mask."""

    def share(self: Heads, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return scores.softmax(dim=-1) if allowed is None else change(scores, allowed)

    return _around(but(BlockHeads, share=share))


def _filled_and_along(dim: int, *, zeroed: bool) -> type[Heads]:
    def share(self: Heads, scores: Tensor, allowed: Tensor | None) -> Tensor:
        if allowed is None:
            return scores.softmax(dim=dim)
        weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(dim=dim)
        return weights * allowed if zeroed else weights

    return but(BlockHeads, share=share)


# the commonest: who writes attention anew for the block has done it right before, in lesson 03
KNOWN = (
    "no_scale",
    "scaled_by_root_d_model",
    "scaled_by_d",
    "scale_multiplied",
    "over_heads",
    "over_batch",
    "no_softmax",
    "softmax_twice",
    "split_and_merged_by_reshape",
    "split_by_reshape",
    "merged_by_reshape",
    "heads_taking_turns",
    "split_taking_turns",
    "merged_taking_turns",
    "never_split",
    "no_output_projection",
    "output_projection_transposed",
    "q_k_exchanged",
    "k_v_exchanged",
    "no_error",
    "assertion",
)


def _all() -> Iterator[Misconception]:
    for mistakes in (scores_mistakes, axes_mistakes, projection_mistakes, layer_mistakes):
        for mistake in mistakes(BlockHeads):
            if mistake.id in KNOWN:
                yield wrong(mistake.id, mistake.title, mistake.explanation, _around(mistake.implementation))


MISTAKES_OF_HEADS: tuple[Misconception, ...] = (
    *_all(),
    wrong(
        "over_queries",
        "The softmax runs over the queries",
        "The columns add up to 1; the rows have to. Each query shares its attention among the keys: dim=-1.",
        _around(_filled_and_along(-2, zeroed=False)),
    ),
    wrong(
        "over_queries_zeroed",
        "The softmax runs over the queries",
        "The columns add up to 1; the rows have to. Each query shares its attention among the keys: dim=-1.",
        _around(_filled_and_along(-2, zeroed=True)),
    ),
    wrong(
        "causal",
        "Words see only what stands before them",
        "A causal mask belongs to a decoder. In an encoder every word sees every real word.",
        _around(but(BlockHeads, share=causal)),
    ),
    wrong(
        "key_mask_upside_down_filled",
        "key_mask is upside down",
        "True means a real word, which may be looked at: what is filled with a low number is ~key_mask. "
        "nn.MultiheadAttention's key_padding_mask has it the other way round.",
        _blocked_as(lambda scores, allowed: scores.masked_fill(allowed, torch.finfo(scores.dtype).min).softmax(dim=-1)),
    ),
    wrong(
        "masked_after_softmax",
        "The mask comes after the softmax",
        "Setting weights to 0 afterwards leaves rows that no longer add up to 1. Mask the scores, before the softmax.",
        _blocked_as(lambda scores, allowed: scores.softmax(dim=-1) * allowed),
    ),
    wrong(
        "nan_where_all_is_padding",
        "NaN where a sentence is all padding",
        "Softmax over nothing but -inf is 0/0. The outputs there do not matter, but the NaN spoils the gradient of "
        "every weight. Fill with a large finite number, or set such rows to 0.",
        _blocked_as(lambda scores, allowed: scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)),
    ),
    wrong(
        "dropout_on_weights",
        "Dropout on the attention weights, too",
        "Many models do that. In this contract dropout is the perceptron's alone: give it to `mlp`, not to `attn`.",
        _around(but(BlockHeads, mix=_mix_dropped)),
    ),
    wrong(
        "dropout_after_both",
        "Dropout after both sub-layers, and inside attention",
        "Many models do that. In this contract dropout is the perceptron's alone.",
        _around(but(BlockHeads, mix=_mix_dropped, finish=lambda self, x: _drop(self, self.w_o(x)))),
    ),
    wrong(
        "filled_with_zero",
        "Blocked scores become 0",
        "A score of 0 is not a weight of 0: e⁰ = 1, so padding still gets its share. Fill with -inf, or with a very "
        "low number.",
        _blocked_as(lambda scores, allowed: (scores * allowed).softmax(dim=-1)),
    ),
    wrong(
        "torch_complains",
        "The error is torch's, not yours",
        "view fails by chance, with a RuntimeError about a shape that the caller has never heard of. Look at d_model "
        "and num_heads in __init__, and raise a ValueError.",
        _unrefused(split=_split_by_view),
    ),
    wrong(
        "einops_complains",
        "The error is einops's, not yours",
        "rearrange refuses with an EinopsError, which is no ValueError. Look at d_model and num_heads in __init__, and "
        "raise a ValueError.",
        _unrefused(),
    ),
)
