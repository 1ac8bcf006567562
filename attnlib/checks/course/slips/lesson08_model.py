"""Lesson 08: a loss for the next token, its units, a block that writes, and a language model made of such blocks."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.course.slips.norm import Two
from attnlib.checks.course.steps import Step, contradicted_by


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
