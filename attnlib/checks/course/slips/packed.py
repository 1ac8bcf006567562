"""Several texts packed into one row: which text a token is of, what it may see, and its position in its own text."""

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step, along_with

Two = tuple[Tensor, Tensor]


class NumberTexts(Step):
    """Number the texts of each row 1, 2, 3 …, in their order; a new one begins where the number changes."""

    makes = ("text", "begins")

    def right(self, ids: Tensor) -> Two:
        begins = torch.ones_like(ids, dtype=torch.bool)
        begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
        return begins.cumsum(dim=1), begins

    def number_taken_for_text(self, ids: Tensor) -> Two:
        """A number that occurs again is taken for the same text.

        You compare the numbers themselves, so that in [4, 4, 7, 4] the last token sees the first two. A number says
        where one text ends and the next begins, and may be used again later: number the texts in order first.
        """
        return ids, self.right(ids)[1]

    def sorted_numbers_expected(self, ids: Tensor) -> Two:
        """The numbers are expected to grow.

        A text begins where the number *changes*, and it may become smaller, too: compare with !=, not with >.
        """
        begins = torch.ones_like(ids, dtype=torch.bool)
        begins[:, 1:] = ids[:, 1:] > ids[:, :-1]
        return begins.cumsum(dim=1), begins

    def last_token_to_the_next(self, ids: Tensor) -> Two:
        """The last token of a text is assigned to the next one.

        You compare each token with its right neighbour, so the change is seen one token too early. A text begins at the
        token that differs from its *left* neighbour.
        """
        begins = torch.zeros_like(ids, dtype=torch.bool)
        begins[:, :-1] = ids[:, 1:] != ids[:, :-1]
        begins[:, 0] = True
        return begins.cumsum(dim=1), begins

    def bridged_by_padding(self, ids: Tensor) -> Two:
        """A text goes on after padding.

        You leave the padding out before you compare neighbours, so that [3, -1, 3] is one text. It is two: a number
        that comes back later belongs to another text, also where only padding is between.
        """
        place = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        last_real = (place * (ids != -1)).cummax(dim=1).values
        return self.right(ids.gather(1, last_real))

    def first_row_for_all(self, ids: Tensor) -> Two:
        """All rows are cut where the first row is.

        ids[0] is one row of the batch, and each row is packed in its own way. Keep the batch axis.
        """
        text, begins = self.right(ids[:1].expand_as(ids))
        return text, begins


class SeeOwnText(Step):
    """A token sees its own text, up to itself; padding sees nothing."""

    makes = ("mask",)

    def right(self, text: Tensor, ids: Tensor) -> Tensor:
        return self._past(ids) & self._same(text) & (ids != -1)[:, :, None]

    def _past(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], device=ids.device)
        return (place <= place[:, None]).expand(len(ids), -1, -1)

    def _same(self, text: Tensor) -> Tensor:
        return text[:, :, None] == text[:, None, :]

    def no_causal_mask(self, text: Tensor, ids: Tensor) -> Tensor:
        """A token sees the future of its text.

        The texts are kept apart, but within a text each token sees all the others. Both conditions must hold: the same
        text *and* j <= i.
        """
        return self._same(text) & (ids != -1)[:, :, None]

    def texts_not_apart(self, ids: Tensor) -> Tensor:
        """The texts see each other.

        This is one triangle for the whole row: the second text sees the first, because that is in its past. A key is
        open only if it is in the past *and* in the same text.
        """
        real = ids != -1
        return self._past(ids) & real[:, :, None] & real[:, None, :]

    def upside_down(self, text: Tensor, ids: Tensor) -> Tensor:
        """The mask is upside down.

        True and False are exchanged: what may be seen is blocked. Here, True means *may attend*.
        """
        return ~self.right(text, ids)

    def upper_triangle(self, text: Tensor, ids: Tensor) -> Tensor:
        """The upper triangle is used, not the lower one.

        Each token sees itself and what comes after it in its text. Rows are queries and columns are keys, so the past
        is on and below the diagonal.
        """
        return self.right(text, ids).mT

    def strict(self, text: Tensor, ids: Tensor) -> Tensor:
        """A token may not see itself.

        The diagonal is missing, and the first token of each text sees nothing at all: j <= i, not j < i.
        """
        return self.right(text, ids).tril(-1)

    def or_instead_of_and(self, text: Tensor, ids: Tensor) -> Tensor:
        """One of the two conditions is enough to open a key.

        | opens a key that is in the past *or* in the same text. Both conditions must hold: &.
        """
        return (self._past(ids) | self._same(text)) & (ids != -1)[:, :, None]

    def padding_is_a_text(self, text: Tensor, ids: Tensor) -> Tensor:
        """Padding is treated as a text.

        Neighbouring padding sees itself, as if it were a text with the number -1. Padding sees nothing, and nothing
        sees it: its rows and columns are closed.
        """
        return self._past(ids) & self._same(text)

    def padding_sees_itself(self, text: Tensor, ids: Tensor) -> Tensor:
        """Every padded position sees itself.

        Opening the diagonal keeps rows from being empty. Here they are meant to be empty: masked_softmax gives such a
        query zeros.
        """
        return self.right(text, ids) | torch.eye(ids.shape[1], dtype=torch.bool, device=ids.device)


