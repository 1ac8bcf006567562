"""The block of the first paper: each sum goes through a norm, and the sub-layers see the stream as it is.

`start` is what comes in, `stream` what has gone through norm1, and x what a sub-layer gets.
"""

from torch import Tensor, nn

import attnlib
from attnlib.checks.course.slips.block import HiddenWidth, TwoNorms
from attnlib.checks.course.slips.norm import Two
from attnlib.checks.course.slips.projections import Layer
from attnlib.checks.course.steps import Step, along_with, each, told_as


class PostParts(Step):
    """The layers of a block without dropout."""

    makes = ("norm1", "attn", "norm2", "mlp")
    in_constructor = True

    def right(self, d_model: int, num_heads: int, mlp_ratio: float) -> tuple[nn.Module, ...]:
        return (
            nn.LayerNorm(d_model),
            attnlib.MultiHeadAttention(d_model, num_heads),
            nn.LayerNorm(d_model),
            attnlib.FeedForward(d_model, int(d_model * mlp_ratio)),
        )

    @each(eps=(1e-6, 1e-12))
    @told_as(TwoNorms.other_eps)
    def other_eps(self, d_model: int, num_heads: int, mlp_ratio: float, eps: float) -> tuple[nn.Module, ...]:
        norm1, attn, norm2, mlp = self.right(d_model, num_heads, mlp_ratio)
        norm1.eps = norm2.eps = eps  # type: ignore[assignment]
        return norm1, attn, norm2, mlp

    @told_as(HiddenWidth.ratio_ignored)
    def ratio_ignored(self, d_model: int, num_heads: int) -> tuple[nn.Module, ...]:
        return self.right(d_model, num_heads, 4.0)

    def relu(self, d_model: int, num_heads: int, mlp_ratio: float) -> tuple[nn.Module, ...]:
        """The MLP has ReLU.

        The paper of 2017 used it. BERT uses GELU, and so does the contract: the MLP is that of EncoderBlock.
        """
        norm1, attn, norm2, mlp = self.right(d_model, num_heads, mlp_ratio)
        mlp.forward = lambda x: mlp.down(mlp.up(x).relu())  # type: ignore[operator]
        return norm1, attn, norm2, mlp


class StreamToAttention(Step):
    """Attention sees the stream as it is."""

    makes = ("start", "x")

    def right(self, x: Tensor) -> Two:
        return x, x

    def normed_before_attention_too(self, x: Tensor, norm1: Layer) -> Two:
        """The stream is also normalised before attention.

        norm1 is used twice: on what attention reads, and on the sum. Post-LN has it on the sum alone: norm1(x +
        attn(x)).
        """
        return x, norm1(x)


