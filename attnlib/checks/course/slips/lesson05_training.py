"""Lesson 05: a loop that trains a model to guess the next character, and a measurement that finds a leak."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.slips.lesson08_model import Surprise
from attnlib.checks.course.slips.lesson08_writing import PieceLoss
from attnlib.checks.course.slips.training import GiveTrained, TakeSteps
from attnlib.checks.course.steps import Step, along_with, spells, told_as

Loss = Callable[[Tensor, Tensor], Tensor]
Losses = list[Tensor]
Two = tuple[Tensor, Tensor]


class MeasureGuesses(Step):
    """Logits (b, n, vocab) of an excerpt without its last character, against the excerpt (b, n + 1)."""

    makes = ("loss_of",)

    def right(self) -> Loss:
        return lambda logits, excerpt: F.cross_entropy(logits.flatten(0, 1), excerpt[:, 1:].flatten())

    @told_as(PieceLoss.loss_not_shifted)
    def guesses_not_shifted(self) -> Loss:
        return lambda logits, excerpt: F.cross_entropy(logits.flatten(0, 1), excerpt[:, :-1].flatten())

    @told_as(PieceLoss.loss_shifted_the_wrong_way)
    def shifted_the_other_way(self) -> Loss:
        return lambda logits, excerpt: F.cross_entropy(logits[:, 1:].mT, excerpt[:, :-2])

    def last_guess_alone(self) -> Loss:
        """Only the last guess of each excerpt counts.

        Every position is an exercise, and one pass does them all. Yours throws away all but one of them.
        """
        return lambda logits, excerpt: F.cross_entropy(logits[:, -1], excerpt[:, -1])

    def first_guess_alone(self) -> Loss:
        """Only the first guess of each excerpt counts.

        Every position is an exercise. Yours trains the model to guess from a single character.
        """
        return lambda logits, excerpt: F.cross_entropy(logits[:, 0], excerpt[:, 1])

    def last_guess_left_out(self) -> Loss:
        """The last guess of each excerpt is left out.

        An excerpt has n + 1 characters: n are read, [:, :-1], and n are guessed, [:, 1:]. One end is cut off from
        each, not two.
        """
        return lambda logits, excerpt: F.cross_entropy(logits[:, :-1].flatten(0, 1), excerpt[:, 1:-1].flatten())

    def losses_summed(self) -> Loss:
        """The loss is a sum over all guesses.

        It is their *mean*, which is what cross_entropy gives by default. With a sum, the steps grow with the batch.
        """
        return lambda logits, excerpt: F.cross_entropy(logits.mT, excerpt[:, 1:], reduction="sum")

    def summed_over_places(self) -> Loss:
        """The mean runs over the excerpts alone.

        Yours adds up the losses of an excerpt. The mean of *all* b · n guesses is asked for.
        """
        return lambda logits, excerpt: F.cross_entropy(logits.mT, excerpt[:, 1:], reduction="sum") / len(excerpt)

    @told_as(Surprise.softmax_twice)
    def softmax_twice(self) -> Loss:
        return lambda logits, excerpt: self.right()(logits.softmax(dim=-1), excerpt)


Begin = Callable[[nn.Module], torch.optim.Optimizer]


class PrepareWriter(Step):
    """The model in the mode in which it is trained, and its optimiser."""

    makes = ("begin",)

    def right(self, make: Any = torch.optim.SGD) -> Begin:
        return lambda model: make(model.train().parameters(), lr=1.0)

    def mode_left_as_it_was(self, make: Any = torch.optim.SGD) -> Begin:
        """The model is not put into training mode.

        A model that has just been tested is in evaluation mode, and would be trained without its dropout. Call
        model.train() before the loop.
        """
        return lambda model: make(model.parameters(), lr=1.0)

    def trained_in_evaluation_mode(self, make: Any = torch.optim.SGD) -> Begin:
        """The model is trained in evaluation mode.

        model.eval() switches dropout off. It belongs to a test; before the loop, call model.train().
        """
        return lambda model: make(model.eval().parameters(), lr=1.0)

    def always_sgd(self) -> Begin:
        """The optimiser is SGD, whatever `make` is.

        Whoever calls your function chooses the optimiser: `make(model.parameters(), lr=…)`.
        """
        return lambda model: torch.optim.SGD(model.train().parameters(), lr=1.0)


def descend(
    model: nn.Module,
    begin: Begin,
    excerpts: Tensor,
    rates: list[float],
    loss_of: Loss,
    *,
    keep_gradients: bool = False,
    after: bool = False,
    anew: bool = False,
    read: slice = slice(-1),
) -> Losses:
    """A step on each excerpt, and its loss; the model gets the characters that are `read`."""
    optimiser, losses = begin(model), []
    for excerpt, rate in zip(excerpts, rates, strict=True):
        optimiser = begin(model) if anew else optimiser
        loss = loss_of(model(excerpt[:, read]), excerpt)
        for group in optimiser.param_groups:
            group["lr"] = rate
        if not keep_gradients:
            optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append((loss_of(model(excerpt[:, read]), excerpt) if after else loss).detach())
    return losses


class TrainWriter(Step):
    """A step on each excerpt, at the rate of that step."""

    makes = ("losses",)

    def right(self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any) -> Losses:
        return descend(model, begin, excerpts, rates.tolist(), loss_of)

    def past_predicted(self, model: nn.Module, excerpts: Tensor, rates: Tensor, begin: Any) -> Losses:
        """The model reads what it should guess, and guesses what came before.

        The two slices are exchanged: excerpt[:, 1:] is read, and excerpt[:, :-1] is to be guessed, the character before
        each one. The model gets all but the last character, and its guesses are compared with all but the first.
        """

        def loss_of(logits: Tensor, excerpt: Tensor) -> Tensor:
            return F.cross_entropy(logits.mT, excerpt[:, :-1])

        return descend(model, begin, excerpts, rates.tolist(), loss_of, read=slice(1, None))

    @told_as(TakeSteps.gradients_pile_up)
    def gradients_pile_up(self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any) -> Losses:
        return descend(model, begin, excerpts, rates.tolist(), loss_of, keep_gradients=True)

    @told_as(TakeSteps.uphill)
    def uphill(self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any) -> Losses:
        return descend(model, begin, excerpts, (-rates).tolist(), loss_of)

    def first_rate_throughout(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        """The learning rate never changes.

        Every step is made at the first rate. An optimiser keeps the rate with which it was made until you write another
        one into it: `group["lr"] = rate` for each group in optimiser.param_groups, before its `step()`.
        """
        return descend(model, begin, excerpts, [rates[0].item()] * len(rates), loss_of)

    @spells(first_rate_throughout)
    def last_rate_throughout(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        return descend(model, begin, excerpts, [rates[-1].item()] * len(rates), loss_of)

    @spells(first_rate_throughout)
    def mean_rate_throughout(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        return descend(model, begin, excerpts, [rates.mean().item()] * len(rates), loss_of)

    def rate_one_step_late(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        """Each rate is used one step too late.

        Step 1 is made at the rate of step 0. Write the rate into the optimiser *before* its `step()`, or begin with
        rates[0] and count from there.
        """
        return descend(model, begin, excerpts, [rates[0].item(), *rates[:-1].tolist()], loss_of)

    def rate_one_step_early(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        """Each rate is used one step too early.

        Step 0 is made at the rate of step 1. The counts of excerpts and rates both begin with 0.
        """
        return descend(model, begin, excerpts, [*rates[1:].tolist(), rates[-1].item()], loss_of)

    def rates_multiplied(self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any) -> Losses:
        """The rates are multiplied with one another.

        `*=` changes the rate that is there, so each step inherits all earlier ones. Replace it: group["lr"] = rate.
        """
        return descend(model, begin, excerpts, rates.cumprod(dim=0).tolist(), loss_of)

    def optimiser_made_anew(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        """Each step has a new optimiser.

        Adam keeps running means of the gradients, and a new Adam has none. (With SGD, which keeps nothing, nobody would
        notice.) Make one before the loop, and write each rate into it.
        """
        return descend(model, begin, excerpts, rates.tolist(), loss_of, anew=True)

    @told_as(TakeSteps.loss_after_the_step)
    def loss_after_the_step(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        return descend(model, begin, excerpts, rates.tolist(), loss_of, after=True)

    def one_excerpt_throughout(
        self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any
    ) -> Losses:
        """Every step uses the first excerpts.

        Each step has excerpts of its own: step i takes excerpts[i].
        """
        return descend(model, begin, excerpts[:1].expand_as(excerpts), rates.tolist(), loss_of)

    def no_step_taken(self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any) -> Losses:
        """The model does not change.

        The losses are those of the model as it came. A gradient alone changes nothing: after loss.backward() comes
        optimiser.step(), and the optimiser must have been given model.parameters().
        """
        return descend(model, begin, excerpts, [0.0] * len(rates), loss_of)

    def one_step_only(self, model: nn.Module, excerpts: Tensor, rates: Tensor, loss_of: Loss, begin: Any) -> Losses:
        """Only one step is made.

        There is one loss where `steps` are wanted. Is there a `return` inside the loop?
        """
        return descend(model, begin, excerpts[:1], rates[:1].tolist(), loss_of)


class GiveLosses(Step):
    """A loss for each step."""

    def right(self, losses: Losses) -> Tensor:
        return torch.stack(losses)

    @told_as(GiveTrained.last_loss_alone)
    def last_loss_alone(self, losses: Losses) -> Tensor:
        return losses[-1]

    @told_as(GiveTrained.mean_of_the_losses)
    def mean_of_the_losses(self, losses: Losses) -> Tensor:
        return torch.stack(losses).mean()


def losses_in_writing(
    model: nn.Module,
    excerpts: Tensor,
    *,
    read: Callable[[Tensor, int], Tensor] = lambda excerpts, t: excerpts[:, : t + 1],
    guess: Callable[[Tensor, int], Tensor] = lambda logits, t: logits[:, -1],
    target: int = 1,
) -> Tensor:
    """For each place t: what is read, which of the guesses counts, and how far ahead the character is that it meets."""
    places = range(excerpts.shape[1] - 1)
    guesses = [guess(model(read(excerpts, t)), t) for t in places]
    return torch.stack([F.cross_entropy(guesses[t], excerpts[:, t + target]) for t in places])


class AsInTraining(Step):
    """The whole window at once."""

    makes = ("training",)

    def right(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        return self._each(model, excerpts).mean(dim=0)

    def _each(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        return F.cross_entropy(model(excerpts[:, :-1]).mT, excerpts[:, 1:], reduction="none")

    def guesses_not_shifted(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in training, the guesses are compared with what was read.

        The guess at place t is for the character *after* it, excerpts[:, t + 1]. The characters that are read are those
        from 0 to n − 1, and those to be guessed are the ones from 1 to n.
        """
        return F.cross_entropy(model(excerpts[:, :-1]).mT, excerpts[:, :-1], reduction="none").mean(dim=0)

    def last_character_read_too(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in training, the model reads all n + 1 characters.

        The last one is only there to be guessed. A leaking model would see it from the place before: give it
        excerpts[:, :-1].
        """
        return F.cross_entropy(model(excerpts)[:, :-1].mT, excerpts[:, 1:], reduction="none").mean(dim=0)

    def summed_over_excerpts(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in training, the losses of the excerpts are summed.

        Their mean is asked for, which does not grow with the batch: mean(dim=0).
        """
        return self._each(model, excerpts).sum(dim=0)

    def one_for_each_excerpt(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in training, there is one loss for each excerpt.

        The mean runs along the wrong axis. One loss for each *place* is asked for: average over the batch, dim=0.
        """
        return self._each(model, excerpts).mean(dim=1)

    def one_for_all_places(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in training, all places share one loss.

        cross_entropy averages over everything unless it is told otherwise: reduction="none", then the mean over the
        batch.
        """
        return self._each(model, excerpts).mean()


class AsInWriting(Step):
    """The first t characters and nothing else; the last guess counts."""

    makes = ("writing",)

    def right(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        return losses_in_writing(model, excerpts)

    def whole_window_read(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the model gets the whole window.

        Then a leaking model finds the next character in what it reads, as in training, and nothing is found out. At
        place t, it must be called with the characters up to t alone: excerpts[:, : t + 1].
        """
        return losses_in_writing(
            model, excerpts, read=lambda excerpts, t: excerpts[:, :-1], guess=lambda logits, t: logits[:, t]
        )

    @spells(whole_window_read)
    def all_characters_read(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        return losses_in_writing(
            model, excerpts, read=lambda excerpts, t: excerpts, guess=lambda logits, t: logits[:, t]
        )

    def one_character_too_many(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the model reads the very character that it has to guess.

        excerpts[:, : t + 2] ends *with* the next character. Up to t is excerpts[:, : t + 1].
        """
        return losses_in_writing(
            model, excerpts, read=lambda excerpts, t: excerpts[:, : t + 2], guess=lambda logits, t: logits[:, -2]
        )

    def guess_too_late(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the guess comes a place too late.

        The model has read the character at t + 1 and guesses what follows it, and the guess is compared with the
        character at t + 1. A slice ends *before* its last index: up to t is excerpts[:, : t + 1].
        """
        return losses_in_writing(model, excerpts, read=lambda excerpts, t: excerpts[:, : t + 2])

    def one_character_too_few(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the last character before the guess is missing.

        excerpts[:, :t] ends before place t. To include it, write excerpts[:, : t + 1].
        """
        return losses_in_writing(model, excerpts, read=lambda excerpts, t: excerpts[:, : max(t, 1)])

    def newest_character_alone(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the model gets one character at a time.

        It has no memory of earlier calls: whatever it is to know of the past must be in what it reads, from 0 to t.
        """
        return losses_in_writing(model, excerpts, read=lambda excerpts, t: excerpts[:, t : t + 1])

    def future_blanked_out(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the future is there, filled with zeros.

        0 is a character like any other, and a leaking model reads it. The text ends where the writer is: cut it off.
        """
        return losses_in_writing(
            model,
            excerpts,
            read=lambda excerpts, t: F.pad(excerpts[:, : t + 1], (0, excerpts.shape[1] - 2 - t)),
            guess=lambda logits, t: logits[:, t],
        )

    def all_guesses_counted(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, all guesses count at every place.

        Only the last guess is about a character that the model has not read. Those before it are about characters
        that it has already been shown.
        """
        places = range(excerpts.shape[1] - 1)
        logits = [model(excerpts[:, : t + 1]) for t in places]
        return torch.stack([F.cross_entropy(logits[t].mT, excerpts[:, 1 : t + 2]) for t in places])

    def first_guess_counted(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the first guess counts.

        logits[:, 0] has seen the least. The newest guess is the last one: logits[:, -1].
        """
        return losses_in_writing(model, excerpts, guess=lambda logits, t: logits[:, 0])

    def last_read_compared(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """As in writing, the guess is compared with the last character that was read.

        It is for the one that follows: excerpts[:, t + 1].
        """
        return losses_in_writing(model, excerpts, target=0)

    @along_with("guesses_not_shifted")
    def neither_shifted(self, model: nn.Module, excerpts: Tensor) -> Tensor:
        """Both times, the guess is compared with the character that was just read.

        The guess at place t is for the character *after* it: excerpts[:, t + 1], as in training and as in writing.
        """
        return self.last_read_compared(model, excerpts)


class GiveBoth(Step):
    """Two rows of losses."""

    def right(self, training: Tensor, writing: Tensor) -> Two:
        return training.detach(), writing.detach()

    def left_in_evaluation_mode(self, model: nn.Module, training: Tensor, writing: Tensor) -> Two:
        """The model is left in evaluation mode.

        It came in training mode, and whoever goes on training it would do so without dropout. You may measure in either
        mode, but put the model back: `was = model.training` before, and `model.train(was)` at the end.
        """
        model.eval()
        return training.detach(), writing.detach()

    def history_kept(self, training: Tensor, writing: Tensor) -> Two:
        """Gradients are recorded.

        Nothing is learned from a measurement. As it is, each loss holds every activation of its pass until you let go
        of it. Compute under torch.no_grad().
        """
        return training, writing

    def exchanged(self, training: Tensor, writing: Tensor) -> Two:
        """The two results are exchanged.

        First come the losses as in training, then those as in writing. With a sound model you would not notice.
        """
        return writing.detach(), training.detach()
