"""Lesson 05: several heads, none of which looks ahead or at padding; and weights whose padding is to be mended."""

import torch
from torch import Tensor

import attnlib
from attnlib.checks.course.slips.attention import Give, Mix, masked_softmax
from attnlib.checks.course.slips.heads import HeadGive, HeadShare, ProjectHeads, Two
from attnlib.checks.course.slips.masks import Join, MaskedShare, Past, RealKeys, blocked
from attnlib.checks.course.slips.projections import Layer, Three
from attnlib.checks.course.steps import Step, along_with, each, spells


class WordSizes(Step):
    """How many queries and keys there are: as many as words."""

    makes = ("q_len", "k_len", "device")

    def right(self, x: Tensor) -> tuple[int, int, torch.device]:
        return x.shape[1], x.shape[1], x.device


class CausalProject(ProjectHeads):
    """Padded words have vectors, too."""

    @along_with("padding_ignored")
    def padded_words_zeroed(self, x: Tensor, key_mask: Tensor | None, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The padded words are set to zero, not blocked.

        The words, or their keys, are multiplied by the mask. A word of zeros still has a key, the bias of w_k, and even
        a key of zeros has a score, 0: it takes its share of the softmax. Only a blocked score keeps a word out.
        """
        x = x if key_mask is None else x * key_mask[..., None]
        return self.right(x, x, w_q, w_k, w_v)

    @spells(padded_words_zeroed)
    @along_with("padding_ignored")
    @each(values_too=(False, True))
    def padded_keys_zeroed(
        self, x: Tensor, key_mask: Tensor | None, w_q: Layer, w_k: Layer, w_v: Layer, values_too: bool
    ) -> Three:
        q, k, v = self.right(x, x, w_q, w_k, w_v)
        if key_mask is None:
            return q, k, v
        return q, k * key_mask[..., None], v * key_mask[..., None] if values_too else v


class CausalShare(HeadShare, MaskedShare):
    """Two masks could be used at two places."""

    def padding_after_softmax(self, scores: Tensor, past: Tensor, allowed: Tensor) -> Tensor:
        """Padding is blocked after the softmax.

        The causal mask comes before the softmax, the padding after it. So the rows of padded sentences add up to less
        than 1. Join both masks first, then block once.
        """
        return masked_softmax(scores, past) * allowed

    @spells(Past.strict)
    @along_with("strict")
    @each(how=("nan", "equal"))
    def strict_blocked(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        return blocked(scores, allowed, how)

    @spells(Past.upside_down)
    @along_with("upside_down")
    @each(how=("nan", "equal"))
    def upside_down_blocked(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        return blocked(scores, allowed, how)

    @spells(RealKeys.padding_upside_down)
    @along_with("padding_upside_down")
    @each(how=("nan", "equal"))
    def padding_upside_down_blocked(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        return blocked(scores, allowed, how)

    @spells(Join.all_masks_upside_down)
    @along_with("all_masks_upside_down")
    @each(how=("nan", "equal"))
    def all_masks_upside_down_blocked(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        return blocked(scores, allowed, how)


class CausalMix(Mix):
    """Padded words have values, too."""

    @along_with("padding_ignored")
    def padded_values_zeroed(self, weights: Tensor, v: Tensor, key_mask: Tensor | None) -> Tensor:
        """Only the values of padded words are zero.

        Padding brings nothing back, but it still takes its share of the weights, so that the rows of the others add up
        to less than 1. Block its *scores*.
        """
        return weights @ (v if key_mask is None else v * key_mask[:, None, :, None])


class CausalGive(HeadGive):
    """The scores could be returned with their blocks."""

    @spells(Give.returns_scores)
    @each(fill=(-torch.inf, -1e9))
    def returns_blocked_scores(self, output: Tensor, scores: Tensor, allowed: Tensor, fill: float) -> Two:
        return output, scores.masked_fill(~allowed, fill)


class MendedSizes(Step):
    """How many queries and keys there are, and which are real."""

    makes = ("q_len", "k_len", "device", "key_mask")

    def right(self, scores: Tensor, real: Tensor) -> tuple[int, int, torch.device, Tensor]:
        return scores.shape[-1], scores.shape[-1], scores.device, real


class MendedPadding(MaskedShare):
    """The given code fills with a number, and with padding on the axis of the queries."""

    @along_with("padding_on_queries")
    def nan_uncovered(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """-inf, with the padding still on the queries.

        With -inf in place of -1e10 the hidden bug shows: the rows of padded queries are blocked whole, and 0 / 0 is
        NaN. Real queries still look at padded keys. Move the padding to the axis of the keys.
        """
        return blocked(scores, allowed, "nan")

    @spells(RealKeys.padding_on_the_heads)
    @along_with("padding_on_the_heads")
    def padding_on_the_heads_of_attnlib(self, scores: Tensor, past: Tensor, key_mask: Tensor) -> Tensor:
        return attnlib.masked_softmax(scores, past & key_mask[None, :, None, :])

    def scores_overwritten(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """The scores are changed in place.

        masked_fill_, with its underscore, writes into the tensor that you were given, and autograd refuses. masked_fill
        makes a new one.
        """
        return scores.masked_fill_(~allowed, -1e10).softmax(dim=-1) * allowed
