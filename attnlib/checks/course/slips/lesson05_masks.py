"""Lesson 05: the two masks alone, softmax first and then a triangle, and the softmax that is masked rightly."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.course.slips.attention import Share
from attnlib.checks.course.slips.masks import Align, MaskedShare, MaskForm, PastOfMore, blocked
from attnlib.checks.course.steps import Step, along_with, each, spells


class CausalAlign(Align):
    """There may be fewer keys than queries, too."""

    def shifted_the_other_way(self, q_len: int, k_len: int) -> int:
        """The diagonal is shifted the wrong way.

        The shift has the right size and the wrong sign. `tril(diagonal=s)` with s > 0 opens *more* keys. With
        k_len - q_len older keys, every query sees that many more.
        """
        return q_len - k_len

    def never_shifted_back(self, q_len: int, k_len: int) -> int:
        """The diagonal is not shifted where there are fewer keys.

        With more queries than keys, k_len - q_len is negative, and that is right: the last query is at the last key,
        and the first queries see nothing. Do not clip the shift at 0.
        """
        return max(0, k_len - q_len)

    def shifted_without_sign(self, q_len: int, k_len: int) -> int:
        """The shift has lost its sign.

        With more queries than keys, k_len - q_len is negative, and that is right: the first queries see nothing. abs()
        opens keys instead.
        """
        return abs(k_len - q_len)


class CausalMask(PastOfMore):
    """Here the triangle is the answer."""

    makes = ("mask",)

    def slice_from_behind(self, q_len: int, k_len: int, shift: int) -> Tensor:
        """A slice with a negative end counts from behind.

        With more queries than keys, k_len - q_len + i + 1 is below 0 for the first queries, and `[:-2]` is all but the
        last two. Those queries see nothing: clip at 0 with max(0, ...), or compare positions.
        """
        mask = torch.zeros(q_len, k_len, dtype=torch.bool)
        for i in range(q_len):
            mask[i, : shift + i + 1] = True
        return mask

    def reversed(self, q_len: int, k_len: int, shift: int) -> Tensor:
        """The triangle leans the other way.

        The rows, or the columns, are in reverse order. Key 0 is the oldest and on the left, and query 0, at the top,
        has the shortest past: each row has as many open keys as the one above, and one more.
        """
        return self.right(q_len, k_len, shift).flip(0)

    @spells(reversed)
    def keys_reversed(self, q_len: int, k_len: int, shift: int) -> Tensor:
        return self.right(q_len, k_len, shift).flip(1)

    def itself_only(self, q_len: int, k_len: int, shift: int) -> Tensor:
        """Only the diagonal is open.

        Each query sees its own key and no other. With == in place of >= the past is lost, too.
        """
        return self.right(q_len, k_len, shift) & ~self.strict(q_len, k_len, shift)

    def all_blocked(self, q_len: int, k_len: int) -> Tensor:
        """Nothing is allowed.

        Every entry is False, so no query sees any key. In this course True means: may attend.
        """
        return torch.zeros(q_len, k_len, dtype=torch.bool)

    @spells(MaskForm.exchanged)
    def sizes_exchanged(self, q_len: int, k_len: int, shift: int) -> Tensor:
        return self.right(k_len, q_len, -shift)

    def one_dimensional(self, q_len: int, k_len: int) -> Tensor:
        """A row of answers, not a table.

        Two vectors are compared entry by entry. To compare every query with every key, make one of them a column:
        (q, 1) against (k), positions[:, None].
        """
        return torch.arange(q_len) >= torch.arange(k_len)


class PositionsAndLengths(Step):
    """What is compared: a row of positions, and a column of lengths."""

    makes = ("position", "length")

    def right(self, lengths: Tensor, max_len: int) -> tuple[Tensor, Tensor]:
        return torch.arange(max_len, device=lengths.device)[None], lengths[:, None]

    def first_length_for_all(self, lengths: Tensor, max_len: int) -> tuple[Tensor, Tensor]:
        """All sentences get the first one's length.

        With a batch of one nobody notices. Each row has its own length: give `lengths` a second axis
        (`lengths[:, None]`), so that it broadcasts down the rows.
        """
        return self.right(lengths[:1].expand(len(lengths)), max_len)

    def longest_instead_of_max_len(self, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The mask is only as wide as the longest sentence.

        The mask has lengths.max() columns. The batch may be padded further than its longest sentence needs; max_len
        says how far.
        """
        return self.right(lengths, int(lengths.max()))

    def no_column(self, lengths: Tensor, max_len: int) -> tuple[Tensor, Tensor]:
        """The lengths are lined up with the positions.

        (k) against (b) is compared entry by entry, or fails, and `expand` cannot fix that. The lengths have to be a
        column, lengths[:, None], so that each sentence gets a row of its own.
        """
        return torch.arange(max_len, device=lengths.device), lengths

    def empty_sentence_opened(self, lengths: Tensor, max_len: int) -> tuple[Tensor, Tensor]:
        """An empty sentence gets a real key.

        A length of 0 was taken for 1. All keys of an empty sentence are padding: its row is False throughout.
        """
        return self.right(lengths.clamp(min=1), max_len)


