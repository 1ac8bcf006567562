"""Lesson 03: a training loop with Adam, which remembers each number's gradients."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from attnlib.checks.course.slips.lesson05_training import TrainWriter
from attnlib.checks.course.slips.training import Error, TakeSteps
from attnlib.checks.course.steps import Step, along_with, each, spells, told_as

Update = Callable[[Tensor, Tensor], Tensor]
"""What is subtracted, but for the rate, from the mean and the mean square of the gradients, both corrected."""
Correct = Callable[[Tensor, float, int], Tensor]
Losses = list[Tensor]
Descend = Callable[..., Losses]


class KeepMeans(Step):
    """Running means of each gradient and of its square: 0.9 and 0.999 of the old one, and the rest of the new."""

    makes = ("betas",)

    def right(self) -> tuple[float, float]:
        return 0.9, 0.999

    def means_exchanged(self) -> tuple[float, float]:
        """0.9 and 0.999 have changed places.

        The mean of the gradients forgets soon, with 0.9. The mean of their squares, which sets the size of the steps,
        is the slow one, with 0.999.
        """
        return 0.999, 0.9

    def old_and_new_exchanged(self) -> tuple[float, float]:
        """The old mean and the new gradient have changed places.

        Yours keeps 0.1 of what was remembered and takes 0.9 of the new gradient. It is the *old* mean that is
        multiplied by 0.9, and the new gradient by 0.1.
        """
        return 0.1, 0.001

    def no_momentum(self) -> tuple[float, float]:
        """The gradient itself is used, not its mean.

        Yours divides this step's gradient by the size of the recent gradients. (That has a name, RMSprop.) Adam
        moves along the *mean* of the gradients, which jitters less from batch to batch.
        """
        return 0.0, 0.999


class CorrectMeans(Step):
    """Both begin at 0 and are too small at first: they are divided by 1 - beta to the power of the step, from 1 on."""

    makes = ("correct",)

    def right(self) -> Correct:
        return lambda mean, beta, step: mean / (1 - beta**step)

    def not_corrected(self) -> Correct:
        """The means are not corrected.

        Both begin at 0, so after the first step the mean is only 0.1 of the gradient, and that of the squares 0.001 of
        its square. Divide them by 1 - 0.9^t and 1 - 0.999^t, or the first steps are three times too long.
        """
        return lambda mean, beta, step: mean

    def first_mean_not_corrected(self) -> Correct:
        """The mean of the gradients is not corrected.

        It begins at 0, too: divide it by 1 - 0.9^t, as the mean of the squares is divided by 1 - 0.999^t.
        """
        return lambda mean, beta, step: mean if beta < 0.99 else mean / (1 - beta**step)

    def second_mean_not_corrected(self) -> Correct:
        """The mean of the squares is not corrected.

        It begins at 0, and with 0.999 it stays near 0 for hundreds of steps. Divide it by 1 - 0.999^t, or the first
        steps are some thirty times too long.
        """
        return lambda mean, beta, step: mean / (1 - beta**step) if beta < 0.99 else mean

    def root_before_the_correction(self) -> Correct:
        """The root is taken before the mean of the squares is corrected.

        1 - 0.999^t corrects v itself. Divide v by it, and then take the root: the other way round, the first step is
        some thirty times too short.
        """
        return lambda mean, beta, step: mean / (1 - beta**step) ** (1 if beta < 0.99 else 2)

    def steps_counted_from_zero(self) -> Correct:
        """The steps are counted from 0.

        Then the first correction divides by 1 - 0.9⁰ = 0. The first step is step 1: enumerate(…, 1), or t + 1.
        """
        return lambda mean, beta, step: mean / (1 - beta ** (step - 1))

    def steps_counted_from_two(self) -> Correct:
        """The steps are counted from 2.

        At the first step the means hold one gradient, so they are divided by 1 - 0.9 and 1 - 0.999. Is the count raised
        twice?
        """
        return lambda mean, beta, step: mean / (1 - beta ** (step + 1))

    def correction_stays(self) -> Correct:
        """The correction is always that of the first step.

        1 - 0.9 is right once. As the mean fills up, less is missing: 1 - 0.9^t, t being the number of the step.
        """
        return lambda mean, beta, step: mean / (1 - beta)


class Divide(Step):
    """The mean, divided by the root of the mean square."""

    makes = ("update",)

    def right(self) -> Update:
        return lambda mean, square: mean / (square.sqrt() + 1e-8)

    def root_forgotten(self) -> Update:
        """The root is missing.

        Divided by a mean of *squares*, small gradients make enormous steps. Take its root: then a number moves by
        about lr, however large its gradients are.
        """
        return lambda mean, square: mean / (square + 1e-8)

    def eps_under_the_root(self) -> Update:
        """10⁻⁸ is added under the root.

        √(v + 10⁻⁸) is 10⁻⁴ where v is 0, ten thousand times more than asked for. Take the root first, then add.
        """
        return lambda mean, square: mean / (square + 1e-8).sqrt()

    def not_divided(self) -> Update:
        """The mean of the gradients is not divided by their size.

        That is gradient descent with momentum. Adam divides by √v, so that numbers with large and with small gradients
        move at one speed.
        """
        return lambda mean, square: mean

    def multiplied_by_the_size(self) -> Update:
        """The mean is multiplied by the size of the gradients.

        Numbers with small gradients would hardly ever move. Divide by √v.
        """
        return lambda mean, square: mean * (square.sqrt() + 1e-8)


def adam(
    model: nn.Module,
    words: Tensor,
    wanted: Tensor,
    lr: float,
    *,
    error: Error,
    betas: tuple[float, float],
    correct: Correct,
    update: Update,
    keep_gradients: bool = False,
    keep_corrected: bool = False,
    count_weights: bool = False,
    squared: Callable[[Tensor, Tensor], Tensor] = lambda gradient, mean: gradient.square(),
    remember: bool = True,
    counting: bool = True,
    decay: float = 0.0,
    after: bool = False,
) -> Losses:
    """A step on each batch, and its loss; the options are what goes wrong."""
    weights, losses, count = [*model.parameters()], [], 0
    means, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    sums = [torch.zeros_like(w) for w in weights]
    for step, (x, target) in enumerate(zip(words, wanted, strict=True), 1):
        loss = error(model(x)[0], target)
        new = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        sums = [old * keep_gradients + gradient for old, gradient in zip(sums, new, strict=True)]
        with torch.no_grad():
            for i, (w, gradient) in enumerate(zip(weights, sums, strict=True)):
                count += counting
                number = count if count_weights else step if counting else 1
                means[i] = means[i] * betas[0] * remember + gradient * (1 - betas[0])
                squares[i] = squares[i] * betas[1] * remember + squared(gradient, means[i]) * (1 - betas[1])
                mean, square = correct(means[i], betas[0], number), correct(squares[i], betas[1], number)
                if keep_corrected:
                    means[i], squares[i] = mean, square
                w.sub_(lr * (update(mean, square) + decay * w))
        losses.append((error(model(x)[0], target) if after else loss).detach())
    return losses


class Gather(Step):
    """The parts of the loop, put together."""

    makes = ("descend",)

    def right(
        self, model: nn.Module, error: Error, betas: tuple[float, float], correct: Correct, update: Update
    ) -> Descend:
        return partial(adam, model, error=error, betas=betas, correct=correct, update=update)


class TakeAdamSteps(Step):
    """Once for each batch: the gradient of its loss, the two means, and a step."""

    makes = ("losses",)

    def right(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return descend(words, wanted, lr)

    @told_as(TakeSteps.gradients_pile_up)
    def gradients_pile_up(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return descend(words, wanted, lr, keep_gradients=True)

    @told_as(TakeSteps.uphill)
    def uphill(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return descend(words, wanted, -lr)

    @each(rate=(1e-3, 1.0, 0.02))
    def rate_ignored(self, descend: Descend, words: Tensor, wanted: Tensor, rate: float) -> Losses:
        """The learning rate that is given is not used.

        Yours takes another one: the default of an optimiser, the lesson's, or none at all. Multiply each step by lr.
        """
        return descend(words, wanted, rate)

    def corrected_means_kept(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        """The corrected means are remembered.

        `m /= …` changes what is remembered, and the next step corrects it once more. Give the corrected means names of
        their own, and remember them as they were.
        """
        return descend(words, wanted, lr, keep_corrected=True)

    def weights_counted(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        """The step is counted once for each weight.

        With `t += 1` in the inner loop, the second matrix of the first batch is corrected as if it were at step 2. One
        batch is one step: count in the outer loop.
        """
        return descend(words, wanted, lr, count_weights=True)

    def square_of_the_mean(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        """The second mean is that of the mean's squares.

        The squares are those of the *gradients*: square first, then average. Gradients of +1 and -1 have the mean 0,
        and their size is 1.
        """
        return descend(words, wanted, lr, squared=lambda gradient, mean: mean.square())

    def gradients_not_squared(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        """The second mean is that of the gradients' sizes, not of their squares.

        Square each gradient before it is averaged, and take the root of the mean at the end.
        """
        return descend(words, wanted, lr, squared=lambda gradient, mean: gradient.abs())

    @spells(gradients_not_squared)
    @along_with("root_forgotten")
    def sizes_without_a_root(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return self.gradients_not_squared(descend, words, wanted, lr)

    def means_begun_anew(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        """Nothing is remembered from step to step.

        Both means begin at 0 in each step. Make them, or the optimiser, once, before the loop; and what a step has made
        of them has to be there in the next. (`m = 0.9 * m + …` gives the name a new tensor: a list still has the old.)
        """
        return descend(words, wanted, lr, remember=False)

    @spells(means_begun_anew)
    def optimiser_made_anew(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return descend(words, wanted, lr, remember=False, counting=False)

    def weights_decay(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        """The weights shrink a little in each step.

        AdamW takes lr · 0.01 of each weight away unless it is told not to. Plain Adam does not.
        """
        return descend(words, wanted, lr, decay=0.01)

    @told_as(TakeSteps.loss_after_the_step)
    def loss_after_the_step(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return descend(words, wanted, lr, after=True)

    @told_as(TakeSteps.first_batch_again_and_again)
    def first_batch_again_and_again(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return descend(words[:1].expand_as(words), wanted[:1].expand_as(wanted), lr)

    def weights_do_not_change(self, descend: Descend, words: Tensor, wanted: Tensor) -> Losses:
        """The model's weights do not change.

        The losses are those of the model as it came. `w = w - …` makes a new tensor, and the model keeps the old one:
        change the weight itself, in `torch.no_grad()`: `w -= …`. An optimiser must have been given model.parameters().
        """
        return descend(words, wanted, 0.0)

    @told_as(TrainWriter.one_step_only)
    def one_step_only(self, descend: Descend, words: Tensor, wanted: Tensor, lr: float) -> Losses:
        return descend(words[:1], wanted[:1], lr)
