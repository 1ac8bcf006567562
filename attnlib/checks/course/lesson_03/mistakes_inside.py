"""What goes wrong inside attention with heads, in lessons 03 to 05: the scores, and the heads' place among the axes."""

from collections.abc import Callable

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from attnlib.checks.course.handling import dropout_left_on
from attnlib.checks.course.lesson_03.heads import Heads, but, masked_softmax
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception


def _split_by_reshape(self: Heads, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], self.num_heads, x.shape[1], self.d_head)


def _merge_by_reshape(self: Heads, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def _split_and_left(self: Heads, x: Tensor) -> Tensor:
    return x.unflatten(-1, (self.num_heads, self.d_head))


def _split_taking_turns(self: Heads, x: Tensor) -> Tensor:
    return rearrange(x, "b n (d h) -> b h n d", h=self.num_heads)


def _merge_taking_turns(self: Heads, x: Tensor) -> Tensor:
    return rearrange(x, "b h n d -> b n (d h)")


def _over_all_pairs(self: Heads, scores: Tensor, allowed: Tensor | None) -> Tensor:
    pairs = None if allowed is None else allowed.expand(scores.shape).flatten(-2)
    return masked_softmax(scores.flatten(-2), pairs).unflatten(-1, scores.shape[-2:])


def _keys_reshaped(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    q, k, v = (self.split(projected) for projected in self.project(x, memory))
    columns = k.reshape(*k.shape[:2], k.shape[3], k.shape[2])
    weights = self.share(q @ columns * self.scale(x, memory), allowed)
    return self.w_o(self.merge(weights @ v)), weights


def _one_wide_head(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    q, k, v = self.project(x, memory)
    weights = self.share((q @ k.mT * self.d_head**-0.5)[:, None], allowed)
    return self.w_o(weights[:, 0] @ v), weights.expand(-1, self.num_heads, -1, -1)


def _heads_in_a_loop(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    q, k, v = (self.split(projected)[:, :1] for projected in self.project(x, memory))
    weights = self.share(q @ k.mT * self.d_head**-0.5, allowed).repeat(1, self.num_heads, 1, 1)
    return self.w_o(self.merge(weights @ v)), weights


def _of_the_first_head(*which: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """Of queries, keys and values (0, 1, 2), these are head 0's in every head."""

    def attend(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        heads = [self.split(projected) for projected in self.project(x, memory)]
        q, k, v = (t[:, :1].expand_as(t) if i in which else t for i, t in enumerate(heads))
        weights = self.share(q @ k.mT * self.scale(x, memory), allowed)
        return self.finish(self.merge(weights @ v)), weights

    return attend


def _split_by(how: Callable[[Heads, Tensor], Tensor], *which: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """Of queries, keys and values (0, 1, 2), these are split in another way."""

    def attend(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        projected = self.project(x, memory)
        q, k, v = (how(self, t) if i in which else self.split(t) for i, t in enumerate(projected))
        weights = self.share(q @ k.mT * self.scale(x, memory), allowed)
        return self.finish(self.merge(weights @ v)), weights

    return attend


def _unfolded(*, output: bool, weights: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    """Heads that were folded into the batch as (b h), and are unfolded as (h b)."""

    def otherwise(x: Tensor) -> Tensor:
        return x.flatten(0, 1).unflatten(0, (x.shape[1], x.shape[0])).transpose(0, 1)

    def attend(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (self.split(projected) for projected in self.project(x, memory))
        shares = self.share(q @ k.mT * self.scale(x, memory), allowed)
        found = shares @ v
        return (
            self.finish(self.merge(otherwise(found) if output else found)),
            otherwise(shares) if weights else shares,
        )

    return attend


PARTS = {
    "queries": (0,),
    "keys": (1,),
    "values": (2,),
    "keys_and_values": (1, 2),
    "queries_and_keys": (0, 1),
}


def dropout_mistakes(plain: type[Heads]) -> tuple[Misconception, ...]:
    """Dropout that nobody has asked for, and that never ends."""

    def dropped(p: float) -> dict[str, type[Heads]]:
        return {
            "returned": but(plain, share=lambda self, scores, allowed: F.dropout(masked_softmax(scores, allowed), p)),
            "used": but(plain, mix=lambda self, weights, v: F.dropout(weights, p) @ v),
        }

    return dropout_left_on(dropped)


def scores_mistakes(plain: type[Heads]) -> tuple[Misconception, ...]:
    """Scale and softmax."""
    return (
        wrong(
            "no_scale",
            "The scale is missing",
            "The scores go into the softmax without being divided by √d. The rows of your weights are too sharp.",
            but(plain, scale=lambda self, x, memory: 1.0),
        ),
        wrong(
            "scaled_by_root_d_model",
            "Scaled by √d_model instead of √d",
            "A head's scores are sums of d products, because its queries are d wide. You divided by √d_model, the "
            "width before the split: with 8 heads that is √8 times as large, and the weights come out too even.",
            but(plain, scale=lambda self, x, memory: x.shape[-1] ** -0.5),
        ),
        wrong(
            "scaled_by_root_width",
            "Scaled by the width of all heads together",
            "A head's scores are sums of d products. You divided by the root of h·d, the width before it is split.",
            but(plain, scale=lambda self, x, memory: (self.num_heads * self.d_head) ** -0.5),
        ),
        wrong(
            "scaled_by_d",
            "Divided by d instead of √d",
            "The standard deviation of a dot product grows with √d. Dividing by d makes the weights too even. "
            "(Did you scale twice? √d · √d is d.)",
            but(plain, scale=lambda self, x, memory: 1 / self.d_head),
        ),
        wrong(
            "scale_multiplied",
            "Multiplied by √d instead of divided",
            "The scores grow with √d already, and yours grow by as much again: the softmax gives nearly all to one "
            "position. Divide by √d, or multiply by d ** -0.5.",
            but(plain, scale=lambda self, x, memory: self.d_head**0.5),
        ),
        wrong(
            "scaled_by_root_heads",
            "Scaled by the number of heads",
            "The scale depends on how *wide* a head is, because that is the length of the sum in one dot product. How "
            "many heads there are does not matter to any of them.",
            but(plain, scale=lambda self, x, memory: self.num_heads**-0.5),
        ),
        wrong(
            "scale_after_softmax",
            "Scaled after the softmax",
            "A row of your weights adds up to 1/√d. The scale belongs to the scores, before the softmax.",
            but(
                plain,
                scale=lambda self, x, memory: 1.0,
                share=lambda self, scores, allowed: masked_softmax(scores, allowed) * self.d_head**-0.5,
            ),
        ),
        wrong(
            "over_queries",
            "The softmax runs over the queries",
            "Your columns add up to 1; the rows have to. Each query shares its attention among the keys: dim=-1.",
            but(plain, share=lambda self, scores, allowed: masked_softmax(scores, allowed, dim=-2)),
        ),
        wrong(
            "over_heads",
            "The softmax runs over the heads",
            "The heads compete for each pair of positions. But each head attends for itself: its rows add up to 1. "
            "Axis 1 of the scores holds the heads now; dim=-1 is the keys.",
            but(plain, share=lambda self, scores, allowed: scores.softmax(dim=1)),
        ),
        wrong(
            "over_batch",
            "The softmax runs over the batch",
            "What one text looks at depends on which others came along. Each query shares its attention among the "
            "keys: dim=-1.",
            but(plain, share=lambda self, scores, allowed: scores.softmax(dim=0)),
        ),
        wrong(
            "over_all_pairs",
            "The softmax runs over all pairs",
            "All weights of a head together add up to 1. Each *row* has to: every query shares out 1 of its own, among "
            "the keys alone, dim=-1.",
            but(plain, share=_over_all_pairs),
        ),
        wrong(
            "no_softmax",
            "The softmax is missing",
            "The values are added up with the raw scores as weights: some are negative, and no row adds up to 1.",
            but(plain, share=lambda self, scores, allowed: scores),
        ),
        wrong(
            "softmax_twice",
            "The softmax is taken twice",
            "The weights went through a second softmax. Their entries lie between 0 and 1, so the second one makes "
            "them nearly even. Once is enough.",
            but(plain, share=lambda self, scores, allowed: masked_softmax(masked_softmax(scores, allowed), allowed)),
        ),
        wrong(
            "weights_transposed",
            "The weights are transposed before they meet the values",
            "The weights that you return are right. But row i of weights @ v has to mix the values with query i's "
            "shares; with weights.mT it mixes them with the shares that others gave to position i.",
            but(plain, mix=lambda self, weights, v: weights.mT @ v),
        ),
        wrong(
            "weights_detached",
            "The weights are cut from the gradient",
            "The numbers are right. But the weights that meet the values were detached, or made under "
            "torch.no_grad(): w_q and w_k can never learn. Detach at most the copy that you return.",
            but(plain, mix=lambda self, weights, v: weights.detach() @ v),
        ),
        wrong(
            "softmax_in_float32",
            "The weights are float32, whatever the scores are",
            "`.float()`, or dtype=torch.float32 in the softmax, makes float32 weights, and a matrix product wants both "
            "sides in one dtype: with float64 values it fails. Leave the dtype alone, or go back to that of x.",
            but(plain, share=lambda self, scores, allowed: masked_softmax(scores, allowed).float()),
        ),
        wrong(
            "scores_summed",
            "The scores of all heads are added up",
            "Every head looks at the same positions, since they all use the sum of all scores. That is one wide head: "
            "the loudest question wins. Each head needs a softmax of its own.",
            but(
                plain,
                share=lambda self, scores, allowed: masked_softmax(scores.sum(dim=1, keepdim=True), allowed).expand_as(
                    scores
                ),
            ),
        ),
        wrong(
            "one_wide_head",
            "The heads are never split",
            "One attention over the full width, whose weights every head shares. Split q, k and v first: each head "
            "needs scores and a softmax of its own.",
            but(plain, attend=_one_wide_head),
            same_as="scores_summed",
        ),
        wrong(
            "weights_averaged",
            "The heads' weights are averaged before they meet the values",
            "Every head uses the mean of all weights. Then it no longer matters which head found what: each head's "
            "weights go with its own values.",
            but(
                plain,
                share=lambda self, scores, allowed: (
                    masked_softmax(scores, allowed).mean(dim=1, keepdim=True).expand_as(scores)
                ),
            ),
        ),
    )


def axes_mistakes(plain: type[Heads]) -> tuple[Misconception, ...]:
    """Splitting and merging."""
    return (
        wrong(
            "split_and_merged_by_reshape",
            "reshape where a transpose was needed, both ways",
            "`reshape(b, h, n, d)` gives each head a few *positions*, cut into pieces, in place of its columns of "
            "all. Merging by reshape undoes exactly that, so shapes and round trip look right. Cut (b, n, h, d) "
            "first, and exchange the two middle axes; the other way round when you merge.",
            but(plain, split=_split_by_reshape, merge=_merge_by_reshape),
        ),
        wrong(
            "split_by_reshape",
            "The heads are split by reshape alone",
            "`reshape(b, h, n, d)` fills head 0 with the first few positions, cut into pieces. Reshape to (b, n, h, "
            "d), then exchange the two middle axes.",
            but(plain, split=_split_by_reshape),
        ),
        wrong(
            "merged_by_reshape",
            "The heads are merged by reshape alone",
            "`reshape(b, n, h·d)` of a (b, h, n, d) puts one head at several positions where several heads at one "
            "position belong. Exchange the two middle axes first. The weights are right, only the output is not.",
            but(plain, merge=_merge_by_reshape),
        ),
        wrong(
            "keys_reshaped",
            "The keys are reshaped, not transposed",
            "`reshape(b, h, d, n)` gives the keys the shape that the product needs, but only breaks the lines "
            "elsewhere: a column is no longer a key. Exchange the last two axes: k.transpose(-2, -1).",
            but(plain, attend=_keys_reshaped),
        ),
        wrong(
            "heads_left_behind_words",
            "Heads look at heads, not positions at positions",
            "With (b, n, h, d) the last two axes are heads and numbers, so the heads of one position are compared with "
            "one another, and no position sees another. Exchange the two middle axes before the scores: (b, h, n, d).",
            but(plain, split=_split_and_left, merge=lambda self, x: x.flatten(-2)),
        ),
        wrong(
            "never_split",
            "The heads are never split",
            "There is one attention over the full width. Cut q, k and v first: each head attends with its own d "
            "columns, and has its own weights.",
            but(plain, split=lambda self, x: x[:, None]),
        ),
        wrong(
            "never_split_nor_merged",
            "The heads are never split, and the weights have no axis for them",
            "There is one attention over the full width. Cut q, k and v first: each head attends with its own d "
            "columns, and has its own weights.",
            but(plain, split=lambda self, x: x, merge=lambda self, x: x),
        ),
        wrong(
            "heads_taking_turns",
            "The heads take turns",
            "Your heads are every h-th column, (d h). Trained from scratch this is as good as ours. With given "
            "weights it is wrong: head i is expected in the i-th run of d neighbouring columns, (h d).",
            but(plain, split=_split_taking_turns, merge=_merge_taking_turns),
        ),
        wrong(
            "split_taking_turns",
            "Split as (d h), merged as (h d)",
            "The heads take turns when you split, and stand side by side when you merge. Both have to be (h d).",
            but(plain, split=_split_taking_turns),
        ),
        wrong(
            "merged_taking_turns",
            "Split as (h d), merged as (d h)",
            "The weights are right, but when you merge, the heads take turns. Both have to be (h d), since the rows of "
            "w_o are in the order of the heads.",
            but(plain, merge=_merge_taking_turns),
        ),
        wrong(
            "heads_reversed",
            "The heads are merged in reverse order",
            "w_o expects head 0 first. The weights are right, but the output multiplies each head with another's rows.",
            but(plain, merge=lambda self, x: rearrange(x.flip(1), "b h n d -> b n (h d)")),
        ),
        wrong(
            "first_head_repeated",
            "All heads are the first one",
            "Every head uses the first d columns of q, k and v. In a loop: does the slice use the head's index?",
            but(plain, attend=_heads_in_a_loop),
        ),
        *(
            wrong(
                f"{name}_of_the_first_head",
                f"All heads share the {name.replace('_', ' ')} of head 0",
                f"Every head uses the first d columns for its {name.replace('_', ' ')}. Some models share them, to "
                "save memory; here each head has its own. In a loop: does each slice use the head's index?",
                but(plain, attend=_of_the_first_head(*which)),
            )
            for name, which in PARTS.items()
        ),
        *(
            wrong(
                f"{name}_split_by_reshape",
                f"The {name.replace('_', ' ')} are split by reshape alone",
                "`reshape(b, h, n, d)` (or `view`) fills head 0 with the first few positions, cut into pieces. Reshape "
                "to (b, n, h, d), then exchange the two middle axes, for queries, keys and values alike.",
                but(plain, attend=_split_by(_split_by_reshape, *which)),
            )
            for name, which in PARTS.items()
        ),
        *(
            wrong(
                f"{name}_taking_turns",
                f"The heads take turns in the {name.replace('_', ' ')}",
                "Some of queries, keys and values are cut as (d h), every h-th column, and the others as (h d). All "
                "have to be (h d): each head has a run of neighbouring columns.",
                but(plain, attend=_split_by(_split_taking_turns, *which)),
            )
            for name, which in PARTS.items()
            if len(which) == 1
        ),
        *(
            wrong(
                f"unfolded_otherwise_{name}",
                "The heads are unfolded in another order than they were folded",
                f"Folded into the batch, heads and sentences stand as (b h), or as (h b). {what} read in the other "
                "order, so that heads of different sentences are mixed. With one sentence nobody would notice.",
                but(plain, attend=_unfolded(output=output, weights=weights)),
            )
            for name, what, output, weights in (
                ("both", "Outputs and weights are", True, True),
                ("output", "The outputs are", True, False),
                ("weights", "The weights are", False, True),
            )
        ),
        wrong(
            "summed_before_w_o",
            "A layer gets vectors of one head's width",
            "w_q, w_k and w_v read whole vectors, so nothing is cut before them. w_o reads all heads "
            "side by side, (b, n, h·d): a sum, a mean, a join along another axis, or heads that were never merged are "
            "only d wide.",
            but(plain, merge=lambda self, x: x.sum(dim=1)),
        ),
        wrong(
            "merged_to_d_model",
            "Merged to d_model instead of h·d",
            "The heads side by side are num_heads * d_head wide. That is d_model only as long as nobody gives a "
            "d_head; it is w_o that brings them back to d_model.",
            but(plain, merge=lambda self, x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], self.w_o.out_features)),
        ),
        wrong(
            "view_after_transpose",
            "view cannot join what a transpose has moved",
            "`transpose` moves no number in memory, and `view` needs neighbours there. Use `reshape`, or call "
            "`.contiguous()` first.",
            but(plain, merge=lambda self, x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)),
        ),
    )
