"""Attention itself, with one head or many, of one text or two: compare, scale, share, mix, give.

Queries q, keys k and values v are (..., q, d), (..., k, d) and (..., k, d_v). `allowed`, where there is such a mask, is
True where a query may attend.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.course.steps import Step, along_with, discussed_at, each, only_with, spells

LEADING_AXES = (
    "products_not_summed",
    "scaled_by_axis_one",
    "over_axis_one",
    "axis_of_softmax_left_out",
)
"""Slips that mean something only where any number of axes may come before the last two."""


def masked_softmax(scores: Tensor, allowed: Tensor | None, dim: int = -1) -> Tensor:
    """Attention weights among what is allowed; zeros where nothing is."""
    if allowed is None:
        return scores.softmax(dim=dim)
    if dim != -1:  # a mask without that axis is the same all along it
        allowed = allowed.expand(scores.shape)
    empty = ~allowed.any(dim=dim, keepdim=True)
    return scores.masked_fill(~(allowed | empty), -torch.inf).softmax(dim=dim).masked_fill(empty, 0.0)


def past(scores: Tensor) -> Tensor:
    """True on and below the diagonal: what a causal mask allows."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()


class Compare(Step):
    """The dot product of every query with every key."""

    makes = ("products",)

    def right(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT

    def exchanged(self, q: Tensor, k: Tensor) -> Tensor:
        """Queries and keys are exchanged.

        The rows of your scores belong to the keys. Row i belongs to query i: q @ k.mT, not k @ q.mT. With as many
        queries as keys, only the numbers give it away. (A softmax over the queries whose weights are then transposed
        comes to the same.)
        """
        return k @ q.mT

    def keys_reshaped(self, q: Tensor, k: Tensor) -> Tensor:
        """reshape where a transpose was needed.

        `reshape` (or `view`) keeps the numbers in their order in memory, so that the columns are no longer the keys. To
        exchange the last two axes, use `.mT` or `transpose(-2, -1)`.
        """
        return q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])

    def not_transposed(self, q: Tensor, k: Tensor) -> Tensor:
        """The transpose is missing.

        `q @ k` multiplies the rows of q with the *columns* of k. The keys are its rows: q @ k.mT.
        """
        return q @ k

    def all_axes_reversed(self, q: Tensor, k: Tensor) -> Tensor:
        """`.T` on a tensor with a batch.

        `.T` reverses *all* axes, the batch among them. `.mT` or `transpose(-2, -1)` exchanges the last two only.
        """
        return q @ k.permute(*range(k.dim() - 1, -1, -1))

    def first_axes_exchanged(self, q: Tensor, k: Tensor) -> Tensor:
        """The first two axes are exchanged, not the last two.

        `transpose(0, 1)` is right for a single matrix. Where there is a batch, it moves the batch. Count from the end:
        k.transpose(-2, -1), or k.mT.
        """
        return q @ k.transpose(0, 1)

    def first_batch_only(self, q: Tensor, k: Tensor) -> Tensor:
        """All queries meet the keys of the first batch entry.

        With a batch of one nobody notices. Each entry of the batch has its own keys.
        """
        return q @ (k[:1] if k.dim() > 2 else k).mT

    def leading_axes_added_up(self, q: Tensor, k: Tensor) -> Tensor:
        """The leading axes are added up.

        Without `...` after the arrow, einsum adds the tables of all sequences and heads into one. Each keeps a table of
        its own: '... q d, ... k d -> ... q k'.
        """
        return (q @ k.mT).sum(dim=tuple(range(q.dim() - 2))) if q.dim() > 2 else q @ k.mT

    def products_not_summed(self, q: Tensor, k: Tensor) -> Tensor:
        """The products are not added up.

        Each pair still has d products instead of one number: the result has one axis too many, d. In einsum, a letter
        that is missing after the arrow is summed over.
        """
        return q.unsqueeze(-2) * k.unsqueeze(-3)

    def queries_for_keys(self, q: Tensor) -> Tensor:
        """The queries are compared with themselves.

        Both sides of the product are the queries, so i scores j just as j scores i. Every query meets every key: where
        should `k` stand, in the product or where the keys are made?
        """
        return q @ q.mT

    def keys_for_queries(self, k: Tensor) -> Tensor:
        """The keys are compared with themselves.

        The queries are never used, so i scores j just as j scores i. Every query meets every key: q @ k.mT.
        """
        return k @ k.mT

    def values_for_keys(self, q: Tensor, v: Tensor) -> Tensor:
        """The queries are compared with the values.

        The keys are never used. A key is what is matched, a value what is brought back: q @ k.mT.
        """
        return q @ v.mT

    @along_with("keys_for_values")
    def keys_values_exchanged(self, q: Tensor, v: Tensor) -> Tensor:
        """Keys and values are exchanged.

        The queries are compared with the values, and the keys are averaged. A key is what is matched, a value what is
        brought back. Trained from scratch nobody would notice; with given weights it is wrong.
        """
        return q @ v.mT

    @along_with("queries_for_values")
    def queries_values_exchanged(self, k: Tensor, v: Tensor) -> Tensor:
        """Queries and values are exchanged.

        The values are compared with the keys, and the queries are averaged. A query asks; a value is what is brought
        back.
        """
        return v @ k.mT

    @each(which=("qk", "q", "k"))
    def cosine(self, q: Tensor, k: Tensor, which: str) -> Tensor:
        """Vectors are brought to length 1 first.

        F.normalize divides vectors by their lengths; with queries and keys both normalised, this is cosine similarity.
        Use the plain dot product, divided by √d: a long key may count for more.
        """
        return (F.normalize(q, dim=-1) if "q" in which else q) @ (F.normalize(k, dim=-1) if "k" in which else k).mT

    @spells(cosine)
    @along_with("no_scale")
    @each(which=("qk", "q", "k"))
    def cosine_unscaled(self, q: Tensor, k: Tensor, which: str) -> Tensor:
        return self.cosine(q, k, which)


