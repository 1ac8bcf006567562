"""What goes wrong in multi-head cross-attention inside and around the heads, as in lesson 03."""

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor, nn

from attnlib.checks.exercise import Misconception
from attnlib.checks.lesson_04.plain_cross_attention import Plain, after, but
from attnlib.checks.usual import wrong

LAYERS = ("w_q", "w_k", "w_v", "w_o")


def _split_by_reshape(self: Plain, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], self.num_heads, x.shape[1], self.d_head)


def _layers_of_d_model(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_model, width, bias)


def _widths_exchanged(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_memory, d_model, width, bias)


def _out_to_d_memory(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_memory, width, bias)
    self.w_o = nn.Linear(width, d_memory, bias=bias)


def _out_from_d_model(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_memory, width, bias)
    self.w_o = nn.Linear(d_model, d_model, bias=bias)


def _as_wide_as_words(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_memory, d_model, bias)


def _of_one_head(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_memory, self.d_head, bias)


def _bias(has: bool, *names: str) -> Callable[..., None]:
    """These layers have a bias, or have none, whatever the caller asks for."""

    def make_layers(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
        Plain.make_layers(self, d_model, d_memory, width, bias)
        for name in names:
            layer = getattr(self, name)
            setattr(self, name, nn.Linear(layer.in_features, layer.out_features, bias=has))

    return make_layers


def _causal(self: Plain, scores: Tensor) -> Tensor:
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1)


