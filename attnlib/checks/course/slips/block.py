"""The encoder block: two branches, each with its norm, and the sums around them.

`start` is what comes in, `stream` what attention has been added to, and x what a sub-layer gets.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.slips.attention import Mix
from attnlib.checks.course.slips.heads import FourLayers, HeadShare
from attnlib.checks.course.slips.masks import MaskedShare, OptionalKeyMask
from attnlib.checks.course.slips.norm import Divide, Statistics, Two
from attnlib.checks.course.slips.perceptron import HiddenLayers
from attnlib.checks.course.slips.projections import Layer, Layers, OfItself
from attnlib.checks.course.steps import Step, along_with, contradicted_by, each, spells, told_as

Norms = tuple[nn.LayerNorm, nn.LayerNorm]


class OwnNorm(nn.LayerNorm):
    """A layer norm made by hand, in which one of two steps may be wrong."""

    def __init__(
        self, d_model: int, statistics: Callable[[Tensor], Two], divide: Callable[[Tensor, Tensor, float], Tensor]
    ) -> None:
        super().__init__(d_model)
        self.statistics, self.divide = statistics, divide

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = self.statistics(x)
        return self.divide(x - mean, variance, self.eps) * self.weight + self.bias


def _own_norms(d_model: int, *steps: Any) -> Norms:
    return OwnNorm(d_model, *steps), OwnNorm(d_model, *steps)


class TwoNorms(Step):
    """A norm for each sub-layer."""

    makes = ("norm1", "norm2")
    in_constructor = True

    def right(self, d_model: int, eps: float = 1e-5) -> Norms:
        return nn.LayerNorm(d_model, eps=eps), nn.LayerNorm(d_model, eps=eps)

    def one_norm_layer(self, d_model: int) -> Norms:
        """There is only one norm.

        One layer serves both sub-layers. Each has a norm with weights of its own, norm1 and norm2.
        """
        return (nn.LayerNorm(d_model),) * 2

    @spells(one_norm_layer)
    @contradicted_by(r"\bnorm2\b")
    def second_norm_never_made(self, d_model: int) -> tuple[nn.LayerNorm, None]:
        return nn.LayerNorm(d_model), None

    @each(eps=(1e-6, 1e-12, 1e-3))
    def other_eps(self, d_model: int, eps: float) -> Norms:
        """The norms have another eps.

        nn.LayerNorm's own default, 1e-5, is what the contract asks for.
        """
        return self.right(d_model, eps)

    @told_as(Statistics.unbiased_variance)
    def unbiased_variance(self, d_model: int) -> Norms:
        return _own_norms(d_model, Statistics().unbiased_variance, Divide().right)

    @told_as(Divide.eps_outside_root)
    def eps_outside_root(self, d_model: int) -> Norms:
        return _own_norms(d_model, Statistics().right, Divide().eps_outside_root)

    @told_as(Divide.unbiased_and_outside)
    def unbiased_and_outside(self, d_model: int) -> Norms:
        return _own_norms(d_model, Statistics().unbiased_variance, Divide().eps_outside_root)


class AttentionLayers(FourLayers):
    """The layers of `attn`."""

    inside = "attn"

    @each(names=("w_q w_k w_v w_o", "w_q w_k w_v", "w_o"))
    def no_projection_bias(self, d_model: int, num_heads: int, d_head: int, names: str) -> Layers:
        """The projections have no bias.

        w_q, w_k, w_v and w_o are nn.Linear layers as they are, with a bias.
        """
        return self.never_a_bias(d_model, num_heads, d_head, True, names)


class HiddenWidth(Step):
    """How wide the MLP is inside."""

    makes = ("d_hidden",)
    in_constructor = True

    def right(self, d_model: int, mlp_ratio: float) -> int:
        return int(d_model * mlp_ratio)

    def ratio_ignored(self, d_model: int) -> int:
        """mlp_ratio is not used.

        The MLP is always 4 · d_model wide. Its width is int(d_model * mlp_ratio); 4 is only the default.
        """
        return 4 * d_model

    def other_ratio(self, d_model: int, given: dict[str, Any]) -> int:
        """mlp_ratio has another default.

        Where the caller says nothing it is 4.0.
        """
        return self.right(d_model, given.get("mlp_ratio", 2.0))

    def whole_ratio(self, d_model: int, mlp_ratio: float) -> int:
        """mlp_ratio is rounded down before it is used.

        d_hidden = int(d_model * mlp_ratio): first the product, then int. int(2.65) is 2, and a ratio below 1 leaves
        nothing.
        """
        return d_model * int(mlp_ratio)

    def rounded_width(self, d_model: int, mlp_ratio: float) -> int:
        """The MLP's width is rounded, not truncated.

        d_hidden = int(d_model * mlp_ratio): int truncates, round and ceil do not. 12 · 2.65 = 31.8 gives 31.
        """
        return round(d_model * mlp_ratio)


class HiddenLayersOfBlock(HiddenLayers):
    """The layers of `mlp`."""

    inside = "mlp"


class WholeParts(Step):
    """The layers of a block, with attention and MLP as they come."""

    makes = ("norm1", "attn", "norm2", "mlp")
    in_constructor = True

    def right(self, d_model: int, num_heads: int, mlp_ratio: float, dropout: float) -> tuple[nn.Module, ...]:
        return (
            nn.LayerNorm(d_model),
            attnlib.MultiHeadAttention(d_model, num_heads),
            nn.LayerNorm(d_model),
            attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout),
        )


def _think(module: Any, x: Tensor, dropout: float) -> Tensor:
    """What the MLP makes of x, out of turn."""
    hidden = F.dropout(F.gelu(module.mlp.up(x)), dropout, module.training)
    return F.dropout(module.mlp.down(hidden), dropout, module.training)


class FirstNorm(Step):
    """Attention gets the stream through norm1."""

    makes = ("start", "x")

    def right(self, x: Tensor, norm1: Layer) -> Two:
        return x, norm1(x)

    def first_norm_forgotten(self, x: Tensor) -> Two:
        """norm1 is not used.

        Attention sees x as it comes. Pre-LN: attn(norm1(x)).
        """
        return x, x

    def norm2_twice(self, x: Tensor, norm2: Layer) -> Two:
        """norm2 is used twice.

        norm1 is made and never called. Each sub-layer has a norm with weights of its own.
        """
        return x, norm2(x)

    def first_residual_from_the_norm(self, x: Tensor, norm1: Layer) -> Two:
        """The first residual is taken after the norm.

        Around attention, norm1(x) is added where x should be: does x = norm1(x) overwrite the stream? Only the
        sub-layer sees the norm: x + attn(norm1(x)).
        """
        return norm1(x), norm1(x)

    @along_with("no_perceptron")
    def attention_last(self, x: Tensor, norm1: Layer, norm2: Layer, module: Any, dropout: float) -> Two:
        """Attention comes after the MLP.

        Each has its own norm, but the order is the other way round: first the words exchange (attn), then each thinks
        about what it got (mlp).
        """
        x = x + _think(module, norm2(x), dropout)
        return x, norm1(x)

    @along_with("no_perceptron")
    def perceptron_first(self, x: Tensor, norm1: Layer, norm2: Layer, module: Any, dropout: float) -> Two:
        """The MLP comes before attention.

        First the words exchange (attn, with norm1), then each thinks about what it got (mlp, with norm2).
        """
        x = x + _think(module, norm1(x), dropout)
        return x, norm2(x)

    @along_with("padding_ignored")
    def padded_words_zeroed(self, x: Tensor, norm1: Layer, key_mask: Tensor | None) -> Two:
        """The padded words are set to zero, not blocked.

        A word of zeros still has a key, made of the biases on its way, and a score, and takes its share of the softmax.
        Only a blocked score keeps it out: attn(norm1(x), key_mask=key_mask).
        """
        return x, norm1(x) if key_mask is None else norm1(x) * key_mask[..., None]

    @spells(padded_words_zeroed)
    @along_with("padding_ignored")
    def padded_words_zeroed_first(self, x: Tensor, norm1: Layer, key_mask: Tensor | None) -> Two:
        return self.right(x if key_mask is None else x * key_mask[..., None], norm1)


class MemoryOfBlock(OfItself):
    """Queries, keys and values all come from norm1."""

    def memory_not_normed(self, start: Tensor, x: Tensor) -> Two:
        """Only the queries are normalised.

        The words that are asked are x as it comes. In self-attention queries, keys and values come from the same
        vectors: attn(norm1(x)), with no second input.
        """
        return start, self.right(x)[1]

    @along_with("first_norm_forgotten")
    def queries_not_normed(self, x: Tensor, norm1: Layer) -> Two:
        """Only keys and values are normalised.

        The words that ask are x as it comes. In self-attention queries, keys and values come from the same vectors:
        attn(norm1(x)), with no second input.
        """
        return self.right(norm1(x))


class RealWords(OptionalKeyMask):
    """Nobody looks at padding."""

    def padding_ignored(self) -> None:
        """key_mask does not keep real words from looking at padding.

        The padding answers as if it were words. Pass the mask on to attention: attn(..., key_mask=key_mask). It has to
        block *keys*, the columns: a mask on the rows changes only what the padding itself asks for. And masked_fill
        changes nothing in place: keep what it returns.
        """
        return None

    @spells(OptionalKeyMask.padding_upside_down)
    def padding_upside_down_guarded(self, key_mask: Tensor | None) -> Tensor | None:
        return self._at(key_mask, lambda mask: (~mask | mask.all(dim=1, keepdim=True))[:, None, None, :])

    def key_mask_as_memory(self, x: Tensor, key_mask: Tensor | None) -> None:
        """key_mask is passed as the memory.

        The second argument of attn is the memory of lesson 04. Pass the mask by its name: key_mask=key_mask.
        """
        attnlib.MultiHeadAttention(x.shape[-1], 1).to(x)(x, key_mask)

    def key_mask_as_mask(self, x: Tensor, key_mask: Tensor | None) -> None:
        """key_mask is passed as mask.

        `mask` speaks of pairs, (…, q, k), and a (b, k) does not line up with it. Pass mask=…[:, None, None, :], or
        simply key_mask=key_mask.
        """
        attnlib.MultiHeadAttention(x.shape[-1], 1).to(x)(x, mask=key_mask)


class OpenWords(Step):
    """Where there is no key mask, everything may be looked at."""

    makes = ("allowed",)

    def right(self, real_keys: Tensor | None, x: Tensor) -> Tensor:
        return x.new_ones(1, 1, dtype=torch.bool) if real_keys is None else real_keys


class ShareWithWords(HeadShare, MaskedShare):
    """Each head has a table of weights, and the same keys are blocked in all of them."""

    @spells(OptionalKeyMask.padding_upside_down)
    def filled_upside_down(self, scores: Tensor, allowed: Tensor, key_mask: Tensor | None) -> Tensor:
        blocked = torch.zeros_like(allowed) if key_mask is None else allowed
        return scores.masked_fill(blocked, torch.finfo(scores.dtype).min).softmax(dim=-1)


class MixWhole(Mix):
    """Nothing is dropped inside attention."""

    def dropout_on_weights(self, weights: Tensor, v: Tensor, drop: Layer) -> Tensor:
        """Dropout on the attention weights, too.

        Many models do that. In this contract dropout is the MLP's alone: give it to `mlp`, not to `attn`.
        """
        return drop(weights) @ v


class Attend(Step):
    """Attention as a whole."""

    makes = ("output",)

    def right(self, attn: nn.Module, x: Tensor, memory: Tensor, allowed: Tensor) -> Any:
        return attn(x, memory, mask=allowed)


class AddAttention(Step):
    """What attention found is added to what came in."""

    makes = ("stream",)

    def right(self, start: Tensor, output: Tensor) -> Tensor:
        return start + output

    def first_residual_forgotten(self, output: Tensor) -> Tensor:
        """The residual around attention is missing.

        The words are replaced by averages of other words. Add: x = x + attn(norm1(x)).
        """
        return output

    def first_residual_twice(self, start: Tensor, output: Tensor) -> Tensor:
        """The first residual is added twice.

        The sum around attention contains x twice. Once is right: x + attn(norm1(x)).
        """
        return 2 * start + output

    def attention_added_twice(self, start: Tensor, output: Tensor) -> Tensor:
        """The output of attention is added twice.

        attn(norm1(x)) is added a second time. There is one sum for each sub-layer.
        """
        return start + 2 * output

    def no_attention(self, start: Tensor) -> Tensor:
        """Attention is not called, or its output is not used.

        The block has a first step: x = x + attn(norm1(x)).
        """
        return start

    @along_with("first_norm_forgotten")
    def first_norm_after(self, start: Tensor, output: Tensor, norm1: Layer) -> Tensor:
        """norm1 comes after attention.

        x + norm1(attn(x)) normalises what attention gives, not what it gets. Pre-LN: x + attn(norm1(x)).
        """
        return start + norm1(output)

    @along_with("first_norm_forgotten")
    def first_half_post_norm(self, start: Tensor, output: Tensor, norm1: Layer) -> Tensor:
        """post-LN around attention.

        norm1(x + attn(x)) normalises the sum, as the first paper did. Here the norm belongs to the branch, and the sum
        is left alone: x + attn(norm1(x)).
        """
        return norm1(start + output)

    def dropout_after_attention(self, start: Tensor, output: Tensor, drop: Layer) -> Tensor:
        """Dropout on attention's output, too.

        Many models do that. In this contract dropout is the MLP's alone.
        """
        return start + drop(output)


class SecondNorm(Step):
    """The MLP gets the stream through norm2."""

    makes = ("stream", "x")

    def right(self, stream: Tensor, norm2: Layer) -> Two:
        return stream, norm2(stream)

    def second_norm_forgotten(self, stream: Tensor) -> Two:
        """norm2 is not used.

        The MLP sees x as it comes. Pre-LN: mlp(norm2(x)).
        """
        return stream, stream

    @along_with("first_norm_forgotten")
    def no_norms(self, stream: Tensor) -> Two:
        """The norms are not used.

        Both sub-layers see x as it comes. Pre-LN: attn(norm1(x)) and mlp(norm2(x)).
        """
        return stream, stream

    def one_norm_twice(self, stream: Tensor, norm1: Layer) -> Two:
        """norm1 is used twice.

        norm2 is made and never called: its weights get no gradient, ever. Each sub-layer has a norm with weights of its
        own.
        """
        return stream, norm1(stream)

    @along_with("norm2_twice")
    def norms_exchanged(self, stream: Tensor, norm1: Layer) -> Two:
        """norm1 and norm2 are exchanged.

        norm1 belongs before attention, norm2 before the MLP.
        """
        return stream, norm1(stream)

    def second_residual_from_the_norm(self, stream: Tensor, norm2: Layer) -> Two:
        """The second residual is taken after the norm.

        Around the MLP, norm2(x) is added where x should be: does x = norm2(x) overwrite the stream? Only the sub-layer
        sees the norm: x + mlp(norm2(x)).
        """
        return norm2(stream), norm2(stream)

    @along_with("first_residual_from_the_norm")
    def residual_from_the_norm(self, stream: Tensor, norm2: Layer) -> Two:
        """The residuals are taken after the norms.

        What is added is the normalised vector, where x should be: does x = norm1(x) overwrite the stream? Only the
        sub-layer sees the norm: x = x + attn(norm1(x)).
        """
        return norm2(stream), norm2(stream)

    def residual_of_the_start(self, start: Tensor, stream: Tensor, norm2: Layer) -> Two:
        """The second residual starts from the block's input.

        The MLP's result is added to the x that came in, and attention's own result is lost from the sum. Overwrite x
        after the first step, or give the sum a name.
        """
        return start, norm2(stream)

    def side_by_side(self, start: Tensor, stream: Tensor, norm2: Layer) -> Two:
        """Attention and MLP side by side.

        x + attn(norm1(x)) + mlp(norm2(x)) feeds both from the same x. Some models do that on purpose. Here the MLP
        reads the sum of x and attention's result: one after the other.
        """
        return stream, norm2(start)

    def old_norm_reused(self, stream: Tensor, x: Tensor) -> Two:
        """The MLP gets what attention got.

        norm1(x), computed once, is handed to both sub-layers. The MLP reads the sum of x and attention's result:
        mlp(norm2(x)), with the new x.
        """
        return stream, x

    def old_norm_normed_again(self, stream: Tensor, x: Tensor, norm2: Layer) -> Two:
        """The MLP gets what attention got, normalised once more.

        norm2 is given norm1(x), the vectors from before attention. The MLP works on what attention has brought:
        mlp(norm2(x)), with the new x.
        """
        return stream, norm2(x)

    def branch_alone_to_the_perceptron(self, stream: Tensor, output: Tensor, norm2: Layer) -> Two:
        """The MLP works on what attention gives, without the residual.

        mlp(norm2(…)) gets attention's result alone. It works on the stream, to which that result has been added:
        x = x + attn(norm1(x)), then x = x + mlp(norm2(x)).
        """
        return stream, norm2(output)


class Think(Step):
    """The MLP as a whole."""

    makes = ("output",)

    def right(self, mlp: Layer, x: Tensor) -> Tensor:
        return mlp(x)


class AddThought(Step):
    """What the MLP makes is added to the stream."""

    makes = ("output",)

    def right(self, stream: Tensor, output: Tensor) -> Tensor:
        return stream + output

    def second_residual_forgotten(self, output: Tensor) -> Tensor:
        """The residual around the MLP is missing.

        What attention brought is thrown away, except for what the MLP makes of it. Add: x = x + mlp(norm2(x)).
        """
        return output

    @along_with("first_residual_forgotten")
    def no_residuals(self, output: Tensor) -> Tensor:
        """Both residuals are missing.

        Each sub-layer replaces its input. It should be added to it: x = x + attn(norm1(x)), then x = x + mlp(norm2(x)).
        """
        return output

    def second_residual_twice(self, stream: Tensor, output: Tensor) -> Tensor:
        """The second residual is added twice.

        The sum around the MLP contains x twice. Once is right: x + mlp(norm2(x)).
        """
        return 2 * stream + output

    def perceptron_added_twice(self, stream: Tensor, output: Tensor) -> Tensor:
        """The output of the MLP is added twice.

        mlp(norm2(x)) is added a second time. There is one sum for each sub-layer.
        """
        return stream + 2 * output

    def no_perceptron(self, stream: Tensor) -> Tensor:
        """The MLP is not called, or its output is not used.

        The block has a second step, and returns what that makes: x + mlp(norm2(x)).
        """
        return stream

    def input_returned(self, start: Tensor) -> Tensor:
        """The input comes back unchanged.

        Whatever the block computes, it returns the x that it was given. Does each step keep its sum, x = x + …, and
        does `return` give the last one?
        """
        return start + 0

    @along_with("second_norm_forgotten")
    def second_norm_after(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """norm2 comes after the MLP.

        x + norm2(mlp(x)) normalises what the MLP gives, not what it gets. Pre-LN: x + mlp(norm2(x)).
        """
        return stream + norm2(output)

    @along_with("second_norm_forgotten", "first_norm_after", "first_norm_forgotten")
    def norm_after_the_sublayer(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """The norms come after the sub-layers.

        Both norms see what a sub-layer gives, not what it gets: x + norm1(attn(x)). Pre-LN: x + attn(norm1(x)).
        """
        return stream + norm2(output)

    @along_with("second_norm_forgotten")
    def second_half_post_norm(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """post-LN around the MLP.

        norm2(x + mlp(x)) normalises the sum, as the first paper did. Here the norm belongs to the branch, and the sum
        is left alone: x + mlp(norm2(x)).
        """
        return norm2(stream + output)

    @along_with("second_norm_forgotten", "first_half_post_norm", "first_norm_forgotten")
    def post_norm(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """post-LN: the norms come after the sums.

        norm1(x + attn(x)) is the block of the first paper. It works, but this one is pre-LN: the norm comes before the
        sub-layer, inside the branch, and the sum is left alone: x + attn(norm1(x)).
        """
        return norm2(stream + output)

    def norm_at_the_end(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """The result is normalised once more.

        A pre-LN block leaves its sum as it is. The one norm at the end of a stack belongs to the stack, not to the
        block.
        """
        return norm2(stream + output)

    def stream_overwritten(self, stream: Tensor, output: Tensor) -> Tensor:
        """The stream is changed in place.

        The numbers are right. But the gradient of norm2 needs the x that it was given, and `x += …` has written over
        it. Make a new tensor: x = x + mlp(norm2(x)).
        """
        return stream.add_(output)

    def dropout_twice(self, stream: Tensor, output: Tensor, drop: Layer) -> Tensor:
        """The MLP's result is dropped twice.

        The MLP drops its own output already. A second dropout around it keeps only (1 - p)² of it.
        """
        return stream + drop(output)

    @along_with("dropout_after_attention")
    def dropout_on_both_branches(self, stream: Tensor, output: Tensor, drop: Layer) -> Tensor:
        """Dropout around both sub-layers.

        Many models drop what each sub-layer adds. In this contract dropout is the MLP's alone, and the MLP drops its
        own output already.
        """
        return stream + drop(output)

    def dropout_of_the_sum(self, stream: Tensor, output: Tensor, drop: Layer) -> Tensor:
        """Dropout hits the residual stream.

        x itself is dropped, not only what a sub-layer adds. Dropout stays inside the branch.
        """
        return drop(stream + output)
