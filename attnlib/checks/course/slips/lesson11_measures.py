"""Lesson 11: scores of attention weights, (b, h, n, n) -> (h,), the entropy of a row, and the score of a circuit."""

import math

import torch
from torch import Tensor, nn

from attnlib.checks.course.steps import Step, along_with, each, spells, told_as


def _stripe(table: Tensor, offset: int) -> Tensor:
    """The entries of the last two axes whose column is their row plus `offset`."""
    return table.diagonal(offset, dim1=-2, dim2=-1)


class ReadWeights(Step):
    """The weights as they are: rows are queries, columns are keys."""

    makes = ("read",)

    def right(self, weights: Tensor) -> Tensor:
        return weights

    def transposed(self, weights: Tensor) -> Tensor:
        """Queries and keys are swapped.

        `weights[:, :, i, j]` is what query i gives to key j: rows are queries, and columns are keys. Your code reads
        the entry on the other side of the diagonal, which in a causal model belongs to the future and is always 0. The
        query's index comes first.
        """
        return weights.mT

    def counted_not_weighed(self, weights: Tensor) -> Tensor:
        """It counts how often that key gets the largest weight.

        With argmax, a head that gives the key 0.4 counts as much as one that gives it 1. The score is the mean of the
        weights themselves.
        """
        return nn.functional.one_hot(weights.argmax(dim=-1), weights.shape[-1]).to(weights.dtype)

    def softmax_again(self, weights: Tensor) -> Tensor:
        """The weights go through a second softmax.

        They have come out of a softmax: every row adds up to 1. A second one brings all of them close to one over the
        number of keys, so that sharp and flat heads look alike. Use the weights as they are.
        """
        return weights.softmax(dim=-1)


class PickPrevious(Step):
    """Of each query from 1 on, the weight on key i - 1: (b, h, n - 1)."""

    makes = ("picked",)

    def right(self, read: Tensor) -> Tensor:
        return _stripe(read, -1)

    def own_token(self, read: Tensor) -> Tensor:
        """The weight on the token itself.

        On the main diagonal, query i looks at key i. The token before it is key i - 1, one step below the diagonal:
        offset -1.
        """
        return _stripe(read, 0)

    @spells(own_token)
    def own_token_from_query_1(self, read: Tensor) -> Tensor:
        return _stripe(read, 0)[..., 1:]

    def two_tokens_back(self, read: Tensor) -> Tensor:
        """One token too far back.

        Your code reads the weight on key i - 2. The previous token is key i - 1.
        """
        return _stripe(read, -2)

    def wraps_around(self, read: Tensor) -> Tensor:
        """Query 0 is paired with the last key.

        For i = 0 the index i - 1 is -1, and to Python that is the last key of the row (`roll` does the same). Nothing
        comes before the first token, so begin with query 1.
        """
        return _stripe(read.roll(1, dims=-1), 0)

    def query_1_left_out(self, read: Tensor) -> Tensor:
        """Query 1 is left out.

        It has a previous token, key 0. Average over all queries i ≥ 1.
        """
        return _stripe(read, -1)[..., 1:]

    def last_query_left_out(self, read: Tensor) -> Tensor:
        """The last query is left out.

        A range and a slice end before their upper limit, so `range(1, n - 1)` stops at query n - 2. The last one is
        n - 1.
        """
        return _stripe(read, -1)[..., :-1]

    def whole_past(self, read: Tensor) -> Tensor:
        """All earlier tokens count.

        `tril(-1)` keeps every key before the query, and their sum says how much the head looks back at all. Take the
        weight on key i - 1 alone.
        """
        return read.tril(-1).sum(dim=-1)[..., 1:]

    def diagonal_of_other_axes(self, read: Tensor) -> Tensor:
        """A diagonal through batch and heads.

        Unless told otherwise, `diagonal` runs through axes 0 and 1, and here these are the batch and the heads. Queries
        and keys are the last two: name them with dim1=-2, dim2=-1.
        """
        return read.diagonal(-1)