class Scale(Step):
    """The products, divided by the root of how wide queries and keys are."""

    makes = ("scores",)

    def right(self, products: Tensor, q: Tensor) -> Tensor:
        return products / math.sqrt(q.shape[-1])

    @discussed_at("https://github.com/mlc-ai/mlc-llm/pull/3426")
    def no_scale(self, products: Tensor) -> Tensor:
        """The scale is missing.

        The dot products are not divided by √d. A sum of d products grows with √d, so the softmax gives nearly
        everything to one key, and hardly any gradient to the others.
        """
        return products

    def scaled_by_d(self, products: Tensor, q: Tensor) -> Tensor:
        """Divided by d instead of √d.

        The *variance* of a dot product grows with d, its standard deviation with √d. Dividing by d makes the scores too
        small, and the weights too even. (Did you scale twice? √d · √d is d.)
        """
        return products / q.shape[-1]

    def multiplied_by_root_d(self, products: Tensor, q: Tensor) -> Tensor:
        """Multiplied by √d instead of divided.

        The scores grow with √d already, and yours grow by as much again: the softmax gives nearly all to one key.
        Divide by √d, or multiply by d ** -0.5.
        """
        return products * math.sqrt(q.shape[-1])

    def scaled_by_root_k(self, products: Tensor, k: Tensor) -> Tensor:
        """Scaled by the number of keys.

        The scale depends on the width of the vectors, q.shape[-1], because that is the length of the sum in one dot
        product. How many keys there are, k.shape[-2], does not matter to it.
        """
        return products / math.sqrt(k.shape[-2])

    def scaled_by_root_q(self, products: Tensor, q: Tensor) -> Tensor:
        """Scaled by the number of queries.

        The scale depends on the width of the vectors, q.shape[-1], because that is the length of the sum in one dot
        product. How many queries there are, q.shape[-2], does not matter to it.
        """
        return products / math.sqrt(q.shape[-2])

    def scaled_by_root_d_v(self, products: Tensor, v: Tensor) -> Tensor:
        """Scaled by the width of the values.

        The scale is there because of the length of the sum in q · k, and that is the width of queries and keys. The
        values take no part in it; they may have another width.
        """
        return products / math.sqrt(v.shape[-1])

    def scaled_by_root_d_model(self, products: Tensor, x: Tensor) -> Tensor:
        """Scaled by √d_model.

        The scores are sums of as many products as queries and keys are wide, *after* the projection (and, with heads,
        after the split). d_model, the width of x, takes no part: the scale is q.shape[-1] ** -0.5.
        """
        return products / math.sqrt(x.shape[-1])

    @spells(scaled_by_root_d_model)
    def scaled_twice_over(self, products: Tensor, q: Tensor, x: Tensor) -> Tensor:
        return products / math.sqrt(q.shape[-1] * x.shape[-1])

    def scaled_by_axis_zero(self, products: Tensor, q: Tensor) -> Tensor:
        """Scaled by the first axis.

        len(q), or q.shape[0], is the batch, or the number of queries. The width of the vectors is the last axis,
        q.shape[-1].
        """
        return products / math.sqrt(q.shape[0])

    def scaled_by_axis_one(self, products: Tensor, q: Tensor) -> Tensor:
        """Scaled by axis 1.

        q.shape[1] is the width only where there are no leading axes. It is the last axis: q.shape[-1].
        """
        return products / math.sqrt(q.shape[1])

    @each(width=(64, 4, 8, 512))
    def fixed_scale(self, products: Tensor, width: int) -> Tensor:
        """The scale is a fixed number.

        The scores are divided by the same number however wide the vectors are, which is right for one width alone. Take
        the width from the tensor: q.shape[-1].
        """
        return products / math.sqrt(width)

    def divided_by_half_d(self, products: Tensor, q: Tensor) -> Tensor:
        """`d ** 1/2` is not the root of d.

        It is (d ** 1) / 2 in Python, because powers come before division. Write d ** 0.5.
        """
        return products / (q.shape[-1] ** 1 / 2)

    @spells(divided_by_half_d)
    def divided_by_twice_d(self, products: Tensor, q: Tensor) -> Tensor:
        return products / q.shape[-1] ** 1 / 2

    def root_rounded_down(self, products: Tensor, q: Tensor) -> Tensor:
        """The root is rounded down.

        `int`, `//` and math.isqrt make a whole number of the root: 2 in place of 2.24 for d = 5. Leave it as it is:
        d ** 0.5.
        """
        return products / int(q.shape[-1] ** 0.5)

    def scaled_by_fourth_root(self, products: Tensor, q: Tensor) -> Tensor:
        """Divided by the fourth root of d.

        If only one of q and k is divided by d ** 0.25, half of the scale is missing: divide both, or the product by
        d ** 0.5.
        """
        return products / math.sqrt(math.sqrt(q.shape[-1]))

    def root_of_the_score(self, products: Tensor, q: Tensor) -> Tensor:
        """The root is taken of the score.

        The root belongs to d alone. Of a negative score it is NaN: q @ k.mT / d ** 0.5.
        """
        return (products / q.shape[-1]) ** 0.5

    def sign_turned(self, products: Tensor, q: Tensor) -> Tensor:
        """The sign is flipped.

        A good fit has a large score. Yours is small where vectors are alike: there is no minus in the formula.
        """
        return -products / math.sqrt(q.shape[-1])


