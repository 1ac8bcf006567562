"""What goes wrong in CausalSelfAttention: one plain module, in which each misconception replaces a step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.usual import usual_misconceptions, wrong


def _triangle(n: int, device: torch.device, further: int = 0) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool, device=device).tril(further)


def _allowed(x: Tensor, key_mask: Tensor | None) -> Tensor:
    """Past and real: (n, n), or (b, 1, n, n)."""
    past = _triangle(x.shape[1], x.device)
    return past if key_mask is None else past & key_mask[:, None, None, :]


def _weigh(scores: Tensor, allowed: Tensor) -> Tensor:
    empty = ~allowed.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(allowed | empty), -torch.inf).softmax(dim=-1).masked_fill(empty, 0.0)


def _cut(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(-2)


def _module(
    *,
    allowed: Callable[[Tensor, Tensor | None], Tensor] = _allowed,
    weigh: Callable[[Tensor, Tensor], Tensor] = _weigh,
    scale: Callable[[int, int], float] = lambda d_head, d_model: d_head**-0.5,
    cut: Callable[[Tensor, int], Tensor] = _cut,
    join: Callable[[Tensor], Tensor] = _join,
    mix: Callable[[Tensor, Tensor], Tensor] = lambda weights, v: weights @ v,
    order: str = "qkv",
    prepare: Callable[[Tensor, Tensor | None], Tensor] = lambda x, key_mask: x,
    answer: Callable[[Any, Tensor, Tensor], Any] = lambda module, joined, weights: (module.w_o(joined), weights),
    with_bias: bool | None = None,
    biased: tuple[str, ...] = ("w_q", "w_k", "w_v", "w_o"),
    divides: bool = True,
) -> type[nn.Module]:
    """The right module, but for the steps that are given."""

    class Causal(nn.Module):
        def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
            super().__init__()
            if divides and d_model % num_heads:
                raise ValueError("d_model must be divisible by num_heads")
            self.heads = num_heads
            for name in ("w_q", "w_k", "w_v", "w_o"):
                own = bias if with_bias is None or name not in biased else with_bias
                setattr(self, name, nn.Linear(d_model, d_model, bias=own))

        def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Any:
            mask = allowed(x, key_mask)
            x = prepare(x, key_mask)
            made = {name: cut(getattr(self, f"w_{name}")(x), self.heads) for name in "qkv"}
            q, k, v = (made[name] for name in order)
            weights = weigh(q @ k.mT * scale(q.shape[-1], x.shape[-1]), mask)
            return answer(self, join(mix(weights, v)), weights)

    return Causal


def _with_padding(
    past: Callable[[Tensor], Tensor], keys: Callable[[Tensor], Tensor] = lambda key_mask: key_mask[:, None, None, :]
) -> Callable[[Tensor, Tensor | None], Tensor]:
    return lambda x, key_mask: past(x) if key_mask is None else past(x) & keys(key_mask)


def _past(x: Tensor) -> Tensor:
    return _triangle(x.shape[1], x.device)


def _asserted() -> type[nn.Module]:
    class Causal(_module(divides=False)):  # type: ignore[misc]
        def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
            assert d_model % num_heads == 0, "num_heads must divide d_model"
            super().__init__(d_model, num_heads, bias)

    return Causal


class _Residual(_module()):  # type: ignore[misc]
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, weights = super().forward(x, key_mask)
        return output + x, weights


def _truth_of_the_mask(x: Tensor, key_mask: Tensor | None) -> Tensor:
    return _past(x) & key_mask[:, None, None, :] if key_mask else _past(x)


def _block_afterwards(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.softmax(dim=-1) * allowed


def _padding_after_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Causal before the softmax, padding after it."""
    past = _triangle(scores.shape[-1], scores.device)
    return _weigh(scores, past) * allowed


