"""Masks: what they are made of, and the softmax of blocked scores. A mask is bool, True = may attend."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.course.slips.attention import Share, masked_softmax
from attnlib.checks.course.steps import Step, along_with, discussed_at, each, spells


class Past(Step):
    """Which keys are no later than the query: on and below the diagonal."""

    makes = ("past",)

    def right(self, q_len: int, k_len: int, shift: int = 0, device: torch.device | None = None) -> Tensor:
        return behind(q_len, k_len, shift, device) >= 0

    def no_causal_mask(self, q_len: int, k_len: int, device: torch.device | None = None) -> Tensor:
        """Nothing hides the future.

        Every query sees the whole text, its future included. Position i could simply read off token i + 1, which it is
        meant to guess.
        """
        return torch.ones(q_len, k_len, dtype=torch.bool, device=device)

    @discussed_at("https://github.com/rasbt/LLMs-from-scratch/issues/1061")
    def upside_down(self, q_len: int, k_len: int, shift: int = 0, device: torch.device | None = None) -> Tensor:
        """The causal mask is upside down.

        True and False are exchanged: each query sees the future, and neither itself nor the past. In other libraries
        True marks what is *blocked*; here True = may attend. Put a `~` in front (or take one away), or turn the
        comparison round.
        """
        return behind(q_len, k_len, shift, device) < 0

    def upper_triangle(self, q_len: int, k_len: int, shift: int = 0, device: torch.device | None = None) -> Tensor:
        """The triangle is the upper one.

        Each query sees itself and what comes after it, and nothing of what came before. The future has to be hidden, so
        the open keys are on and *below* the diagonal: `tril` keeps those, `triu` the upper ones.
        """
        return behind(q_len, k_len, shift, device) <= 0

    def strict(self, q_len: int, k_len: int, shift: int = 0, device: torch.device | None = None) -> Tensor:
        """A word may not see itself.

        The diagonal is missing: < where <= was needed, or one diagonal too low. A query may look at its own position,
        which holds no secret: what is to be guessed is the *next* token. And the first query would see nothing at all.
        """
        return behind(q_len, k_len, shift, device) > 0

    def one_ahead(self, q_len: int, k_len: int, shift: int = 0, device: torch.device | None = None) -> Tensor:
        """Every word sees one word too many.

        The triangle reaches one column too far: query i sees key i + 1. That is the very token that position i has to
        guess. This is the costliest of all off-by-one mistakes, because training looks wonderful.
        """
        return behind(q_len, k_len, shift, device) >= -1

    @each(size=(8, 10, 16))
    def triangle_too_small(self, module: Any, q_len: int, device: torch.device, size: int) -> Tensor:
        """The triangle is made for short texts only.

        It is made once with a fixed size, and a longer text does not fit. Make it in forward, for the length of x, or
        let the constructor be told the longest length.
        """
        return behind(size, size, 0, device)[:q_len, :q_len] >= 0

    def triangle_of_the_first_length(self, module: Any, q_len: int, device: torch.device) -> Tensor:
        """The triangle of the first call is kept for all later ones.

        It is made once, for the length of the first batch, and kept in the module. When a longer text comes, it does
        not fit, or it opens everything. Make it at each call, or make a new one where the old one is too small.
        """
        if not hasattr(module, "triangle"):
            module.triangle = behind(q_len, q_len, 0, device) >= 0
        kept: Tensor = module.triangle[:q_len, :q_len]
        return kept


def behind(q_len: int, k_len: int, shift: int, device: torch.device | None) -> Tensor:
    """How many positions key j is behind query i, where query 0 is at key `shift`."""
    return torch.arange(q_len, device=device)[:, None] + shift - torch.arange(k_len, device=device)


class Align(Step):
    """Where the first query is among the keys: the last query is at the last key."""

    makes = ("shift",)

    def right(self, q_len: int, k_len: int) -> int:
        return k_len - q_len

    @discussed_at("https://github.com/pytorch/pytorch/issues/103082")
    def top_left(self) -> int:
        """The first query is aligned with the first key.

        With as many queries as keys this is right. With more keys the *last* query is at the last key: the keys before
        the first query are older words, and none of them is in its future. Shift the diagonal by the number of keys
        minus that of queries.
        """
        return 0


class PastOfMore(Past):
    """There may be more keys than queries."""

    def square_of_queries(self, q_len: int, device: torch.device | None = None) -> Tensor:
        """The triangle is made for as many keys as queries.

        Your mask is (q, q). It has a row for each query and a column for each *key*: (q, k), and k may be larger.
        """
        return behind(q_len, q_len, 0, device) >= 0

    def square_of_keys(self, k_len: int, device: torch.device | None = None) -> Tensor:
        """The triangle is made for as many queries as keys.

        Your mask is (k, k). It has a row for each *query* and a column for each key: (q, k), and q may be smaller.
        """
        return behind(k_len, k_len, 0, device) >= 0


class RealKeys(Step):
    """Which keys are no padding, (b, n), on the last axis of the scores: (b, 1, 1, n)."""

    makes = ("real_keys",)

    def right(self, key_mask: Tensor | None) -> Tensor | None:
        return self._at(key_mask, lambda mask: mask[:, None, None, :])

    def _at(self, key_mask: Tensor | None, axes: Callable[[Tensor], Tensor]) -> Tensor | None:
        return None if key_mask is None else axes(key_mask)

    def padding_ignored(self) -> None:
        """Padding is not blocked at all.

        The causal mask alone is left, and the key mask is not used. With padding on the right that is enough for the
        real queries; with padding on the left, the padded keys are in everyone's past.
        """
        return None

    def padding_upside_down(self, key_mask: Tensor | None) -> Tensor | None:
        """The key mask is taken the other way round.

        Yours blocks the real keys and leaves the padding open. In the key mask True = a real key, as in padding_mask.
        """
        return self._at(key_mask, lambda mask: ~mask[:, None, None, :])

    def padding_on_queries(self, key_mask: Tensor | None) -> Tensor | None:
        """The key mask is on the axis of the queries.

        `[:, None, :, None]` puts it on the axis before the last. That blocks whole *rows*, and the others still look at
        padded keys. Keys are the last axis of the scores: [:, None, None, :].
        """
        return self._at(key_mask, lambda mask: mask[:, None, :, None])

    def padding_on_both(self, key_mask: Tensor | None) -> Tensor | None:
        """The padding is on both axes.

        Padded keys are blocked, as they should be. Padded *queries* are blocked, too, and the contract does not ask for
        it: it speaks of real keys only. Their rows are not used further on, so leave them alone.
        """
        return self._at(key_mask, lambda mask: mask[:, None, :, None] & mask[:, None, None, :])

    def padding_not_lined_up(self, key_mask: Tensor | None) -> Tensor | None:
        """The key mask is not lined up with the keys of its sentence.

        (n, n) & (b, n) lines the sentences of the batch up with the queries. Give the key mask the axes of heads and
        queries first: [:, None, None, :].
        """
        return self._at(key_mask, lambda mask: mask)

    def padding_on_the_heads(self, key_mask: Tensor | None) -> Tensor | None:
        """The sentences' padding is on the axis of the heads.

        `[:, None, :]` is (b, 1, n), and the scores are (b, h, n, n): the sentences are lined up with the heads. That
        fails, or each head gets the padding of a sentence. Give the mask an axis for the heads, too:
        [:, None, None, :].
        """
        return self._at(key_mask, lambda mask: mask[:, None, :])

    def first_padding_for_all(self, key_mask: Tensor | None) -> Tensor | None:
        """All sentences get the first one's padding.

        With a batch of one nobody notices. Each sentence has its own padding: [:, None, None, :].
        """
        return self._at(key_mask, lambda mask: mask[:1, None, None, :])

    def real_keys_counted(self, key_mask: Tensor | None) -> Tensor | None:
        """The key mask is turned into a length.

        Yours opens the first key_mask.sum() keys. But the real ones need not come first: there may be padding on the
        left, or gaps. The mask says which they are: use it as it is.
        """
        return self._at(key_mask, lambda mask: _first(mask.sum(dim=1), mask.shape[1])[:, None, None, :])

    @discussed_at("https://github.com/lsdefine/attention-is-all-you-need-keras/issues/36")
    def padding_repeated_otherwise(self, key_mask: Tensor | None, num_heads: int) -> Tensor | None:
        """The key masks are repeated in another order than the heads are folded.

        Folded as (b h), the heads of one sentence are neighbours. `key_mask.repeat(h, 1)` is (h b), so that heads get
        the padding of other sentences: repeat_interleave, or an axis of its own, key_mask[:, None, None, :].
        """
        return self._at(key_mask, lambda mask: mask.repeat(num_heads, 1).unflatten(0, (-1, num_heads))[:, :, None, :])


def _first(lengths: Tensor, k_len: int) -> Tensor:
    """The first keys of each sentence, as many as its length says."""
    return torch.arange(k_len, device=lengths.device) < lengths[:, None]


class OptionalKeyMask(RealKeys):
    """There may be no key mask at all."""

    def key_mask_demanded(self, key_mask: Tensor | None) -> Tensor:
        """forward does not work without a key mask.

        A batch without padding has none: def forward(self, x, key_mask=None).
        """
        if key_mask is None:
            raise TypeError("forward() missing 1 required positional argument: 'key_mask'")
        return key_mask[:, None, None, :]

    def truth_of_the_key_mask(self, key_mask: Tensor | None) -> Tensor | None:
        """A whole mask is asked whether it is true.

        `if key_mask:` wants one True or False, and a tensor of several has none. Ask whether there is a mask at all:
        `if key_mask is not None:`.
        """
        return key_mask[:, None, None, :] if key_mask else None


class Join(Step):
    """Who may attend to what: to keys that are in the past *and* real."""

    makes = ("allowed",)

    def right(self, past: Tensor, real_keys: Tensor | None) -> Tensor:
        return past if real_keys is None else past & real_keys

    def or_instead_of_and(self, past: Tensor, real_keys: Tensor | None) -> Tensor:
        """Either mask opens a key.

        | opens a key that is in the past *or* real. A query may see a key that is in the past *and* real: &.
        """
        return past if real_keys is None else past | real_keys

    def all_masks_upside_down(self, past: Tensor, real_keys: Tensor | None) -> Tensor:
        """The whole mask is upside down.

        What may be seen is blocked, and what may not is open. In the triangle and in the key mask True = may attend:
        masked_fill wants ~mask, masked_softmax the mask itself.
        """
        return ~self.right(past, real_keys)

    @spells(all_masks_upside_down)
    @along_with("upside_down", "padding_upside_down")
    def both_masks_upside_down(self, past: Tensor, real_keys: Tensor | None) -> Tensor:
        return self.right(past, real_keys)

    def padding_instead_of_causal(self, past: Tensor, real_keys: Tensor | None) -> Tensor:
        """With a key mask, the causal mask is gone.

        Where there is a key mask it *replaces* the causal mask. Both have to hold: join them with &.
        """
        return past if real_keys is None else real_keys

    def diagonal_opened(self, past: Tensor, real_keys: Tensor | None) -> Tensor:
        """Every word sees itself, padding too.

        Opening the diagonal keeps a row from being empty, and then padding looks at padding. A query that sees nothing
        gets zeros: that is what attnlib.masked_softmax does.
        """
        itself = torch.eye(past.shape[-1], dtype=torch.bool, device=past.device)
        return self.right(past, real_keys) | itself


class MaskForm(Step):
    """A mask is one table of bool."""

    def right(self, mask: Tensor) -> Tensor:
        return mask

    def numbers(self, mask: Tensor) -> Tensor:
        """Numbers instead of bool.

        Your mask is made of the numbers 1.0 and 0.0. `~mask` and indexing do other things with numbers than with bool,
        and PyTorch's attention *adds* a mask of floats to the scores. Make it bool: compare something, or
        dtype=torch.bool.
        """
        return mask.float()

    @each(dtype=(torch.int64, torch.int32, torch.uint8))
    def integers(self, mask: Tensor, dtype: torch.dtype) -> Tensor:
        """Integers instead of bool.

        Your mask is made of the integers 1 and 0, as tokenizers return it. `~1` is -2 (254 in uint8), so the first
        `~mask` further down goes wrong without an error. Make it bool: compare something, or dtype=torch.bool.
        """
        return mask.to(dtype)

    def additive(self, mask: Tensor) -> Tensor:
        """A mask to be added, instead of bool.

        You return 0 and -inf, to be added to the scores: another convention. Here a mask is bool, True = may attend.
        Only where it is used does it become -inf.
        """
        return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)

    def array(self, mask: Tensor) -> object:
        """A NumPy array, not a tensor.

        torch.from_numpy(the_array) makes a tensor of it; torch has arange, ones and tril of its own.
        """
        return mask.numpy()

    def exchanged(self, mask: Tensor) -> Tensor:
        """Rows and columns are exchanged.

        Columns belong to keys, as in the scores: (q, k) where each query has a row, (b, k) where each sentence has one.
        """
        return mask.mT

    @each(before=(0, 1), axes=(1, 2))
    def broadcast_too_early(self, mask: Tensor, before: int, axes: int) -> Tensor:
        """Broadcast too early.

        The mask has further axes of size 1. They are added where the mask is used, because only there it is known
        whether the scores have an axis for batch and heads. Two axes are asked for.
        """
        for _ in range(axes):
            mask = mask.unsqueeze(before)
        return mask


WAYS = ("zeros", "nan", "equal", "zeroed", "after")


def blocked(scores: Tensor, allowed: Tensor, how: str, dim: int = -1) -> Tensor:
    """Attention weights among what is allowed. The `WAYS` differ where nothing is, and for a wrong `dim`."""
    if how == "zeros":
        return masked_softmax(scores, allowed, dim)
    if how == "after":
        return scores.softmax(dim) * allowed
    weights = scores.masked_fill(~allowed, -torch.inf if how == "nan" else torch.finfo(scores.dtype).min).softmax(dim)
    return weights * allowed if how == "zeroed" else weights


class MaskedShare(Share):
    """The attention weights: softmax, over the keys that are allowed, and zeros where there are none."""

    def mask_after_softmax(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Blocked after the softmax, and not divided again.

        The blocked weights are 0, but the rows add up to less than 1, and the others still depend on the blocked scores
        through the denominator. Block the *scores*, before the softmax.
        """
        return scores.softmax(dim=-1) * allowed

    def scores_times_mask(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Blocked scores become 0.

        A score of 0 is not a weight of 0: e⁰ = 1. Multiplying by the mask, or filling with 0, leaves blocked keys a
        good share. A blocked score has to be so low that exp makes it 0: -inf.
        """
        return (scores * allowed).softmax(dim=-1)

    @spells(scores_times_mask)
    def scores_times_mask_rows_zeroed(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return (scores * allowed).softmax(dim=-1) * allowed.any(dim=-1, keepdim=True)

    def scores_times_mask_zeroed(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Blocked scores become 0 before the softmax.

        e⁰ = 1 is a good share: it stays in the sum even if the blocked weights are set to 0 afterwards, and the rows
        add up to less than 1. A blocked score has to be so low that exp makes it 0: -inf.
        """
        return (scores * allowed).softmax(dim=-1) * allowed

    def mask_added(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """The mask itself is added to the scores.

        True counts as 1, so open keys get a bonus of 1 and blocked ones stay in. What is added has to be 0 for open and
        -inf for blocked keys.
        """
        return (scores + allowed).softmax(dim=-1)

    @spells(mask_added)
    def mask_added_zeroed(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return (scores + allowed).softmax(dim=-1) * allowed

    @discussed_at("https://github.com/pytorch/pytorch/issues/41508")
    def empty_rows_nan(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """A query that sees nothing becomes NaN.

        A softmax divides the exponentials of a row by their sum. Where nothing is open they are all 0 (exp makes 0 of
        -inf, too), and 0 / 0 is NaN; one NaN spoils the gradient of every weight. Treat these rows
        separately: do not block their scores before the softmax, and set their weights to 0 after it.
        """
        return blocked(scores, allowed, "nan")

    def empty_rows_equal(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """A query that sees nothing looks at everything.

        A large negative number, torch.finfo(dtype).min, say, is low enough to block a key next to open ones. But where
        nothing is open, all scores are that number, and the softmax of equal numbers gives each key the same weight:
        the blocked ones, too. Zeros are asked for: set blocked weights to 0 after the softmax, too.
        """
        return blocked(scores, allowed, "equal")

    def empty_rows_unmasked(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """A query that sees nothing gets the plain softmax.

        No NaN comes up in such a row: good. But its scores are left in, or the same number, -1e4 perhaps, is added to
        all of them, which a softmax does not notice. Its weights have to be set to 0: a query that may attend to
        nothing gets nothing.
        """
        return scores.masked_fill(~allowed & allowed.any(dim=-1, keepdim=True), -torch.inf).softmax(dim=-1)

    @spells(empty_rows_unmasked)
    @each(number=(-1e4,))
    def large_number_added(self, scores: Tensor, allowed: Tensor, number: float) -> Tensor:
        return (scores + torch.where(allowed, 0.0, number).to(scores.dtype)).softmax(dim=-1)

    def nan_swept_forward(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """The NaN is swept away, but comes back in the gradient.

        Forward, all is right: nan_to_num (or torch.where) has put 0 in place of NaN. Backward, the 0 / 0 is still
        there, and 0 times NaN is NaN. Leave the scores of such rows open, and set their weights to 0 after the
        softmax; or block with masked_fill, which passes no gradient back to what it fills, instead of adding -inf or
        multiplying by 0.
        """
        added = torch.zeros_like(scores).masked_fill(~allowed, -torch.inf)
        return (scores + added).softmax(dim=-1).nan_to_num(0.0)

    @each(how=("nan", "equal", "zeroed", "swept"))
    def mask_as_index(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        """The mask is used as an index, and an index has to be as large as the scores.

        `scores[~mask] = ...` does not broadcast: it fails where the mask has fewer axes than the scores, or an axis of
        length 1 in place of the heads. masked_fill and torch.where broadcast.
        """
        filled = scores.clone()
        filled[~allowed] = -torch.inf if how in ("nan", "swept") else torch.finfo(scores.dtype).min
        weights = filled.softmax(dim=-1)
        return weights.nan_to_num(0.0) if how == "swept" else weights * allowed if how == "zeroed" else weights

    @spells(Share.over_queries)
    @each(how=WAYS)
    def over_queries_blocked(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        return blocked(scores, allowed, how, dim=-2)

    @spells(Share.over_heads)
    @each(how=WAYS)
    def over_heads_blocked(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        return blocked(scores, allowed, how, dim=-3)

    @spells(Share.over_first_axis)
    @each(how=WAYS)
    def over_first_axis_blocked(self, scores: Tensor, allowed: Tensor, how: str) -> Tensor:
        return blocked(scores, allowed, how, dim=0)
