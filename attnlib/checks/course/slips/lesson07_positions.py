"""Lesson 07: tables of positions, rotation by position, the order of a head's columns, and penalties for distance."""

import math

import torch
from torch import Tensor

import attnlib
from attnlib.attention import equation
from attnlib.checks.course.slips.attention import Scale, Share
from attnlib.checks.course.steps import Step, told_as


class NewPlaces(Step):
    """Where the new words are: behind what the cache holds."""

    makes = ("places",)

    def right(self, q: Tensor, past_k: Tensor) -> Tensor:
        m = past_k.shape[-2]
        return torch.arange(m, m + q.shape[-2], device=q.device)

    def restarted(self, q: Tensor) -> Tensor:
        """The new words start at position 0 again.

        The cache holds the words that came before. If it has m keys, the first new word is at position m.
        """
        return torch.arange(q.shape[-2], device=q.device)

    def one_too_far(self, q: Tensor, past_k: Tensor) -> Tensor:
        """The new words are one position too far.

        The m keys in the cache are at positions 0 to m - 1, so the first new word is at m, not at m + 1.
        """
        return self.right(q, past_k) + 1

    def all_at_one_place(self, q: Tensor, past_k: Tensor) -> Tensor:
        """All new words are at the same position.

        When several new words arrive at once, each is one position further than the one before: m, m + 1, …
        """
        return self.right(q, past_k)[:1].expand(q.shape[-2])

    def counted_as_the_past(self, q: Tensor, past_k: Tensor) -> Tensor:
        """The new words are placed at the end of the past, not after it.

        The last key of the cache is at m - 1, and the new words come after it: m, m + 1, …
        """
        return self.right(q, past_k) - q.shape[-2]


class TurnNew(Step):
    """Queries and keys are turned; values are not, and what is in the cache was turned when it was written."""

    makes = ("new_q", "new_k", "new_v", "old_k")

    def right(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return attnlib.rotate(q, places), attnlib.rotate(k, places), v, past_k

    def values_turned(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The values are turned as well.

        Turned queries and keys meet in a product, in which only the difference of their positions remains. A value is
        not multiplied with anything else that is turned, so its absolute position stays in the output.
        """
        return attnlib.rotate(q, places), attnlib.rotate(k, places), attnlib.rotate(v, places), past_k

    def queries_not_turned(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The queries are not turned.

        The score should depend on the *difference* of two positions. If the query is not turned, it depends on the
        key's own position instead.
        """
        return q, attnlib.rotate(k, places), v, past_k

    def keys_not_turned(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The new keys are not turned.

        The keys in the cache are turned, and the new ones that join them must be, too.
        """
        return attnlib.rotate(q, places), k, v, past_k

    def past_turned_again(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The keys in the cache are turned a second time.

        They were turned when they were written. Turned again, they end up at twice their positions.
        """
        again = torch.arange(past_k.shape[-2], device=q.device)
        return attnlib.rotate(q, places), attnlib.rotate(k, places), v, attnlib.rotate(past_k, again)

    def turned_backwards_as_well(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The queries are turned the opposite way to the keys.

        Query and key are turned the same way, each by its own position. Turned in opposite directions, they leave the
        *sum* of the two positions in the score.
        """
        return attnlib.rotate(q, -places), attnlib.rotate(k, places), v, past_k


class AppendNew(Step):
    """First the past, then the new."""

    makes = ("keys", "values")

    def right(self, old_k: Tensor, past_v: Tensor, new_k: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([old_k, new_k], dim=-2), torch.cat([past_v, new_v], dim=-2)

    def past_forgotten(self, new_k: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        """The cache is not used.

        The new words see only one another. Put the keys and values of the past before the new ones.
        """
        return new_k, new_v

    def past_at_the_end(self, old_k: Tensor, past_v: Tensor, new_k: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        """The past is put after the new words.

        The causal mask goes by the order of the keys: what was said first must come first.
        """
        return torch.cat([new_k, old_k], dim=-2), torch.cat([new_v, past_v], dim=-2)


class AttendCausally(Step):
    """The last query is at the last key."""

    def right(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return equation(new_q, keys, values, is_causal=True)[0]

    @told_as(Scale.no_scale)
    def no_scale(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return self.right(new_q * math.sqrt(new_q.shape[-1]), keys, values)

    @told_as(Share.over_queries)
    def over_queries(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        scores = new_q @ keys.mT * new_q.shape[-1] ** -0.5
        future = torch.ones_like(scores, dtype=torch.bool).triu(1 + keys.shape[-2] - new_q.shape[-2])
        output: Tensor = scores.masked_fill(future, -torch.inf).softmax(dim=-2) @ values
        return output

    def not_causal(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The new words see one another's future.

        The past is open to all of them, but among the new words each sees only itself and those before it.
        """
        return equation(new_q, keys, values)[0]

    def mask_from_the_first_key(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The mask aligns the first query with the first key.

        PyTorch's own is_causal does that, too. The *last* query is at the last key: the whole cache is open to every
        query.
        """
        mask = torch.ones(new_q.shape[-2], keys.shape[-2], dtype=torch.bool, device=new_q.device).tril()
        return equation(new_q, keys, values, mask=mask)[0]
