"""A training loop by hand: run, measure, ask for the gradient, step down, once for each batch."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from attnlib.checks.course.slips.attention import Scale, Share
from attnlib.checks.course.steps import Step, told_as

Error = Callable[[Tensor, Tensor], Tensor]
Trained = tuple[Tensor, tuple[Tensor, ...]]
Matrices = tuple[Tensor, Tensor, Tensor]


def attended(x: Tensor, weights: Sequence[Tensor], *, scaled: bool = True, dim: int = -1) -> Tensor:
    """One head of self-attention: (b, n, d_model) -> (b, n, d_v)."""
    q, k, v = (x @ w for w in weights)
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1] if scaled else 1), dim=dim) @ v


def descend(
    words: Tensor,
    wanted: Tensor,
    weights: Matrices,
    error: Error,
    rates: Sequence[float],
    *,
    piling_up: bool = False,
    after: bool = False,
    turn: Callable[[Tensor], Tensor] = lambda gradient: gradient,
    attend: Callable[[Tensor, Sequence[Tensor]], Tensor] = attended,
) -> Trained:
    """One step of gradient descent for each batch, at the learning rates of the three matrices."""
    losses, sums = [], [torch.zeros_like(w) for w in weights]
    for x, target in zip(words, wanted, strict=True):
        leaves = [w.detach().requires_grad_() for w in weights]
        with torch.enable_grad():
            loss = error(attend(x, leaves), target)
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        sums = [total * piling_up + gradient for total, gradient in zip(sums, gradients, strict=True)]
        weights = tuple(w.detach() - rate * turn(g) for w, rate, g in zip(weights, rates, sums, strict=True))  # type: ignore[assignment]
        losses.append((error(attend(x, weights), target) if after else loss).detach())
    return torch.stack(losses), weights


class MeasureError(Step):
    """The mean squared error at the position that counts."""

    makes = ("error",)

    def right(self, position: int) -> Error:
        return lambda output, wanted: (output[:, position] - wanted).square().mean()

    def all_positions_compared(self, position: int) -> Error:
        """The outputs of all positions are compared.

        Only the word at `position` was asked something: `output[:, position]`. Yours also trains the others to answer,
        and they do not know what.
        """
        return lambda output, wanted: (output - wanted[:, None]).square().mean()

    def last_position_compared(self) -> Error:
        """The last word's output is compared.

        The word that asks is at `position`, and it need not be the last one.
        """
        return lambda output, wanted: (output[:, -1] - wanted).square().mean()

    def first_position_compared(self) -> Error:
        """The first word's output is compared.

        The word that asks is at `position`: `output[:, position]`.
        """
        return lambda output, wanted: (output[:, 0] - wanted).square().mean()

    def sentence_for_position(self, position: int) -> Error:
        """`position` is taken from the batch.

        output[position] is one sentence with all of its words. The words are on axis 1: `output[:, position]`.
        """
        return lambda output, wanted: (output[position % len(output)][:1] - wanted).square().mean()

    def error_summed(self, position: int) -> Error:
        """The squared errors are summed.

        The loss is their *mean*. With a sum, the steps grow with the batch and with the width of an answer.
        """
        return lambda output, wanted: (output[:, position] - wanted).square().sum()

    def error_summed_over_numbers(self, position: int) -> Error:
        """The mean runs over the sentences alone.

        Yours sums the squared errors of one answer and averages over the batch. The mean of *all* numbers is asked for.
        """
        return lambda output, wanted: (output[:, position] - wanted).square().sum(dim=-1).mean()

    def error_not_squared(self, position: int) -> Error:
        """The errors are not squared.

        Yours is the mean of their absolute values, as in nn.L1Loss. Square them first.
        """
        return lambda output, wanted: (output[:, position] - wanted).abs().mean()

    def signed_error(self, position: int) -> Error:
        """Errors of either sign cancel.

        The mean of output minus wanted is lowest when the output is as small as can be. Square the differences.
        """
        return lambda output, wanted: (output[:, position] - wanted).mean()

    def error_halved(self, position: int) -> Error:
        """The loss is half of what was asked for.

        The mean squared error has no factor ½. It would only halve the steps, but the losses are compared, too.
        """
        return lambda output, wanted: (output[:, position] - wanted).square().mean() / 2

    def root_of_the_error(self, position: int) -> Error:
        """The root of the mean is taken.

        The loss is the mean squared error itself, without a root.
        """
        return lambda output, wanted: (output[:, position] - wanted).square().mean().sqrt()


class TakeSteps(Step):
    """Once for each batch: the gradient of its loss, and a step against it."""

    makes = ("losses", "trained")

    def right(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr] * 3)

    def gradients_pile_up(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """The gradients of earlier steps are still there.

        `backward` *adds* to what is in `.grad`. Set it to zero (or to None) before each step: `optimiser.zero_grad()`.
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr] * 3, piling_up=True)

    @told_as(Scale.no_scale)
    def no_scale(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr] * 3, attend=partial(attended, scaled=False))

    @told_as(Share.over_queries)
    def over_queries(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr] * 3, attend=partial(attended, dim=-2))

    def uphill(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """The steps go uphill.

        The gradient points to where the loss *grows*. Subtract it.
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [-lr] * 3)

    def rate_ignored(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, error: Error
    ) -> Trained:
        """The learning rate is not used.

        Yours subtracts the whole gradient. Multiply it by lr first.
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [1.0] * 3)

    def steps_of_one_length(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """The steps are all of one length.

        You divide the gradient by its norm, or take its sign. In plain gradient descent a steep slope makes a long
        step: lr times the gradient.
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr] * 3, turn=lambda g: g / (g.norm() + 1e-12))

    def adam_for_plain_descent(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """The steps are Adam's.

        Adam divides by the size of the recent gradients, so that its first step moves every number by lr. In plain
        gradient descent a number moves by lr times its gradient: torch.optim.SGD.
        """
        weights = [w.detach().clone().requires_grad_() for w in (w_q, w_k, w_v)]
        optimiser, losses = torch.optim.Adam(weights, lr=lr), []
        for x, target in zip(words, wanted, strict=True):
            with torch.enable_grad():
                loss = error(attended(x, weights), target)
                gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
            for w, gradient in zip(weights, gradients, strict=True):
                w.grad = gradient
            optimiser.step()
            losses.append(loss.detach())
        trained_q, trained_k, trained_v = (w.detach() for w in weights)
        return torch.stack(losses), (trained_q, trained_k, trained_v)

    def loss_after_the_step(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """The losses are those after the step.

        Keep the loss from which the gradient was computed, that of the batch before its step. (After it, the batch has
        been learned from, and looks better than a new one would.)
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr] * 3, after=True)

    def first_batch_again_and_again(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """Every step uses the first batch.

        Each step has sentences of its own: step i takes words[i] and wanted[i].
        """
        words, wanted = words[:1].expand_as(words), wanted[:1].expand_as(wanted)
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr] * 3)

    def last_step_not_taken(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """The last step is not taken.

        The last loss is computed, and the matrices come back as they were before it. Or does the loop return too early?
        """
        losses = self.right(words, wanted, w_q, w_k, w_v, lr, error)[0]
        before = self.right(words[:-1], wanted[:-1], w_q, w_k, w_v, lr, error)[1] if len(words) > 1 else (w_q, w_k, w_v)
        return losses, before

    def one_step_only(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """Only one step is taken.

        The result is that of the first batch. Is there a `return` inside the loop?
        """
        return self.right(words[:1], wanted[:1], w_q, w_k, w_v, lr, error)

    def nothing_learned(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, error: Error
    ) -> Trained:
        """The matrices do not change.

        The losses are those of the matrices that you were given, batch after batch. What is computed in a step has to
        be assigned, and used in the next one. An optimiser must be given the tensors that the loss is computed from,
        and their gradients: set them to zero before `backward`, not between `backward` and `step`.
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [0.0] * 3)

    def values_alone_learn(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """Only w_v learns.

        Queries and keys stay as they were, so the head never learns where to look. All three matrices take a step.
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [0.0, 0.0, lr])

    def values_do_not_learn(
        self, words: Tensor, wanted: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float, error: Error
    ) -> Trained:
        """w_v does not learn.

        It learns where to look, and not what to bring back. All three matrices take a step.
        """
        return descend(words, wanted, (w_q, w_k, w_v), error, [lr, lr, 0.0])


class GiveTrained(Step):
    """The losses, then the three matrices."""

    def right(self, losses: Tensor, trained: Matrices) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return losses, *trained

    def starting_matrices_returned(
        self, losses: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The matrices that come back are those that were given.

        The losses fall as they should, so something was trained. Return *that*: the copies that took the steps.
        """
        return losses, w_q * 1, w_k * 1, w_v * 1

    def last_loss_alone(self, losses: Tensor, trained: Matrices) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Only the last loss is returned.

        Each step has a loss, (steps,): append them to a list.
        """
        return losses[-1], *trained

    def mean_of_the_losses(self, losses: Tensor, trained: Matrices) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The losses are averaged.

        Each step has a loss of its own, (steps,): it is the curve that you want to see.
        """
        return losses.mean(), *trained

    def matrices_first(self, losses: Tensor, trained: Matrices) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The losses come last.

        First the losses, then the three matrices.
        """
        return *trained, losses