class CountPositions(Step):
    """Positions begin at 0 in each text; that of padding is 0."""

    makes = ("positions",)

    def right(self, ids: Tensor, begins: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        return (place - (place * begins).cummax(dim=1).values) * (ids != -1)

    def positions_not_restarted(self, ids: Tensor) -> Tensor:
        """The positions do not start again.

        They are counted along the whole row, as if the second text began in the middle of something. Its first token
        should have position 0 again.
        """
        return torch.arange(ids.shape[1], device=ids.device).expand_as(ids) * (ids != -1)

    def positions_from_one(self, ids: Tensor, begins: Tensor) -> Tensor:
        """The positions begin at 1.

        The first token of each text has position 0. A count with cumsum includes the token itself: subtract 1.
        """
        return (self.right(ids, begins) + 1) * (ids != -1)

    def padding_counted(self, ids: Tensor, begins: Tensor) -> Tensor:
        """Positions are counted in the padding as well.

        Padding is not a text. Its position is 0, wherever it is.
        """
        return self.right(torch.zeros_like(ids), begins)

    @along_with("padding_is_a_text")
    def padding_not_looked_at(self, ids: Tensor, begins: Tensor) -> Tensor:
        """Padding is treated as a text, in the mask and in the positions.

        -1 is not the number of a text. Such a token sees nothing, is seen by nothing, and has position 0: find these
        tokens with ids != -1, and use that in both results.
        """
        return self.padding_counted(ids, begins)

    def texts_counted(self, ids: Tensor, text: Tensor) -> Tensor:
        """The texts are numbered, not the tokens in them.

        Yours says *which* text a token belongs to. The position says which token of its text it is, counted from the
        beginning: 0, 1, 2, …
        """
        return (text - 1) * (ids != -1)

    def counted_by_number(self, ids: Tensor) -> Tensor:
        """The count goes on where a number occurs again.

        In [4, 4, 7, 4] the last token is a text of its own, and its position is 0. You count how often its number has
        occurred before.
        """
        earlier = (ids[:, :, None] == ids[:, None, :]).tril(-1)
        return earlier.sum(dim=-1) * (ids != -1)

    def positions_as_floats(self, ids: Tensor, begins: Tensor) -> Tensor:
        """The positions are floats.

        They are used as indices, so the contract asks for torch.int64.
        """
        return self.right(ids, begins).float()


class GiveBoth(Step):
    """The mask, and then the positions."""

    def right(self, mask: Tensor, positions: Tensor) -> Two:
        return mask, positions

    def order_returned(self, mask: Tensor, positions: Tensor) -> Two:
        """The two results are exchanged.

        The mask comes first, then the positions: `return mask, positions`.
        """
        return positions, mask
