"""Lesson 08: a loss for the next token, its units, a block that writes, and a language model made of such blocks."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.slips.block import AddAttention, AddThought, FirstNorm, SecondNorm
from attnlib.checks.course.slips.norm import Two
from attnlib.checks.course.slips.projections import Layer
from attnlib.checks.course.steps import Step, along_with, contradicted_by, spells, told_as


class Shift(Step):
    """Each position is asked for the token behind it."""

    makes = ("scores", "targets")

    def right(self, logits: Tensor, ids: Tensor) -> Two:
        return logits[:, :-1], ids[:, 1:]

    def not_shifted(self, logits: Tensor, ids: Tensor) -> Two:
        """Each position is asked for the very token it was given.

        The token at position i is an input to the logits at position i: copying it takes no skill, and such a loss
        falls to 0 in no time. The logits at i are for the token at i + 1: logits[:, :-1] against ids[:, 1:].
        """
        return logits, ids

    @spells(not_shifted)
    def both_without_the_last(self, logits: Tensor, ids: Tensor) -> Two:
        return logits[:, :-1], ids[:, :-1]

    @spells(not_shifted)
    def both_without_the_first(self, logits: Tensor, ids: Tensor) -> Two:
        return logits[:, 1:], ids[:, 1:]

    def past_predicted(self, logits: Tensor, ids: Tensor) -> Two:
        """Each position is asked for the token before it.

        The shift goes the wrong way: logits[:, 1:] against ids[:, :-1] asks for a token that has already been read. It
        is the *last* logits that have no target, and the *first* token that is nobody's target.
        """
        return logits[:, 1:], ids[:, :-1]

    @spells(past_predicted)
    def rolled_the_wrong_way(self, logits: Tensor, ids: Tensor) -> Two:
        return logits, ids.roll(1, dims=1)

    def two_ahead(self, logits: Tensor, ids: Tensor) -> Two:
        """Each position is asked for the token after the next one.

        Shift by one, not by two: the logits at i against the id at i + 1.
        """
        return logits[:, :-2], ids[:, 2:]

    def first_follows_last(self, logits: Tensor, ids: Tensor) -> Two:
        """The last position is asked for the first token.

        `roll` wraps around. Nothing follows the last token, so its logits are left out: a text of n tokens has n - 1
        predictions.
        """
        return logits, ids.roll(-1, dims=1)

    def zero_follows_last(self, logits: Tensor, ids: Tensor) -> Two:
        """The last position is asked for token 0.

        A row of targets that is filled up with zeros asks for a token that nobody wrote. Nothing follows the last
        token: leave its logits out, or fill up with ignore_index.
        """
        return logits, F.pad(ids[:, 1:], (0, 1))

    def last_left_out(self, logits: Tensor, ids: Tensor) -> Two:
        """The last token is not predicted.

        A text of n tokens has n - 1 predictions, and yours are one fewer. The last token is the target of the logits
        just before it: logits[:, :-1] against ids[:, 1:].
        """
        return logits[:, :-2], ids[:, 1:-1]

    def second_left_out(self, logits: Tensor, ids: Tensor) -> Two:
        """The second token is not predicted.

        It is what follows the first one, and the logits at position 0 are for it. Only the *first* token is nobody's
        target: logits[:, :-1] against ids[:, 1:].
        """
        return logits[:, 1:-1], ids[:, 2:]

    def shifted_across_texts(self, logits: Tensor, ids: Tensor) -> Two:
        """The shift is made after the texts are joined.

        In one long row, the last position of a text is asked for the first token of the next text. Shift first, then
        flatten.
        """
        return logits.flatten(0, 1)[None, :-1], ids.flatten()[None, 1:]

    def texts_shifted(self, logits: Tensor, ids: Tensor) -> Two:
        """The batch is shifted, not the positions.

        logits[:-1] and ids[1:] compare each text with the next text of the batch. Shift along the positions, dim 1:
        logits[:, :-1] and ids[:, 1:].
        """
        return logits[:-1], ids[1:]

    def last_prediction_alone(self, logits: Tensor, ids: Tensor) -> Two:
        """Only the last token is predicted.

        Each of the n - 1 positions is a training example, and one pass handles them all (lesson 05). Yours uses only
        one of them.
        """
        return logits[:, -2:-1], ids[:, -1:]


class Surprise(Step):
    """Minus the log of the probability that the target was given."""

    makes = ("surprise", "counted")

    def right(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        counted = targets != ignore_index
        return -_of_the_target(_in_full(scores).log_softmax(dim=-1), targets, counted), counted

    def in_half_precision(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The loss of half-precision logits is computed in half precision.

        bfloat16 has two or three significant digits, and a mean over thousands of tokens needs more. Convert
        half-precision logits to float32 before the softmax.
        """
        counted = targets != ignore_index
        return -_of_the_target(scores.log_softmax(dim=-1), targets, counted), counted

    def rounded_to_float32(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The logits are made float32, whatever they are.

        `.float()` is for half precision. Logits in float64 have more digits than it keeps, and so has their loss.
        """
        return self.right(scores.float(), targets, ignore_index)

    def over_positions(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The softmax runs over the positions.

        At each position the *tokens of the vocabulary* compete: the softmax is over the last axis, and each row of the
        result adds up to 1.
        """
        counted = targets != ignore_index
        return -_of_the_target(_in_full(scores).log_softmax(dim=1), targets, counted), counted

    def softmax_twice(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The softmax is applied twice.

        F.cross_entropy takes logits and applies the softmax itself. Given probabilities, it squeezes them once more:
        they differ by at most 1, and the loss can hardly fall.
        """
        return self.right(_in_full(scores).softmax(dim=-1), targets, ignore_index)

    def no_softmax(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """There is no softmax.

        F.nll_loss, or looking up the target by hand, expects log probabilities. A raw logit says nothing without the
        others: all of them can be raised at once, and nothing has been learned.
        """
        counted = targets != ignore_index
        return -_of_the_target(_in_full(scores), targets, counted), counted

    def no_logarithm(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """There is no logarithm.

        The loss is -log p, not -p or 1 - p: lowering the right token's probability from 0.01 to 0.001 must cost as much
        as lowering it from 1 to 0.1.
        """
        counted = targets != ignore_index
        return -_of_the_target(_in_full(scores).softmax(dim=-1), targets, counted), counted

    def sign_lost(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The minus is missing.

        A log probability is never above 0, and training makes the loss smaller. Without the minus it would make the
        right token less likely.
        """
        surprise, counted = self.right(scores, targets, ignore_index)
        return -surprise, counted

    def in_bits(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The logarithm has base 2.

        In bits the numbers are larger by a factor of 1/ln 2. The loss is in nats, with the natural logarithm, as in
        F.cross_entropy.
        """
        surprise, counted = self.right(scores, targets, ignore_index)
        return surprise / math.log(2), counted

    def log_of_a_softmax(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The logarithm is taken of a softmax that has become 0.

        For large logits the softmax of an unlikely token is exactly 0, and its logarithm is infinite. `log_softmax`
        computes both at once and never meets that 0; so does F.cross_entropy.
        """
        counted = targets != ignore_index
        return -_of_the_target(_in_full(scores).softmax(dim=-1).log(), targets, counted), counted

    def vocabulary_reshaped(self, scores: Tensor, targets: Tensor, ignore_index: int) -> Two:
        """The axes are reshaped where they should be transposed.

        F.cross_entropy wants the vocabulary second, (b, V, n - 1). `reshape` and `view` keep the order of the numbers
        and mix positions with tokens. Use transpose(1, 2), or flatten both to (b·(n - 1), V) and (b·(n - 1)).
        """
        b, n, vocab = scores.shape
        return self.right(scores.reshape(b, vocab, n).mT, targets, ignore_index)

    def default_index_alone(self, scores: Tensor, targets: Tensor) -> Two:
        """ignore_index is not passed on.

        -100 is only the default. The caller may mark ignored targets with another number: pass
        ignore_index=ignore_index.
        """
        surprise = F.cross_entropy(_in_full(scores).transpose(1, 2), targets, reduction="none")
        return surprise, targets != -100

    def readers_ignored(self, scores: Tensor, targets: Tensor, ids: Tensor, ignore_index: int) -> Two:
        """ignore_index is looked for among the inputs, not the targets.

        A prediction is ignored if its *target*, the id at i + 1, is ignore_index. You look at the id at i.
        """
        counted = ids[:, :-1] != ignore_index
        if counted.shape != targets.shape:
            counted = targets != ignore_index
        return -_of_the_target(_in_full(scores).log_softmax(dim=-1), targets, counted), counted


def _in_full(scores: Tensor) -> Tensor:
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def _of_the_target(numbers: Tensor, targets: Tensor, counted: Tensor) -> Tensor:
    chosen = numbers.gather(-1, targets.clamp(min=0)[..., None]).squeeze(-1)
    return chosen.masked_fill(~counted, 0.0)


class MeanSurprise(Step):
    """The mean over all predictions that count."""

    def right(self, surprise: Tensor, counted: Tensor) -> Tensor:
        return surprise.sum() / counted.sum()

    def summed(self, surprise: Tensor) -> Tensor:
        """A sum, not a mean.

        The sum grows with the batch and with the length of the texts, and so does each training step. Divide by the
        number of predictions.
        """
        return surprise.sum()

    def divided_by_all_tokens(self, surprise: Tensor, ids: Tensor) -> Tensor:
        """Divided by the number of tokens.

        Only n - 1 of n tokens are predicted. The first token of each text is nobody's target: divide by b·(n - 1).
        """
        return surprise.sum() / ids.numel()

    def divided_by_texts(self, surprise: Tensor) -> Tensor:
        """Divided by the number of texts.

        Each text has n - 1 predictions, and every one of them counts the same. Yours adds up the losses within each
        text.
        """
        return surprise.sum() / len(surprise)

    def ignored_counted(self, surprise: Tensor) -> Tensor:
        """Ignored targets count as a loss of 0.

        The mean is over the predictions that count. With zeros for the ignored ones, the loss depends on how much
        padding there is.
        """
        return surprise.mean()

    def mean_of_means(self, surprise: Tensor, counted: Tensor) -> Tensor:
        """You take the mean of each text's mean.

        Where some targets are ignored, a short text then weighs as much as a long one. Take a single mean over all
        predictions that count.
        """
        return (surprise.sum(dim=1) / counted.sum(dim=1)).mean()

    def one_for_each_text(self, surprise: Tensor, counted: Tensor) -> Tensor:
        """One loss for each text.

        The contract asks for a single number: take the mean over the batch as well.
        """
        return surprise.sum(dim=1) / counted.sum(dim=1)

    def one_for_each_prediction(self, surprise: Tensor) -> Tensor:
        """One loss for each prediction.

        reduction="none" returns all of them. The contract asks for a single number, their mean.
        """
        return surprise

    def perplexity(self, surprise: Tensor, counted: Tensor) -> Tensor:
        """The exponential of the loss is returned.

        exp(loss) is called perplexity: the number of tokens among which the model seems to hesitate. The loss is its
        logarithm.
        """
        return self.right(surprise, counted).exp()


class PerCharacter(Step):
    """The whole text's loss, shared among its characters."""

    makes = ("nats",)

    def right(self, loss: Tensor, tokens: int, characters: int) -> Tensor:
        return loss * tokens / characters

    def per_token(self, loss: Tensor) -> Tensor:
        """The loss is still per token.

        A loss per token depends on how long the tokens are. Multiplied by the number of tokens, it is the loss of the
        whole text; divided by the number of characters, that can be compared between tokenizers.
        """
        return loss

    def upside_down(self, loss: Tensor, tokens: int, characters: int) -> Tensor:
        """Tokens and characters have changed places.

        loss · tokens is the loss of the whole text. A text has more characters than tokens, so the loss per character
        is smaller, not larger: · tokens / characters.
        """
        return loss * characters / tokens

    def whole_text(self, loss: Tensor, tokens: int) -> Tensor:
        """This is the loss of the whole text.

        A longer text costs more. Divide by the number of characters.
        """
        return loss * tokens

    def divided_alone(self, loss: Tensor, characters: int) -> Tensor:
        """The mean per token is divided by the number of characters.

        The loss you are given is already a mean. First undo that with · tokens, then share the total among the
        characters.
        """
        return loss / characters


class InBits(Step):
    """From nats to bits."""

    def right(self, nats: Tensor) -> Tensor:
        return nats / math.log(2)

    def in_nats(self, nats: Tensor) -> Tensor:
        """The result is in nats, not in bits.

        F.cross_entropy uses the natural logarithm. log2 p = ln p / ln 2: divide by ln 2 = 0.693.
        """
        return nats

    def times_ln_two(self, nats: Tensor) -> Tensor:
        """Multiplied by ln 2.

        A bit is less than a nat, so there are more of them: divide by ln 2 = 0.693.
        """
        return nats * math.log(2)

    def logarithm_taken_again(self, nats: Tensor) -> Tensor:
        """The logarithm of the loss is taken.

        The loss is already a logarithm. Only its base changes: divide by ln 2.
        """
        return nats.log2()

    def as_perplexity(self, nats: Tensor) -> Tensor:
        """The result is a perplexity, not a number of bits.

        2 to the power of the bits (or e to the power of the nats) is the number of characters among which the model
        seems to hesitate. The contract asks for the bits themselves.
        """
        return nats.exp()


class DecoderParts(Step):
    """The layers; those that look at a memory are made only where there is one."""

    makes = ("norm1", "attn", "norm2", "cross", "norm3", "mlp")
    in_constructor = True

    def right(self, d_model: int, num_heads: int, d_memory: int | None) -> tuple[nn.Module | None, ...]:
        cross = None if d_memory is None else attnlib.MultiHeadAttention(d_model, num_heads, d_memory=d_memory)
        return (
            nn.LayerNorm(d_model),
            attnlib.MultiHeadAttention(d_model, num_heads),
            nn.LayerNorm(d_model),
            cross,
            None if cross is None else nn.LayerNorm(d_model),
            attnlib.FeedForward(d_model, 4 * d_model),
        )

    def always_with_memory(self, d_model: int, num_heads: int, d_memory: int | None) -> tuple[nn.Module | None, ...]:
        """cross and norm3 are made even where there is no memory.

        Without d_memory the block has norm1, attn, norm2 and mlp. Layers that are never used would never be trained,
        and saved weights would not fit.
        """
        return self.right(d_model, num_heads, d_memory or d_model)

    def third_norm_always(self, d_model: int, num_heads: int, d_memory: int | None) -> tuple[nn.Module | None, ...]:
        """norm3 is made even where there is no memory.

        Without d_memory there are two branches, and the norm before the MLP is norm2. Make norm3 where `cross` is made;
        there the MLP comes third, and has norm3.
        """
        *others, _, mlp = self.right(d_model, num_heads, d_memory)
        return *others, nn.LayerNorm(d_model), mlp

    def memory_as_wide_as_the_block(
        self, d_model: int, num_heads: int, d_memory: int | None
    ) -> tuple[nn.Module | None, ...]:
        """The memory is assumed to be as wide as the block.

        d_memory is the width of what the encoder passes on, and may differ from d_model: MultiHeadAttention(d_model,
        num_heads, d_memory=d_memory).
        """
        return self.right(d_model, num_heads, d_memory and d_model)

    def relu_inside(self, d_model: int, num_heads: int, d_memory: int | None) -> tuple[nn.Module | None, ...]:
        """The MLP of the block has ReLU.

        The paper of 2017 used it. GPT-2 uses GELU, and so does attnlib.FeedForward unless told otherwise.
        """
        *others, _ = self.right(d_model, num_heads, d_memory)
        return *others, attnlib.FeedForward(d_model, 4 * d_model, activation="relu")

    def narrow_inside(self, d_model: int, num_heads: int, d_memory: int | None) -> tuple[nn.Module | None, ...]:
        """The MLP's hidden layer is only d_model wide.

        It should be four times as wide: FeedForward(d_model, 4 * d_model).
        """
        *others, _ = self.right(d_model, num_heads, d_memory)
        return *others, attnlib.FeedForward(d_model, d_model)


class LookBack(Step):
    """Self-attention to one's own past."""

    makes = ("start", "stream")

    def right(self, x: Tensor, norm1: Layer, attn: nn.Module) -> Two:
        return x, x + attn(norm1(x), is_causal=True)

    def future_seen(self, x: Tensor, norm1: Layer, attn: nn.Module) -> Two:
        """Each position sees the whole text.

        The token to be predicted is then among the inputs. In training such a block simply copies it; when it writes,
        there is nothing to copy. Use attn(norm1(x), is_causal=True).
        """
        return x, x + attn(norm1(x))

    def own_token_hidden(self, x: Tensor, norm1: Layer, attn: nn.Module) -> Two:
        """No position sees itself.

        The diagonal is open: a position may look at its own token, which has already been read. It is the *next* token
        that it has to predict.
        """
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril(-1)
        return x, x + attn(norm1(x), mask=mask)

    def past_hidden(self, x: Tensor, norm1: Layer, attn: nn.Module) -> Two:
        """The mask is upside down: each position sees the future.

        In attnlib True means *may attend*: key j is open to query i for j ≤ i, the lower triangle, `tril`.
        """
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).triu()
        return x, x + attn(norm1(x), mask=mask)

    @told_as(FirstNorm.first_norm_forgotten)
    def first_norm_forgotten(self, x: Tensor, attn: nn.Module) -> Two:
        return x, x + attn(x, is_causal=True)

    @told_as(FirstNorm.first_residual_from_the_norm)
    def first_residual_from_the_norm(self, x: Tensor, norm1: Layer, attn: nn.Module) -> Two:
        return x, self.right(norm1(x), lambda y: y, attn)[1]

    @told_as(AddAttention.first_residual_forgotten)
    def first_residual_forgotten(self, x: Tensor, norm1: Layer, attn: nn.Module) -> Two:
        return x, attn(norm1(x), is_causal=True)

    @told_as(AddAttention.no_attention)
    def no_attention(self, x: Tensor) -> Two:
        return x, x

    @told_as(AddAttention.first_half_post_norm)
    def first_half_post_norm(self, x: Tensor, norm1: Layer, attn: nn.Module) -> Two:
        return x, norm1(x + attn(x, is_causal=True))

    def future_seen_with_a_memory(self, x: Tensor, norm1: Layer, attn: nn.Module, cross: Any) -> Two:
        """With a memory, each position sees the whole text.

        The memory is the source, not the text that is being written: that has a future with or without a memory. Use
        attn(norm1(x), is_causal=True) in both cases.
        """
        return x, x + attn(norm1(x), is_causal=cross is None)


class LookAtMemory(Step):
    """Cross-attention, where there is a memory."""

    makes = ("stream",)

    def right(self, stream: Tensor, memory: Tensor | None, norm2: Layer, cross: Any) -> Tensor:
        return stream if cross is None else stream + cross(norm2(stream), memory)

    def memory_never_read(self, stream: Tensor) -> Tensor:
        """The memory is not used.

        Where there is a memory, the block has one more step between attention and MLP: x = x + cross(norm2(x), memory).
        """
        return stream

    def memory_masked(self, stream: Tensor, memory: Tensor | None, norm2: Layer, cross: Any) -> Tensor:
        """The memory is read under a causal mask.

        The whole source is there before the first word is written, so every position may look at all of it. Only the
        block's own text has a future: no is_causal in `cross`.
        """
        return stream if cross is None else stream + cross(norm2(stream), memory, is_causal=True)

    def second_branch_not_normed(self, stream: Tensor, memory: Tensor | None, cross: Any) -> Tensor:
        """Cross-attention gets the stream without norm2.

        Each of the three branches has its own norm: cross(norm2(x), memory).
        """
        return stream if cross is None else stream + cross(stream, memory)

    def norm1_for_memory(self, stream: Tensor, memory: Tensor | None, norm1: Layer, cross: Any) -> Tensor:
        """norm1 is used again before cross-attention.

        Each of the three branches has its own norm: norm1, norm2, norm3, in this order.
        """
        return stream if cross is None else stream + cross(norm1(stream), memory)

    def memory_post_norm(self, stream: Tensor, memory: Tensor | None, norm2: Layer, cross: Any) -> Tensor:
        """norm2 comes after cross-attention.

        Each branch normalises what it reads, and nothing normalises the stream: x = x + cross(norm2(x), memory).
        """
        return stream if cross is None else norm2(stream + cross(stream, memory))

    @along_with("norm2_for_the_mlp")
    def norm2_and_norm3_exchanged(self, stream: Tensor, memory: Tensor | None, norm3: Any, cross: Any) -> Tensor:
        """norm2 and norm3 have changed places.

        norm2 belongs to cross-attention, and norm3 to the MLP. Trained from scratch nobody would notice; with given
        weights it is wrong.
        """
        return stream if cross is None else stream + cross(norm3(stream), memory)

    def second_residual_lost(self, stream: Tensor, memory: Tensor | None, norm2: Layer, cross: Any) -> Tensor:
        """The residual around cross-attention is missing.

        The stream is replaced by what was found in the memory. Add the two: x = x + cross(norm2(x), memory).
        """
        return stream if cross is None else cross(norm2(stream), memory)

    def memory_residual_from_the_norm(self, stream: Tensor, memory: Tensor | None, norm2: Layer, cross: Any) -> Tensor:
        """The residual around cross-attention is taken after the norm.

        norm2(x) is added where x should be: does x = norm2(x) overwrite the stream? Only the sub-layer sees the norm:
        x + cross(norm2(x), memory).
        """
        return stream if cross is None else norm2(stream) + cross(norm2(stream), memory)

    def memory_asked_by_the_start(
        self, start: Tensor, stream: Tensor, memory: Tensor | None, norm2: Layer, cross: Any
    ) -> Tensor:
        """The queries of cross-attention come from the block's input.

        What a position asks the memory should depend on what it has just found in its own text: use x after
        self-attention has been added.
        """
        return stream if cross is None else stream + cross(norm2(start), memory)

    def memory_before_own_text(
        self,
        start: Tensor,
        norm1: Layer,
        attn: nn.Module,
        memory: Tensor | None,
        norm2: Layer,
        cross: Any,
        stream: Tensor,
    ) -> Tensor:
        """The memory is read before the block's own text.

        First each position looks at its own past (attn, with norm1), then at the memory (cross, with norm2).
        """
        if cross is None:
            return stream
        x = start + cross(norm2(start), memory)
        result: Tensor = x + attn(norm1(x), is_causal=True)
        return result


class ThinkAtLast(Step):
    """The MLP, with the last of the norms."""

    def right(self, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        return stream + mlp((norm3 or norm2)(stream))

    def norm2_for_the_mlp(self, stream: Tensor, norm2: Layer, mlp: Layer) -> Tensor:
        """norm3 is not used.

        With a memory there are three branches: norm2 belongs to cross-attention, and norm3 to the MLP.
        """
        return stream + mlp(norm2(stream))

    def last_norm_of_the_block_forgotten(self, stream: Tensor, mlp: Layer) -> Tensor:
        """The MLP gets the stream without a norm.

        Pre-LN: mlp(norm2(x)), or mlp(norm3(x)) where there is a memory.
        """
        return stream + mlp(stream)

    @told_as(AddThought.second_residual_forgotten)
    def second_residual_forgotten(self, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        return mlp((norm3 or norm2)(stream))

    def last_residual_from_the_norm(self, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        """The residual around the MLP is taken after the norm.

        The normalised vectors are added where x should be: does the norm before the MLP overwrite x? Only the sub-layer
        sees the norm: x + mlp(norm2(x)), or norm3 where there is a memory.
        """
        normed = (norm3 or norm2)(stream)
        return normed + mlp(normed)

    @told_as(SecondNorm.residual_from_the_norm)
    @along_with("first_residual_from_the_norm", "memory_residual_from_the_norm")
    def residual_from_the_norm(self, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        return self.last_residual_from_the_norm(stream, norm2, norm3, mlp)

    @along_with("memory_never_read")
    def memory_after_the_mlp(
        self, stream: Tensor, memory: Tensor | None, norm2: Layer, norm3: Any, cross: Any, mlp: Layer
    ) -> Tensor:
        """The memory is read after the MLP.

        First the block's own past, then the memory, and the MLP last: it works on what the other two have found.
        """
        x = stream + mlp(norm2(stream))
        return x if cross is None else x + cross(norm3(x), memory)

    @along_with("memory_never_read")
    @spells(memory_after_the_mlp)
    def memory_after_the_mlp_with_its_norm(
        self, stream: Tensor, memory: Tensor | None, norm2: Layer, norm3: Any, cross: Any, mlp: Layer
    ) -> Tensor:
        x = self.right(stream, norm2, norm3, mlp)
        return x if cross is None else x + cross(norm2(x), memory)

    @told_as(AddThought.no_perceptron)
    def no_perceptron(self, stream: Tensor) -> Tensor:
        return stream

    @told_as(SecondNorm.side_by_side)
    def side_by_side(self, start: Tensor, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        return stream + mlp((norm3 or norm2)(start))

    @told_as(SecondNorm.residual_of_the_start)
    def residual_of_the_start(self, start: Tensor, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        return start + mlp((norm3 or norm2)(stream))

    @along_with("first_half_post_norm", "memory_post_norm")
    def every_branch_post_norm(self, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        """Post-LN, as in 2017.

        The norm stands behind each residual: norm1(x + attn(x)). The contract has it inside, x + attn(norm1(x)), so
        that nothing on the way from block to block changes the stream (lesson 06).
        """
        return (norm3 or norm2)(stream + mlp(stream))

    def result_normed_again(self, stream: Tensor, norm2: Layer, norm3: Any, mlp: Layer) -> Tensor:
        """The block normalises its result.

        A pre-LN block returns its sum without a norm. The model has one final norm, after all blocks.
        """
        x = self.right(stream, norm2, norm3, mlp)
        return F.layer_norm(x, x.shape[-1:])


class ModelParts(Step):
    """The layers of a language model."""

    makes = ("embed", "positions", "blocks", "norm", "head")
    in_constructor = True

    def right(
        self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int, tie: bool
    ) -> tuple[nn.Module, ...]:
        embed, head = nn.Embedding(vocab, d_model), nn.Linear(d_model, vocab, bias=False)
        if tie:
            head.weight = embed.weight
        blocks = nn.ModuleList(attnlib.EncoderBlock(d_model, num_heads) for _ in range(depth))
        return embed, nn.Embedding(max_len, d_model), blocks, nn.LayerNorm(d_model), head

    def never_tied(self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int) -> tuple[nn.Module, ...]:
        """The head has a matrix of its own, although tie is True.

        With tie=True the head's weight *is* the embedding, one parameter with two uses: self.head.weight =
        self.embed.weight. A copy would be trained separately.
        """
        return self.right(vocab, d_model, num_heads, depth, max_len, False)

    def always_tied(self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int) -> tuple[nn.Module, ...]:
        """The head is tied to the embedding, although tie is False.

        With tie=False the head is a layer with its own weight.
        """
        return self.right(vocab, d_model, num_heads, depth, max_len, True)

    def head_with_bias(
        self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int, tie: bool
    ) -> tuple[nn.Module, ...]:
        """The head has a bias.

        The logits are dot products with the rows of the head's weight and nothing else: nn.Linear(d_model, vocab,
        bias=False).
        """
        *others, head = self.right(vocab, d_model, num_heads, depth, max_len, tie)
        head.bias = nn.Parameter(torch.zeros(vocab))
        return *others, head

    def one_block_for_all(
        self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int, tie: bool
    ) -> tuple[nn.Module, ...]:
        """There is only one block.

        [block] * depth repeats one object, with one set of weights. Create each of the `depth` blocks separately:
        nn.ModuleList(DecoderBlock(d_model, num_heads) for _ in range(depth)).
        """
        embed, positions, blocks, norm, head = self.right(vocab, d_model, num_heads, 1, max_len, tie)
        return embed, positions, nn.ModuleList([blocks.get_submodule("0")] * depth), norm, head

    def blocks_in_a_list(
        self, module: Any, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int, tie: bool
    ) -> tuple[nn.Module | None, ...]:
        """The blocks are in a plain list.

        A module finds the layers that are its attributes, but does not look into a list: the blocks' weights are
        neither trained nor saved with the model, and do not move to a GPU with it. Put the list into an nn.ModuleList.
        """
        embed, positions, blocks, norm, head = self.right(vocab, d_model, num_heads, depth, max_len, tie)
        module.blocks = [*blocks.children()]
        return embed, positions, None, norm, head

    def positions_of_the_vocabulary(
        self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int, tie: bool
    ) -> tuple[nn.Module, ...]:
        """The table of positions has a row for each token of the vocabulary.

        It should have a row for each *position*: nn.Embedding(max_len, d_model).
        """
        embed, _, *others = self.right(vocab, d_model, num_heads, depth, max_len, tie)
        return embed, nn.Embedding(vocab, d_model), *others


class RoomForText(Step):
    """A text is as long as the table of positions at most."""

    def right(self, ids: Tensor, max_len: int) -> None:
        if ids.shape[1] > max_len:
            raise ValueError(f"a text has at most max_len = {max_len} ids, got {ids.shape[1]}")

    def too_long_accepted(self) -> None:
        """A text that is too long is accepted.

        There is no row for position max_len, and PyTorch's error says only that some index is out of range. Compare
        ids.shape[1] with self.max_len first, and raise a ValueError with both numbers.
        """

    def last_place_refused(self, ids: Tensor, max_len: int) -> None:
        """A text of max_len ids is refused.

        It fits: its positions are 0 to max_len - 1. Refuse what is *longer* than max_len.
        """
        self.right(ids, max_len - 1)


class EnterTheStream(Step):
    """What a token is, plus where it stands."""

    makes = ("x",)

    def right(self, ids: Tensor, embed: nn.Embedding, positions: nn.Embedding) -> Tensor:
        result: Tensor = embed(ids) + positions(torch.arange(ids.shape[1], device=ids.device))
        return result

    def places_left_out(self, ids: Tensor, embed: nn.Embedding) -> Tensor:
        """The positions are not added.

        Without them the model can count words, but can hardly tell their order (lesson 07). Add one row of the table
        for each position.
        """
        result: Tensor = embed(ids)
        return result

    def embedding_scaled(self, ids: Tensor, embed: nn.Embedding, positions: nn.Embedding) -> Tensor:
        """The embedding is multiplied by √d_model.

        The paper of 2017 does that; GPT-2 does not, and neither does this contract.
        """
        x: Tensor = embed(ids)
        result: Tensor = x * x.shape[-1] ** 0.5 + positions(torch.arange(ids.shape[1], device=ids.device))
        return result

    def places_counted_from_one(self, ids: Tensor, embed: nn.Embedding, positions: nn.Embedding) -> Tensor:
        """The positions start at 1.

        The first token is at position 0, in the first row of the table. Counted from 1, a text of max_len tokens would
        need one more row.
        """
        result: Tensor = embed(ids) + positions(torch.arange(1, ids.shape[1] + 1, device=ids.device))
        return result

    def places_from_the_end(self, ids: Tensor, embed: nn.Embedding, positions: nn.Embedding) -> Tensor:
        """The last rows of the table are used, not the first.

        The first token is at position 0, however long the text is.
        """
        max_len = positions.weight.shape[0]
        places = torch.arange(ids.shape[1], device=ids.device)
        result: Tensor = embed(ids) + positions(max_len - ids.shape[1] + places)
        return result

    def places_of_the_tokens(self, ids: Tensor, embed: nn.Embedding, positions: nn.Embedding) -> Tensor:
        """The table of positions is indexed with the ids.

        What matters there is *where* a token is, 0, 1, 2, …, not which token it is: positions(torch.arange(n)).
        """
        result: Tensor = embed(ids) + positions(ids % positions.weight.shape[0])
        return result

    def one_place_for_a_text(self, ids: Tensor, embed: nn.Embedding, positions: nn.Embedding) -> Tensor:
        """Positions are counted along the batch.

        All tokens of a text get the same row, and the texts of a batch get different ones. Count along the second axis,
        ids.shape[1].
        """
        result: Tensor = embed(ids) + positions(torch.arange(len(ids), device=ids.device))[:, None]
        return result


class ThroughTheBlocks(Step):
    """One block after the other."""

    makes = ("x",)

    def right(self, x: Tensor, blocks: Any) -> Tensor:
        for block in blocks:
            x = block(x, is_causal=True)
        return x

    @contradicted_by(r"self\.blocks\[-1\]")
    def blocks_beside_one_another(self, x: Tensor, blocks: Any) -> Tensor:
        """Every block gets the embeddings.

        Does the loop overwrite x? Each block works on the output of the block before it: x = block(x).
        """
        result = x
        for block in blocks:
            result = block(x, is_causal=True)
        return result

    def first_block_alone(self, x: Tensor, blocks: Any) -> Tensor:
        """Only the first block is called.

        A `return` inside the loop ends it in the first round. Go through all the blocks.
        """
        result: Tensor = blocks[0](x, is_causal=True)
        return result

    def blocks_from_the_last(self, x: Tensor, blocks: Any) -> Tensor:
        """The blocks are called in reverse order.

        blocks[0] gets the embeddings, and each of the others gets the output of the block before it.
        """
        return self.right(x, [*blocks][::-1])

    @contradicted_by(r"\bin self\.blocks")
    def blocks_never_called(self, x: Tensor) -> Tensor:
        """No block is called.

        The model then predicts from the last token alone. Loop over self.blocks.
        """
        return x

    def future_open_to_blocks(self, x: Tensor, blocks: Any) -> Tensor:
        """The blocks see the future.

        They are EncoderBlocks, which are not causal unless told to be: block(x, is_causal=True). DecoderBlock is always
        causal.
        """
        for block in blocks:
            x = block(x)
        return x

    def embeddings_added_each_time(self, x: Tensor, blocks: Any) -> Tensor:
        """There is a second residual around each block.

        The residuals are inside the block. x = x + block(x) adds the stream a second time.
        """
        for block in blocks:
            x = x + block(x, is_causal=True)
        return x


class ScoreTheVocabulary(Step):
    """One score for each token that could come next."""

    def right(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        return head(norm(x))

    def stack_not_normed(self, x: Tensor, head: Layer) -> Tensor:
        """The final norm is missing.

        A pre-LN stream grows with every block. One norm follows all of them: head(norm(x)).
        """
        return head(x)

    def probabilities_returned(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """Probabilities are returned, not logits.

        The loss and the sampling each apply their own softmax. Return the head's output.
        """
        return head(norm(x)).softmax(dim=-1)

    def log_probabilities_returned(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """Log probabilities are returned, not logits.

        They differ from the logits by one number for each position, which the softmax cancels. But the contract asks
        for the head's output.
        """
        return head(norm(x)).log_softmax(dim=-1)

    def last_token_alone(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """Only the logits of the last position are returned.

        That is enough for writing. In training, every position is an example: (b, n, vocab).
        """
        return head(norm(x[:, -1]))

    def stream_returned(self, x: Tensor, norm: Layer) -> Tensor:
        """The stream is returned, from before the head.

        (b, n, d_model) says nothing about tokens yet. The head turns it into logits, (b, n, vocab).
        """
        return norm(x)

    @along_with("never_tied")
    def embedding_used_and_head_kept(self, x: Tensor, norm: Layer, embed: nn.Embedding) -> Tensor:
        """The embedding makes the logits, and the head is never used.

        If the head is a layer, tie it: self.head.weight = self.embed.weight. Then no layer goes unused.
        """
        return norm(x) @ embed.weight.T

    def embedding_in_any_case(self, x: Tensor, norm: Layer, embed: nn.Embedding) -> Tensor:
        """The embedding makes the logits, whatever `tie` says.

        With tie=False the head has its own weight, and that is what makes the logits.
        """
        return norm(x) @ embed.weight.T