class RealPositions(Step):
    """Which positions are real: the first `length` of each sentence."""

    makes = ("mask",)

    def right(self, position: Tensor, length: Tensor) -> Tensor:
        return position < length

    def upside_down(self, position: Tensor, length: Tensor) -> Tensor:
        """True marks the padding.

        You mark what is *not* there. That is the convention of nn.MultiheadAttention's key_padding_mask; here True =
        may attend, so a real key is True.
        """
        return position >= length

    def one_pad_too_many(self, position: Tensor, length: Tensor) -> Tensor:
        """One padding token counts as real.

        <= where < was needed. Positions start at 0, so a sentence of length 3 fills the positions 0, 1 and 2; position
        3 is padding.
        """
        return position <= length

    def padding_without_its_first(self, position: Tensor, length: Tensor) -> Tensor:
        """True marks the padding, but for its first token.

        True = a real key: what you mark is not there. And > leaves out position `length`, the first of the padding. A
        position is real if it is < the length.
        """
        return position > length

    def last_word_lost(self, position: Tensor, length: Tensor) -> Tensor:
        """The last word of every sentence is blocked.

        A sentence of length 3 fills the positions 0, 1 and 2, and 2 < 3. You stop one position too early.
        """
        return position < length - 1

    def first_word_lost(self, position: Tensor, length: Tensor) -> Tensor:
        """The first word of every sentence is blocked.

        Positions start at 0, not at 1. Compare torch.arange(max_len), which starts at 0, with the lengths.
        """
        return (position > 0) & (position < length)

    def padded_on_the_left(self, position: Tensor, length: Tensor, max_len: int) -> Tensor:
        """The padding is taken to be on the left.

        You mark the *last* tokens as real, or all but the last. Batches are padded on the left for generation, but this
        contract says that the first `lengths[b]` keys are real, and True marks them.
        """
        return position >= max_len - length

    @spells(padded_on_the_left)
    def left_upside_down(self, position: Tensor, length: Tensor, max_len: int) -> Tensor:
        return position < max_len - length

    @spells(padded_on_the_left)
    def left_one_word_lost(self, position: Tensor, length: Tensor, max_len: int) -> Tensor:
        return position > max_len - length

    def one_position_only(self, position: Tensor, length: Tensor) -> Tensor:
        """Only one position is True.

        == where < was needed: you mark the last word, or the position behind it, not all words up to there.
        """
        return position == length - 1

    @spells(one_position_only)
    def length_marked(self, position: Tensor, length: Tensor) -> Tensor:
        return position == length

    def minus_zero(self, lengths: Tensor, max_len: int) -> Tensor:
        """A sentence without padding is blocked entirely.

        `mask[i, -pads:] = False` blocks the last `pads` positions, except for pads = 0: -0 is 0, and `[0:]` is
        everything. Block from the front, `mask[i, length:] = False`, or compare positions with lengths.
        """
        mask = torch.ones(len(lengths), max_len, dtype=torch.bool, device=lengths.device)
        for row, length in zip(mask, lengths, strict=True):
            row[-(max_len - length) :] = False
        return mask

    @spells(PositionsAndLengths.no_column)
    @along_with("no_column")
    def no_column_expanded(self, position: Tensor, length: Tensor, lengths: Tensor, max_len: int) -> Tensor:
        return (position < length).expand(len(lengths), max_len)

    def all_real(self, lengths: Tensor, max_len: int) -> Tensor:
        """Nothing is marked as padding.

        Every entry is True. Only the first `lengths[i]` keys of row i are real.
        """
        return torch.ones(len(lengths), max_len, dtype=torch.bool, device=lengths.device)

    def pairs(self, position: Tensor, length: Tensor) -> Tensor:
        """A table of pairs for each sentence.

        Yours is (b, k, k), True where both words are real. The contract wants one row for each sentence, (b, k): all
        its queries are kept from the same keys.
        """
        real = position < length
        return real[:, :, None] & real[:, None]