class PickInduction(Step):
    """Of each query from `period` on, the weight on key i - period + 1: (b, h, n - period)."""

    makes = ("picked",)

    def right(self, read: Tensor, period: int) -> Tensor:
        return _stripe(read[..., period:, :], 1)

    def same_token(self, read: Tensor, period: int) -> Tensor:
        """The token's last occurrence, not the one after it.

        Key i - period holds the same token as query i: a head that looks there has found the match. An induction head
        looks at what came *after* it, since that is what it expects to come again: key i - period + 1.
        """
        return _stripe(read, -period)

    def token_before_the_match(self, read: Tensor, period: int) -> Tensor:
        """The 1 has the wrong sign.

        Key i - period - 1 holds the token before the match. The head copies the token after it: i - period + 1.
        """
        return _stripe(read, -period - 1)

    def one_token_too_far(self, read: Tensor, period: int) -> Tensor:
        """Two tokens after the match.

        Key i - period holds the same token as query i, and the token that followed it is key i - period + 1. Your code
        reads the weight on key i - period + 2.
        """
        return _stripe(read[..., period:, :], 2)

    @spells(ReadWeights.transposed)
    def stripe_of_the_future(self, read: Tensor, period: int) -> Tensor:
        return _stripe(read, period - 1)

    def one_query_too_many(self, read: Tensor, period: int) -> Tensor:
        """The last query of the first block is counted, too.

        The whole diagonal with offset 1 - period begins at query period - 1. That one still belongs to the first block,
        where nothing has been seen before. The first query with a match is i = period: leave out the first entry of the
        diagonal, `[..., 1:]`.
        """
        return _stripe(read, 1 - period)

    def queries_without_a_match(self, read: Tensor, period: int) -> Tensor:
        """Queries of the first block are averaged, too.

        In the first block nothing has been seen before, so there is no match to look for. There the index i - period +
        1 is below 1, and where it is negative, Python counts from the end of the row. Begin with query i = period.
        """
        return _stripe(read.roll(period - 1, dims=-1), 0)

    def first_match_left_out(self, read: Tensor, period: int) -> Tensor:
        """The first query with a match is left out.

        Query i = period repeats the token at key 0, and what came after that is key 1. Average over all queries
        i ≥ period.
        """
        return _stripe(read[..., period:, :], 1)[..., 1:]

    def first_block_left_out_twice(self, read: Tensor, period: int) -> Tensor:
        """The first block is left out twice.

        The diagonal with offset 1 - period begins at query period - 1, so nearly all of the first block is gone
        already. Only one entry is too many: `[..., 1:]`, not `[..., period:]`.
        """
        return _stripe(read, 1 - period)[..., period:]

    def first_repetition_alone(self, read: Tensor, period: int) -> Tensor:
        """Only the first repetition is scored.

        The block may be repeated more than once. Average over every query from `period` to the end, not only as far as
        2 · period.
        """
        return self.right(read, period)[..., :period]

    def one_query_per_block(self, read: Tensor, period: int) -> Tensor:
        """Only one query of each block is scored.

        From query `period` on, every token is a repetition, not only the first one of each block. Go through the
        queries one by one, not in steps of `period`.
        """
        return self.right(read, period)[..., ::period]

    def every_match(self, read: Tensor, period: int) -> Tensor:
        """All earlier repetitions are added up.

        A token of the third block has occurred twice before. Only its last occurrence counts here: key i - period + 1.
        """
        picked = torch.zeros_like(read[..., period:, 0])
        for back in range(period, read.shape[-1], period):
            picked[..., back - period :] += _stripe(read[..., back:, :], 1)
        return picked

    @spells(every_match)
    def every_match_by_the_remainder(self, read: Tensor, period: int) -> Tensor:
        place = torch.arange(read.shape[-1], device=read.device)
        behind = place[:, None] + 1 - place
        return (read * ((behind % period == 0) & (behind >= period))).sum(dim=-1)[..., period:]

    def half_of_the_sequence(self, read: Tensor) -> Tensor:
        """The period is taken to be half of the sequence.

        That is right for a block and one repetition. Here the block may come several times, and the last one may be cut
        off: use `period`.
        """
        return self.right(read, read.shape[-1] // 2)

    @told_as(PickPrevious.diagonal_of_other_axes)
    def diagonal_of_other_axes(self, read: Tensor, period: int) -> Tensor:
        return read.diagonal(1 - period)


class PickFirst(Step):
    """Of each query from 1 on, the weight on key 0: (b, h, n - 1)."""

    makes = ("picked",)

    def right(self, read: Tensor) -> Tensor:
        return read[..., 1:, 0]

    def first_query_counted(self, read: Tensor) -> Tensor:
        """Query 0 is counted, too.

        In a causal model query 0 can look at nothing but key 0: its weight there is 1, whatever the head does. Begin
        with query 1.
        """
        return read[..., 0]

    def wrong_query_left_out(self, read: Tensor) -> Tensor:
        """The last query is left out, and query 0 is not.

        `[:-1]` cuts off the end. The query to leave out is the first one, which can look only at itself: `[1:]`.
        """
        return read[..., :-1, 0]

    def key_one(self, read: Tensor) -> Tensor:
        """The weight on key 1.

        Keys are counted from 0. `weights[..., 1:, 1:]` leaves out key 0 along with query 0; only the query should go.
        """
        return read[..., 1:, 1]

    def last_key(self, read: Tensor) -> Tensor:
        """The weight on the last key.

        Index -1 is the last key. The sink is the first one, key 0.
        """
        return read[..., 1:, -1]

    def weight_elsewhere(self, read: Tensor) -> Tensor:
        """The weight on all other keys.

        1 minus the weight on key 0 is what is left for the others. The score must be high where the
        head rests on key 0: take the weight itself.
        """
        return 1 - read[..., 1:, 0]


class AverageByHead(Step):
    """The mean over batch and queries: (h,)."""

    def right(self, picked: Tensor) -> Tensor:
        return picked.mean(dim=(0, -1))

    def heads_averaged(self, picked: Tensor) -> Tensor:
        """The heads are averaged, too.

        One number comes out for all heads, and the one head that stands out is lost among the others. Average over the
        batch and the queries, and keep the axis of the heads.
        """
        return picked.mean()

    def batch_kept(self, picked: Tensor) -> Tensor:
        """Every sequence has a score of its own.

        The result is (b, h). A head's score is the mean over the sequences as well, so average over axis 0, too.
        """
        return picked.mean(dim=-1)

    def queries_kept(self, picked: Tensor) -> Tensor:
        """Every query has a score of its own.

        Only the batch is averaged. Take the mean over the queries as well, so that one number is left for each head.
        """
        return picked.mean(dim=0)

    def batch_for_heads(self, picked: Tensor) -> Tensor:
        """One number for each sequence, not for each head.

        The heads are averaged, and the batch is kept. The axes are (b, h, query, key), so the heads are axis 1: that
        one stays, and the batch, axis 0, goes.
        """
        return picked.mean(dim=(1, -1))

    def summed(self, picked: Tensor) -> Tensor:
        """A sum, not a mean.

        The weights are added up, so the score grows with the length of the sequences or with the size of the batch. The
        mean over both is between 0 and 1 for any text.
        """
        return picked.sum(dim=(0, -1))

    @spells(summed)
    def summed_over_queries(self, picked: Tensor) -> Tensor:
        return picked.mean(dim=0).sum(dim=-1)

    @spells(summed)
    def summed_over_the_batch(self, picked: Tensor) -> Tensor:
        return picked.mean(dim=-1).sum(dim=0)

    def divided_by_n(self, picked: Tensor, weights: Tensor) -> Tensor:
        """Divided by the number of all queries.

        The sum is over fewer than n queries: some have no such key and are left out. Divide by the number of queries
        that are in the sum, or call `.mean()` on their weights alone.
        """
        return picked.mean(dim=0).sum(dim=-1) / weights.shape[-1]

    def averaged_over_the_table(self, picked: Tensor, weights: Tensor) -> Tensor:
        """The zeros of the mask are averaged, too.

        Multiplying by a mask leaves n × n numbers, most of them 0, and `.mean()` divides by all of them. Divide the sum
        by the number of entries that the mask keeps.
        """
        return picked.mean(dim=0).sum(dim=-1) / weights.shape[-1] ** 2


class Logarithms(Step):
    """ln p of each weight; any finite number where p is 0."""

    makes = ("logs",)

    def right(self, read: Tensor) -> Tensor:
        return read.clamp_min(torch.finfo(read.dtype).tiny).log()

    def in_bits(self, read: Tensor) -> Tensor:
        """In bits, not in nats.

        log2 makes every entropy 1 / ln 2 = 1.44 times as large as it should be. Nats come from the natural logarithm:
        torch.log.
        """
        return self.right(read) / math.log(2)

    @each(eps=(1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4))
    def eps_in_the_logarithm(self, read: Tensor, eps: float) -> Tensor:
        """A small number is added to every weight.

        ln(p + ε) keeps zeros away from the logarithm, but it changes every other term, too, by about ε, and float64
        shows that. Change only what is 0: torch.where, `clamp` with a much smaller number, or torch.xlogy, which counts
        0 · ln 0 as 0.
        """
        return (read + eps).log()

    def zero_times_infinity(self, read: Tensor) -> Tensor:
        """0 times -∞.

        A closed key has weight 0. ln 0 is -inf, and 0 · (-inf) is NaN. As p goes to 0, p ln p goes to 0, so a closed
        key adds nothing: use torch.xlogy(p, p), or put in a 0 with torch.where.
        """
        return read.log()

    def log_of_one_more(self, read: Tensor) -> Tensor:
        """ln(1 + p) instead of ln p.

        log1p avoids ln 0, but it is a different function: for a weight of 1 it gives ln 2, where ln 1 is 0. Take
        torch.log, and handle the zeros separately.
        """
        return read.log1p()

    def log_softmax_of_weights(self, read: Tensor) -> Tensor:
        """The weights are taken for scores.

        log_softmax and F.cross_entropy take scores, and make weights of them first. Here the weights are given already,
        and their logarithm is torch.log.
        """
        return read.log_softmax(dim=-1)


class Terms(Step):
    """p ln p."""

    makes = ("terms",)

    def right(self, read: Tensor, logs: Tensor) -> Tensor:
        return read * logs

    def not_weighted(self, logs: Tensor) -> Tensor:
        """The logarithms are not weighted.

        The entropy is the mean of -ln p, in which each key counts with its weight p. Multiply by p before you add up.
        """
        return logs


class AddTerms(Step):
    """Minus the sum over the keys."""

    def right(self, terms: Tensor) -> Tensor:
        return -terms.sum(dim=-1)

    def sign_missing(self, terms: Tensor) -> Tensor:
        """The minus sign is missing.

        No weight is above 1, so ln p is never positive, and neither is the sum of p ln p. The entropy is minus that
        sum.
        """
        return terms.sum(dim=-1)

    @along_with("zero_times_infinity")
    def nan_replaced_at_the_end(self, terms: Tensor) -> Tensor:
        """NaN is replaced at the end, when it is too late.

        A closed key makes 0 · (-inf), which is NaN, and the sum over its row is NaN as well: what the open keys
        contributed is lost, and 0 is just as wrong. Put 0 in place of the terms of closed keys, before you add up.
        """
        return -terms.sum(dim=-1).nan_to_num()

    def over_the_queries(self, terms: Tensor) -> Tensor:
        """The sum runs over the queries.

        Each query shares out its own weights among the keys, and has an entropy of its own. The keys are the last axis:
        sum over dim=-1, which leaves (…, q).
        """
        return -terms.sum(dim=-2)

    def mean_over_the_keys(self, terms: Tensor) -> Tensor:
        """A mean over the keys, not a sum.

        The weights p do the averaging: they add up to 1. Dividing by the number of keys once more makes the result k
        times too small. Use `sum(dim=-1)`.
        """
        return -terms.mean(dim=-1)

    def divided_by_ln_k(self, terms: Tensor) -> Tensor:
        """Divided by ln k.

        That is the entropy as a share of the largest possible one, between 0 and 1. Return the entropy itself, in nats:
        k keys that share the weight evenly have ln k.
        """
        return -terms.sum(dim=-1) / math.log(terms.shape[-1] + (terms.shape[-1] == 1))

    def exponential_of_it(self, terms: Tensor) -> Tensor:
        """The exponential of the entropy.

        That is the perplexity: the number of keys that would have the same entropy if they shared the weight evenly.
        The entropy is its logarithm.
        """
        return (-terms.sum(dim=-1)).exp()

    def queries_averaged(self, terms: Tensor) -> Tensor:
        """The queries are averaged.

        Each query has an entropy of its own, and the result is (…, q). Take no mean over them.
        """
        return -terms.sum(dim=-1).mean(dim=-1)

    def one_number(self, terms: Tensor) -> Tensor:
        """Everything is added up to one number.

        `sum()` without `dim` runs through all axes. Only the keys are summed: dim=-1.
        """
        return -terms.sum()

    def one_minus_squares(self, read: Tensor) -> Tensor:
        """1 minus the sum of the squares.

        That, too, is 0 if all weight is on one key, and large if it is spread. It is the Gini impurity of decision
        trees, and its largest value is 1 - 1/k. The entropy has a logarithm in it: -Σ p ln p.
        """
        return 1 - read.square().sum(dim=-1)


class LargestOfRow(Step):
    """Of each row, the column of its largest entry."""

    makes = ("largest",)

    def right(self, circuit: Tensor) -> Tensor:
        return circuit.argmax(dim=-1)

    def along_columns(self, circuit: Tensor) -> Tensor:
        """The largest entry of each column, not of each row.

        A row is a token that the head looks at, and its columns are the tokens whose logits it moves. Ask of
        each row which logit it raises most: argmax over dim=-1.
        """
        return circuit.argmax(dim=0)

    def largest_in_size(self, circuit: Tensor) -> Tensor:
        """The largest entry in absolute value.

        A large negative entry makes its token less likely. Copying raises the logit, so compare the entries with their
        signs, without `abs()`.
        """
        return circuit.abs().argmax(dim=-1)

    def smallest_of_row(self, circuit: Tensor) -> Tensor:
        """The smallest entry of each row.

        argmin finds the token whose logit is lowered most. A head that copies raises the logit of the token it looks
        at: argmax.
        """
        return circuit.argmin(dim=-1)


class OnDiagonal(Step):
    """Whether that column is the row's own."""

    makes = ("hits",)

    def right(self, largest: Tensor) -> Tensor:
        return largest == torch.arange(len(largest), device=largest.device)

    def positive_entries(self, circuit: Tensor) -> Tensor:
        """It counts the positive entries of the diagonal.

        If a token raises its own logit a little and another one's more, it is not copied. Count the rows whose largest
        entry is on the diagonal.
        """
        return circuit.diagonal() > 0

    def above_the_mean(self, circuit: Tensor) -> Tensor:
        """Compared with the mean of the row.

        About half of all entries are above the mean of their row. Count the rows in which the entry on the diagonal is
        the largest.
        """
        return circuit.diagonal() > circuit.mean(dim=-1)

    def largest_of_all(self, circuit: Tensor) -> Tensor:
        """Compared with the largest entry of the whole table.

        `circuit.max()` without `dim` is one number for all rows, and hardly any row reaches it. Compare each row with
        its own largest entry: dim=-1.
        """
        return circuit.diagonal() == circuit.max()


class ShareOfRows(Step):
    """Of how many rows, as a share of all."""

    def right(self, hits: Tensor, circuit: Tensor) -> Tensor:
        return hits.to(circuit.dtype).mean()

    def counted(self, hits: Tensor, circuit: Tensor) -> Tensor:
        """A count, not a share.

        The rows that copy are counted. Divide by the number of rows, V, so that vocabularies of different sizes can be
        compared: the mean, not the sum.
        """
        return hits.to(circuit.dtype).sum()

    def in_percent(self, hits: Tensor, circuit: Tensor) -> Tensor:
        """In percent.

        The score is a share between 0 and 1. Leave out the factor of 100.
        """
        return 100 * self.right(hits, circuit)

    def row_by_row(self, hits: Tensor) -> Tensor:
        """One answer for each row.

        Your code finds out which rows copy, but does not average over them. The score is one number: the share of the
        rows that do.
        """
        return hits

    def mean_of_the_diagonal(self, circuit: Tensor) -> Tensor:
        """The mean of the diagonal.

        It says how much the tokens' own logits are raised on average, but not whether others are raised more, and one
        huge entry can hide many rows that do not copy. Count the rows whose largest entry is on the diagonal.
        """
        return circuit.diagonal().mean()

    def share_of_the_sum(self, circuit: Tensor) -> Tensor:
        """The diagonal as a share of the sum.

        The entries are logits of either sign, so their sum may be close to 0, and shares of it mean nothing. Count
        rows.
        """
        return circuit.diagonal().sum() / circuit.sum()

    def probability_of_itself(self, circuit: Tensor) -> Tensor:
        """The mean probability on the diagonal.

        A softmax turns each row into probabilities, and these depend on how large the entries are. The score is the
        share of the rows in which the diagonal is ahead of all others, by however little.
        """
        return circuit.softmax(dim=-1).diagonal().mean()

    def by_eigenvalues(self, circuit: Tensor) -> Tensor:
        """The eigenvalues are used.

        The sum of the eigenvalues over the sum of their absolute values is another measure of copying (Elhage et al.,
        2021), between -1 and 1. Here the rows are counted whose largest entry is on the diagonal.
        """
        eigenvalues: Tensor = torch.linalg.eigvals(circuit)
        return eigenvalues.real.sum() / eigenvalues.abs().sum()
