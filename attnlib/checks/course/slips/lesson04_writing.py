"""Lesson 04: a text written character by character, always the likeliest one, by a model that asks a memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnlib.checks.course.slips.lesson08_writing import Change, CutWindow
from attnlib.checks.course.steps import Step, each, spells, told_as

Two = tuple[Tensor, Tensor]


class Begin(Step):
    """The first column: start_id, once for each text of the memory."""

    makes = ("first",)

    def right(self, memory: Tensor, start_id: int) -> Tensor:
        return torch.full((len(memory), 1), start_id, device=memory.device)

    def begun_with_zero(self, memory: Tensor) -> Tensor:
        """The texts begin with number 0.

        The model has learned that a text follows `start_id`: torch.full((b, 1), start_id). To torch.zeros it will
        answer as if a character had been written already.
        """
        return torch.zeros(len(memory), 1, dtype=torch.long, device=memory.device)

    def begun_with_stop(self, memory: Tensor, stop_id: int) -> Tensor:
        """The texts begin with stop_id.

        stop_id ends a text, and start_id begins it.
        """
        return torch.full((len(memory), 1), stop_id, device=memory.device)


class ReadAll(Step):
    """What the model is given of the text so far: all of it."""

    makes = ("window",)

    def right(self) -> Change:
        return lambda ids: ids

    @told_as(CutWindow.last_token_asked_about)
    def last_token_asked_about(self) -> Change:
        return lambda ids: ids[:, -1:]


class Score(Step):
    """The scores of what comes next, one for each character: the logs of their probabilities."""

    makes = ("scores",)

    def right(self) -> Change:
        return lambda logits: logits.log_softmax(dim=-1)

    def logits_for_logs(self) -> Change:
        """The logits are added up, not the logs of probabilities.

        A logit says little by itself: add 100 to all of them, and the probabilities stay as they are. Take the
        log_softmax over the vocabulary first.
        """
        return lambda logits: logits

    def probabilities_added(self) -> Change:
        """The probabilities are added up.

        Probabilities of one thing after another are multiplied, and so their *logs* are added: log_softmax.
        """
        return lambda logits: logits.softmax(dim=-1)

    def scores_over_the_batch(self) -> Change:
        """The softmax runs over the texts of the batch.

        The characters of the vocabulary compete, not the texts: dim=-1.
        """
        return lambda logits: logits.log_softmax(dim=0)

    def logs_to_the_base_two(self) -> Change:
        """The logs have the base 2.

        That would be bits. Here ln is asked for, which is what log_softmax gives.
        """
        return lambda logits: logits.log_softmax(dim=-1) / torch.log(torch.tensor(2.0, dtype=logits.dtype))


class Take(Step):
    """The likeliest character and its score."""

    makes = ("take",)

    def right(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def best(scores: Tensor) -> tuple[Tensor, Tensor]:
            found = scores.max(dim=-1)
            return found.indices, found.values

        return best

    def least_likely_taken(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The least likely character is taken.

        log-probabilities are negative, and the one nearest to 0 is the largest: argmax, not argmin.
        """

        def worst(scores: Tensor) -> tuple[Tensor, Tensor]:
            found = scores.min(dim=-1)
            return found.indices, found.values

        return worst

    def drawn_at_random(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The next character is drawn at random.

        Greedy writing always takes the likeliest one, so that the same memory gives the same text each time: argmax in
        place of a draw.
        """

        def drawn(scores: Tensor) -> tuple[Tensor, Tensor]:
            new = torch.multinomial(scores.softmax(dim=-1), 1)
            return new[:, 0], scores.gather(1, new)[:, 0]

        return drawn

    def second_best_taken(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The second-best character is taken.

        Sorted in descending order the best has index 0, in ascending order it is the last one.
        """

        def second(scores: Tensor) -> tuple[Tensor, Tensor]:
            found = scores.topk(2, dim=-1)
            return found.indices[:, 1], found.values[:, 1]

        return second


class Count(Step):
    """What is added to the sum of a text: nothing once it has ended."""

    makes = ("count",)

    def right(self) -> Change:
        return lambda gained, new, ended: gained.masked_fill(ended, 0.0)

    def filling_counted(self) -> Change:
        """The filling is counted, too.

        The sum is over the characters that the text is made of, its stop_id included. What comes after that is
        filling, so that all rows are equally long: add 0 there.
        """
        return lambda gained, new, ended: gained

    def stop_not_counted(self, stop_id: int) -> Change:
        """stop_id is not counted.

        That a text ends here is a decision like any other, and the model may be unsure of it: add its log-probability,
        too. Mark a row as ended *after* adding.
        """
        return lambda gained, new, ended: gained.masked_fill(ended | (new == stop_id), 0.0)


@dataclass(frozen=True)
class Scribe:
    """The parts of the loop that writes."""

    model: nn.Module
    memory: Tensor
    stop_id: int
    window: Change
    last: Change
    scores: Change
    take: Change
    fill: Change
    count: Change
    over: Change

    def write(self, first: Tensor, longest: int, *, append_last: bool = True) -> Two:
        """Ask, take the best, append, and again; all that is written, the first column included."""
        ids, ended = first, torch.zeros(len(first), dtype=torch.bool, device=first.device)
        total = torch.zeros(len(first), dtype=self.memory.dtype, device=first.device)
        with torch.no_grad():
            for _ in range(longest):
                new, gained = self.take(self.scores(self.last(self.model(self.memory, self.window(ids)))))
                new = self.fill(new, ended)
                total = total + self.count(gained, new, ended)
                ended = ended | (new == self.stop_id)
                done = self.over(ended)
                if append_last or not done:
                    ids = torch.cat([ids, new[:, None]], dim=1)
                if done:
                    break
        return ids, total


class GatherScribe(Step):
    """The parts, put together."""

    makes = ("scribe",)

    def right(
        self,
        model: nn.Module,
        memory: Tensor,
        stop_id: int,
        window: Change,
        last: Change,
        scores: Change,
        take: Change,
        fill: Change,
        count: Change,
        over: Change,
    ) -> Scribe:
        return Scribe(model, memory, stop_id, window, last, scores, take, fill, count, over)


class WriteTexts(Step):
    """Ask, take the best, append, and again."""

    makes = ("ids", "total")

    def right(self, scribe: Scribe, first: Tensor, longest: int) -> Two:
        return scribe.write(first, longest)

    def one_too_many_written(self, scribe: Scribe, first: Tensor, longest: int) -> Two:
        """A text may be one character too long.

        `longest` is how many characters are written at most, stop_id included, start_id not.
        """
        return scribe.write(first, longest + 1)

    def one_too_few_written(self, scribe: Scribe, first: Tensor, longest: int) -> Two:
        """A text may be one character too short.

        `longest` characters may be written, and start_id is none of them.
        """
        return scribe.write(first, longest - 1)

    def end_never_appended(self, scribe: Scribe, first: Tensor, longest: int) -> Two:
        """The stop_id that ends the last text is missing.

        Append first, then ask whether all have ended.
        """
        return scribe.write(first, longest, append_last=False)


class GiveTexts(Step):
    """What was written, without start_id, and the sums."""

    def right(self, ids: Tensor, total: Tensor) -> Two:
        return ids[:, 1:], total

    def start_returned(self, ids: Tensor, total: Tensor) -> Two:
        """start_id comes back with the texts.

        It was there for the model. The result is what was *written*: cut the first column off.
        """
        return ids, total

    def probability_returned(self, ids: Tensor, total: Tensor) -> Two:
        """The probability comes back, not its log.

        Of a long text it is so small that float32 may call it 0. Return the sum of the logs.
        """
        return ids[:, 1:], total.exp()

    def loss_returned(self, ids: Tensor, total: Tensor) -> Two:
        """The sign is turned round.

        -ln p is a loss. Here ln p is asked for, which is 0 at most: the nearer to 0, the surer.
        """
        return ids[:, 1:], -total

    def averaged_over_characters(self, ids: Tensor, total: Tensor) -> Two:
        """The logs are averaged.

        The probability of a text is the product of all its characters', so their logs are *added*.
        """
        return ids[:, 1:], total / (ids.shape[1] - 1)

    @spells(averaged_over_characters)
    @each(stop_always_counted=(True, False))
    def averaged_over_own_characters(self, ids: Tensor, total: Tensor, stop_id: int, stop_always_counted: bool) -> Two:
        written = ids[:, 1:]
        lengths = (written != stop_id).sum(dim=1) + 1
        return written, total / (lengths if stop_always_counted else lengths.clamp(max=written.shape[1]))
