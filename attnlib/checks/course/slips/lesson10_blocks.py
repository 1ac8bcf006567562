"""Lesson 10: a softmax that is built up block by block, and two parts of one put together.

Each step of a loop makes the function that the loop calls; the last step runs it.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step, along_with, spells, told_as

Two = tuple[Tensor, Tensor]
Three = tuple[Tensor, Tensor, Tensor]
Of = Callable[..., Tensor]
Folded = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]


def based(highest: Tensor) -> Tensor:
    """What is subtracted: the largest score, or 0 where nothing was open yet."""
    return highest.masked_fill(highest == -torch.inf, 0.0)


class Highest(Step):
    """The largest score so far, (…), out of that before and a block (…, k)."""

    makes = ("highest_of",)

    def right(self) -> Of:
        return lambda old, block: torch.maximum(old, block.amax(dim=-1))

    def highest_of_the_block(self) -> Of:
        """m is the largest score of the last block alone.

        m should be the largest score of *all* blocks so far: torch.maximum(m, block.amax(-1)). A later block with small
        scores must not lower it: the old sums would be multiplied by a huge number, and overflow.
        """
        return lambda old, block: block.amax(dim=-1)

    def highest_of_all_rows(self) -> Of:
        """All rows share one largest score.

        Each row has its own softmax: amax(dim=-1). With one m for all, a row whose scores are far below another row's
        largest score vanishes.
        """
        return lambda old, block: torch.maximum(old, block.amax().expand(old.shape))

    def lowest_score(self) -> Of:
        """The smallest score is subtracted.

        All exponents are then positive, and large ones overflow. Subtract the largest score: amax.
        """
        return lambda old, block: torch.minimum(old.masked_fill(old == -torch.inf, torch.inf), block.amin(dim=-1))


class Base(Step):
    """What is subtracted from the scores: the largest one, but 0 where all of them are -inf."""

    makes = ("base_of",)

    def right(self) -> Of:
        return based

    def nothing_minus_nothing(self) -> Of:
        """-inf is subtracted from -inf.

        Where every score so far is -inf, m is -inf, too, and -inf - (-inf) is NaN, which stays in every sum that
        follows. Wherever you subtract m, from the scores and from the old m, subtract 0 there: exp(-inf - 0) is 0.
        """
        return lambda highest: highest


class Rescale(Step):
    """By what the old sums are multiplied: exp(old m - new m)."""

    makes = ("shrink_of",)

    def right(self) -> Of:
        return lambda old, base: (old - base).exp()

    def old_sums_not_rescaled(self) -> Of:
        """The old sums are not rescaled.

        They hold exp(s - old m). When a block brings a larger m, everything added up before is too large by a factor of
        exp(new m - old m). Multiply it by exp(old m - new m).
        """
        return lambda old, base: torch.ones_like(old)

    def rescaled_the_wrong_way(self) -> Of:
        """The old sums grow where they should shrink.

        To get from exp(s - old m) to exp(s - new m), multiply by exp(old m - new m), which is never larger than 1.
        """
        return lambda old, base: (base - old).exp().masked_fill(old == -torch.inf, 0.0)

    def rescaled_by_the_difference(self) -> Of:
        """The exp of the factor is missing.

        exp turns a difference of scores into a factor: multiply by exp(old m - new m), not by old m - new m.
        """
        return lambda old, base: (old - base).masked_fill(old == -torch.inf, 0.0)

    def infinite_factor(self) -> Of:
        """The first factor is infinite.

        Before the first block, m is -inf. exp(old m - new m) is 0 there, as it should be. The other way round, exp(new
        m - old m), or without the exp, the factor is infinite, and infinity times 0 is NaN.
        """
        return lambda old, base: (base - old).exp()

    @spells(infinite_factor)
    def infinite_difference(self) -> Of:
        return lambda old, base: old - base


class Powers(Step):
    """exp(s - m) of a block, (…, k)."""

    makes = ("powers_of",)

    def right(self) -> Of:
        return lambda block, base: (block - base[..., None]).exp()

    def highest_not_subtracted(self) -> Of:
        """The largest score is not subtracted.

        exp(s) is infinite for s = 100 in float32, and l would not belong to m. Every term should be exp(s - m).
        """
        return lambda block, base: block.exp()

    def own_highest_subtracted(self) -> Of:
        """Each block subtracts its own largest score.

        The terms of different blocks are then in different units, and must not be added. Subtract the largest score of
        all blocks so far, and rescale the old sums to match.
        """
        return lambda block, base: (block - based(block.amax(dim=-1))[..., None]).exp()


class AddUp(Step):
    """The sum of the terms so far, (…)."""

    makes = ("total_of",)

    def right(self) -> Of:
        return lambda total, shrink, new: shrink * total + new

    def sum_not_rescaled(self) -> Of:
        """The sum l is not rescaled.

        It holds terms exp(s - old m), as the output does. When m grows, both are multiplied by exp(old m - new m).
        """
        return lambda total, shrink, new: total + new

    def sum_of_the_last_block(self) -> Of:
        """The sum starts over with every block.

        What was added up before is lost. Rescale it, and add the new terms to it.
        """
        return lambda total, shrink, new: new

    def new_terms_rescaled_too(self) -> Of:
        """The new terms are rescaled as well.

        They were made with the new m already. Only the old sum is multiplied by exp(old m - new m).
        """
        return lambda total, shrink, new: shrink * (total + new)

    def new_terms_rescaled(self) -> Of:
        """The new terms are rescaled instead of the old ones.

        The new terms were made with the new m. It is the old sum that is still in the old unit.
        """
        return lambda total, shrink, new: total + shrink * new


class Fold(Step):
    """One more block: the new m and l, by what the old sums shrink, and the powers of the block."""

    makes = ("fold",)

    def right(self, highest_of: Of, base_of: Of, shrink_of: Of, powers_of: Of, total_of: Of) -> Folded:
        def fold(highest: Tensor, total: Tensor, block: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            new = highest_of(highest, block)
            base = base_of(new)
            shrink, powers = shrink_of(highest, base), powers_of(block, base)
            return new, total_of(total, shrink, powers.sum(dim=-1)), shrink, powers

        return fold

    def zero_kept_as_highest(self, highest_of: Of, base_of: Of, shrink_of: Of, powers_of: Of, total_of: Of) -> Folded:
        """The 0 that is subtracted is kept as m.

        Where every score so far is -inf, 0 is subtracted instead of m, so that no NaN comes up. But m itself stays
        -inf: a 0 would count as the largest score so far, and outdo every negative score that follows.
        """
        fold = self.right(highest_of, base_of, shrink_of, powers_of, total_of)

        def fold_with_zeros(highest: Tensor, total: Tensor, block: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            new, *others = fold(highest, total, block)
            return base_of(new), others[0], others[1], others[2]

        return fold_with_zeros


class RunBlocks(Step):
    """The loop over blocks of scores."""

    def right(self, blocks: Iterable[Tensor], fold: Folded, start: float | None = -torch.inf) -> Two:
        highest = total = torch.zeros(())
        for number, block in enumerate(blocks):
            if number == 0:
                first = torch.finfo(block.dtype).min if start is None else start
                highest, total = torch.full_like(block[..., 0], first), torch.zeros_like(block[..., 0])
            highest, total, _, _ = fold(highest, total, block)
        return highest, total

    def starts_at_zero(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """The largest score is never below 0.

        It starts at 0, or a clamp keeps it there. Where all scores are negative, 0 is larger than any of them, though
        it is not a score. Start with -inf or with the first block, and put in a 0 only where m is -inf.
        """
        return self.right(blocks, fold, start=0.0)

    def starts_at_the_lowest_number(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """The largest score starts at a finite number.

        However low it is, it is not a score. Where all keys are closed, it comes out as m, and m should be -inf there.
        Start with -inf, or with the first block.
        """
        return self.right(blocks, fold, start=None)

    @spells(starts_at_the_lowest_number)
    def starts_at_minus_a_billion(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        return self.right(blocks, fold, start=-1e9)

    def read_twice(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """The blocks are read a second time.

        An iterator gives each block once: a second loop over it finds nothing left, and l stays 0. Update m and l in
        the same loop, and rescale l whenever m grows.
        """
        highest, total = self.right(blocks, fold)
        return highest, torch.zeros_like(total)

    def first_block_alone(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """Only the first block is read.

        Perhaps the `return` is indented too far, so that it is inside the loop.
        """
        return self.right([next(iter(blocks))], fold)

    def first_block_missing(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """The first block is missing from the sum.

        An iterator gives each block once. If you call `next(blocks)` only to look at the shape, the first block is gone
        from the loop; add its terms, too.
        """
        first, *others = blocks
        found = self.right(others or [first], fold)
        return torch.maximum(found[0], first.amax(dim=-1)), found[1]

    @spells(first_block_missing)
    def first_block_never_seen(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        first, *others = blocks
        return self.right(others or [torch.full_like(first, -torch.inf)], fold)

    def joined_first(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """All blocks are held at once.

        The numbers are right. But the whole row is in memory at once, which is exactly what blocks should avoid: take
        one block, update m and l, and let it go.
        """
        return self.right([torch.cat([*blocks], dim=-1)], fold)

    @along_with("nothing_minus_nothing")
    def nan_replaced_at_the_end(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """NaN is replaced at the end, when it is too late.

        Once -inf - (-inf) has made a NaN, every later sum of that row is NaN, and whatever its open keys contributed is
        lost: 0 is just as wrong. Keep it from coming up: where m is -inf, subtract 0 instead.
        """
        highest, total = self.right(blocks, fold)
        return highest, total.nan_to_num()

    def logarithm_returned(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """The logarithm of the sum is returned.

        The contract asks for l itself. The log-sum-exp is m + ln l; you will need it for the backward pass, not here.
        """
        highest, total = self.right(blocks, fold)
        return highest, total.log()

    def log_sum_exp_returned(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """The log-sum-exp is returned instead of the sum.

        The backward pass will need m + ln l. Here the contract asks for l, the sum of exp(s - m).
        """
        highest, total = self.right(blocks, fold)
        return highest, highest + total.log()

    def sum_first(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """The sum comes before the largest score.

        The result is a pair: the largest score m first, then the sum l.
        """
        highest, total = self.right(blocks, fold)
        return total, highest

    def axis_kept(self, blocks: Iterable[Tensor], fold: Folded) -> Two:
        """An axis of length 1 is left over.

        m and l have one number for each row, (…). Drop `keepdim=True`, or remove the axis at the end with
        `squeeze(-1)`.
        """
        highest, total = self.right(blocks, fold)
        return highest[..., None], total[..., None]


class MixIn(Step):
    """The weighted values so far, (…, d)."""

    makes = ("output_of",)

    def right(self) -> Of:
        return lambda output, shrink, new: shrink[..., None] * output + new

    def output_not_rescaled(self) -> Of:
        """The output is not rescaled.

        It is a sum of exp(s - old m) · v, in the same unit as l. When m grows, both are multiplied by
        exp(old m - new m).
        """
        return lambda output, shrink, new: output + new

    def output_of_the_last_block(self) -> Of:
        """The output starts over with every block.

        What the earlier blocks contributed is lost. Rescale it, and add the new part to it.
        """
        return lambda output, shrink, new: new


class RunRow(Step):
    """The loop over a row that is there already, with its values."""

    makes = ("output", "total")

    def right(
        self,
        scores: Tensor,
        v: Tensor,
        block_size: int,
        fold: Folded,
        output_of: Of,
        starts: Iterable[int] | None = None,
        first: float = -torch.inf,
    ) -> Two:
        highest = torch.full_like(scores[..., 0], first)
        total, output = torch.zeros_like(highest), torch.zeros_like(v[..., 0, :])
        for start in range(0, scores.shape[-1], block_size) if starts is None else starts:
            block, values = scores[..., start : start + block_size], v[..., start : start + block_size, :]
            highest, total, shrink, powers = fold(highest, total, block)
            output = output_of(output, shrink, (powers[..., None] * values).sum(dim=-2))
        return output, total

    def remainder_left_out(self, scores: Tensor, v: Tensor, block_size: int, fold: Folded, output_of: Of) -> Two:
        """The keys after the last whole block are left out.

        block_size need not divide the number of keys. The last block may be shorter; a slice that goes too far is cut
        off without an error.
        """
        whole = max(1, scores.shape[-1] // block_size)
        starts = [block_size * number for number in range(whole)]
        return self.right(scores, v, block_size, fold, output_of, starts)

    @told_as(RunBlocks.starts_at_zero)
    def starts_at_zero(self, scores: Tensor, v: Tensor, block_size: int, fold: Folded, output_of: Of) -> Two:
        return self.right(scores, v, block_size, fold, output_of, first=0.0)


class Divide(Step):
    """The output, divided by the sum at the very end."""

    def right(self, output: Tensor, total: Tensor) -> Tensor:
        return output / total[..., None]

    def not_divided(self, output: Tensor) -> Tensor:
        """The output is not divided by the sum.

        The weights exp(s - m) add up to l. Divide by it, once, at the end.
        """
        return output

    @along_with("nothing_minus_nothing")
    @told_as(RunBlocks.nan_replaced_at_the_end)
    def nan_replaced_at_the_end(self, output: Tensor, total: Tensor) -> Tensor:
        return self.right(output, total).nan_to_num()


class Higher(Step):
    """The larger one of the two largest scores."""

    makes = ("m",)

    def right(self, m1: Tensor, m2: Tensor) -> Tensor:
        return torch.maximum(m1, m2)

    def highest_of_the_first(self, m1: Tensor) -> Tensor:
        """m is taken from the first part.

        The second part may have the larger score, and then exp(m2 - m1) overflows. Take the maximum of the two.
        """
        return m1

    def highest_of_the_second(self, m2: Tensor) -> Tensor:
        """m is taken from the second part.

        The first part may have the larger score, and then exp(m1 - m2) overflows. Take the maximum of the two.
        """
        return m2

    def lower_of_the_two(self, m1: Tensor, m2: Tensor) -> Tensor:
        """m is the smaller of the two.

        The factors exp(m1 - m) and exp(m2 - m) must never be larger than 1, or they overflow: subtract the larger of
        the two.
        """
        return torch.minimum(m1, m2)

    def lowest_number_for_nothing(self, m1: Tensor, m2: Tensor) -> Tensor:
        """Where both parts are empty, m is a finite number.

        However low it is, it is not a score. An empty part has m = -inf; subtract something else where that would make
        NaN, but return m as it is.
        """
        return torch.maximum(m1, m2).clamp_min(torch.finfo(m1.dtype).min)

    def highest_added(self, m1: Tensor, m2: Tensor) -> Tensor:
        """The largest scores are added up.

        m is the largest of all scores, and that is in one of the two parts: torch.maximum(m1, m2).
        """
        return m1 + m2

    def highest_as_logaddexp(self, m1: Tensor, m2: Tensor) -> Tensor:
        """m is the log-sum-exp of the two.

        torch.logaddexp joins two log-sum-exps. Here m is the largest score, and the sums are kept separately, in l.
        """
        return torch.logaddexp(m1, m2)


class Factors(Step):
    """By what each of the two parts is multiplied."""

    makes = ("first", "second")

    def right(self, m1: Tensor, m2: Tensor, m: Tensor) -> Two:
        return (m1 - based(m)).exp(), (m2 - based(m)).exp()

    def merged_as_they_are(self, m1: Tensor, m2: Tensor) -> Two:
        """The parts are added without being rescaled.

        o1 and l1 are sums of exp(s - m1), o2 and l2 of exp(s - m2). Before adding them, bring both to the common m with
        exp(m1 - m) and exp(m2 - m).
        """
        return torch.ones_like(m1), torch.ones_like(m2)

    def factors_exchanged(self, m1: Tensor, m2: Tensor, m: Tensor) -> Two:
        """The factors are exchanged.

        Part 1 is multiplied by exp(m1 - m), part 2 by exp(m2 - m).
        """
        first, second = self.right(m1, m2, m)
        return second, first

    def factors_inverted(self, m1: Tensor, m2: Tensor, m: Tensor) -> Two:
        """The factors are upside down.

        To get from exp(s - m1) to exp(s - m), multiply by exp(m1 - m), which is never larger than 1; exp(m - m1)
        enlarges the part that should shrink.
        """
        return (m - m1).exp(), (m - m2).exp()

    def nothing_minus_nothing(self, m1: Tensor, m2: Tensor, m: Tensor) -> Two:
        """-inf is subtracted from -inf.

        Where both parts are empty, m is -inf, and -inf - (-inf) is NaN. Subtract 0 instead of m there: the factor
        exp(-inf - 0) is 0, and empty plus empty is empty.
        """
        return (m1 - m).exp(), (m2 - m).exp()

    def second_part_as_it_is(self, m1: Tensor, m2: Tensor, m: Tensor) -> Two:
        """The second part is not rescaled.

        In a loop the new block was made with the new m. Here each part has its own m, and either may be the smaller
        one.
        """
        return self.right(m1, m2, m)[0], torch.ones_like(m2)


class MergeSums(Step):
    """The common sum."""

    makes = ("total",)

    def right(self, l1: Tensor, l2: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return first * l1 + second * l2

    def sums_as_they_are(self, l1: Tensor, l2: Tensor) -> Tensor:
        """The sums l are not rescaled.

        They are in the same units as the outputs: l1 times exp(m1 - m), l2 times exp(m2 - m).
        """
        return l1 + l2


class MergeOutputs(Step):
    """The common output, not divided."""

    makes = ("output",)

    def right(self, o1: Tensor, o2: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return first[..., None] * o1 + second[..., None] * o2

    def outputs_as_they_are(self, o1: Tensor, o2: Tensor) -> Tensor:
        """The outputs are not rescaled.

        They are in the same units as the sums: o1 times exp(m1 - m), o2 times exp(m2 - m).
        """
        return o1 + o2

    def outputs_weighted_by_sums(
        self, o1: Tensor, o2: Tensor, l1: Tensor, l2: Tensor, first: Tensor, second: Tensor
    ) -> Tensor:
        """The outputs are multiplied by their sums.

        That would be right for outputs already divided by their sums. These were not: they already are sums of exp(s -
        m1) · v.
        """
        return (first * l1)[..., None] * o1 + (second * l2)[..., None] * o2

    def divided_already(self, o1: Tensor, o2: Tensor, first: Tensor, second: Tensor, total: Tensor) -> Tensor:
        """The output is divided by the sum.

        `merge` takes parts that are not divided, so what it returns must not be, either, or it could not be merged
        again. Divide once, when all the parts are together.
        """
        merged = self.right(o1, o2, first, second)
        return merged / total.masked_fill(total == 0, 1.0)[..., None]

    @spells(divided_already)
    def divided_by_nothing(self, o1: Tensor, o2: Tensor, first: Tensor, second: Tensor, total: Tensor) -> Tensor:
        return self.right(o1, o2, first, second) / total[..., None]


class MergedInOrder(Step):
    """Output, largest score, sum."""

    def right(self, output: Tensor, m: Tensor, total: Tensor) -> Three:
        return output, m, total

    def sum_before_highest(self, output: Tensor, m: Tensor, total: Tensor) -> Three:
        """The sum comes before the largest score.

        The result is in the order of the arguments: o, m, l.
        """
        return output, total, m

    def zero_returned_as_highest(self, output: Tensor, m: Tensor, total: Tensor) -> Three:
        """The 0 that is subtracted is returned as m.

        Where both parts are empty, 0 is subtracted instead of m, so that no NaN comes up. But m itself stays -inf: a 0
        would count as a score when the next part is merged.
        """
        return output, based(m), total
