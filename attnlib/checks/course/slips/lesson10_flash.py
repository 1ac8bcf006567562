"""Lesson 10: attention and its gradients, tile by tile. A tile is a block of queries against a block of keys."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.checks.course.slips.lesson10_blocks import Folded, Of
from attnlib.checks.course.steps import Step, along_with, each, spells

Two = tuple[Tensor, Tensor]
Three = tuple[Tensor, Tensor, Tensor]
Tile = Callable[[slice, slice], Tensor]
Columns = Callable[[slice], list[slice]]
Row = Callable[[slice, list[slice]], Three]


def blocks_of(length: int, size: int) -> list[slice]:
    """Blocks of positions; the last one may be shorter."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def places(part: slice, like: Tensor) -> Tensor:
    """The positions in a block."""
    return torch.arange(part.start, part.stop, device=like.device)


class ScoreTiles(Step):
    """The scores of a tile, (…, rows, columns), with -inf where a key is in the future."""

    makes = ("scores_of",)

    def right(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        return self._scores(q, k, is_causal, lambda rows, columns: rows[:, None] >= columns)

    def _scores(
        self, q: Tensor, k: Tensor, is_causal: bool, is_open: Callable[[Tensor, Tensor], Tensor], power: float = -0.5
    ) -> Tile:
        def scores(rows: slice, columns: slice) -> Tensor:
            tile: Tensor = q[..., rows, :] @ k[..., columns, :].mT * q.shape[-1] ** power
            if not is_causal:
                return tile
            return tile.masked_fill(~is_open(places(rows, q), places(columns, q)), -torch.inf)

        return scores

    def no_scale(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        """The scale is missing.

        The scores of a block are q · k / √d, just like those of the whole table.
        """
        return self._scores(q, k, is_causal, lambda rows, columns: rows[:, None] >= columns, power=0.0)

    def scaled_by_d(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        """The scores are divided by d, not by its square root.

        The scores of a block are q · k / √d, just like those of the whole table.
        """
        return self._scores(q, k, is_causal, lambda rows, columns: rows[:, None] >= columns, power=-1.0)

    def scaled_by_width_of_values(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> Tile:
        """The scale is that of the values' width.

        A score is a sum over the d columns of q and k, and grows with √d. The values may be wider or narrower, and have
        no part in it: 1 / sqrt(q.shape[-1]).
        """
        return self.right(q * (q.shape[-1] / v.shape[-1]) ** 0.5, k, is_causal)

    def square_made(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        """A tensor of n × n is made.

        The numbers are right, and so are the blocks that are visited. But somewhere every query meets every key at
        once, in a table of scores or in a mask for it. Either has the (n, n) entries that this exercise is meant to
        avoid: compute what a block needs from that block alone.
        """
        torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        return self.right(q, k, is_causal)

    @spells(square_made)
    def square_made_if_causal(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        return self.square_made(q, k, is_causal) if is_causal else self.right(q, k, is_causal)

    def future_open(self, q: Tensor, k: Tensor) -> Tile:
        """The future is open in the blocks on the diagonal.

        A block on the diagonal is only partly open: each query sees the keys up to its own position. Compare positions
        in the whole text, and fill the scores of later keys with -inf.
        """
        return self._scores(q, k, False, lambda rows, columns: rows[:, None] >= columns)

    def mask_from_the_corner(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        """Each block is masked from its own corner.

        That is right only on the diagonal. A block of keys that is entirely in the past is open everywhere: compare the
        positions in the whole text, row_start + i >= column_start + j.
        """
        return self._scores(q, k, is_causal, lambda rows, columns: (rows - rows[:1])[:, None] >= columns - columns[:1])

    def own_key_blocked(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        """The query does not see itself.

        Every key up to the query's own position is open: >=, not >. With > the first query has no key at all.
        """
        return self._scores(q, k, is_causal, lambda rows, columns: rows[:, None] > columns)

    def future_alone_open(self, q: Tensor, k: Tensor, is_causal: bool) -> Tile:
        """The past is blocked, not the future.

        A query sees the keys up to its own position. Where do you fill in -inf, and where should you?
        """
        return self._scores(q, k, is_causal, lambda rows, columns: rows[:, None] <= columns)


class VisitBlocks(Step):
    """The blocks of keys that a block of queries visits: those in which it may see at least one."""

    makes = ("columns_of",)

    def right(self, q: Tensor, block_size: int, is_causal: bool) -> Columns:
        all_of_them = blocks_of(q.shape[-2], block_size)
        return lambda rows: [columns for columns in all_of_them if not is_causal or columns.start < rows.stop]

    def closed_blocks_computed(self, q: Tensor, block_size: int) -> Columns:
        """Closed blocks are computed as well.

        The output is the same without them, because -inf turns every weight there into zero: for nearly half of the
        tiles the work is wasted. A block whose first key is after the last query of the rows is closed: do not visit
        it. (What differs in this case is the table of visits, with a 1 for each block of keys that a block of queries
        has met.)
        """
        all_of_them = blocks_of(q.shape[-2], block_size)
        return lambda rows: all_of_them

    def diagonal_skipped(self, q: Tensor, block_size: int, is_causal: bool) -> Columns:
        """The block on the diagonal is skipped.

        It is half open: each query sees at least itself there. A block is closed only if its first key is after the
        *last* query of the rows.
        """
        all_of_them = blocks_of(q.shape[-2], block_size)
        return lambda rows: [columns for columns in all_of_them if not is_causal or columns.start < rows.start]

    @spells(diagonal_skipped)
    def diagonal_skipped_but_the_first(self, q: Tensor, block_size: int, is_causal: bool) -> Columns:
        all_of_them = blocks_of(q.shape[-2], block_size)
        return lambda rows: [part for part in all_of_them if not is_causal or part.start < max(rows.start, 1)]

    def keys_left_out(self, q: Tensor, block_size: int, is_causal: bool) -> Columns:
        """The keys after the last whole block are left out.

        block_size need not divide n. The last block may be shorter; a slice that goes too far is cut off without an
        error. Use range(0, n, block_size).
        """
        whole = q.shape[-2] // block_size * block_size
        visible = self.right(q, block_size, is_causal)
        return lambda rows: [columns for columns in visible(rows) if columns.stop <= max(whole, block_size)]

    @spells(keys_left_out)
    def keys_left_out_unless_causal(self, q: Tensor, block_size: int, is_causal: bool) -> Columns:
        return (self.right if is_causal else self.keys_left_out)(q, block_size, is_causal)

    @along_with("future_alone_open")
    def causal_the_other_way(self, q: Tensor, block_size: int, is_causal: bool) -> Columns:
        """It is causal in the other direction.

        Both the loop and the mask keep the keys from the query's own on, and that is the future. A query sees its own
        key and those before it: visit the blocks up to the one on the diagonal, and close the keys after the query.
        """
        all_of_them = blocks_of(q.shape[-2], block_size)
        return lambda rows: [columns for columns in all_of_them if not is_causal or columns.stop > rows.start]

    def diagonal_alone(self, q: Tensor) -> Columns:
        """Each block of queries sees only its own block of keys.

        There should be two loops: one over the blocks of queries, and inside it one over the blocks of keys.
        """
        return lambda rows: [rows]


class FoldRow(Step):
    """One block of queries against the blocks of keys it visits: the output so far, the largest score and the sum."""

    makes = ("row_of",)

    def right(self, v: Tensor, scores_of: Tile, fold: Folded, output_of: Of, divided: bool = False) -> Row:
        def row_of(rows: slice, visited: list[slice]) -> Three:
            output = torch.zeros_like(v[..., rows, :])
            highest, total = torch.full_like(output[..., 0], -torch.inf), torch.zeros_like(output[..., 0])
            for columns in visited:
                highest, total, shrink, powers = fold(highest, total, scores_of(rows, columns))
                output = output_of(output, shrink, powers @ v[..., columns, :])
                if divided:
                    output = output / total[..., None]
            return output * total[..., None] if divided else output, highest, total

        return row_of

    def divided_in_the_loop(self, v: Tensor, scores_of: Tile, fold: Folded, output_of: Of) -> Row:
        """The output is divided by the sum after every block.

        The next block is added to what has been divided already, and then all of it is divided again. Keep the
        output as a sum of exp(s - m) · v, and divide once, after the last block of keys.
        """
        return self.right(v, scores_of, fold, output_of, divided=True)


class CarryTiles(Step):
    """A row of tiles for each block of queries."""

    makes = ("carried",)

    def right(self, q: Tensor, block_size: int, columns_of: Columns, row_of: Row) -> list[Three]:
        return [row_of(rows, columns_of(rows)) for rows in blocks_of(q.shape[-2], block_size)]

    def blocks_averaged(self, q: Tensor, block_size: int, columns_of: Columns, row_of: Row) -> list[Three]:
        """Each block has a softmax of its own, and the outputs are averaged.

        A block with low scores then counts as much as one with high scores. All blocks of a row share one denominator:
        rescale what was added up before, add the new part, and divide once, at the end.
        """
        carried = []
        for rows in blocks_of(q.shape[-2], block_size):
            _, highest, total = row_of(rows, columns_of(rows))
            parts = [row_of(rows, [columns]) for columns in columns_of(rows)]
            mean = torch.stack([output / own[..., None] for output, _, own in parts]).mean(dim=0)
            carried.append((mean * total[..., None], highest, total))
        return carried

    def whole_table_made(self, q: Tensor, row_of: Row) -> list[Three]:
        """The whole table of scores is built.

        The numbers are right. But q @ k.mT for all queries and all keys at once is the (n, n) tensor that this exercise
        is meant to avoid. Take one block of queries and one block of keys at a time.
        """
        everything = slice(0, q.shape[-2])
        return [row_of(everything, [everything])]


class FinishTiles(Step):
    """Outputs divided by their sums, and the log-sum-exp of each row."""

    def right(self, carried: list[Three]) -> Two:
        outputs = [output / total[..., None] for output, _, total in carried]
        return torch.cat(outputs, dim=-2), self._lse(carried)

    def _lse(self, carried: list[Three]) -> Tensor:
        return torch.cat([highest + total.log() for _, highest, total in carried], dim=-1)

    def not_divided(self, carried: list[Three]) -> Two:
        """The output is not divided by the sum.

        The weights exp(s - m) add up to l. Divide by it, once, after the last block.
        """
        return torch.cat([output for output, _, _ in carried], dim=-2), self._lse(carried)

    def lse_without_the_highest(self, carried: list[Three]) -> Two:
        """The largest score is missing from the log-sum-exp.

        l is the sum of exp(s - m). The logarithm of the sum of exp(s) is m + ln l.
        """
        return self.right(carried)[0], torch.cat([total.log() for _, _, total in carried], dim=-1)

    def sum_returned_as_lse(self, carried: list[Three]) -> Two:
        """The sum is returned instead of the log-sum-exp.

        The second result is the log-sum-exp, m + ln l: the one number from which the weights can be computed again, as
        exp(s - lse).
        """
        return self.right(carried)[0], torch.cat([total for _, _, total in carried], dim=-1)

    def highest_returned_as_lse(self, carried: list[Three]) -> Two:
        """The largest score is returned instead of the log-sum-exp.

        exp(s - m) gives the weights before they are divided by l. With lse = m + ln l, exp(s - lse) gives the weights
        themselves.
        """
        return self.right(carried)[0], torch.cat([highest for _, highest, _ in carried], dim=-1)

    def sum_added_to_the_highest(self, carried: list[Three]) -> Two:
        """The logarithm is missing from the log-sum-exp.

        l is a sum of exponentials, and m is a score: only the logarithm of l can be added to m. The log-sum-exp is
        m + ln l.
        """
        return self.right(carried)[0], torch.cat([highest + total for _, highest, total in carried], dim=-1)

    def lse_of_unscaled_scores(self, q: Tensor, carried: list[Three]) -> Two:
        """m in the log-sum-exp is not scaled.

        With the scale applied only inside exp, the output is right, but m is the largest of the *unscaled* scores. The
        log-sum-exp is that of the scaled ones: multiply m by 1/√d before you add ln l.
        """
        root = q.shape[-1] ** 0.5
        return self.right(carried)[0], torch.cat(
            [root * highest + total.log() for _, highest, total in carried], dim=-1
        )

    def lse_to_base_2(self, carried: list[Three]) -> Two:
        """The logarithm is to base 2.

        Fast kernels use exp2 and log2 throughout. Here everything else uses base e: torch.log.
        """
        lse = torch.cat([highest + total.log2() for _, highest, total in carried], dim=-1)
        return self.right(carried)[0], lse

    @spells(lse_to_base_2)
    def all_of_lse_to_base_2(self, carried: list[Three]) -> Two:
        output, lse = self.right(carried)
        return output, lse / math.log(2)

    def lse_with_an_axis(self, carried: list[Three]) -> Two:
        """The log-sum-exp has an extra axis of length 1.

        It has one number for each query, (…, n). Remove the axis that `keepdim=True` has left.
        """
        output, lse = self.right(carried)
        return output, lse[..., None]

    def lse_first(self, carried: list[Three]) -> Two:
        """The log-sum-exp comes before the output.

        The result is a pair: the output first, then the log-sum-exp.
        """
        output, lse = self.right(carried)
        return lse, output


class RowSums(Step):
    """D, what the backward pass of a softmax subtracts in each row: (…, n)."""

    makes = ("along",)

    def right(self, o: Tensor, grad_o: Tensor) -> Tensor:
        return (grad_o * o).sum(dim=-1)

    def row_sum_left_out(self, o: Tensor) -> Tensor:
        """D is left out.

        dS = P ∘ (dP - D). Without D, giving one key more weight would take none from the others; but the weights of a
        row add up to 1.
        """
        return torch.zeros_like(o[..., 0])

    def row_sum_of_the_gradient(self, grad_o: Tensor) -> Tensor:
        """D is the sum of the gradient only.

        D is the product of the output and its gradient, row by row: (grad_o * o).sum(-1).
        """
        return grad_o.sum(dim=-1)

    def row_mean(self, o: Tensor, grad_o: Tensor) -> Tensor:
        """D is a mean, not a sum.

        D is the dot product of a row of o and the same row of grad_o: add up, and do not divide by d.
        """
        return (grad_o * o).mean(dim=-1)


class WeightTiles(Step):
    """The weights of a tile again, from the saved log-sum-exp."""

    makes = ("weights_of",)

    def right(self, lse: Tensor, scores_of: Tile) -> Tile:
        return lambda rows, columns: (scores_of(rows, columns) - lse[..., rows, None]).exp()

    def softmax_of_the_tile(self, scores_of: Tile) -> Tile:
        """The softmax is taken over the block.

        The weights of each block then add up to 1, but it is the weights of the whole row that should. Their common
        denominator is in lse: the weights are exp(s - lse).
        """
        return lambda rows, columns: scores_of(rows, columns).softmax(dim=-1)

    def divided_by_lse(self, lse: Tensor, scores_of: Tile) -> Tile:
        """The scores are divided by the logarithm of the sum.

        lse is a logarithm, so it is subtracted in the exponent: exp(s - lse) = exp(s) / exp(lse).
        """
        return lambda rows, columns: scores_of(rows, columns).exp() / lse[..., rows, None]

    def lse_of_the_keys(self, lse: Tensor, scores_of: Tile) -> Tile:
        """lse is subtracted along the keys.

        Each row, that is, each query, has its own lse: lse[..., rows, None]. Without the axis at the end it is
        broadcast over the columns.
        """
        return lambda rows, columns: (scores_of(rows, columns) - lse[..., None, columns]).exp()


class ScoreGradients(Step):
    """The gradients of the scores of a tile."""

    makes = ("d_scores_of",)

    def right(self, v: Tensor, grad_o: Tensor, along: Tensor, weights_of: Tile) -> Tile:
        def d_scores(rows: slice, columns: slice) -> Tensor:
            d_weights = grad_o[..., rows, :] @ v[..., columns, :].mT
            return weights_of(rows, columns) * (d_weights - along[..., rows, None])

        return d_scores

    def weights_forgotten(self, v: Tensor, grad_o: Tensor, along: Tensor) -> Tile:
        """The weights are missing from dS.

        dS = P ∘ (dP - D): a key with no weight has no gradient either.
        """
        return lambda rows, columns: grad_o[..., rows, :] @ v[..., columns, :].mT - along[..., rows, None]

    def row_sum_after_the_weights(self, v: Tensor, grad_o: Tensor, along: Tensor, weights_of: Tile) -> Tile:
        """D is subtracted after the product.

        dS = P ∘ (dP - D), with the parentheses, not P ∘ dP - D.
        """
        return lambda rows, columns: (
            weights_of(rows, columns) * (grad_o[..., rows, :] @ v[..., columns, :].mT) - along[..., rows, None]
        )

    def row_sum_added(self, v: Tensor, grad_o: Tensor, along: Tensor, weights_of: Tile) -> Tile:
        """D is added, not subtracted.

        dS = P ∘ (dP - D). D is subtracted because more weight for one key means less for the others.
        """
        return self.right(v, grad_o, -along, weights_of)


Added = Callable[..., Three]


class AddTiles(Step):
    """The loop over the tiles: what it adds up is for the next step to say."""

    makes = ("added",)

    def right(self, q: Tensor, k: Tensor, v: Tensor, grad_o: Tensor, block_size: int, columns_of: Columns) -> Added:
        def added(
            weights_of: Tile,
            d_scores_of: Tile,
            keep_queries: float = 1.0,
            keep_keys: float = 1.0,
            keep_values: float = 1.0,
            size: int = block_size,
            columns_of: Columns = columns_of,
        ) -> Three:
            d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
            for rows in blocks_of(q.shape[-2], size):
                for columns in columns_of(rows):
                    weights, d_scores = weights_of(rows, columns), d_scores_of(rows, columns)
                    d_q[..., rows, :] = keep_queries * d_q[..., rows, :] + d_scores @ k[..., columns, :]
                    d_k[..., columns, :] = keep_keys * d_k[..., columns, :] + d_scores.mT @ q[..., rows, :]
                    d_v[..., columns, :] = keep_values * d_v[..., columns, :] + weights.mT @ grad_o[..., rows, :]
            return d_q, d_k, d_v

        return added


class GradientTiles(Step):
    """All three gradients, added up tile by tile."""

    makes = ("d_q", "d_k", "d_v")

    def right(self, added: Added, weights_of: Tile, d_scores_of: Tile) -> Three:
        return added(weights_of, d_scores_of)

    def queries_overwritten(self, added: Added, weights_of: Tile, d_scores_of: Tile) -> Three:
        """The gradient of the queries is overwritten by each block of keys.

        A query has looked at all of those blocks, so its gradient is a sum over them: `+=`, not `=`.
        """
        return added(weights_of, d_scores_of, keep_queries=0.0)

    @each(keeps=((0.0, 0.0), (0.0, 1.0), (1.0, 0.0)))
    def keys_overwritten(self, added: Added, weights_of: Tile, d_scores_of: Tile, keeps: tuple[float, float]) -> Three:
        """Each block of queries overwrites the gradient of the keys, of the values, or of both.

        Every query that has looked at a key adds to its gradient and to that of its value: `+=`, not `=`.
        """
        return added(weights_of, d_scores_of, keep_keys=keeps[0], keep_values=keeps[1])

    def values_from_d_scores(self, added: Added, d_scores_of: Tile) -> Three:
        """The gradient of the values is computed from dS.

        The output is P V, so dV is Pᵀ times the gradient of the output. dS belongs to queries and keys.
        """
        return added(d_scores_of, d_scores_of)

    def values_from_open_weights(
        self, q: Tensor, k: Tensor, lse: Tensor, added: Added, weights_of: Tile, d_scores_of: Tile
    ) -> Three:
        """The gradient of the values comes before the mask.

        P is masked only after it has gone into dV, so values in the future get a gradient from queries that have never
        seen them. Fill in -inf, or zeros, before P is used for the first time.
        """
        d_q, d_k, _ = added(weights_of, d_scores_of)
        return d_q, d_k, added(WeightTiles().right(lse, ScoreTiles().future_open(q, k)), d_scores_of)[2]

    def keys_from_weights(self, added: Added, weights_of: Tile) -> Three:
        """The gradients of queries and keys are computed from the weights.

        The scores are Q Kᵀ, so dQ and dK are computed from dS, their gradient. P belongs to the values.
        """
        return added(weights_of, weights_of)

    def whole_table_made(self, q: Tensor, added: Added, weights_of: Tile, d_scores_of: Tile) -> Three:
        """A tensor of n × n is built.

        The numbers are right. But all the weights at once, or a mask for all of them, are the (n, n) tensor that this
        exercise is meant to avoid. Take one block of queries and one block of keys at a time, and add up.
        """
        everything = slice(0, q.shape[-2])
        return added(weights_of, d_scores_of, size=q.shape[-2], columns_of=lambda _rows: [everything])


class ScaleGradients(Step):
    """The scores were scaled by 1/√d; so are the gradients of queries and keys."""

    def right(self, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> Three:
        scale = d_q.shape[-1] ** -0.5
        return scale * d_q, scale * d_k, d_v

    def scale_forgotten(self, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> Three:
        """The scale is missing from the gradients of queries and keys.

        The scores are Q Kᵀ / √d: the factor goes to both dQ and dK.
        """
        return d_q, d_k, d_v

    def scale_in_queries_alone(self, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> Three:
        """The scale is missing from the gradient of the keys.

        The scores are Q Kᵀ / √d: the factor goes to both dQ and dK.
        """
        return self.right(d_q, d_k, d_v)[0], d_k, d_v

    def scale_in_keys_alone(self, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> Three:
        """The scale is missing from the gradient of the queries.

        The scores are Q Kᵀ / √d: the factor goes to both dQ and dK.
        """
        return d_q, self.right(d_q, d_k, d_v)[1], d_v

    def values_scaled_too(self, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> Three:
        """The gradient of the values is scaled as well.

        1/√d belongs to the scores, and the values do not go through them.
        """
        scale = d_q.shape[-1] ** -0.5
        return scale * d_q, scale * d_k, scale * d_v

    def scaled_twice(self, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> Three:
        """The scale is applied twice.

        If q was scaled before the loop, dK already contains the factor, and dQ needs it once.
        """
        scale = d_q.shape[-1] ** -1.0
        return scale * d_q, scale * d_k, d_v

    @spells(scaled_twice)
    def keys_scaled_twice(self, d_q: Tensor, d_k: Tensor, d_v: Tensor) -> Three:
        scale = d_q.shape[-1] ** -0.5
        return scale * d_q, scale**2 * d_k, d_v
