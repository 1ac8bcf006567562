"""What goes wrong in CausalSelfAttention because something is hidden: the future, and padding."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.course.lesson_00.slips import slips_of_batches
from attnlib.checks.course.lesson_03.heads import Heads, but, masked_softmax
from attnlib.checks.course.lesson_03.mistakes_around import layer_mistakes, projection_mistakes, result_mistakes
from attnlib.checks.course.lesson_03.mistakes_inside import axes_mistakes, dropout_mistakes, scores_mistakes
from attnlib.checks.course.lesson_03.two_mistakes import two_mistakes
from attnlib.checks.course.usual import usual_misconceptions, without, wrong


def _triangle(n: int, device: torch.device, further: int = 0) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool, device=device).tril(further)


class CausalHeads(Heads):
    """The module of this lesson: x asks itself, and looks neither ahead nor at padding."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
        super().__init__(d_model, d_model, num_heads, None, bias)

    def allowed(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        """Past and real: (n, n), or (b, 1, n, n)."""
        past = _triangle(x.shape[1], x.device)
        return past if key_mask is None else past & key_mask[:, None, None, :]

    def prepare(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        return x

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Any:
        seen = self.prepare(x, key_mask)
        return self.attend(seen, seen, self.allowed(x, key_mask))


def _with_padding(
    past: Callable[[Tensor], Tensor], keys: Callable[[Tensor], Tensor] = lambda key_mask: key_mask[:, None, None, :]
) -> Callable[..., Tensor]:
    return lambda self, x, key_mask: past(x) if key_mask is None else past(x) & keys(key_mask)


def _past(x: Tensor) -> Tensor:
    return _triangle(x.shape[1], x.device)


def _kept_from_the_first_call(self: Any, x: Tensor, key_mask: Tensor | None) -> Tensor:
    if not hasattr(self, "kept") or self.kept.shape[-1] != x.shape[1] or self.kept.device != x.device:
        self.kept = CausalHeads.allowed(self, x, key_mask)
    return self.kept


def _triangle_of_the_first_length(self: Any, x: Tensor, key_mask: Tensor | None) -> Tensor:
    if not hasattr(self, "kept"):
        self.kept = _past(x)
    n = x.shape[1]
    past = self.kept[:n, :n]
    return past if key_mask is None else past & key_mask[:, None, None, :]


def _truth_of_the_mask(self: Heads, x: Tensor, key_mask: Tensor | None) -> Tensor:
    return _past(x) & key_mask[:, None, None, :] if key_mask else _past(x)


def _block_afterwards(self: Heads, scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.softmax(dim=-1) * allowed


def _padding_after_softmax(self: Heads, scores: Tensor, allowed: Tensor) -> Tensor:
    """Causal before the softmax, padding after it."""
    past = _triangle(scores.shape[-1], scores.device)
    return masked_softmax(scores, past) * allowed


def _values_zeroed(self: Heads, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    q, k, v = (self.split(projected) for projected in self.project(x, x))
    weights = self.share(q @ k.mT * self.scale(x, x), _past(x))
    values = v if key_mask is None else v * key_mask[:, None, :, None]
    return self.finish(self.merge(weights @ values)), weights


def _needs_a_key_mask(self: CausalHeads, x: Tensor, key_mask: Tensor) -> Any:
    return CausalHeads.forward(self, x, key_mask)


def _filled_scores_returned(fill: float) -> type[Heads]:
    def attend(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        assert allowed is not None
        q, k, v = (self.split(projected) for projected in self.project(x, memory))
        scores = q @ k.mT * self.scale(x, memory)
        output = self.finish(self.merge(self.share(scores, allowed) @ v))
        return output, scores.masked_fill(~allowed, fill)

    return but(CausalHeads, attend=attend)


def _along(dim: int, fill: float, *, zeroed: bool = False) -> type[Heads]:
    """A softmax along another axis, of blocked scores that were filled; `zeroed` blocks the weights, too."""

    def share(self: Heads, scores: Tensor, allowed: Tensor) -> Tensor:
        weights = scores.masked_fill(~allowed, fill).softmax(dim=dim)
        return weights * allowed if zeroed else weights

    return but(CausalHeads, share=share)


def _fixed_triangle(size: int) -> type[Heads]:
    """A triangle made once, of which each text gets a corner."""

    def allowed(self: CausalHeads, x: Tensor, key_mask: Tensor | None) -> Tensor:
        past = _triangle(size, x.device)[: x.shape[1], : x.shape[1]]
        return past if key_mask is None else past & key_mask[:, None, None, :]

    return but(CausalHeads, allowed=allowed)


def _filled(fill: float) -> Callable[..., Tensor]:
    return lambda self, scores, allowed: scores.masked_fill(~allowed, fill).softmax(dim=-1)


def _repeated_otherwise(self: CausalHeads, x: Tensor, key_mask: Tensor | None) -> Tensor:
    if key_mask is None:
        return _past(x)
    return _past(x) & key_mask.repeat(self.num_heads, 1).unflatten(0, (-1, self.num_heads))[:, :, None, :]


def _unscaled(self: Heads, x: Tensor, memory: Tensor) -> float:
    return 1.0


def _unchecked(self: Heads, d_model: int, num_heads: int, d_head: int | None) -> int:
    return d_model // num_heads


def _whole_layers(self: Heads, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Heads.make_layers(self, d_model, d_model, d_model, bias)


def _split_by_view(self: Heads, x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], self.num_heads, self.d_head).transpose(1, 2)


# this module has no d_head to be forgotten: its heads together are as wide as a word
NO_D_HEAD = (
    "d_head_ignored",
    "d_head_overwritten",
    "d_head_refused",
    "d_head_is_d_model",
    "scaled_by_shared_width",
    "layers_as_wide_as_words",
    "out_from_d_model",
)

MASKED: tuple[tuple[str, str, Any], ...] = (
    ("strict", "A word may not see itself", _with_padding(lambda x: _triangle(x.shape[1], x.device, -1))),
    (
        "one_ahead",
        "Every position sees one token too many",
        _with_padding(lambda x: _triangle(x.shape[1], x.device, 1)),
    ),
    ("no_causal_mask", "Nothing hides the future", _with_padding(lambda x: torch.ones_like(_past(x)))),
    ("padding_ignored", "The key mask is not used", lambda self, x, key_mask: _past(x)),
)
ALSO: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("unscaled", "the scale is missing", "the scores are divided by √d", {"scale": _unscaled}),
    (
        "over_queries",
        "the softmax runs over the queries",
        "the softmax runs over the keys, dim=-1",
        {"share": lambda self, scores, allowed: masked_softmax(scores, allowed, dim=-2)},
    ),
    (
        "merged_by_reshape",
        "the heads are merged by reshape alone",
        "heads and words change places before the heads are merged",
        {"merge": lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)},
    ),
    (
        "mask_after_softmax",
        "what is blocked is blocked after the softmax",
        "the scores are blocked before the softmax, so that the rows add up to 1",
        {"share": _block_afterwards},
    ),
)

EMPTYING: tuple[tuple[str, str, str, Any], ...] = (
    (
        "strict",
        "A word may not see itself",
        "The diagonal is blocked, too. A query may look at its own position.",
        _with_padding(lambda x: _triangle(x.shape[1], x.device, -1)),
    ),
    (
        "upside_down",
        "The causal mask is upside down",
        "Each query sees the future and not the past: True and False are exchanged. True = may attend.",
        _with_padding(lambda x: ~_past(x)),
    ),
    (
        "padding_upside_down",
        "The key mask is taken the other way round",
        "Yours blocks the real keys. In key_mask True = a real key, as in padding_mask.",
        _with_padding(_past, lambda key_mask: ~key_mask[:, None, None, :]),
    ),
    (
        "all_masks_upside_down",
        "Both masks are upside down",
        "True is taken for: blocked. In the triangle, and in key_mask, True = may attend.",
        lambda self, x, key_mask: ~CausalHeads.allowed(self, x, key_mask),
    ),
)

LISTED = (
    wrong(
        "first_mask_kept",
        "The mask of the first call is used ever after",
        "The mask is made once and kept in the module, with the first batch's padding in it. The next batch is padded "
        "otherwise: make the mask at each call, or keep the triangle alone.",
        but(CausalHeads, allowed=_kept_from_the_first_call),
    ),
    wrong(
        "triangle_of_the_first_length",
        "The triangle of the first call is used ever after",
        "It is made once, for the length of the first batch, and kept in the module. A longer text comes, and it does "
        "not fit, or opens everything. Make it at each call, or make a new one where the old one is too small.",
        but(CausalHeads, allowed=_triangle_of_the_first_length),
    ),
    wrong(
        "no_causal_mask",
        "Nothing hides the future",
        "Every position sees the whole sentence. Position i could simply read off token i + 1, which it is meant to "
        "guess. Put the causal mask on the scores.",
        but(CausalHeads, allowed=_with_padding(lambda x: torch.ones_like(_past(x)))),
    ),
    wrong(
        "upside_down",
        "The causal mask is upside down",
        "Each query sees the future and not the past: True and False are exchanged. True = may attend.",
        but(CausalHeads, allowed=_with_padding(lambda x: ~_past(x))),
    ),
    wrong(
        "upper_triangle",
        "The triangle is the upper one",
        "Each query sees itself and what comes after it. The past lies below the diagonal: tril.",
        but(CausalHeads, allowed=_with_padding(lambda x: _past(x).mT)),
    ),
    wrong(
        "strict",
        "A word may not see itself",
        "The diagonal is blocked, too. A query may look at its own position: what is to be guessed is the next token. "
        "And the first query would see nothing.",
        but(CausalHeads, allowed=_with_padding(lambda x: _triangle(x.shape[1], x.device, -1))),
    ),
    wrong(
        "one_ahead",
        "Every position sees one token too many",
        "The triangle reaches one column too far, and query i sees token i + 1: the answer.",
        but(CausalHeads, allowed=_with_padding(lambda x: _triangle(x.shape[1], x.device, 1))),
    ),
    wrong(
        "mask_after_softmax",
        "Blocked after the softmax, and not divided again",
        "The future weights are 0, but the rows add up to less than 1, and the future is still in every denominator. "
        "Block the scores before the softmax.",
        but(CausalHeads, share=_block_afterwards),
    ),
    wrong(
        "scores_times_mask",
        "Blocked scores become 0",
        "A score of 0 is not a weight of 0: e⁰ = 1. Multiplying by the mask, or filling with 0, leaves blocked keys a "
        "good share. Fill blocked scores with -inf.",
        but(CausalHeads, share=lambda self, scores, allowed: (scores * allowed).softmax(dim=-1)),
    ),
    wrong(
        "padding_ignored",
        "The key mask is not used",
        "Without padding all is right. With a key_mask, some keys are not real, and no query may look at them.",
        but(CausalHeads, allowed=lambda self, x, key_mask: _past(x)),
    ),
    wrong(
        "padding_upside_down",
        "The key mask is taken the other way round",
        "Yours blocks the real keys. In key_mask True = a real key, as in padding_mask.",
        but(CausalHeads, allowed=_with_padding(_past, lambda key_mask: ~key_mask[:, None, None, :])),
    ),
    wrong(
        "padding_on_queries",
        "The key mask stands on the axis of the queries",
        "key_mask (b, n) became (b, 1, n, 1): it blocks whole *rows*, those of padded queries, and real queries still "
        "look at padded keys. Keys are the last axis of the scores: [:, None, None, :].",
        but(CausalHeads, allowed=_with_padding(_past, lambda key_mask: key_mask[:, None, :, None])),
    ),
    wrong(
        "padding_not_lined_up",
        "The key mask is not lined up with the keys of its sentence",
        "(n, n) & (b, n) lines the sentences of the batch up with the queries. Give the key mask the axes of heads and "
        "queries first: key_mask[:, None, None, :].",
        but(CausalHeads, allowed=_with_padding(_past, lambda key_mask: key_mask)),
    ),
    wrong(
        "padding_without_the_heads_axis",
        "The key mask has no axis for the heads",
        "key_mask[:, None, :] is (b, 1, n), and the scores are (b, h, n, n): the sentences are lined up with the "
        "heads. Give the mask an axis for the heads, too: key_mask[:, None, None, :].",
        but(CausalHeads, allowed=_with_padding(_past, lambda key_mask: key_mask[:, None, :])),
    ),
    wrong(
        "key_mask_demanded",
        "forward does not work without a key mask",
        "A batch without padding has none: def forward(self, x, key_mask=None).",
        but(CausalHeads, forward=_needs_a_key_mask),
    ),
    wrong(
        "padded_values_zeroed",
        "Only the values of padded words are zero",
        "Padding brings nothing back, but it still takes its share of the weights, so that the rows of the others add "
        "up to less than 1. Block its *scores*.",
        but(CausalHeads, forward=_values_zeroed),
    ),
    wrong(
        "mask_added",
        "The mask itself is added to the scores",
        "True counts as 1, so open keys get a bonus of 1 and blocked ones stay in. What is added has to be 0 for open "
        "and -inf for blocked keys.",
        but(CausalHeads, share=lambda self, scores, allowed: (scores + allowed).softmax(dim=-1)),
    ),
    wrong(
        "truth_of_the_key_mask",
        "A whole mask is asked whether it is true",
        "`if key_mask:` wants one True or False, and a tensor of several has none. Ask whether there is a mask at all: "
        "`if key_mask is not None:`.",
        but(CausalHeads, allowed=_truth_of_the_mask),
    ),
    wrong(
        "padding_instead_of_causal",
        "With a key mask, the causal mask is gone",
        "Where a key_mask is given it *replaces* the causal mask. Both have to hold: join them with &.",
        but(
            CausalHeads, allowed=lambda self, x, key_mask: _past(x) if key_mask is None else key_mask[:, None, None, :]
        ),
    ),
    wrong(
        "or_instead_of_and",
        "Either mask opens a key",
        "| opens a key that is in the past *or* real. A query may see a key that is in the past *and* real: &.",
        but(
            CausalHeads,
            allowed=lambda self, x, key_mask: _past(x) if key_mask is None else _past(x) | key_mask[:, None, None, :],
        ),
    ),
    wrong(
        "first_key_mask_for_all",
        "All sentences get the first one's key mask",
        "With a batch of one nobody notices. Each sentence has its own padding.",
        but(CausalHeads, allowed=_with_padding(_past, lambda key_mask: key_mask[:1, None, None, :])),
    ),
    wrong(
        "padding_after_softmax",
        "Padding is blocked after the softmax",
        "The causal mask comes before the softmax, the padding after it. So the rows of padded sentences add up to "
        "less than 1. Join both masks first, then block once.",
        but(CausalHeads, share=_padding_after_softmax),
    ),
    wrong(
        "padded_words_zeroed",
        "The padded words are set to zero, not blocked",
        "x is multiplied by the mask. A word of zeros still has a key, the bias of w_k, and a score, and takes its "
        "share of the softmax. Only its score can keep it out.",
        but(
            CausalHeads,
            allowed=lambda self, x, key_mask: _past(x),
            prepare=lambda self, x, key_mask: x if key_mask is None else x * key_mask[..., None],
        ),
    ),
    wrong(
        "empty_rows_nan",
        "A query that sees nothing becomes NaN",
        "With padding on the left, the first queries have no real key in their past. The softmax of a row of -inf is "
        "0 / 0, and so is a row of zeros divided by its sum; one NaN spoils the gradient of every weight. Use your "
        "masked_softmax.",
        but(CausalHeads, share=lambda self, scores, allowed: scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)),
    ),
    wrong(
        "scaled_by_root_n",
        "Scaled by the number of words",
        "The scale depends on how wide a head's queries are, d, not on how many words there are.",
        but(CausalHeads, scale=lambda self, x, memory: x.shape[-2] ** -0.5),
    ),
    wrong(
        "over_heads",
        "The softmax runs over the heads",
        "In (b, h, n, n), axis 1 holds the heads, and they do not compete. The keys are the last axis: dim=-1.",
        but(CausalHeads, share=lambda self, scores, allowed: scores.masked_fill(~allowed, -1e9).softmax(dim=1)),
    ),
    *(
        wrong(
            f"over_{axis}_{how}",
            f"The softmax runs over the {axis}",
            f"In (b, h, n, n), axis {dim} holds the {axis}, and nothing is shared out there. The keys are the last "
            "axis: dim=-1.",
            _along(dim, fill, zeroed=how == "zeroed"),
        )
        for axis, dim in (("heads", 1), ("batch", 0))
        for how, fill in (("filled", -1e9), ("zeroed", -1e9), ("with_nan", -torch.inf))
        if (axis, how) != ("heads", "filled")  # that one is `over_heads`
    ),
    *(
        wrong(
            f"filled_scores_returned_{name}",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the blocked scores, as they were before the softmax.",
            _filled_scores_returned(fill),
        )
        for name, fill in (("inf", -torch.inf), ("1e9", -1e9))
    ),
    wrong(
        "torch_complains",
        "The error is torch's, not yours",
        "view fails by chance, with a RuntimeError about a shape that the caller has never heard of. Look at d_model "
        "and num_heads in __init__, and raise a ValueError.",
        but(CausalHeads, width_of_a_head=_unchecked, make_layers=_whole_layers, split=_split_by_view),
    ),
    wrong(
        "einops_complains",
        "The error is einops's, not yours",
        "rearrange refuses with an EinopsError, which is no ValueError. Look at d_model and num_heads in __init__, and "
        "raise a ValueError.",
        but(CausalHeads, width_of_a_head=_unchecked, make_layers=_whole_layers),
    ),
    wrong(
        "input_detached",
        "x is cut from the gradient",
        "The numbers are right, and the layers can learn. But what made x cannot: no gradient reaches it. Do not "
        "detach what you are given.",
        but(CausalHeads, prepare=lambda self, x, key_mask: x.detach()),
    ),
    wrong(
        "no_softmax",
        "The softmax is missing",
        "The future is blocked, but the values are added up with the raw scores as weights: no row adds up to 1.",
        but(CausalHeads, share=lambda self, scores, allowed: scores * allowed),
    ),
    *(
        wrong(
            f"triangle_of_{size}",
            "The triangle is made for short texts only",
            f"It has {size} rows and columns, and a longer text does not fit. Make it in forward, as long as x is, or "
            "ask for the longest text in the constructor.",
            _fixed_triangle(size),
        )
        for size in (8, 10, 16)
    ),
    *(
        wrong(
            f"{masked}_and_{other}",
            f"{title}, and {also}",
            f"Two things at once. A query sees itself and what came before it, as far as it is real; and {rather}.",
            but(CausalHeads, allowed=allowed, **step),
        )
        for masked, title, allowed in MASKED
        for other, also, rather, step in ALSO
    ),
    *(
        wrong(
            f"{masked}_{how}",
            title,
            f"{told} And a query for which nothing is left open {becomes}.",
            but(CausalHeads, allowed=allowed, share=_filled(fill)),
        )
        for masked, title, told, allowed in EMPTYING
        for how, becomes, fill in (
            ("with_nan", "becomes NaN: its softmax is 0 / 0", -torch.inf),
            ("filled", "looks at everything alike, since all of its scores are one number", -1e9),
        )
    ),
    wrong(
        "padding_repeated_otherwise",
        "The key masks are repeated in another order than the heads are folded",
        "Folded as (b h), the heads of one sentence are neighbours. `key_mask.repeat(h, 1)` is (h b), so that heads "
        "get the padding of other sentences: repeat_interleave, or an axis of its own, key_mask[:, None, None, :].",
        but(CausalHeads, allowed=_repeated_otherwise),
    ),
    wrong(
        "all_masks_upside_down",
        "Both masks are upside down",
        "True is taken for: blocked. In the triangle, and in key_mask, True = may attend.",
        but(CausalHeads, allowed=lambda self, x, key_mask: ~CausalHeads.allowed(self, x, key_mask)),
    ),
    *without(scores_mistakes(CausalHeads), "scaled_by_root_width", "over_heads", "no_softmax"),
    *without(axes_mistakes(CausalHeads), "merged_to_d_model"),
    *projection_mistakes(CausalHeads),
    *result_mistakes(CausalHeads, "n, n"),
    *without(layer_mistakes(CausalHeads), *NO_D_HEAD, "no_bias_by_default"),
    *dropout_mistakes(CausalHeads),
    *two_mistakes(CausalHeads),
    *slips_of_batches(CausalHeads),
    *without(usual_misconceptions(CausalHeads), "first_key_mask_kept"),  # that is first_mask_kept
)
