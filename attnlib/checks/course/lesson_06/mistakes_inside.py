"""Wrong blocks, second kind: a norm, attention, the perceptron or dropout is not what it should be."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.lesson_06.plain_block import PlainBlock, attending, block, built, two_steps
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception


def _norm(x: Tensor, layer: nn.LayerNorm, *, correction: int, outside: float, inside: float) -> Tensor:
    mean, variance = x.mean(dim=-1, keepdim=True), x.var(dim=-1, correction=correction, keepdim=True)
    return (x - mean) / ((variance + inside).sqrt() + outside) * layer.weight + layer.bias


def _own_norm(correction: int = 0, outside: float = 0.0, inside: float = 1e-5) -> type[nn.Module]:
    norm = partial(_norm, correction=correction, outside=outside, inside=inside)
    return two_steps(
        lambda s, x, m: x + s.attend(norm(x, s.norm1), m),
        lambda s, x: x + s.mlp(norm(x, s.norm2)),
    )


class _DropsAlways(PlainBlock):
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        x = x + self.attend(self.norm1(x), key_mask)
        hidden = F.dropout(F.gelu(self.mlp.up(self.norm2(x))), self.p)
        return x + F.dropout(self.mlp.down(hidden), self.p)


class _NeedsAKeyMask(PlainBlock):
    def forward(self, x: Tensor, key_mask: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, key_mask)


class _RatioIgnored(PlainBlock):
    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, 4.0, dropout)


class _OtherRatio(PlainBlock):
    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 2.0, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, mlp_ratio, dropout)


class _WholeRatio(PlainBlock):
    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, int(mlp_ratio), dropout)


class _OneNorm(PlainBlock):
    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, mlp_ratio, dropout)
        self.norm2 = self.norm1


def _perceptron_drops(*, inside: bool) -> type[nn.Module]:
    def perceptron(s: PlainBlock, x: Tensor) -> Tensor:
        hidden = F.gelu(s.mlp.up(s.norm2(x)))
        return x + (s.mlp.down(s.drop(hidden)) if inside else s.drop(s.mlp.down(hidden)))

    return two_steps(perceptron=perceptron)


MISTAKES_INSIDE: tuple[Misconception, ...] = (
    wrong(
        "unbiased_norm",
        "The norms divide by d - 1",
        "`var` and `std` divide by d - 1 unless you say correction=0. Layer norm divides by d.",
        _own_norm(correction=1),
    ),
    wrong(
        "norm_eps_outside",
        "The norms add eps outside the root",
        "It is sqrt(variance + eps), with eps inside.",
        _own_norm(outside=1e-5, inside=0.0),
    ),
    wrong(
        "annotated_norm",
        "The norms divide by std + eps",
        "`std` divides by d - 1, and eps is added after the root. Layer norm is "
        "(x - mean) / sqrt(variance + eps), with the variance divided by d.",
        _own_norm(correction=1, outside=1e-5, inside=0.0),
    ),
    wrong(
        "other_eps",
        "The norms have another eps",
        "nn.LayerNorm's own default, 1e-5, is what the contract asks for.",
        built(eps=1e-6),
    ),
    *(
        wrong(
            f"other_eps_{name}",
            "The norms have another eps",
            "nn.LayerNorm's own default, 1e-5, is what the contract asks for.",
            built(eps=eps),
        )
        for name, eps in (("1e12", 1e-12), ("1e3", 1e-3))
    ),
    wrong("relu", "ReLU in the perceptron", "The contract asks for GELU, the exact one.", built(activation=torch.relu)),
    wrong(
        "gelu_by_tanh",
        "GELU by tanh in the perceptron",
        "approximate='tanh' is off by up to 0.0005. The contract asks for the exact GELU, F.gelu(x).",
        built(activation=partial(F.gelu, approximate="tanh")),
    ),
    wrong(
        "rounded_width",
        "The perceptron's width is rounded, not cut off",
        "d_hidden = int(d_model * mlp_ratio): int cuts off, round and ceil do not. 12 · 2.65 = 31.8 gives 31.",
        built(hidden=round),
    ),
    wrong(
        "no_activation",
        "The perceptron has no activation",
        "Two linear layers in a row are one linear layer. GELU goes between `up` and `down`.",
        built(activation=lambda x: x),
    ),
    wrong(
        "ratio_ignored",
        "mlp_ratio is not used",
        "The perceptron is always 4 · d_model wide. Its width is int(d_model * mlp_ratio); 4 is only the default.",
        _RatioIgnored,
    ),
    wrong(
        "other_ratio",
        "mlp_ratio has another default",
        "Where the caller says nothing it is 4.0.",
        _OtherRatio,
    ),
    wrong(
        "whole_ratio",
        "mlp_ratio is cut off before it is used",
        "d_hidden = int(d_model * mlp_ratio): first the product, then int. int(2.65) is 2, and a ratio below 1 leaves "
        "nothing.",
        _WholeRatio,
    ),
    wrong(
        "one_norm_layer",
        "There is only one norm",
        "norm1 serves both sub-layers, and there is no norm2. Each has a norm with weights of its own.",
        _OneNorm,
    ),
    wrong(
        "no_projection_bias",
        "The projections have no bias",
        "w_q, w_k, w_v and w_o are nn.Linear layers as they are, with a bias.",
        built(bias=False),
    ),
    wrong(
        "key_mask_ignored",
        "key_mask does not keep real words from looking at padding",
        "The padding answers as if it were words. Pass the mask on, attn(norm1(x), key_mask=key_mask); it has to block "
        "*keys*, the columns: a mask on the rows changes only what the padding itself asks for.",
        block(lambda s, x, m: PlainBlock.forward(s, x, None)),
    ),
    wrong(
        "key_mask_upside_down",
        "key_mask is upside down",
        "True means a real word, which may be looked at. nn.MultiheadAttention's key_padding_mask has it the other way "
        "round.",
        block(lambda s, x, m: PlainBlock.forward(s, x, None if m is None else ~m)),
    ),
    wrong(
        "key_mask_upside_down_guarded",
        "key_mask is upside down",
        "True means a real word, which may be looked at. Yours hides the real words of each sentence that has padding, "
        "and nothing where there is none.",
        block(lambda s, x, m: PlainBlock.forward(s, x, None if m is None else ~m | m.all(dim=1, keepdim=True))),
    ),
    wrong(
        "key_mask_on_queries",
        "key_mask is applied to the queries",
        "The mask blocks rows (the padded words' own questions) instead of columns. Nobody may look *at* padding: "
        "key_mask[:, None, None, :].",
        attending(
            lambda s, x, m: s.attn(x, mask=None if m is None else m[:, None, :, None].expand(-1, -1, -1, x.shape[1]))
        ),
        same_as="key_mask_ignored",
    ),
    wrong(
        "key_mask_as_memory",
        "key_mask is handed on as the memory",
        "The second argument of attn is the memory of lesson 04. Pass the mask by its name: key_mask=key_mask.",
        attending(lambda s, x, m: s.attn(x, m)),
    ),
    wrong(
        "key_mask_as_mask",
        "key_mask is handed on as mask",
        "`mask` speaks of pairs, (…, q, k), and a (b, k) does not line up with it. Pass mask=…[:, None, None, :], or "
        "simply key_mask=key_mask.",
        attending(lambda s, x, m: s.attn(x, mask=m)),
    ),
    wrong(
        "padded_words_zeroed",
        "The padded words are set to zero, not blocked",
        "A word of zeros still has a key, the bias of w_k, and a score, and takes its share of the softmax. Only a "
        "blocked score keeps it out: attn(norm1(x), key_mask=key_mask).",
        attending(lambda s, x, m: s.attn(x if m is None else x * m[..., None])),
    ),
    wrong(
        "padded_words_zeroed_first",
        "The padded words are set to zero, not blocked",
        "A word of zeros still has a key, the bias of w_k, and a score, and takes its share of the softmax. Only a "
        "blocked score keeps it out: attn(norm1(x), key_mask=key_mask).",
        block(lambda s, x, m: PlainBlock.forward(s, x if m is None else x * m[..., None], None)),
    ),
    wrong(
        "key_mask_demanded",
        "forward does not work without a key mask",
        "A batch without padding has none: def forward(self, x, key_mask=None).",
        _NeedsAKeyMask,
    ),
    wrong(
        "no_dropout",
        "dropout is not handed on",
        "The argument is accepted and never reaches the perceptron.",
        built(mlp_dropout=0.0),
    ),
    wrong(
        "dropout_after_attention",
        "Dropout on attention's output, too",
        "Many models do that. In this contract dropout is the perceptron's alone.",
        attending(lambda s, x, m: s.drop(s.attn(x, key_mask=m))),
    ),
    wrong(
        "dropout_only_inside",
        "The perceptron drops only after GELU",
        "The contract of FeedForward asks for dropout in two places: after GELU, and after `down`.",
        _perceptron_drops(inside=True),
    ),
    wrong(
        "dropout_only_at_the_end",
        "The perceptron drops only after `down`",
        "The contract of FeedForward asks for dropout in two places: after GELU, and after `down`.",
        _perceptron_drops(inside=False),
    ),
    wrong(
        "dropout_on_both_branches",
        "Dropout around both sub-layers",
        "Many models drop what each sub-layer adds. In this contract dropout is the perceptron's alone, and the "
        "perceptron drops its own output already.",
        two_steps(
            lambda s, x, m: x + s.drop(s.attend(s.norm1(x), m)),
            lambda s, x: x + s.drop(s.mlp(s.norm2(x))),
        ),
    ),
    wrong(
        "dropout_twice",
        "The perceptron's result is dropped twice",
        "The perceptron drops its own output already. A second dropout around it keeps only (1 - p)² of it.",
        two_steps(perceptron=lambda s, x: x + s.drop(s.mlp(s.norm2(x)))),
    ),
    wrong(
        "dropout_of_the_sum",
        "Dropout hits the residual stream",
        "x itself is dropped, not only what a sub-layer adds. Dropout stays inside the branch.",
        block(lambda s, x, m: s.drop(PlainBlock.forward(s, x, m))),
    ),
    wrong(
        "dropout_always",
        "Dropout is active at evaluation, too",
        "F.dropout needs training=self.training, and an nn.Dropout made inside forward never hears of eval().",
        _DropsAlways,
    ),
)