LISTED = (
    wrong(
        "no_causal_mask",
        "Nothing hides the future",
        "Every position sees the whole sentence. Position i could simply read off token i + 1, which it is meant to "
        "guess. Put the causal mask on the scores.",
        _module(allowed=_with_padding(lambda x: torch.ones_like(_past(x)))),
    ),
    wrong(
        "upside_down",
        "The causal mask is upside down",
        "Each query sees the future and not the past: True and False are exchanged. True = may attend.",
        _module(allowed=_with_padding(lambda x: ~_past(x))),
    ),
    wrong(
        "upper_triangle",
        "The triangle is the upper one",
        "Each query sees itself and what comes after it. The past lies below the diagonal: tril.",
        _module(allowed=_with_padding(lambda x: _past(x).mT)),
    ),
    wrong(
        "strict",
        "A word may not see itself",
        "The diagonal is blocked, too. A query may look at its own position: what is to be guessed is the next token. "
        "And the first query would see nothing.",
        _module(allowed=_with_padding(lambda x: _triangle(x.shape[1], x.device, -1))),
    ),
    wrong(
        "one_ahead",
        "Every position sees one token too many",
        "The triangle reaches one column too far, and query i sees token i + 1: the answer.",
        _module(allowed=_with_padding(lambda x: _triangle(x.shape[1], x.device, 1))),
    ),
    wrong(
        "mask_after_softmax",
        "Blocked after the softmax, and not divided again",
        "The future weights are 0, but the rows add up to less than 1, and the future is still in every denominator. "
        "Block the scores before the softmax.",
        _module(weigh=_block_afterwards),
    ),
    wrong(
        "scores_times_mask",
        "Blocked scores become 0",
        "A score of 0 is not a weight of 0: e⁰ = 1. Multiplying by the mask, or filling with 0, leaves blocked keys a "
        "good share. Fill blocked scores with -inf.",
        _module(weigh=lambda scores, allowed: (scores * allowed).softmax(dim=-1)),
    ),
    wrong(
        "padding_ignored",
        "The key mask is not used",
        "Without padding all is right. With a key_mask, some keys are not real, and no query may look at them.",
        _module(allowed=lambda x, key_mask: _past(x)),
    ),
    wrong(
        "padding_upside_down",
        "The key mask is taken the other way round",
        "Yours blocks the real keys. In key_mask True = a real key, as in padding_mask.",
        _module(allowed=_with_padding(_past, lambda key_mask: ~key_mask[:, None, None, :])),
    ),
    wrong(
        "padding_on_queries",
        "The key mask stands on the axis of the queries",
        "key_mask (b, n) became (b, 1, n, 1): it blocks whole *rows*, those of padded queries, and real queries still "
        "look at padded keys. Keys are the last axis of the scores: [:, None, None, :].",
        _module(allowed=_with_padding(_past, lambda key_mask: key_mask[:, None, :, None])),
    ),
    wrong(
        "padding_not_lined_up",
        "The key mask is not lined up with the keys of its sentence",
        "(n, n) & (b, n) lines the sentences of the batch up with the queries. Give the key mask the axes of heads and "
        "queries first: key_mask[:, None, None, :].",
        _module(allowed=_with_padding(_past, lambda key_mask: key_mask)),
    ),
    wrong(
        "truth_of_the_key_mask",
        "A whole mask is asked whether it is true",
        "`if key_mask:` wants one True or False, and a tensor of several has none. Ask whether there is a mask at all: "
        "`if key_mask is not None:`.",
        _module(allowed=_truth_of_the_mask),
    ),
    wrong(
        "padding_instead_of_causal",
        "With a key mask, the causal mask is gone",
        "Where a key_mask is given it *replaces* the causal mask. Both have to hold: join them with &.",
        _module(allowed=lambda x, key_mask: _past(x) if key_mask is None else key_mask[:, None, None, :]),
    ),
    wrong(
        "or_instead_of_and",
        "Either mask opens a key",
        "| opens a key that is in the past *or* real. A query may see a key that is in the past *and* real: &.",
        _module(allowed=lambda x, key_mask: _past(x) if key_mask is None else _past(x) | key_mask[:, None, None, :]),
    ),
    wrong(
        "first_key_mask_for_all",
        "All sentences get the first one's key mask",
        "With a batch of one nobody notices. Each sentence has its own padding.",
        _module(allowed=_with_padding(_past, lambda key_mask: key_mask[:1, None, None, :])),
    ),
    wrong(
        "padding_after_softmax",
        "Padding is blocked after the softmax",
        "The causal mask comes before the softmax, the padding after it. So the rows of padded sentences add up to "
        "less than 1. Join both masks first, then block once.",
        _module(weigh=_padding_after_softmax),
    ),
    wrong(
        "padded_words_zeroed",
        "The padded words are set to zero, not blocked",
        "x is multiplied by the mask. A word of zeros still has a key, the bias of w_k, and a score, and takes its "
        "share of the softmax. Only its score can keep it out.",
        _module(
            allowed=lambda x, key_mask: _past(x),
            prepare=lambda x, key_mask: x if key_mask is None else x * key_mask[..., None],
        ),
    ),
    wrong(
        "empty_rows_nan",
        "A query that sees nothing becomes NaN",
        "With padding on the left, the first queries have no real key in their past. The softmax of a row of -inf is "
        "0 / 0, and one NaN spoils the gradient of every weight. Use your masked_softmax.",
        _module(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)),
    ),
    wrong(
        "no_scale",
        "The scale is missing",
        "The scores go into the softmax without being divided by √d, d the width of one head.",
        _module(scale=lambda d_head, d_model: 1.0),
    ),
    wrong(
        "scaled_by_root_d_model",
        "Scaled by √d_model",
        "Each head's dot product has d_model / num_heads terms. The scale is the root of *that* width.",
        _module(scale=lambda d_head, d_model: d_model**-0.5),
    ),
    wrong(
        "scaled_by_d",
        "Divided by d instead of √d",
        "The standard deviation of a dot product grows with √d. Dividing by d makes the weights too even.",
        _module(scale=lambda d_head, d_model: 1 / d_head),
    ),
    wrong(
        "scale_multiplied",
        "Multiplied by √d instead of divided",
        "The scores grow with √d already, and yours grow by as much again. Divide by √d, or multiply by d ** -0.5.",
        _module(scale=lambda d_head, d_model: d_head**0.5),
    ),
    wrong(
        "scaled_by_root_heads",
        "Scaled by the number of heads",
        "The scale depends on how *wide* a head is, not on how many there are.",
        _module(scale=lambda d_head, d_model: (d_model // d_head) ** -0.5),
    ),
    wrong(
        "scaled_by_root_n",
        "Scaled by the number of words",
        "The scale depends on how wide a head's queries are, d, not on how many words there are.",
        _module(weigh=lambda scores, allowed: _weigh(scores * scores.shape[-1] ** -0.5, allowed), scale=lambda *_: 1.0),
    ),
    wrong(
        "no_softmax",
        "The softmax is missing",
        "The future is blocked, but the values are added up with the raw scores as weights: no row adds up to 1.",
        _module(weigh=lambda scores, allowed: scores * allowed),
    ),
    wrong(
        "over_heads",
        "The softmax runs over the heads",
        "In (b, h, n, n), axis 1 holds the heads, and they do not compete. The keys are the last axis: dim=-1.",
        _module(weigh=lambda scores, allowed: scores.masked_fill(~allowed, -1e9).softmax(dim=1)),
    ),
    wrong(
        "weights_detached",
        "The weights are cut from the gradient",
        "The numbers are right. But the weights that meet the values were detached, or made under torch.no_grad(): w_q "
        "and w_k can never learn. Detach at most the copy that you return.",
        _module(mix=lambda weights, v: weights.detach() @ v),
    ),
    wrong(
        "softmax_in_float32",
        "The weights are float32, whatever the scores are",
        "`.float()`, or dtype=torch.float32 in the softmax, makes float32 weights, and a matrix product wants both "
        "sides in one dtype: with float64 values it fails. Leave the dtype alone, or go back to that of x.",
        _module(weigh=lambda scores, allowed: _weigh(scores, allowed).float()),
    ),
    wrong(
        "over_queries",
        "The softmax runs over the queries",
        "Your columns add up to 1; the rows have to: dim=-1.",
        _module(weigh=lambda scores, allowed: _weigh(scores.mT, allowed.mT).mT),
    ),
    wrong(
        "cut_by_reshape",
        "The heads are cut by a reshape alone",
        "(b, n, h·d) was reshaped to (b, h, n, d) at once. The shape fits, but each head gets whole words instead of a "
        "slice of every word. Reshape to (b, n, h, d), then exchange the two axes; or use attnlib.split_heads.",
        _module(cut=lambda x, heads: x.reshape(x.shape[0], heads, x.shape[1], -1)),
    ),
    wrong(
        "joined_by_reshape",
        "The heads are joined by a reshape alone",
        "(b, h, n, d) was reshaped to (b, n, h·d) at once, so that a row mixes several words. Exchange the axes of "
        "heads and words first; or use attnlib.merge_heads.",
        _module(join=lambda x: x.reshape(x.shape[0], x.shape[2], -1)),
    ),
    wrong(
        "cut_and_joined_by_reshape",
        "reshape where a transpose was needed, both ways",
        "Cutting and joining undo each other, so the shapes look right. But head 0 got the first few words in place of "
        "its columns of all words. Exchange the two middle axes, each time.",
        _module(
            cut=lambda x, heads: x.reshape(x.shape[0], heads, x.shape[1], -1),
            join=lambda x: x.reshape(x.shape[0], x.shape[2], -1),
        ),
    ),
    wrong(
        "view_after_transpose",
        "view cannot join what a transpose has moved",
        "`transpose` moves no number in memory, and `view` needs neighbours there. Use `reshape`, or call "
        "`.contiguous()` first.",
        _module(join=lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)),
    ),
    wrong(
        "heads_taking_turns",
        "The heads take turns, cut and joined as (d h)",
        "Trained from scratch this is as good as ours. With given weights it is wrong: head i is expected in the i-th "
        "run of d neighbouring columns, (h d).",
        _module(
            cut=lambda x, heads: x.unflatten(-1, (-1, heads)).movedim(-1, 1),
            join=lambda x: x.movedim(1, -1).flatten(-2),
        ),
    ),
    wrong(
        "joined_taking_turns",
        "Cut as (h d), joined as (d h)",
        "The weights are right, but when you join, the heads take turns. Both have to be (h d), since the rows of w_o "
        "are in the order of the heads.",
        _module(join=lambda x: x.movedim(1, -1).flatten(-2)),
    ),
    wrong(
        "heads_fastest",
        "The heads are interleaved",
        "The width was cut as (d h): head 0 gets the columns 0, h, 2h … The contract's order is (h d): head 0 gets the "
        "first d columns.",
        _module(cut=lambda x, heads: x.unflatten(-1, (-1, heads)).movedim(-1, 1)),
    ),
    wrong(
        "one_head_only",
        "One large head",
        "num_heads is not used: there is one softmax over the full width. Cut queries, keys and values into heads.",
        _module(cut=lambda x, heads: x[:, None]),
    ),
    wrong(
        "no_output_projection",
        "The output projection is forgotten",
        "The heads are joined, but not passed through w_o. Without it, no head can make use of what another found.",
        _module(answer=lambda module, joined, weights: (joined, weights)),
    ),
    wrong(
        "q_k_exchanged",
        "Queries and keys are exchanged",
        "The queries come from w_k and the keys from w_q.",
        _module(order="kqv"),
    ),
    wrong(
        "k_v_exchanged",
        "Keys and values are exchanged",
        "The values are what is matched, and the keys are what is averaged.",
        _module(order="qvk"),
    ),
    wrong(
        "queries_for_keys",
        "The keys are made by w_q",
        "Queries and keys come from the same layer, and w_k is never used. The keys are self.w_k(x).",
        _module(order="qqv"),
    ),
    wrong(
        "keys_for_values",
        "The keys are averaged in place of the values",
        "The output is made of weights @ k: w_v is never used.",
        _module(order="qkk"),
    ),
    wrong(
        "biases_unused",
        "The bias of w_o is not used",
        "You multiplied by its weight alone. Call the layer instead, self.w_o(x): it adds its bias.",
        _module(answer=lambda module, joined, weights: (joined @ module.w_o.weight.mT, weights)),
    ),
    wrong(
        "weights_of_the_last_head",
        "Only the last head's weights are returned",
        "The output is right. But what your loop leaves behind are the weights of its last round, (b, n, n). Collect "
        "those of every head and stack them: (b, h, n, n).",
        _module(answer=lambda module, joined, weights: (module.w_o(joined), weights[:, -1])),
    ),
    wrong(
        "weights_heads_first",
        "The heads' weights are stacked in front of the batch",
        "The output is right. But torch.stack puts the new axis first, (h, b, n, n). The batch comes first: stack with "
        "dim=1.",
        _module(answer=lambda module, joined, weights: (module.w_o(joined), weights.transpose(0, 1))),
    ),
    wrong(
        "residual_added",
        "The input is added to the output",
        "A residual connection belongs to the block around attention (lesson 06), not to attention itself.",
        _Residual,
    ),
    wrong(
        "weights_averaged",
        "The weights are averaged over the heads",
        "nn.MultiheadAttention returns such an average. Here each head's weights are wanted: (b, h, n, n).",
        _module(answer=lambda module, joined, weights: (module.w_o(joined), weights.mean(dim=1))),
    ),
    wrong(
        "weights_forgotten",
        "Only the output is returned",
        "The contract is (output, weights): the weights show that nothing leaks.",
        _module(answer=lambda module, joined, weights: module.w_o(joined)),
    ),
    wrong(
        "order_returned",
        "Returned in another order",
        "The weights came first. The contract is (output, weights).",
        _module(answer=lambda module, joined, weights: (weights, module.w_o(joined))),
    ),
    wrong(
        "bias_always",
        "bias=False has no effect",
        "The layers have a bias even where bias=False is asked for: pass it on to every nn.Linear.",
        _module(with_bias=True),
    ),
    wrong(
        "bias_never",
        "Layers have no bias",
        "bias is True unless it is said otherwise: nn.Linear(d_model, d_model, bias=bias).",
        _module(with_bias=False),
    ),
    wrong(
        "w_o_always_biased",
        "bias=False has no effect on w_o",
        "w_o has a bias even where bias=False is asked for: pass it on to every nn.Linear.",
        _module(with_bias=True, biased=("w_o",)),
    ),
    wrong(
        "projections_without_bias",
        "w_q, w_k and w_v have no bias",
        "bias is True unless it is said otherwise, and it goes to all four layers.",
        _module(with_bias=False, biased=("w_q", "w_k", "w_v")),
    ),
    wrong(
        "assertion",
        "An assertion instead of a ValueError",
        "`assert` is for what cannot happen, and Python drops it when it runs with -O. What a caller did wrong is a "
        "ValueError: `raise ValueError(...)`.",
        _asserted(),
    ),
    wrong(
        "indivisible_accepted",
        "A width that the heads do not divide is accepted",
        "d_model = 15 does not split into 4 heads of equal width. Say so in __init__, with a ValueError that names "
        "both numbers, before a shape error does it somewhere else.",
        _module(divides=False),
    ),
    *usual_misconceptions(_module()),
)
