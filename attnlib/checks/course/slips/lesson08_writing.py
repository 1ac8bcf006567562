"""Lesson 08: a token drawn, a text written token by token, a loop that trains, and the counts that compete with it."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.steps import Step, along_with, each, spells

Generator = torch.Generator | None
Change = Callable[..., Any]


class Followers(dict[tuple[int, ...], Counter[int]]):
    """By context: how often each token followed it."""


class Temper(Step):
    """The logits are divided by the temperature."""

    makes = ("scores",)

    def right(self, logits: Tensor, temperature: float) -> Tensor:
        return logits / (temperature or 1.0)

    def temperature_multiplied(self, logits: Tensor, temperature: float) -> Tensor:
        """The logits are multiplied by the temperature.

        A high temperature should make the choice more even: divide, so that the differences between the logits shrink.
        """
        return logits * temperature

    def temperature_ignored(self, logits: Tensor) -> Tensor:
        """The temperature has no effect.

        It must divide the *logits*. Dividing the probabilities and then normalising them changes nothing.
        """
        return logits

    def square_root_of_temperature(self, logits: Tensor, temperature: float) -> Tensor:
        """The logits are divided by the square root of the temperature.

        The root belongs to attention's √d. Here you divide by the temperature itself.
        """
        return logits / math.sqrt(temperature or 1.0)


class KeepBest(Step):
    """Of the scores, the best top_k are kept."""

    makes = ("kept",)

    def right(self, scores: Tensor, top_k: int | None) -> Tensor:
        if top_k is None:
            return scores
        return scores.masked_fill(scores < _kth(scores, top_k), -math.inf)

    def top_k_ignored(self, scores: Tensor) -> Tensor:
        """top_k has no effect.

        Everything below the k-th largest score must be set to -inf, so that the softmax gives it 0. And masked_fill
        does not work in place: keep what it returns.
        """
        return scores

    def one_more_than_k(self, scores: Tensor, top_k: int | None) -> Tensor:
        """top_k keeps one token too many.

        Exactly `k` scores stay. Is there an index that starts at 0, or a `<=` in place of `<`?
        """
        return self.right(scores, None if top_k is None else top_k + 1)

    def one_less_than_k(self, scores: Tensor, top_k: int | None) -> Tensor:
        """top_k keeps one token too few.

        The k-th largest score stays, too: only those *below* it are closed.
        """
        if top_k is None:
            return scores
        closed = scores <= _kth(scores, top_k)
        return scores.masked_fill(closed & ~closed.all(dim=-1, keepdim=True), -math.inf)

    def worst_k_kept(self, scores: Tensor, top_k: int | None) -> Tensor:
        """top_k keeps the least likely tokens.

        In ascending order the *last* k are the largest. Or use torch.topk, which puts the largest first.
        """
        if top_k is None:
            return scores
        last = scores.topk(min(top_k, scores.shape[-1]), largest=False).values[:, -1:]
        return scores.masked_fill(scores > last, -math.inf)

    def others_set_to_zero(self, scores: Tensor, top_k: int | None) -> Tensor:
        """Tokens outside the top k get a logit of 0.

        A logit of 0 is a score like any other, and e⁰ = 1 is not a small number. To close a token, give it -inf before
        the softmax.
        """
        return scores if top_k is None else scores.masked_fill(scores < _kth(scores, top_k), 0.0)

    def ties_dropped(self, scores: Tensor, top_k: int | None) -> Tensor:
        """Some of the tokens that tie are dropped.

        Every token that ties with the k-th largest score stays: a larger id does not make it worse. Compare the scores
        with the k-th value instead of keeping the ids that topk gives.
        """
        if top_k is None:
            return scores
        best = scores.topk(min(top_k, scores.shape[-1]))
        return torch.full_like(scores, -math.inf).scatter(-1, best.indices, best.values)

    def k_larger_than_the_vocabulary(self, scores: Tensor, top_k: int | None) -> Tensor:
        """A top_k larger than the vocabulary ends in an error.

        topk cannot return more scores than there are. In that case everything stays: min(top_k, vocab).
        """
        return scores if top_k is None else scores.masked_fill(scores < scores.topk(top_k).values[:, -1:], -math.inf)

    def threshold_of_the_first_row(self, scores: Tensor, top_k: int | None) -> Tensor:
        """The first row's k-th score is the threshold for all.

        Each row of the batch has its own logits and its own threshold: values[:, -1:].
        """
        return scores if top_k is None else scores.masked_fill(scores < _kth(scores[:1], top_k), -math.inf)

    def threshold_of_the_batch(self, scores: Tensor, top_k: int | None) -> Tensor:
        """One threshold holds for all rows.

        `min()` without an axis looks through the whole batch. Each row has its own logits and its own k-th largest
        score: values[:, -1:].
        """
        return scores if top_k is None else scores.masked_fill(scores < _kth(scores, top_k).min(), -math.inf)


def _kth(scores: Tensor, k: int) -> Tensor:
    return scores.topk(min(k, scores.shape[-1])).values[:, -1:]


class Nucleus(Step):
    """Of the probabilities, the smallest set of the largest is kept that reaches top_p."""

    makes = ("probabilities",)

    def right(self, kept: Tensor, top_p: float | None) -> Tensor:
        probabilities = kept.softmax(dim=-1)
        if top_p is None:
            return probabilities
        before, order = _before(probabilities)
        return _closed(probabilities, before >= top_p, order)

    def top_p_ignored(self, kept: Tensor) -> Tensor:
        """top_p has no effect.

        Every token outside the nucleus must get the probability 0.
        """
        return kept.softmax(dim=-1)

    def crossing_left_out(self, kept: Tensor, top_p: float | None) -> Tensor:
        """The token at which the sum reaches top_p is left out.

        The nucleus is the smallest set that *reaches* top_p, so it includes the token that crosses the line. Compare
        the sum *before* each token, cumsum - p, with top_p. (The first token always stays: the sum before it is 0.)
        """
        probabilities = kept.softmax(dim=-1)
        if top_p is None:
            return probabilities
        before, order = _before(probabilities)
        after = before + probabilities.gather(-1, order)
        after[:, 0] = 0.0
        return _closed(probabilities, after > top_p, order)

    @spells(crossing_left_out)
    def nothing_left_before_the_crossing(self, kept: Tensor, top_p: float | None) -> Tensor:
        probabilities = kept.softmax(dim=-1)
        if top_p is None:
            return probabilities
        before, order = _before(probabilities)
        return _closed(probabilities, before + probabilities.gather(-1, order) > top_p, order)

    def one_beyond_the_crossing(self, kept: Tensor, top_p: float | None) -> Tensor:
        """The nucleus has one token too many.

        It ends with the token at which the sum reaches top_p. Yours takes one more.
        """
        probabilities = kept.softmax(dim=-1)
        if top_p is None:
            return probabilities
        before, order = _before(probabilities)
        before = torch.cat([torch.zeros_like(before[:, :1]), before[:, :-1]], dim=-1)
        return _closed(probabilities, before >= top_p, order)

    def each_at_least_p(self, kept: Tensor, top_p: float | None) -> Tensor:
        """Each token has to reach top_p by itself.

        It is their *sum*, from the likeliest token down, that has to reach it.
        """
        probabilities = kept.softmax(dim=-1)
        if top_p is None:
            return probabilities
        likeliest = probabilities == probabilities.amax(dim=-1, keepdim=True)
        return probabilities * ((probabilities >= top_p) | likeliest)

    def from_the_least_likely(self, kept: Tensor, top_p: float | None) -> Tensor:
        """The sum is taken from the least likely token up.

        Sort in descending order: the nucleus consists of the *likeliest* tokens.
        """
        probabilities = kept.softmax(dim=-1)
        if top_p is None:
            return probabilities
        before, order = _before(probabilities, descending=False)
        return _closed(probabilities, before >= top_p, order)

    def never_sorted_back(self, kept: Tensor, top_p: float | None) -> Tensor:
        """The probabilities are still in sorted order when a token is drawn.

        After sorting, column 0 is the likeliest token, not token 0. Translate what was drawn with the ids that `sort`
        gives, or scatter the probabilities back into place.
        """
        probabilities = kept.softmax(dim=-1)
        if top_p is None:
            return probabilities
        before, order = _before(probabilities)
        return probabilities.gather(-1, order).masked_fill(before >= top_p, 0.0)

    def nucleus_before_top_k(self, kept: Tensor, scores: Tensor, top_p: float | None) -> Tensor:
        """The nucleus is found before top_k.

        First top_k, then the softmax over what is left, then the nucleus: its sum runs over the probabilities of that
        softmax.
        """
        if top_p is None:
            return kept.softmax(dim=-1)
        return self.right(scores, top_p) * (kept > -math.inf)

    def top_k_or_the_nucleus(self, kept: Tensor, scores: Tensor, top_p: float | None) -> Tensor:
        """With top_p given, top_k has no effect.

        The two may be given together: only the top_k best tokens stay, and of these the nucleus. Give each its own
        `if`: no condition on the other, and no `elif`.
        """
        return kept.softmax(dim=-1) if top_p is None else self.right(scores, top_p)

    def the_nucleus_or_top_k(self, kept: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
        """With top_k given, top_p has no effect.

        The two may be given together: only the top_k best tokens stay, and of these the nucleus. Give each its own
        `if`: no condition on the other, and no `elif`.
        """
        return self.right(kept, top_p if top_k is None else None)

    def nucleus_before_temperature(self, logits: Tensor, kept: Tensor, top_p: float | None) -> Tensor:
        """The nucleus is found before the temperature.

        First the temperature, then top_k, then the nucleus: whether a token belongs to it depends on the probabilities
        with which it will be drawn.
        """
        if top_p is None:
            return kept.softmax(dim=-1)
        return kept.softmax(dim=-1) * (self.right(logits.masked_fill(kept == -math.inf, -math.inf), top_p) > 0)


def _before(probabilities: Tensor, *, descending: bool = True) -> tuple[Tensor, Tensor]:
    ordered, order = probabilities.sort(descending=descending, stable=True)
    return ordered.cumsum(dim=-1) - ordered, order


def _closed(probabilities: Tensor, closed: Tensor, order: Tensor) -> Tensor:
    return probabilities.masked_fill(torch.zeros_like(closed).scatter(-1, order, closed), 0.0)


class DrawOne(Step):
    """One token for each row; at temperature 0 the best."""

    def right(self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator) -> Tensor:
        if temperature == 0:
            return logits.argmax(dim=-1)
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]

    def always_the_best(self, probabilities: Tensor) -> Tensor:
        """The likeliest token is always taken.

        argmax is for temperature 0. Otherwise draw: torch.multinomial(probabilities, 1).
        """
        return probabilities.argmax(dim=-1)

    def zero_divides(self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator) -> Tensor:
        """At temperature 0 the logits are divided by 0.

        Dividing by 0 gives infinities, and their softmax is NaN. The limit is known: at 0 the best token has all of the
        probability. Take the argmax there, before anything is divided.
        """
        if temperature == 0:
            return torch.multinomial((logits / 0.0).softmax(dim=-1), 1)[:, 0]
        return self.right(logits, probabilities, temperature, generator)

    @each(least=(1e-8, 1e-4))
    def zero_made_tiny(
        self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator, least: float
    ) -> Tensor:
        """Temperature 0 is taken for a tiny number.

        max(temperature, 1e-8) avoids the division by 0, but a token is still drawn: of several best tokens, any may
        come. At temperature 0 the contract asks for the first of them. Take the argmax there.
        """
        if temperature == 0:
            return torch.multinomial((logits / least).softmax(dim=-1), 1, generator=generator)[:, 0]
        return self.right(logits, probabilities, temperature, generator)

    def zero_is_no_temperature(self, logits: Tensor, probabilities: Tensor, generator: Generator) -> Tensor:
        """At temperature 0 a token is still drawn at random.

        0 leaves nothing to chance: take the best token every time.
        """
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]

    def last_of_equals(self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator) -> Tensor:
        """Of several equally good tokens, the last is taken.

        At temperature 0 the contract asks for the first of them, as torch.argmax does. After sorting in ascending
        order, the first of them is not in the last place.
        """
        if temperature == 0:
            return logits.shape[-1] - 1 - logits.flip(-1).argmax(dim=-1)
        return self.right(logits, probabilities, temperature, generator)

    def generator_unused(self, logits: Tensor, probabilities: Tensor, temperature: float) -> Tensor:
        """The generator is not used.

        A generator with the same seed must give the same tokens. Pass it on: torch.multinomial(probabilities, 1,
        generator=generator).
        """
        return self.right(logits, probabilities, temperature, None)

    def one_for_all_rows(
        self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator
    ) -> Tensor:
        """One token is drawn for all rows.

        Each row of the batch is a separate text with its own draw. multinomial draws for all rows at once.
        """
        if temperature == 0:
            return logits.argmax(dim=-1)
        return torch.multinomial(probabilities[:1], 1, generator=generator)[:, 0].expand(len(logits))

    def every_token_alike(
        self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator
    ) -> Tensor:
        """All the tokens that are left are equally likely.

        They should be drawn by their probabilities.
        """
        return self.right(logits, (probabilities > 0).to(probabilities), temperature, generator)

    def logits_as_shares(self, logits: Tensor, kept: Tensor, temperature: float, generator: Generator) -> Tensor:
        """The token is drawn from the logits, without a softmax.

        multinomial takes non-negative weights, and logits may be negative: turn them into probabilities first.
        """
        if temperature == 0:
            return logits.argmax(dim=-1)
        return torch.multinomial(kept.masked_fill(kept == -math.inf, 0.0), 1, generator=generator)[:, 0]

    def column_kept(self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator) -> Tensor:
        """The result has one axis too many.

        multinomial gives (b, 1), one draw in each row. The contract asks for (b): squeeze(-1), or [:, 0].
        """
        return self.right(logits, probabilities, temperature, generator)[:, None]

    @spells(column_kept)
    def column_drawn(self, logits: Tensor, probabilities: Tensor, temperature: float, generator: Generator) -> Tensor:
        drawn = self.right(logits, probabilities, temperature, generator)
        return drawn if temperature == 0 else drawn[:, None]


class Prepare(Step):
    """Nothing is dropped while the model writes."""

    makes = ("was_training",)

    def right(self, model: nn.Module) -> bool:
        was_training = model.training
        model.eval()
        return was_training

    def dropout_goes_on(self, model: nn.Module) -> bool:
        """The model is called in whatever mode it happens to be in.

        In training mode dropout is on, and the model writes with some of its features switched off. Call model.eval()
        before the first token.
        """
        return model.training


class CutWindow(Step):
    """The model is asked about the last max_len tokens."""

    makes = ("window",)

    def right(self, model: nn.Module) -> Change:
        max_len = cast(int, model.max_len)
        return lambda ids: ids[:, -max_len:]

    def window_not_cut(self) -> Change:
        """The text is not cut to its last max_len tokens.

        The model has max_len positions and no more. Once the text is longer, pass only its end: ids[:,
        -model.max_len:].
        """
        return lambda ids: ids

    def first_tokens_asked(self, model: nn.Module) -> Change:
        """The model gets the first max_len tokens, not the last.

        What comes next depends on the end of the text: ids[:, -model.max_len:], with a minus.
        """
        max_len = cast(int, model.max_len)
        return lambda ids: ids[:, :max_len]

    def window_one_short(self, model: nn.Module) -> Change:
        """The window is one token too short.

        A text of exactly max_len tokens fits: its positions are 0 to max_len - 1. Keep max_len tokens, not one fewer.
        """
        max_len = cast(int, model.max_len)
        return lambda ids: ids[:, -(max_len - 1) :]

    def last_token_asked_about(self) -> Change:
        """The model gets only the last token.

        It has no memory of what came before: without a cache (lesson 09) it needs as much of the text as it can hold.
        """
        return lambda ids: ids[:, -1:]


class ReadLast(Step):
    """What comes next is in the logits of the last position."""

    makes = ("last",)

    def right(self) -> Change:
        return lambda logits: logits[:, -1]

    def first_position_read(self) -> Change:
        """The logits of the first position are used.

        They say what follows the *first* token. What follows the text is at the last position: logits[:, -1].
        """
        return lambda logits: logits[:, 0]

    def all_positions_averaged(self) -> Change:
        """The logits are averaged over the positions.

        Each position predicts a different token. Only the last one predicts the token you want: logits[:, -1].
        """
        return lambda logits: logits.mean(dim=1)


class DrawNext(Step):
    """One token for each row, as sample_next draws it."""

    makes = ("draw",)

    def right(self, temperature: float, top_k: int | None, top_p: float | None, generator: Generator) -> Change:
        return lambda logits: attnlib.sample_next(logits, temperature, top_k, top_p, generator)

    def greedy(self) -> Change:
        """The best token is always taken.

        Temperature, top_k and top_p are for `sample_next`: pass them on. It takes the best token only at temperature 0.
        """
        return lambda logits: logits.argmax(dim=-1)

    def temperature_not_passed_on(self, top_k: int | None, top_p: float | None, generator: Generator) -> Change:
        """The temperature is not passed on.

        sample_next then uses its default, 1. Arguments go by position: sample_next(logits, temperature, top_k, top_p,
        generator).
        """
        return self.right(1.0, top_k, top_p, generator)

    def top_k_not_passed_on(self, temperature: float, top_p: float | None, generator: Generator) -> Change:
        """top_k is not passed on.

        Arguments go by position: sample_next(logits, temperature, top_k, top_p, generator).
        """
        return self.right(temperature, None, top_p, generator)

    def top_p_not_passed_on(self, temperature: float, top_k: int | None, generator: Generator) -> Change:
        """top_p is not passed on.

        Arguments go by position: sample_next(logits, temperature, top_k, top_p, generator). The generator comes last.
        """
        return self.right(temperature, top_k, None, generator)

    def generator_not_passed_on(self, temperature: float, top_k: int | None, top_p: float | None) -> Change:
        """The generator is not passed on.

        A generator with the same seed must give the same text: hand it to sample_next.
        """
        return self.right(temperature, top_k, top_p, None)


class RowsThatStopped(Step):
    """Which rows have written stop_id already, before the first token."""

    makes = ("stopped",)

    def right(self, ids: Tensor) -> Tensor:
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

    def prompt_stops(self, ids: Tensor, stop_id: int | None) -> Tensor:
        """A stop_id in the prompt ends the text.

        Only what the model *writes* can stop it: a prompt often begins with the very token that ends a text.
        """
        return self.right(ids) if stop_id is None else (ids == stop_id).any(dim=1)


class FillStopped(Step):
    """A row that has stopped gets stop_id, whatever is drawn."""

    makes = ("fill",)

    def right(self, stop_id: int | None) -> Change:
        return lambda new, stopped: new if stop_id is None else new.masked_fill(stopped, stop_id)

    def writes_beyond_the_stop(self) -> Change:
        """A row that has stopped goes on writing.

        The other rows of the batch have not finished, so the loop goes on. After its own end a row gets stop_id again,
        not what the model would say.
        """
        return lambda new, stopped: new

    def filled_with_zeros(self, stop_id: int | None) -> Change:
        """A row that has stopped is filled with zeros.

        0 is a token like any other. Fill with stop_id.
        """
        return lambda new, stopped: new if stop_id is None else new.masked_fill(stopped, 0)


class EndOfText(Step):
    """The text ends once all rows have stopped."""

    makes = ("over",)

    def right(self) -> Change:
        return lambda stopped: bool(stopped.all())

    def first_stop_ends_all(self) -> Change:
        """The first row that stops ends all the texts.

        `any` asks whether at least one has stopped. The others have not finished: go on until *all* have.
        """
        return lambda stopped: bool(stopped.any())

    def never_over(self) -> Change:
        """The loop goes on after all rows have stopped.

        Nothing more can change: end the loop there. The result is only as wide as its longest text.
        """
        return lambda stopped: False

    @along_with("writes_beyond_the_stop")
    def stop_ignored(self) -> Change:
        """stop_id has no effect.

        A row that has written stop_id is filled with stop_id from then on, and once all rows have stopped, the loop
        ends.
        """
        return lambda stopped: False


class StopAt(Step):
    """The token that ends a text, if there is one."""

    makes = ("stops_at",)

    def right(self, stop_id: int | None) -> int | None:
        return stop_id

    def zero_stops_nothing(self, stop_id: int | None) -> int | None:
        """A stop_id of 0 stops nothing.

        `if stop_id:` asks whether it is true, and 0 is as false as None is. But 0 is a token like any other: ask
        `if stop_id is not None:`, wherever stop_id is used.
        """
        return stop_id or None


@dataclass(frozen=True)
class Writer:
    """The parts of the loop that writes."""

    model: nn.Module
    stop_id: int | None
    stopped: Tensor
    window: Change
    last: Change
    draw: Change
    fill: Change
    over: Change

    def write(self, ids: Tensor, num_tokens: int, *, keep_window: bool = False, append_first: bool = True) -> Tensor:
        """Ask, draw, append, and again."""
        stopped = self.stopped
        with torch.no_grad():
            for _ in range(num_tokens):
                asked = self.window(ids)
                new = self.fill(self.draw(self.last(self.model(asked))), stopped)
                stopped = stopped if self.stop_id is None else stopped | (new == self.stop_id)
                done = self.stop_id is not None and self.over(stopped)
                if not done or append_first:
                    ids = torch.cat([asked if keep_window else ids, new[:, None]], dim=1)
                if done:
                    break
        return ids


class GatherWriter(Step):
    """The parts, put together."""

    makes = ("writer",)

    def right(
        self,
        model: nn.Module,
        stops_at: int | None,
        stopped: Tensor,
        window: Change,
        last: Change,
        draw: Change,
        fill: Change,
        over: Change,
    ) -> Writer:
        return Writer(model, stops_at, stopped, window, last, draw, fill, over)


class WriteOn(Step):
    """Ask, draw, append, and again."""

    makes = ("written",)

    def right(self, writer: Writer, ids: Tensor, num_tokens: int) -> Tensor:
        return writer.write(ids, num_tokens)

    def one_token_too_many(self, writer: Writer, ids: Tensor, num_tokens: int) -> Tensor:
        """One token too many is written.

        num_tokens is the number of tokens that come *after* the given ids.
        """
        return writer.write(ids, num_tokens + 1)

    def num_tokens_in_all(self, writer: Writer, ids: Tensor, num_tokens: int) -> Tensor:
        """num_tokens is taken for the length of the whole text.

        It is the number of tokens that are *added* to the given ids.
        """
        return writer.write(ids, max(0, num_tokens - ids.shape[1]))

    def window_returned(self, writer: Writer, ids: Tensor, num_tokens: int) -> Tensor:
        """The beginning of the text is lost.

        The window is what the *model* sees. If ids itself is cut, everything before the window is missing from the
        result: give the window its own name.
        """
        return writer.write(ids, num_tokens, keep_window=True)

    def stop_not_written(self, writer: Writer, ids: Tensor, num_tokens: int) -> Tensor:
        """The last stop_id is not appended.

        The loop ends before the token that ends it is written. stop_id belongs to the text: append first, then check
        whether all rows have stopped.
        """
        return writer.write(ids, num_tokens, append_first=False)


class HandOver(Step):
    """The prompt and what was written after it; the model is put back into its mode."""

    def right(self, model: nn.Module, written: Tensor, was_training: bool) -> Tensor:
        model.train(was_training)
        return written

    def new_tokens_alone(self, model: nn.Module, ids: Tensor, written: Tensor, was_training: bool) -> Tensor:
        """Only the new tokens are returned.

        The result begins with the given ids: (b, n + number of tokens written).
        """
        return self.right(model, written[:, ids.shape[1] :], was_training)

    def left_in_evaluation(self, written: Tensor) -> Tensor:
        """The model is left in evaluation mode.

        Anyone who lets a model write in the middle of training would then go on training without dropout. Remember
        model.training at the start, and restore it: model.train(was_training).
        """
        return written

    def put_into_training(self, model: nn.Module, written: Tensor) -> Tensor:
        """The model is put into training mode, whatever it was in.

        model.train() is right for a model that was training. Remember model.training at the start, and restore that:
        model.train(was_training).
        """
        return self.right(model, written, True)


class PiecePlaces(Step):
    """The positions of a piece: they begin anew in each."""

    makes = ("places",)

    def right(self) -> Change:
        return lambda start, n: torch.arange(n)

    def positions_run_on(self) -> Change:
        """The positions continue from one piece to the next.

        The piece is cut out of the text, and its positions must be cut with it: each piece begins at position 0, just
        like every text that the model will be given later. Yours trains each row of the table on one piece alone.
        """
        return lambda start, n: torch.arange(start, start + n)

    def positions_from_one(self) -> Change:
        """The positions of a piece start at 1.

        The first token of each piece is at position 0.
        """
        return lambda start, n: torch.arange(1, n + 1)


def _loss_of_all(logits: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class PieceLoss(Step):
    """Each position against the token behind it."""

    makes = ("loss_of",)

    def right(self) -> Change:
        return lambda logits, ids: nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    def loss_not_shifted(self) -> Change:
        """The loss is not shifted.

        The model is trained to repeat the token that it has just read. That is why the training loss falls so nicely
        and the loss on other text does not. The logits at i belong to the token at i + 1.
        """
        return _loss_of_all

    def loss_shifted_the_wrong_way(self) -> Change:
        """The loss is shifted the wrong way.

        The model is trained to name the token *before*, which it has already read. Use the logits without the last
        position, and the ids without the first.
        """
        return lambda logits, ids: nn.functional.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())

    def loss_shifted_across_texts(self) -> Change:
        """The loss is shifted after the texts are joined.

        In one long row, the last position of a text is asked for the first token of the next text. Shift first, then
        flatten.
        """
        return lambda logits, ids: nn.functional.cross_entropy(logits.flatten(0, 1)[:-1], ids.flatten()[1:])


class StepMode(Step):
    """The mode in which a step of training is made."""

    makes = ("before_step",)

    def right(self) -> Change:
        return lambda model: model.train()

    def evaluation_never_left(self) -> Change:
        """The model stays in evaluation mode.

        model.eval() is called for the first test on held-out text and stays on, so from then on the model trains
        without dropout. Go back with model.train() before each step.
        """
        return lambda model: model

    @spells(evaluation_never_left)
    def trained_before_the_loop(self) -> Change:
        rounds = itertools.count()
        return lambda model: model if next(rounds) else model.train()

    def back_after_the_test(self) -> Change:
        """The first step is made in the mode in which the model came.

        Whoever calls this function may have tested the model just before. Call model.train() before each step, not
        after each test.
        """
        rounds = itertools.count()
        return lambda model: model.train() if next(rounds) else model


class HeldOutMode(Step):
    """The mode in which the held-out text is read."""

    makes = ("before_test",)

    def right(self) -> Change:
        return lambda model: model.eval()

    def tested_in_training(self) -> Change:
        """The held-out text is tested in training mode.

        With dropout on, the loss is that of a model with some of its features switched off. Call model.eval() before
        the test, and model.train() before the next step.
        """
        return lambda model: model.train()

    @spells(tested_in_training)
    @along_with("evaluation_never_left")
    def mode_never_changed(self) -> Change:
        return lambda model: model


@dataclass(frozen=True)
class Trainer:
    """The parts of the loop that trains."""

    places: Change
    loss_of: Change
    before_step: Change
    before_test: Change

    def train(
        self,
        model: nn.Module,
        text: Tensor,
        held_out: Tensor,
        window: int,
        lr: float,
        *,
        zero: bool = True,
        end: int = 1,
        held_out_noted: bool = True,
        next_token_asked: bool = False,
    ) -> Tensor:
        """A step for each piece, and a look at the held-out text after it."""
        optimiser = torch.optim.SGD(model.parameters(), lr=lr)
        losses = []
        for start in range(0, text.shape[1] - window + end, window):
            ids = text[:, start : start + window]
            self.before_step(model)
            logits, following = model(ids, self.places(start, window)), text[:, start + 1 : start + window + 1]
            loss = _loss_of_all(logits, following) if next_token_asked else self.loss_of(logits, ids)
            if zero:
                optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            self.before_test(model)
            with torch.no_grad():
                tested = PieceLoss().right()(model(held_out, torch.arange(held_out.shape[1])), held_out)
            losses.append(tested if held_out_noted else loss.detach())
        return torch.stack(losses)


class GatherTrainer(Step):
    """The parts, put together."""

    makes = ("trainer",)

    def right(self, places: Change, loss_of: Change, before_step: Change, before_test: Change) -> Trainer:
        return Trainer(places, loss_of, before_step, before_test)


class TrainOnPieces(Step):
    """A step for each piece, and a look at the held-out text after it."""

    def right(
        self, trainer: Trainer, model: nn.Module, text: Tensor, held_out: Tensor, window: int, lr: float
    ) -> Tensor:
        return trainer.train(model, text, held_out, window, lr)

    def gradients_added_up(
        self, trainer: Trainer, model: nn.Module, text: Tensor, held_out: Tensor, window: int, lr: float
    ) -> Tensor:
        """The gradients of earlier steps are still there.

        backward *adds* to what is in .grad. In the given code, zero_grad was called before backward: leave it there.
        """
        return trainer.train(model, text, held_out, window, lr, zero=False)

    def loss_of_training_noted(
        self, trainer: Trainer, model: nn.Module, text: Tensor, held_out: Tensor, window: int, lr: float
    ) -> Tensor:
        """The losses on the pieces are returned.

        They say how well the model does on what it is trained with. Return the losses on `held_out`, each measured
        after its step.
        """
        return trainer.train(model, text, held_out, window, lr, held_out_noted=False)

    def last_piece_lost(
        self, trainer: Trainer, model: nn.Module, text: Tensor, held_out: Tensor, window: int, lr: float
    ) -> Tensor:
        """The last piece is lost where nothing is left over.

        `range` stops before its end, and the last piece begins at text.shape[1] - window: the end is one more.
        """
        return trainer.train(model, text, held_out, window, lr, end=0)

    def asked_beyond_the_piece(
        self, trainer: Trainer, model: nn.Module, text: Tensor, held_out: Tensor, window: int, lr: float
    ) -> Tensor:
        """The last token of a piece is asked for the first one of the next.

        nanoGPT cuts its targets out of the text like that, one token further on. Here a piece of `window` tokens has
        window - 1 predictions, logits[:, :-1] against ids[:, 1:]; and after the last piece there may be no token left.
        """
        return trainer.train(model, text, held_out, window, lr, next_token_asked=True)


class CountGrams(Step):
    """How often each token followed each context, for contexts of every length up to order - 1, and one beyond."""

    makes = ("followers",)

    def right(self, text: Tensor, order: int, *, end_before: int = 0) -> Followers:
        tokens, followers = text.tolist(), Followers()
        for length in range(order + 1):
            for end in range(length, len(tokens) - end_before):
                followers.setdefault(tuple(tokens[end - length : end]), Counter())[tokens[end]] += 1
        return followers

    def last_token_not_counted(self, text: Tensor, order: int) -> Followers:
        """The last token of the text is not counted.

        It follows its context like any other token. Does a range end one too early?
        """
        return self.right(text, order, end_before=1)

    def reached_before_the_beginning(self, text: Tensor, order: int) -> Followers:
        """Contexts reach back beyond the beginning of the text.

        tokens[end - k : end] with a negative start counts from the *end* of the list, and is empty: the first tokens
        are counted after the empty context again and again. For contexts of k tokens begin at k.
        """
        tokens, followers = text.tolist(), Followers()
        for length, end in itertools.product(range(order), range(len(tokens))):
            followers.setdefault(tuple(tokens[end - length : end]), Counter())[tokens[end]] += 1
        return followers


class MixOrders(Step):
    """From the shortest context to the longest, each mixed with what the shorter one said."""

    def right(
        self,
        test: Tensor,
        order: int,
        vocab: int,
        followers: Followers,
        *,
        first: Any = lambda vocab: 1 / vocab,
        mix: Any = lambda count, total, kinds, shorter: (count + kinds * shorter) / (total + kinds),
        unseen: Any = lambda shorter, vocab: shorter,
        order_of: Any = lambda order: range(order),
        context: Any = lambda tokens, at, length: tokens[at - length : at],
    ) -> Tensor:
        tokens, found = test.tolist(), []
        for at in range(order - 1, len(tokens)):
            p = first(vocab)
            for length in order_of(order):
                before = tuple(context(tokens, at, length))
                seen = followers.get(before, Counter()) if len(before) < order else Counter()
                total = seen.total()
                p = mix(seen[tokens[at]], total, len(seen), p) if total else unseen(p, vocab)
            found.append(p)
        return torch.tensor(found)

    def contexts_one_too_long(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """The contexts are one token too long.

        An n-gram is n tokens *including* the one that follows: the longest context of order 3 has two tokens.
        """
        return self.right(test, order + 1, vocab, followers)

    def contexts_one_too_short(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """The contexts are one token too short.

        An n-gram is n tokens including the one that follows: the longest context of order 3 has two tokens, and that of
        order 1 is empty. Does a range end one too early?
        """
        return self.right(test, order, vocab, followers, order_of=lambda order: range(order - 1))

    def nothing_shorter(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """Shorter contexts are not used.

        Count / total gives 0 to any token that never followed this context in the text, and -log 0 is infinite. Mix in
        the shorter context's probability, which is never 0.
        """
        return self.right(test, order, vocab, followers, mix=lambda count, total, kinds, shorter: count / total)

    def one_added_to_each_count(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """One is added to every count.

        (count + 1) / (total + vocab) is Laplace's way: it treats all unseen tokens alike. Witten and Bell share out
        that probability according to the *shorter* context.
        """
        return self.right(
            test,
            order,
            vocab,
            followers,
            mix=lambda count, total, kinds, shorter: (count + 1) / (total + vocab),
            unseen=lambda shorter, vocab: 1 / vocab,
        )

    @spells(one_added_to_each_count)
    def one_added_to_each_count_that_is_there(
        self, test: Tensor, order: int, vocab: int, followers: Followers
    ) -> Tensor:
        return self.right(
            test, order, vocab, followers, mix=lambda count, total, kinds, shorter: (count + 1) / (total + vocab)
        )

    def totals_for_kinds(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """All followers are counted where only the *different* ones should be.

        T(h) is the number of different tokens seen after h, len(counter), not how many were seen in all. A context that
        was always followed by the same token can be trusted.
        """
        return self.right(
            test,
            order,
            vocab,
            followers,
            mix=lambda count, total, kinds, shorter: (count + total * shorter) / (2 * total),
        )

    def kinds_not_in_the_divisor(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """The probabilities add up to more than 1.

        The shorter context adds T(h) in all, so T(h) belongs in the divisor, too: C(h) + T(h).
        """
        return self.right(
            test, order, vocab, followers, mix=lambda count, total, kinds, shorter: (count + kinds * shorter) / total
        )

    def one_always_left_over(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """The shorter context always has weight 1.

        Its weight is T(h), the number of different tokens seen after h: the more of them there are, the likelier yet
        another one is.
        """
        return self.right(
            test, order, vocab, followers, mix=lambda count, total, kinds, shorter: (count + shorter) / (total + 1)
        )

    def unseen_contexts_start_again(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """After a context that was never seen, all tokens are equally likely.

        Such a context knows nothing, so keep what the shorter context says.
        """
        return self.right(test, order, vocab, followers, unseen=lambda shorter, vocab: 1 / vocab)

    def unseen_contexts_say_never(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """After a context that was never seen, every token is impossible.

        Such a context knows nothing, so keep what the shorter context says.
        """
        return self.right(test, order, vocab, followers, unseen=lambda shorter, vocab: 0.0)

    def begun_with_nothing(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """The chain starts from 0.

        Below the counts of single tokens there is the uniform guess, 1 / vocab. Starting from 0, a token that is not in
        the text could never come.
        """
        return self.right(test, order, vocab, followers, first=lambda vocab: 0.0)

    def from_long_to_short(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """The longest context is mixed in first, the shortest last.

        What is mixed in last weighs most. Begin with the empty context and end with the longest.
        """
        return self.right(test, order, vocab, followers, order_of=lambda order: reversed(range(order)))

    def all_for_the_empty_context(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """The empty context is taken for all tokens so far.

        The last k of a list are tokens[-k:], but not for k = 0: tokens[-0:] is tokens[0:], all of them. So the counts
        of single tokens are not mixed in. From at - k to at works for every k.
        """
        return self.right(test, order, vocab, followers, context=lambda tokens, at, length: tokens[:at][-length:])

    def logarithms_returned(self, test: Tensor, order: int, vocab: int, followers: Followers) -> Tensor:
        """Logarithms are returned.

        The contract asks for the probabilities themselves. (Minus the mean of their logarithms is the loss.)
        """
        return self.right(test, order, vocab, followers).log()
