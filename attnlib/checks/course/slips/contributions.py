"""What each head adds to a word: its output times its own rows of the last matrix."""

import math

import torch
from einops import einsum, rearrange
from torch import Tensor

from attnlib.checks.course.slips.heads import Split
from attnlib.checks.course.slips.projections import Layer
from attnlib.checks.course.steps import Step, along_with, told_as


class OwnRows(Step):
    """Each head's output, (b, h, n, d), times the rows of w_o that belong to it."""

    makes = ("added",)

    def right(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        return self._by(output, rearrange(w_o, "(h d) m -> h d m", h=num_heads))

    def _by(self, output: Tensor, rows: Tensor) -> Tensor:
        return einsum(output, rows, "b h n d, h d m -> b h n m")

    def rows_taking_turns(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        """The rows of w_o are dealt out in turn.

        Yours gives head 0 the rows 0, h, 2h and so on. The heads are side by side in runs of d, so the rows of one head
        are neighbours as well: (h d).
        """
        return self._by(output, rearrange(w_o, "(d h) m -> h d m", h=num_heads))

    @told_as(Split.heads_taking_turns)
    @along_with("split_taking_turns")
    def heads_and_rows_taking_turns(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        return self.rows_taking_turns(output, w_o, num_heads)

    def rows_reversed(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        """The rows are handed to the heads in reverse order.

        The first d rows of w_o belong to head 0. Yours begin with the last head.
        """
        return self._by(output, rearrange(w_o, "(h d) m -> h d m", h=num_heads).flip(0))

    def first_rows_for_all(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        """Every head uses the first rows of w_o.

        Each head has its own rows, from head · d to (head + 1) · d.
        """
        return self._by(output, rearrange(w_o, "(h d) m -> h d m", h=num_heads)[:1].expand(num_heads, -1, -1))

    def equal_parts_of_the_output(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        """The output is divided equally among the heads.

        The heads do not contribute equally. Head i adds its own output times its own rows of w_o.
        """
        whole = self.right(output, w_o, num_heads).sum(dim=1, keepdim=True)
        return whole.expand(-1, num_heads, -1, -1) / num_heads

    def all_heads_but_this(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        """Each entry is what is left *without* the head.

        That is the output once the head is removed. The exercise asks for the head's own part: keep it, and remove the
        others.
        """
        own = self.right(output, w_o, num_heads)
        return own.sum(dim=1, keepdim=True) - own

    def added_up_to_here(self, output: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
        """The parts pile up.

        Yours adds each head to the sum of those before it. Each part should be one head's alone.
        """
        return self.right(output, w_o, num_heads).cumsum(dim=1)

    def heads_share_d_model(self, x: Tensor, w_q: Layer, w_k: Layer, w_v: Layer, w_o: Tensor, num_heads: int) -> Tensor:
        """The width of a head is taken to be d_model / h.

        That is only a common choice. The matrices say how wide a head is: they have h·d columns, so d is
        w_q.shape[1] // num_heads. With another d, the slices are not the heads, and the scale is wrong.
        """
        d, added = x.shape[-1] // num_heads, []
        for head in range(num_heads):
            own = slice(head * d, head * d + d)
            q, k, v = (w(x)[..., own] for w in (w_q, w_k, w_v))
            added.append((q @ k.mT / math.sqrt(d)).softmax(dim=-1) @ v @ w_o[own])
        return torch.stack(added, dim=1)

    def not_projected_by_w_o(self, output: Tensor) -> Tensor:
        """w_o is not used.

        These are the heads' outputs, d wide. What a head adds to the word is d_model wide: multiply its output by its
        rows of w_o.
        """
        return output


class GiveAdded(Step):
    """One entry for each head, in front of the words."""

    def right(self, added: Tensor) -> Tensor:
        return added

    def heads_summed(self, added: Tensor) -> Tensor:
        """The heads have been added up already.

        Their sum is the output of the layer. Here each head's part should be returned separately: (b, h, n, d_model).
        """
        return added.sum(dim=1)

    def heads_in_front_of_the_batch(self, added: Tensor) -> Tensor:
        """The heads are in front of the batch.

        torch.stack puts the new axis first: (h, b, n, d_model). With dim=1 it comes after the batch.
        """
        return added.transpose(0, 1)

    def heads_behind_the_words(self, added: Tensor) -> Tensor:
        """The heads come after the words.

        Yours is (b, n, h, d_model). The contract has the heads before the words, as everywhere in this lesson.
        """
        return added.transpose(1, 2)

    def parts_side_by_side(self, added: Tensor) -> Tensor:
        """The heads' parts are joined side by side.

        torch.cat makes them (b, n, h·d_model). They need an axis of their own: torch.stack with dim=1.
        """
        return torch.cat(added.unbind(dim=1), dim=-1)
