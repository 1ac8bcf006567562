"""Lesson 08: a token drawn, a text written token by token, a loop that trains, and the counts that compete with it."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlib.checks.course.steps import Step, along_with

Generator = torch.Generator | None
Change = Callable[..., Any]


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