class Share(Step):
    """The attention weights: softmax, over the keys."""

    makes = ("weights",)

    def right(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        return self._among(scores, allowed)

    def _among(self, scores: Tensor, allowed: Tensor | None, dim: int = -1) -> Tensor:
        """Attention weights in this exercise's way of blocking."""
        return masked_softmax(scores, allowed, dim)

    @only_with("large scores")
    def exp_overflows(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """A softmax that overflows.

        exp of a large score is larger than any float, and inf / inf is NaN. Use a softmax that subtracts each row's
        largest score first: torch's, or your own from lesson 02.
        """
        powers = scores.exp() if allowed is None else scores.exp() * allowed
        return powers / powers.sum(dim=-1, keepdim=True)

    @discussed_at("https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146")
    def over_queries(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The softmax runs over the queries.

        Your columns add up to 1; the rows have to. Each query shares its attention among the keys: the softmax runs
        over their axis, the last one (dim=-1) of (…, q, k).
        """
        return self._among(scores, allowed, dim=-2)

    @discussed_at("https://github.com/PetrochukM/PyTorch-NLP/issues/2")
    def over_first_axis(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The softmax runs over the batch.

        The numbers add up to 1 over the first axis, so that what one text looks at depends on which others are in the
        batch. Each query shares its attention among the keys: dim=-1.
        """
        return self._among(scores, allowed, dim=0)

    def over_heads(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The softmax runs over the heads.

        The heads compete for each pair of positions. But each head attends for itself: its rows add up to 1. The keys
        are the last axis of the scores: dim=-1.
        """
        return self._among(scores, allowed, dim=-3)

    def over_axis_one(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The softmax runs over axis 1.

        Axis 1 counts the queries of (b, q, k), and the heads of (b, h, q, k). Each query shares its attention among the
        keys, which are the last axis however many come before: dim=-1.
        """
        return self._among(scores, allowed, dim=1)

    def axis_of_softmax_left_out(self, scores: Tensor) -> Tensor:
        """The softmax has no axis.

        Without `dim`, F.softmax guesses one, and warns: axis 0 of three, axis 1 of four. Say which: dim=-1.
        """
        return scores.softmax(dim=0 if scores.dim() in (0, 1, 3) else 1)

    def over_all_pairs(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The softmax runs over all pairs.

        All weights of a table together add up to 1. Each *row* has to: every query shares out 1 of its own, among the
        keys alone, dim=-1.
        """
        pairs = None if allowed is None else allowed.expand(scores.shape).flatten(-2)
        return self._among(scores.flatten(-2), pairs).reshape(scores.shape)

    @spells(over_all_pairs)
    def over_everything(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        everything = None if allowed is None else allowed.expand(scores.shape).flatten()
        return self._among(scores.flatten(), everything).reshape(scores.shape)

    def no_softmax(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The softmax is missing.

        The raw scores are used as weights. Some are negative, and the sum of a row may be anything, even near 0. The
        softmax makes them positive, and makes each row add up to 1.
        """
        return scores if allowed is None else scores * allowed

    def softmax_twice(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The softmax is taken twice.

        The weights went through a second softmax. Their entries lie between 0 and 1, so the second one makes them
        nearly even. Once is enough.
        """
        return self._among(self._among(scores, allowed), allowed)

    @along_with("no_scale")
    def scale_after_softmax(self, scores: Tensor, q: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Scaled after the softmax.

        The weights are divided by √d, so that a row adds up to 1/√d. The scale belongs to the scores, before the
        softmax.
        """
        return self._among(scores, allowed) / math.sqrt(q.shape[-1])

    def winner_takes_all(self, scores: Tensor) -> Tensor:
        """Only the best key gets a weight.

        That is argmax, through which no gradient flows. The softmax gives every key its share.
        """
        return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)

    def sigmoid(self, scores: Tensor) -> Tensor:
        """Sigmoid instead of softmax.

        Each score is squeezed into (0, 1) on its own. In a softmax the keys compete: their weights add up to 1.
        """
        return scores.sigmoid()

    @each(guard=(0.0, 1e-9))
    def relu_shared(self, scores: Tensor, guard: float, allowed: Tensor | None = None) -> Tensor:
        """ReLU instead of exp.

        A score below 0 gets no weight and no gradient, so that the key can never learn to fit better; and in a row
        without any score above 0 there is nothing to share out. exp makes all scores positive, and keeps their order.
        """
        powers = scores.relu() if allowed is None else scores.relu() * allowed
        return powers / (powers.sum(dim=-1, keepdim=True) + guard)

    def logarithm(self, scores: Tensor) -> Tensor:
        """The logarithm of the softmax.

        The numbers are negative: this is log-softmax, which losses use. Attention needs the weights themselves.
        """
        return scores.log_softmax(dim=-1)

    def sum_without_axis(self, scores: Tensor) -> Tensor:
        """The sums have lost an axis.

        Without keepdim=True the sums of the exponentials have one axis fewer, and broadcasting lines them up with the
        columns instead of the rows.
        """
        return scores.exp() / scores.exp().sum(dim=-1)

    def not_normalised(self, scores: Tensor) -> Tensor:
        """The weights are not divided by their sum.

        exp makes every score positive, but a row adds up to 1 only after division by its sum.
        """
        return scores.exp()

    def equal_weights(self, scores: Tensor) -> Tensor:
        """All keys have the same weight.

        The output is the plain mean of the values, whatever the queries ask. Their scores decide how the values are
        mixed.
        """
        return (scores * 0).softmax(dim=-1)

    def causal(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Later keys are hidden.

        That is a causal mask, for networks that guess the next word (lesson 05). Here every query meets every key, to
        the end of the text.
        """
        return self._among(scores, past(scores) if allowed is None else past(scores) & allowed)

    def itself_blocked(self, scores: Tensor, itself: Tensor) -> Tensor:
        """A word may not look at itself.

        The diagonal is blocked. Nothing here forbids a word its own position: every word meets every word, itself
        included.
        """
        return scores.masked_fill(itself, -torch.inf).softmax(dim=-1)

    @spells(itself_blocked)
    def itself_zeroed(self, scores: Tensor, itself: Tensor) -> Tensor:
        return scores.softmax(dim=-1).masked_fill(itself, 0.0)

    @each(percent=(10, 20, 50))
    def dropout_returned(self, scores: Tensor, percent: int, allowed: Tensor | None = None) -> Tensor:
        """Dropout is always active.

        F.dropout drops weights at random unless it is told that no training is going on: every call gives another
        result. No dropout is asked for here.
        """
        return F.dropout(self._among(scores, allowed), percent / 100)

    def softmax_in_float32(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The weights are float32, whatever the scores are.

        `.float()`, or dtype=torch.float32 in the softmax, makes float32 weights, and a matrix product wants both sides
        in one dtype: with float64 values it fails. Leave the dtype alone, or go back to that of the scores.
        """
        return self._among(scores, allowed).float()

    def one_length_only(self, scores: Tensor, q: Tensor, allowed: Tensor | None = None) -> Tensor:
        """It works only for as many keys as queries.

        Somewhere the number of queries stands in for the number of keys: (…, q, q) instead of (…, q, k). In
        self-attention they are equal; in cross-attention, and with a cache, they are not. Take it from k.shape.
        """
        return self._among(scores.reshape(*q.shape[:-1], q.shape[-2]), allowed)


class Mix(Step):
    """The values, averaged with the weights."""

    makes = ("output",)

    def right(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def weights_transposed(self, weights: Tensor, v: Tensor) -> Tensor:
        """The weights are transposed before they meet the values.

        Row i of the output has to mix the values with query i's weights: weights @ v. weights.mT mixes them with what
        the others gave to position i.
        """
        return weights.mT @ v

    def scores_mixed(self, scores: Tensor, v: Tensor) -> Tensor:
        """The scores mix the values, not the weights.

        The weights are right, and are not used: the output is scores @ v, without the softmax. It is the weights that
        add up to 1: weights @ v.
        """
        return scores @ v

    def values_first(self, weights: Tensor, v: Tensor) -> Tensor:
        """The values come before the weights.

        A row of weights mixes the rows of v, so the weights come first: weights @ v.
        """
        return v @ weights

    def values_not_summed(self, weights: Tensor, v: Tensor) -> Tensor:
        """The weighted values are not added up.

        Each query still has one vector for each key: the output has one axis too many, k. `weights @ v` adds up over
        the keys as it multiplies.
        """
        return weights.unsqueeze(-1) * v.unsqueeze(-3)

    def averaged(self, weights: Tensor, v: Tensor) -> Tensor:
        """The values are averaged over the keys once more.

        The weights add up to 1 already: their products with the values are added, not averaged.
        """
        return weights @ v / v.shape[-2]

    def keys_for_values(self, weights: Tensor, k: Tensor) -> Tensor:
        """The keys are averaged in place of the values.

        The output is weights @ k: the values are never used. A key is what is matched, a value what is brought back.
        """
        return weights @ k

    def queries_for_values(self, weights: Tensor, q: Tensor) -> Tensor:
        """The queries are averaged in place of the values.

        The output is weights @ q: the values are never used. A query asks; a value is what is brought back.
        """
        return weights @ q

    def one_width_only(self, weights: Tensor, v: Tensor, q: Tensor) -> Tensor:
        """It works only for values as wide as the keys.

        The output is given the shape of q. Its width is that of the values, d_v, and that need not be d_k.
        """
        return (weights @ v).reshape(q.shape)

    @spells(Share.dropout_returned)
    @each(percent=(10, 20, 50))
    def dropout_used(self, weights: Tensor, v: Tensor, percent: int) -> Tensor:
        return F.dropout(weights, percent / 100) @ v


class Give(Step):
    """What is returned: the output, and the weights."""

    def right(self, output: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return output, weights

    def returns_scores(self, output: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The scores are returned in place of the weights.

        The output is right, but the second result holds the scores before the softmax.
        """
        return output, scores

    @spells(returns_scores)
    def returns_unscaled_scores(self, output: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
        return output, products

    def order_returned(self, output: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Returned in another order.

        The weights came first. The contract is (output, weights).
        """
        return weights, output

    @along_with("no_scale")
    def scale_on_output(self, output: Tensor, weights: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """The output is scaled, not the scores.

        The output is divided by √d, and the weights are as sharp as without a scale. It belongs to the scores, before
        the softmax.
        """
        return output * q.shape[-1] ** -0.5, weights