def _scores_returned(self: Plain, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = (self.split(projected) for projected in self.project(x, memory))
    scores = q @ k.mT * self.scale(x, memory)
    return self.w_o(self.merge(scores.softmax(dim=-1) @ v)), scores


def _without_bias(self: Plain, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    return x @ self.w_q.weight.mT, memory @ self.w_k.weight.mT, memory @ self.w_v.weight.mT


def _overwritten(self: Plain, d_model: int, num_heads: int, d_head: int | None) -> int:
    if d_head is None and d_model % num_heads:
        raise ValueError(f"num_heads = {num_heads} does not divide d_model = {d_model}")
    return d_model // num_heads


def _asserted(self: Plain, d_model: int, num_heads: int, d_head: int | None) -> int:
    assert d_head is not None or d_model % num_heads == 0, "num_heads must divide d_model"
    return d_head or d_model // num_heads


def inside() -> tuple[Misconception, ...]:
    """The scale, the softmax, and the heads' place among the axes."""
    return (
        wrong(
            "no_scale",
            "The scale is missing",
            "The scores go into the softmax without being divided by √d. The rows of your weights are too sharp.",
            but(scale=lambda self, x, memory: 1.0),
        ),
        wrong(
            "scaled_by_root_d_model",
            "Scaled by √d_model instead of √d",
            "A head's scores are sums of d products, because its queries are d wide. The width of x takes no part.",
            but(scale=lambda self, x, memory: x.shape[-1] ** -0.5),
        ),
        wrong(
            "scaled_by_root_d_memory",
            "Scaled by √d_memory instead of √d",
            "A head's scores are sums of d products, because its keys are d wide. The width of the memory takes no "
            "part.",
            but(scale=lambda self, x, memory: memory.shape[-1] ** -0.5),
        ),
        wrong(
            "scaled_by_root_width",
            "Scaled by the width of all heads together",
            "A head's scores are sums of d products. You divided by the root of h·d, the width before it is split.",
            but(scale=lambda self, x, memory: (self.num_heads * self.d_head) ** -0.5),
        ),
        wrong(
            "scaled_by_d",
            "Divided by d instead of √d",
            "The standard deviation of a dot product grows with √d. Dividing by d makes the weights too even.",
            but(scale=lambda self, x, memory: 1 / self.d_head),
        ),
        wrong(
            "scale_multiplied",
            "Multiplied by √d instead of divided",
            "The scores grow with √d already, and yours grow by as much again: the softmax gives nearly all to one "
            "position. Divide by √d, or multiply by d ** -0.5.",
            but(scale=lambda self, x, memory: self.d_head**0.5),
        ),
        wrong(
            "scaled_by_root_k",
            "Scaled by the length of the memory",
            "A head's scores are sums of d products. How many positions the memory has does not matter to any of them.",
            but(scale=lambda self, x, memory: memory.shape[-2] ** -0.5),
        ),
        wrong(
            "scaled_by_root_q",
            "Scaled by the length of x",
            "A head's scores are sums of d products. How many positions ask does not matter to any of them.",
            but(scale=lambda self, x, memory: x.shape[-2] ** -0.5),
        ),
        wrong(
            "scaled_by_root_heads",
            "Scaled by the number of heads",
            "The scale depends on how *wide* a head is, not on how many there are.",
            but(scale=lambda self, x, memory: self.num_heads**-0.5),
        ),
        wrong(
            "no_softmax",
            "The softmax is missing",
            "The values are added up with the raw scores as weights: some are negative, and no row adds up to 1.",
            but(share=lambda self, scores: scores),
        ),
        wrong(
            "softmax_twice",
            "The softmax is taken twice",
            "The weights went through a second softmax. Their entries lie between 0 and 1, so the second one makes "
            "them nearly even. Once is enough.",
            but(share=lambda self, scores: scores.softmax(dim=-1).softmax(dim=-1)),
        ),
        wrong(
            "causal",
            "A causal mask on the memory",
            "Query i sees only the first i + 1 positions of the memory. The memory is there as a whole, and its "
            "positions have nothing to do with those of x: every query sees all of it.",
            but(share=_causal),
        ),
        wrong(
            "weights_detached",
            "The weights are cut from the gradient",
            "The numbers are right. But the weights that meet the values were detached, or made under "
            "torch.no_grad(): w_q and w_k can never learn. Detach at most the copy that you return.",
            but(mix=lambda self, weights, v: weights.detach() @ v),
        ),
        wrong(
            "softmax_in_float32",
            "The weights are float32, whatever the scores are",
            "`.float()`, or dtype=torch.float32 in the softmax, makes float32 weights, and a matrix product wants both "
            "sides in one dtype: with float64 values it fails. Leave the dtype alone, or go back to that of x.",
            but(share=lambda self, scores: scores.softmax(dim=-1, dtype=torch.float32)),
        ),
        wrong(
            "over_queries",
            "The softmax runs over the queries",
            "Your columns add up to 1; the rows have to. Each query shares its attention among the keys: dim=-1.",
            but(share=lambda self, scores: scores.softmax(dim=-2)),
        ),
        wrong(
            "over_heads",
            "The softmax runs over the heads",
            "In (b, h, q, k), axis 1 holds the heads, and they do not compete. The keys are the last axis: dim=-1.",
            but(share=lambda self, scores: scores.softmax(dim=1)),
        ),
        wrong(
            "split_by_reshape",
            "The heads are split by reshape alone",
            "`reshape(b, h, n, d)` fills head 0 with the first few positions, cut into pieces. Reshape to (b, n, h, "
            "d), then exchange the two middle axes.",
            but(split=_split_by_reshape),
        ),
        wrong(
            "merged_by_reshape",
            "The heads are merged by reshape alone",
            "`reshape(b, q, h·d)` of a (b, h, q, d) puts one head at several positions where several heads at one "
            "position belong. Exchange the two middle axes first. The weights are right, only the output is not.",
            but(merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        wrong(
            "split_and_merged_by_reshape",
            "reshape where a transpose was needed, both ways",
            "Splitting and merging undo each other, so the shapes look right. But head 0 got the first few positions "
            "in place of its columns of all of them. Exchange the two middle axes, each time.",
            but(split=_split_by_reshape, merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        wrong(
            "heads_taking_turns",
            "The heads take turns",
            "Your heads are every h-th column, (d h). With given weights head i is expected in the i-th run of d "
            "neighbouring columns, (h d).",
            but(
                split=lambda self, x: rearrange(x, "b n (d h) -> b h n d", h=self.num_heads),
                merge=lambda self, x: rearrange(x, "b h n d -> b n (d h)"),
            ),
        ),
        wrong(
            "split_taking_turns",
            "Split as (d h), merged as (h d)",
            "The heads take turns when you split, and stand side by side when you merge. Both have to be (h d).",
            but(split=lambda self, x: rearrange(x, "b n (d h) -> b h n d", h=self.num_heads)),
        ),
        wrong(
            "merged_taking_turns",
            "Split as (h d), merged as (d h)",
            "The weights are right, but when you merge, the heads take turns. Both have to be (h d), since the rows of "
            "w_o are in the order of the heads.",
            but(merge=lambda self, x: rearrange(x, "b h n d -> b n (d h)")),
        ),
        wrong(
            "heads_reversed",
            "The heads are merged in reverse order",
            "w_o expects head 0 first. The weights are right, but the output multiplies each head with another's rows.",
            but(merge=lambda self, x: rearrange(x.flip(1), "b h n d -> b n (h d)")),
        ),
        wrong(
            "never_split",
            "The heads are never split",
            "There is one attention over the full width. Cut q, k and v first: each head attends with its own d "
            "columns, and has its own weights, (b, h, q, k).",
            but(split=lambda self, x: x[:, None]),
        ),
        wrong(
            "never_split_nor_merged",
            "The heads are never split, and the weights have no axis for them",
            "There is one attention over the full width. Cut q, k and v first: each head attends with its own d "
            "columns, and has its own weights, (b, h, q, k).",
            but(split=lambda self, x: x, merge=lambda self, x: x),
        ),
        wrong(
            "view_after_transpose",
            "view cannot join what a transpose has moved",
            "`transpose` moves no number in memory, and `view` needs neighbours there. Use `reshape`, or call "
            "`.contiguous()` first.",
            but(merge=lambda self, x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)),
        ),
        wrong(
            "scores_summed",
            "The scores of all heads are added up",
            "Every head looks at the same positions, since all use the sum of all scores. Each head needs a softmax "
            "of its own. (Heads that are never split do the same.)",
            but(share=lambda self, scores: scores.sum(dim=1, keepdim=True).softmax(dim=-1).expand_as(scores)),
        ),
    )


def around() -> tuple[Misconception, ...]:
    """The layers, the arguments of the constructor, and what is returned."""
    return (
        wrong(
            "no_output_projection",
            "The output projection is forgotten",
            "The heads stand side by side and are returned like that. w_o is made but never called.",
            but(finish=lambda self, x: x),
        ),
        wrong(
            "biases_unused",
            "The biases are there, but not used",
            "You multiplied by the weights alone. Call the layers instead, self.w_q(x): they add their bias.",
            but(project=_without_bias, finish=lambda self, x: x @ self.w_o.weight.mT),
        ),
        wrong(
            "biases_unused_before",
            "The biases of w_q, w_k and w_v are not used",
            "You multiplied by the weights alone. Call the layers instead, self.w_q(x): they add their bias.",
            but(project=_without_bias),
        ),
        wrong(
            "memory_detached",
            "The memory is cut from the gradient",
            "The numbers are right. But the encoder that made the memory learns only through it: do not detach it.",
            but(project=lambda self, x, memory: (self.w_q(x), self.w_k(memory.detach()), self.w_v(memory.detach()))),
        ),
        wrong(
            "residual_added",
            "x is added to the output",
            "A residual connection belongs to the block around attention (lesson 06), not to attention itself.",
            after(lambda x, output, weights: (output + x, weights)),
        ),
        wrong(
            "weights_mean_returned",
            "The weights are averaged over the heads",
            "The output is right. But you return one (q, k) for each text, as nn.MultiheadAttention does unless it is "
            "told otherwise. The contract keeps the heads: (b, h, q, k).",
            after(lambda x, output, weights: (output, weights.mean(dim=1))),
        ),
        wrong(
            "weights_summed_returned",
            "The weights are summed over the heads",
            "The output is right. But the rows of your weights add up to the number of heads. The contract keeps the "
            "heads: (b, h, q, k).",
            after(lambda x, output, weights: (output, weights.sum(dim=1))),
        ),
        wrong(
            "weights_heads_first",
            "The heads' weights are stacked in front of the batch",
            "The output is right. But torch.stack puts the new axis first, (h, b, q, k). The batch comes first: "
            "(b, h, q, k), so stack with dim=1.",
            after(lambda x, output, weights: (output, weights.transpose(0, 1))),
        ),
        wrong(
            "weights_of_the_last_head",
            "Only the last head's weights are returned",
            "The output is right. But what your loop leaves behind are the weights of its last round, (b, q, k). "
            "Collect those of every head and stack them: (b, h, q, k).",
            after(lambda x, output, weights: (output, weights[:, -1])),
        ),
        wrong(
            "weights_listed",
            "The weights are a list, one entry for each head",
            "The contract wants one tensor, (b, h, q, k): torch.stack(the_list, dim=1).",
            after(lambda x, output, weights: (output, list(weights.unbind(1)))),
        ),
        wrong(
            "weights_returned_transposed",
            "The weights are returned transposed",
            "The output is right. But yours are (b, h, k, q). Rows are those who ask, columns those who answer.",
            after(lambda x, output, weights: (output, weights.mT)),
        ),
        wrong(
            "scores_returned",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the scores before the softmax.",
            but(forward=_scores_returned),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The weights came first. The contract is (output, weights).",
            after(lambda x, output, weights: (weights, output)),
        ),
        wrong(
            "weights_forgotten",
            "Only the output is returned",
            "The contract is (output, weights): you will want to see who looked where.",
            after(lambda x, output, weights: output),
        ),
        wrong(
            "memory_width_forgotten",
            "w_k and w_v are made for x, not for the memory",
            "They get the memory, whose vectors are d_memory wide: nn.Linear(d_memory, num_heads * d_head).",
            but(make_layers=_layers_of_d_model),
        ),
        wrong(
            "widths_exchanged",
            "d_model and d_memory are exchanged",
            "w_q reads x, which is d_model wide; w_k and w_v read the memory, which is d_memory wide. w_o goes back "
            "to d_model, because the output stands at the positions of x.",
            but(make_layers=_widths_exchanged),
        ),
        wrong(
            "out_to_d_memory",
            "The output is as wide as the memory",
            "The output stands at the positions of x and goes on where x was: w_o leads to d_model, not to d_memory.",
            but(make_layers=_out_to_d_memory),
        ),
        wrong(
            "never_a_bias",
            "Layers have no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            but(make_layers=_bias(False, *LAYERS)),
        ),
        wrong(
            "always_a_bias",
            "`bias` is not passed on",
            "With bias=False none of the four layers has one: hand it to nn.Linear.",
            but(make_layers=_bias(True, *LAYERS)),
        ),
        wrong(
            "projections_without_bias",
            "w_q, w_k and w_v have no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            but(make_layers=_bias(False, "w_q", "w_k", "w_v")),
        ),
        wrong(
            "w_o_without_bias",
            "w_o has no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            but(make_layers=_bias(False, "w_o")),
        ),
        wrong(
            "w_k_always_biased",
            "`bias` does not reach w_k",
            "With bias=False none of the four layers has one: hand it to every nn.Linear.",
            but(make_layers=_bias(True, "w_k")),
        ),
        wrong(
            "w_v_always_biased",
            "`bias` does not reach w_v",
            "With bias=False none of the four layers has one: hand it to every nn.Linear.",
            but(make_layers=_bias(True, "w_v")),
        ),
        wrong(
            "w_o_always_biased",
            "`bias` does not reach w_o",
            "With bias=False none of the four layers has one: hand it to every nn.Linear.",
            but(make_layers=_bias(True, "w_o")),
        ),
        wrong(
            "d_head_overwritten",
            "`d_head` is overwritten",
            "d_model // num_heads is only what d_head is without a caller's wish. You compute it also where a d_head "
            "is given: do so only `if d_head is None`.",
            but(width_of_a_head=_overwritten),
        ),
        wrong(
            "layers_as_wide_as_words",
            "w_q, w_k and w_v lead to d_model columns",
            "That fits as long as nobody gives a d_head. They lead to num_heads * d_head columns, and w_o goes back.",
            but(make_layers=_as_wide_as_words),
        ),
        wrong(
            "out_from_d_model",
            "w_o is made for vectors of d_model",
            "w_o reads all heads side by side, and these are num_heads * d_head wide. That is d_model only as long as "
            "nobody gives a d_head: nn.Linear(num_heads * d_head, d_model).",
            but(make_layers=_out_from_d_model),
        ),
        wrong(
            "layers_of_one_head",
            "The layers are as wide as a single head",
            "w_q, w_k and w_v make the queries, keys and values of *all* heads, side by side: they lead to num_heads * "
            "d_head columns.",
            but(make_layers=_of_one_head),
        ),
        wrong(
            "d_head_ignored",
            "`d_head` is not used",
            "When d_head is given, the heads are that wide, whatever d_model is: w_q, w_k and w_v lead to num_heads * "
            "d_head columns.",
            but(
                width_of_a_head=lambda self, d_model, num_heads, d_head: Plain.width_of_a_head(
                    self, d_model, num_heads, None
                )
            ),
        ),
        wrong(
            "no_error",
            "A width that does not divide is accepted",
            "`d_model // num_heads` rounds down without a word. Where d_head is not given and num_heads does not "
            "divide d_model, raise a ValueError that says both numbers.",
            but(width_of_a_head=lambda self, d_model, num_heads, d_head: d_head or d_model // num_heads),
        ),
        wrong(
            "assertion",
            "An assertion instead of a ValueError",
            "`assert` is for what cannot happen, and Python drops it when it runs with -O. What a caller did wrong is "
            "a ValueError: `raise ValueError(...)`.",
            but(width_of_a_head=_asserted),
        ),
    )