class ScoreSizes(Step):
    """How many queries and keys the scores have."""

    makes = ("q_len", "k_len", "device")

    def right(self, scores: Tensor) -> tuple[int, int, torch.device]:
        return scores.shape[-2], scores.shape[-1], scores.device

    @each(axes=(2, 3, 4))
    def sizes_unpacked(self, scores: Tensor, axes: int) -> tuple[int, int, torch.device]:
        """It works for one number of axes only.

        `q, k = scores.shape`, or with b and h in front, fails for any other number of axes. Take what you need from the
        end: q, k = scores.shape[-2:].
        """
        if axes == 2:
            q_len, k_len = scores.shape
        elif axes == 3:
            _b, q_len, k_len = scores.shape
        else:
            _b, _h, q_len, k_len = scores.shape
        return q_len, k_len, scores.device


class FirstShare(Share):
    """Here the rows of the softmax are cut and divided again."""

    def over_queries(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The first softmax runs down the columns.

        softmax over dim=-2 compares queries with one another. Each query shares its attention among the keys: dim=-1.
        """
        return super().over_queries(scores, allowed)


class Keep(Step):
    """What is left of the weights: the lower triangle."""

    makes = ("kept",)

    def right(self, weights: Tensor, past: Tensor) -> Tensor:
        return weights * past

    def triangle_of_scores(self, scores: Tensor, past: Tensor) -> Tensor:
        """The triangle is taken of the scores.

        A score of 0 is not a weight of 0: e⁰ is 1, so the blocked keys still get their share. Take the softmax first
        and the triangle of the *weights*.
        """
        return (scores * past).softmax(dim=-1)

    def weights_overwritten(self, weights: Tensor, past: Tensor) -> Tensor:
        """The softmax's result is overwritten in place.

        The numbers are right. But the gradient of the softmax is computed from its own output, and `tril_`, `*=` or an
        assignment has written into that. Make a new tensor: tril, *, masked_fill.
        """
        return weights.masked_fill_(~past, 0.0)


class Divide(Step):
    """Every row, divided by what is left of its sum."""

    def right(self, kept: Tensor) -> Tensor:
        return kept / kept.sum(dim=-1, keepdim=True)

    def not_renormalised(self, kept: Tensor) -> Tensor:
        """The rows are not divided again.

        What was above the diagonal is gone, but its share was not given to the others: the rows no longer add up to 1.
        And what is left still depends on the future, which was in the denominator of the softmax.
        """
        return kept

    def second_softmax(self, kept: Tensor) -> Tensor:
        """A second softmax in place of the division.

        A softmax of what is left exponentiates the weights: they come out nearly even, and a zero gets e⁰ = 1. The rows
        only have to be divided by their sum.
        """
        return kept.softmax(dim=-1)

    @spells(second_softmax)
    def second_softmax_of_open(self, kept: Tensor, past: Tensor) -> Tensor:
        return kept.masked_fill(~past, -torch.inf).softmax(dim=-1)

    @spells(second_softmax)
    def second_softmax_zeroed(self, kept: Tensor, past: Tensor) -> Tensor:
        return kept.softmax(dim=-1) * past

    def divided_by_norm(self, kept: Tensor) -> Tensor:
        """Divided by the length, not by the sum.

        `norm`, and F.normalize unless you pass p=1, take the root of the sum of squares. A row is to *add up* to 1:
        divide by its sum.
        """
        return F.normalize(kept, dim=-1)

    def columns_renormalised(self, kept: Tensor) -> Tensor:
        """The columns are divided, not the rows.

        Your columns add up to 1. A row belongs to a query, and each query shares out 1: sum over the last axis, dim=-1.
        """
        return kept / kept.sum(dim=-2, keepdim=True)

    def one_sum_for_all(self, kept: Tensor) -> Tensor:
        """One sum for the whole matrix.

        All rows are divided by the same number. Each row has lost another share, so each has its own sum: dim=-1,
        keepdim=True.
        """
        return kept / kept.sum(dim=(-2, -1), keepdim=True)

    @spells(one_sum_for_all)
    def divided_by_total(self, kept: Tensor) -> Tensor:
        return kept / kept.sum()

    def without_keepdim(self, kept: Tensor) -> Tensor:
        """The sums have lost their axis.

        Without keepdim=True the sums of a (q, k) matrix are (q), which broadcasting lines up with the *keys*: an error,
        or, with as many queries as keys, each column divided by another row's sum.
        """
        return kept / kept.sum(dim=-1)

    def divisor_detached(self, kept: Tensor) -> Tensor:
        """The sums are cut from the gradient.

        The numbers are right. But the sum of what is left depends on the scores, too: do not detach it.
        """
        return kept / kept.sum(dim=-1, keepdim=True).detach()

    @each(guard=(1e-9, 1e-8, 1e-6))
    def small_number_added(self, kept: Tensor, guard: float) -> Tensor:
        """A small number is added to the sums.

        Adding 1e-9 or so to avoid a division by zero makes every row add up to a little less than 1. Each query of a
        causal mask sees at least one key, so no sum is 0, and there is nothing to guard against.
        """
        return kept / (kept.sum(dim=-1, keepdim=True) + guard)

    def divided_by_count(self, kept: Tensor, past: Tensor) -> Tensor:
        """Divided by the number of open keys.

        A row is to be divided by the *sum* of what is left in it, not by how many entries are left.
        """
        return kept / past.sum(dim=-1, keepdim=True)

    def divided_by_largest(self, kept: Tensor) -> Tensor:
        """Divided by the largest weight.

        The largest entry of each row is 1 now. The *sum* of each row has to be.
        """
        return kept / kept.amax(dim=-1, keepdim=True)


class OpenKeys(Step):
    """What is open: wherever the mask is True."""

    makes = ("allowed",)

    def right(self, mask: Tensor) -> Tensor:
        return mask

    def upside_down(self, mask: Tensor) -> Tensor:
        """The mask is taken the other way round.

        You block what is True. Here True = may attend, so the fill goes where the mask is False: `~mask`.
        """
        return ~mask

    def mask_ignored(self, mask: Tensor) -> Tensor:
        """The mask has no effect.

        These are the weights of the plain softmax. `masked_fill` returns a new tensor and leaves the old one as it is:
        use what it returns.
        """
        return torch.ones_like(mask)


NUMBERS = (-1e9, -1e20, -1e4)
"""What is filled in, or added, in place of -inf."""


class MaskedSoftmax(MaskedShare):
    """Here the softmax is written by hand, and scores may be as large as they like."""

    @each(fill=NUMBERS)
    def large_number_filled(self, scores: Tensor, allowed: Tensor, fill: float) -> Tensor:
        """A large negative number in place of -inf.

        A row without any True is that number throughout, and the softmax of equal numbers is 1/k for all: the query
        attends to what it must not see. And lower scores are legal, even below -10³⁰; next to them, your number wins
        the softmax. Use -inf, and handle empty rows separately.
        """
        return scores.masked_fill(~allowed, fill).softmax(dim=-1)

    @each(fill=NUMBERS, rows=(False, True))
    def fill_not_low_enough(self, scores: Tensor, allowed: Tensor, fill: float, rows: bool) -> Tensor:
        """The fill is not low enough for all scores.

        You handle rows without any True correctly. But open scores may lie below the number that you fill in, even
        below -10³⁰, and then the blocked keys win the softmax. -inf is lower than any score.
        """
        weights = scores.masked_fill(~allowed, fill).softmax(dim=-1)
        return weights * (allowed.any(dim=-1, keepdim=True) if rows else allowed)

    @each(number=NUMBERS)
    def large_number_added(self, scores: Tensor, allowed: Tensor, number: float) -> Tensor:
        """A large negative number is added to blocked scores.

        Adding keeps the differences *among* the blocked keys, or makes them all equal, so a row without any True gets
        weights where zeros are asked for. And a blocked score may be so far above the others, or open ones so low, that
        your number is not low enough. Use -inf, and handle empty rows separately.
        """
        return (scores + torch.where(allowed, 0.0, number).to(scores.dtype)).softmax(dim=-1)

    @each(number=NUMBERS)
    def large_number_added_zeroed(self, scores: Tensor, allowed: Tensor, number: float) -> Tensor:
        """The number added to blocked scores is not low enough.

        You handle rows without any True correctly. But adding keeps a blocked score that is far above the others too
        high, and open ones may lie lower than your number. -inf is lower than any score.
        """
        return self.large_number_added(scores, allowed, number) * allowed

    def sum_lost_in_logsumexp(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """The sum is lost in a logsumexp.

        Near -10¹², the numbers of float32 are 65536 apart. A logsumexp there is the largest score, and the ln of the
        sum that should be added to it is rounded away. Subtract each row's largest score, and divide by the sum.
        """
        empty = ~allowed.any(dim=-1, keepdim=True)
        filled = scores.masked_fill(~(allowed | empty), -torch.inf)
        return (filled - filled.logsumexp(dim=-1, keepdim=True)).exp().masked_fill(empty, 0.0)

    def multiplied_by_fill(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """An additive mask is multiplied.

        The scores are multiplied by a large negative number where they are blocked. A negative score times a negative
        number is a huge positive one, so exactly the wrong keys win. A mask of that kind is *added*.
        """
        return (scores * torch.where(allowed, 1.0, -1e9).to(scores.dtype)).softmax(dim=-1)

    def infinity_times_zero(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """0 times infinity is NaN.

        (1 - mask) * -inf is meant to be 0 for open keys, but 0 · ∞ is not defined. Fill with masked_fill or
        torch.where, which touch the blocked entries alone.
        """
        return (scores + (1 - allowed.to(scores.dtype)) * -torch.inf).softmax(dim=-1)

    def asked_once_for_all(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """One `any` is taken over all rows at once.

        mask.any() without an axis is one answer for the whole tensor. A single empty row among others still becomes
        NaN. Ask each row: mask.any(dim=-1, keepdim=True).
        """
        return blocked(scores, allowed, "nan") if allowed.any() else scores * 0

    def empty_columns(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Empty columns are looked for, not empty rows.

        mask.any(dim=-2) says of each key whether any query may see it. A query sees nothing where its *row* has no
        True: mask.any(dim=-1, keepdim=True).
        """
        allowed = allowed.expand(scores.shape)
        filled = scores.masked_fill(~allowed, -torch.inf).masked_fill(~allowed.any(dim=-2, keepdim=True), 0.0)
        return filled.softmax(dim=-1).masked_fill(~allowed, 0.0)

    def all_open_together(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """One softmax for all open entries.

        scores[mask] is one long list of all open entries, of every row. Together they add up to 1; each *row* has to.
        Keep the shape, and fill the blocked entries instead.
        """
        open_keys = allowed.expand(scores.shape)
        return torch.zeros_like(scores).masked_scatter(open_keys, scores[open_keys].softmax(dim=0))

    @spells(Share.softmax_twice)
    def softmax_twice_unmasked(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return self.right(scores, allowed).softmax(dim=-1)

    @spells(Share.over_queries)
    @each(empty=(None, 0.0))
    def over_queries_empty_rows_apart(self, scores: Tensor, allowed: Tensor, empty: float | None) -> Tensor:
        nothing = ~allowed.any(dim=-1, keepdim=True)
        filled = scores.masked_fill(~(allowed | nothing), -torch.inf)
        filled = filled if empty is None else filled.masked_fill(nothing, empty)
        return filled.softmax(dim=-2).masked_fill(~allowed, 0.0)

    @spells(Share.over_axis_one)
    def over_axis_one_equal(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return blocked(scores, allowed, "equal", dim=1)

    def weights_overwritten(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """The softmax's result is overwritten in place.

        The numbers are right. But the gradient of the softmax is computed from its own output, and you have written
        into that (`weights[...] = 0`, or an operation with a trailing underscore). Make a new tensor: masked_fill,
        torch.where.
        """
        weights = blocked(scores, allowed, "nan")
        weights[weights.isnan()] = 0
        return weights

    def kept_and_divided(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Softmax, mask, divide: 0 / 0 in some rows.

        Dividing the rows again is right on paper. But a row without any True adds up to 0, and 0 / 0 is NaN; and where
        a blocked score is far the largest, the softmax has rounded the others to 0 before you keep them. Block first.
        """
        kept = scores.softmax(dim=-1) * allowed
        return kept / kept.sum(dim=-1, keepdim=True)

    @each(guard=(1e-9, 1e-8, 1e-6, 1e-5))
    def small_number_added(self, scores: Tensor, allowed: Tensor, guard: float) -> Tensor:
        """A small number is added to the denominator.

        It saves a row without any True from 0 / 0, and distorts all other rows a little: they add up to less than 1.
        Divide those rows by 1 instead, and leave the others alone. (Keep what is open before exp, not after it: where a
        blocked score is far the largest, the softmax has rounded the others to 0.)
        """
        kept = _exp_of_open(scores, allowed)
        return kept / (kept.sum(dim=-1, keepdim=True) + guard)

    @spells(small_number_added)
    @each(guard=(1e-9, 1e-8, 1e-6))
    def kept_and_small_number(self, scores: Tensor, allowed: Tensor, guard: float) -> Tensor:
        kept = scores.softmax(dim=-1) * allowed
        return kept / (kept.sum(dim=-1, keepdim=True) + guard)

    @each(times=(True, False), guarded=("positive", "zero", "by a small number", ""))
    def no_shift(self, scores: Tensor, allowed: Tensor, times: bool, guarded: str) -> Tensor:
        """The exponential overflows.

        exp(1e4) is larger than any float, and exp(-1e4) smaller than any. Subtract the largest *open* score of each row
        first, or let torch.softmax do it. (A row without any True adds up to 0. Divide it by 1 instead; a small number
        in every denominator would bend the other rows, too.)
        """
        kept = scores.exp() * allowed if times else scores.exp().masked_fill(~allowed, 0.0)
        total = kept.sum(dim=-1, keepdim=True)
        if guarded == "by a small number":
            total = total + 1e-9
        elif guarded:
            total = torch.where(total > 0 if guarded == "positive" else total != 0, total, 1.0)
        return kept / total

    def largest_of_all_subtracted(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Blocked keys take part until after exp.

        You handle rows without any True correctly. But the largest score of a row is taken over blocked keys, too
        (torch.softmax does the same). Where a blocked score is far above the open ones, exp has made those 0 before you
        keep them, and the row is lost. Block first, then take the softmax.
        """
        return _divided((scores - scores.amax(dim=-1, keepdim=True)).exp() * allowed)

    def one_maximum_for_all(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """One maximum for the whole tensor.

        You handle rows without any True correctly. But the largest score of *all* rows is subtracted. In a row far
        below it every exp is 0, and the row is lost. Each row needs the maximum of its own open scores: amax(dim=-1,
        keepdim=True).
        """
        lowest = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        return _divided((lowest - lowest.amax()).exp() * allowed)

    @spells(one_maximum_for_all)
    def largest_of_everything_subtracted(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return _divided((scores - scores.amax()).exp() * allowed)

    def not_divided(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Not divided by the sum.

        The blocked entries are 0 and the others positive, but the rows do not add up to 1.
        """
        return _exp_of_open(scores, allowed)

    @spells(not_divided)
    def exp_times_mask_alone(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.exp() * allowed


def _exp_of_open(scores: Tensor, allowed: Tensor) -> Tensor:
    """The exponentials of what is open, the largest of each row subtracted before."""
    lowest = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return (lowest - lowest.amax(dim=-1, keepdim=True)).exp() * allowed


def _divided(kept: Tensor) -> Tensor:
    total = kept.sum(dim=-1, keepdim=True)
    return kept / torch.where(total > 0, total, 1.0)