class NormAttention(Step):
    """The sum of the stream and what attention found, through norm1."""

    makes = ("stream",)

    def right(self, start: Tensor, output: Tensor, norm1: Layer) -> Tensor:
        return norm1(start + output)

    def first_norm_forgotten(self, start: Tensor, output: Tensor) -> Tensor:
        """norm1 is not used.

        The sum around attention is not normalised. Post-LN: norm1(x + attn(x)).
        """
        return start + output

    @along_with("normed_before_attention_too")
    def pre_norm_around_attention(self, start: Tensor, output: Tensor) -> Tensor:
        """The first half is pre-LN.

        In x + attn(norm1(x)) the norm is on what attention reads, and the sum around it is not normalised. Post-LN does
        it the other way round: attention reads x itself, and the sum is normalised, norm1(x + attn(x)).
        """
        return start + output

    def first_residual_forgotten(self, output: Tensor, norm1: Layer) -> Tensor:
        """The residual around attention is missing.

        norm1 gets the output of attention alone. Post-LN normalises the *sum*: norm1(x + attn(x)).
        """
        return norm1(output)

    def first_branch_normed(self, start: Tensor, output: Tensor, norm1: Layer) -> Tensor:
        """norm1 is on the branch, not on the sum.

        x + norm1(attn(x)) leaves the stream alone. In post-LN the stream itself goes through the norm:
        norm1(x + attn(x)).
        """
        return start + norm1(output)

    def no_attention(self, start: Tensor, norm1: Layer) -> Tensor:
        """Attention is not called, or its output is not used.

        The block has a first step: x = norm1(x + attn(x)).
        """
        return norm1(start)

    def norm2_twice(self, start: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """norm2 is used twice.

        norm1 is made and never called. Each sum goes through a norm with weights of its own.
        """
        return norm2(start + output)


class StreamToMlp(Step):
    """The MLP sees the stream as it is."""

    makes = ("stream", "x")

    def right(self, stream: Tensor) -> Two:
        return stream, stream

    def normed_before_the_mlp_too(self, stream: Tensor, norm2: Layer) -> Two:
        """The stream is also normalised before the MLP.

        norm2 is used twice: on what the MLP reads, and on the sum. Post-LN has it on the sum alone: norm2(x + mlp(x)).
        """
        return stream, norm2(stream)

    @along_with("normed_before_attention_too")
    def normed_before_both_too(self, stream: Tensor, norm2: Layer) -> Two:
        """The block is pre-LN and post-LN at once.

        Each norm is used twice: on what the sub-layer reads, and on the sum around it. Post-LN has it on the sum alone:
        norm1(x + attn(x)), then norm2(x + mlp(x)).
        """
        return stream, norm2(stream)

    def second_residual_before_the_norm(self, start: Tensor, output: Tensor, stream: Tensor) -> Two:
        """The second residual is taken before norm1.

        The MLP sees norm1(x + attn(x)), and its result is added to the sum from before the norm. In post-LN the stream
        itself has gone through norm1, and the MLP's result is added to that.
        """
        return start + output, stream

    def mlp_gets_the_start(self, start: Tensor, stream: Tensor) -> Two:
        """The MLP gets the same input as attention.

        Attention and MLP both see the block's input. They should work one after the other: the MLP sees norm1(x +
        attn(x)).
        """
        return stream, start

    def second_residual_from_the_start(self, start: Tensor, stream: Tensor) -> Two:
        """The second residual starts from the block's input.

        The MLP's result is added to the x that came in. Overwrite x after the first step: x = norm1(x + attn(x)).
        """
        return start, stream


class NormThought(Step):
    """The sum of the stream and what the MLP made, through norm2."""

    makes = ("output",)

    def right(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        return norm2(stream + output)

    def second_norm_forgotten(self, stream: Tensor, output: Tensor) -> Tensor:
        """norm2 is not used.

        The sum around the MLP is returned without being normalised. Post-LN: norm2(x + mlp(x)).
        """
        return stream + output

    @along_with("first_norm_forgotten")
    def no_norms(self, stream: Tensor, output: Tensor) -> Tensor:
        """The norms are not used.

        Neither sum is normalised. Post-LN: norm1(x + attn(x)), then norm2(x + mlp(x)).
        """
        return stream + output

    @along_with("normed_before_attention_too", "second_residual_before_the_norm")
    def first_norm_before_both(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """norm1 is used before both attention and the MLP, and norm2 at the end.

        Each norm belongs to one sum: norm1 to that around attention, norm2 to that around the MLP.
        """
        return norm2(stream + output)

    @along_with("normed_before_the_mlp_too")
    def pre_norm_around_the_mlp(self, stream: Tensor, output: Tensor) -> Tensor:
        """The second half is pre-LN.

        In x + mlp(norm2(x)) the norm is on what the MLP reads, and the sum around it is not normalised. Post-LN does it
        the other way round: the MLP reads x itself, and the sum is normalised, norm2(x + mlp(x)).
        """
        return stream + output

    @along_with("normed_before_attention_too", "first_norm_forgotten", "normed_before_the_mlp_too")
    def pre_norm(self, stream: Tensor, output: Tensor) -> Tensor:
        """The block is pre-LN.

        x + attn(norm1(x)) is the first line of EncoderBlock: the norm is on what a sub-layer *reads*, and the stream
        itself is only ever added to. In post-LN the norm is on the sum, and the stream goes through it:
        norm1(x + attn(x)), then norm2(x + mlp(x)).
        """
        return stream + output

    def second_residual_forgotten(self, output: Tensor, norm2: Layer) -> Tensor:
        """The residual around the MLP is missing.

        norm2 gets the MLP's result alone. Post-LN normalises the *sum*: norm2(x + mlp(x)).
        """
        return norm2(output)

    def second_branch_normed(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """norm2 is on the branch, not on the sum.

        x + norm2(mlp(x)) leaves the stream alone. In post-LN the stream itself goes through the norm:
        norm2(x + mlp(x)).
        """
        return stream + norm2(output)

    @along_with("first_branch_normed")
    def both_branches_normed(self, stream: Tensor, output: Tensor, norm2: Layer) -> Tensor:
        """The norms are on the branches, not on the sums.

        x + norm1(attn(x)) leaves the stream alone. In post-LN the stream itself goes through the norm:
        norm1(x + attn(x)).
        """
        return stream + norm2(output)

    def one_norm_twice(self, stream: Tensor, output: Tensor, norm1: Layer) -> Tensor:
        """norm1 is used twice.

        norm2 is made and never called: its weights get no gradient. Each sum goes through a norm with weights of its
        own.
        """
        return norm1(stream + output)

    @along_with("norm2_twice")
    def norms_exchanged(self, stream: Tensor, output: Tensor, norm1: Layer) -> Tensor:
        """norm1 and norm2 are exchanged.

        norm1 belongs to the sum around attention, norm2 to the sum around the MLP.
        """
        return norm1(stream + output)

    def no_mlp(self, stream: Tensor, norm2: Layer) -> Tensor:
        """The MLP is not called, or its output is not used.

        The block has a second step: x = norm2(x + mlp(x)).
        """
        return norm2(stream)
