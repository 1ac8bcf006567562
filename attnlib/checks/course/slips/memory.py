"""Cross-attention: one text taken for the other, where x asks and the memory answers."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.slips.heads import FourLayers, HeadScale, Split, Width
from attnlib.checks.course.slips.projections import Layer, Layers, Project, Three, three_layers
from attnlib.checks.course.steps import along_with, each, spells


class ProjectTexts(Project):
    """Queries come from x, keys and values from the memory."""

    def keys_and_values_from_x(self, x: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """This is self-attention: the memory is never read.

        Queries, keys and values all come from x. Then x only asks itself, and nothing of the memory reaches the output.
        The keys and the values belong to the text that answers, the memory.
        """
        return w_q(x), w_k(x), w_v(x)

    def all_from_memory(self, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The memory asks itself.

        The keys and the values are right, but your queries come from the memory, too. Then the output has a row for
        each position of the memory, and x has no say. It is x that asks: make the queries from x.
        """
        return w_q(memory), w_k(memory), w_v(memory)

    def roles_exchanged(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The memory asks, and x answers.

        The roles are exchanged: your queries come from the memory, your keys and values from x. The output gets as many
        rows as the text that *asks* has positions, and that is x.
        """
        return w_q(memory), w_k(x), w_v(x)

    def keys_from_x(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The keys come from x, the values from the memory.

        The weights compare x with x, and are then used on the positions of the memory. A key and its value describe the
        same position: both come from the memory.
        """
        return w_q(x), w_k(x), w_v(memory)

    def values_from_x(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The values come from x, the keys from the memory.

        The weights say where in the memory to look, but what is brought back comes from x. A key and its value describe
        the same position: both come from the memory.
        """
        return w_q(x), w_k(memory), w_v(x)

    def both_texts_answer(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The keys and values come from both texts.

        You joined memory and x, so x answers as well. Some models do that, but here x only asks: the columns of the
        weights count the positions of the memory alone.
        """
        return self.right(x, torch.cat([memory, x], dim=1), w_q, w_k, w_v)

    def memory_cut(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The memory is cut to the length of x.

        memory[:, :n] drops the positions of the memory beyond the length of x. The two texts may differ in length, and
        every query sees the whole memory.
        """
        return self.right(x, memory[:, : x.shape[1]], w_q, w_k, w_v)

    @spells(Project.dropout_first)
    @each(percent=(10, 20, 50))
    def dropout_first_for_both(
        self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer, percent: int
    ) -> Three:
        return self.right(F.dropout(x, percent / 100), F.dropout(memory, percent / 100), w_q, w_k, w_v)

    def memory_kept(self, module: Any, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """Keys and values of the first memory are kept.

        They are stored at the first call and used again at the next, although another memory has come. Compute them
        from the arguments.
        """
        if not hasattr(module, "first"):
            module.first = w_k(memory), w_v(memory)
        return w_q(x), *module.first

    def w_q_w_k_exchanged(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """w_q and w_k are exchanged.

        x asks with w_q, and the memory offers with w_k. Where memory and x are of different widths the products do not
        even fit.
        """
        return w_k(x), w_q(memory), w_v(memory)

    def w_q_w_v_exchanged(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """w_q and w_v are exchanged.

        x asks with w_q, and what the memory brings along is made with w_v. The order is w_q, w_k, w_v. Where the widths
        differ the products do not even fit.
        """
        return w_v(x), w_k(memory), w_q(memory)

    def w_q_for_keys(self, x: Tensor, memory: Tensor, w_q: Layer, w_v: Layer) -> Three:
        """The keys are made with w_q.

        Queries and keys are made with the same weights, and w_k is never used. w_q is there for x; the memory has
        weights of its own, w_k and w_v.
        """
        return w_q(x), w_q(memory), w_v(memory)

    def w_k_for_queries(self, x: Tensor, memory: Tensor, w_k: Layer, w_v: Layer) -> Three:
        """The queries are made with w_k.

        Queries and keys are made with the same weights, and w_q is never used. w_k is there for the memory; x asks with
        w_q.
        """
        return w_k(x), w_k(memory), w_v(memory)

    def w_q_for_values(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer) -> Three:
        """The values are made with w_q.

        The attention weights are right, but they mix what w_q has made, and w_v is never used.
        """
        return w_q(x), w_k(memory), w_q(memory)


class TextScale(HeadScale):
    """The memory has a width of its own to take for the right one."""

    def scaled_by_root_d_memory(self, products: Tensor, memory: Tensor) -> Tensor:
        """Scaled by √d_memory.

        The scores are sums of as many products as queries and keys are wide, *after* the projection. The width of the
        memory plays no part: the scale is q.shape[-1] ** -0.5.
        """
        return products / math.sqrt(memory.shape[-1])


class TextWidth(Width):
    """How wide a head is follows from x alone."""

    @each(checked=(True, False))
    def d_memory_shared_out(self, d_memory: int, num_heads: int, d_head: int | None, checked: bool) -> int:
        """The heads share d_memory, not d_model.

        Without a d_head, each head is d_model // num_heads wide: all together they are as wide as x. The width of the
        memory plays no part.
        """
        return self.right(d_memory, num_heads, d_head) if checked else d_head or d_memory // num_heads

    @along_with("widths_exchanged")
    def arguments_exchanged(self, d_memory: int, num_heads: int, d_head: int | None) -> int:
        """The constructor takes d_memory before d_model.

        The contract's order is d_model, d_memory, num_heads. Where the two widths differ, every layer is made for the
        other text.
        """
        return self.right(d_memory, num_heads, d_head)

    def d_memory_checked(self, d_model: int, d_memory: int, num_heads: int, d_head: int | None) -> int:
        """d_memory is checked, not d_model.

        The heads share d_model among themselves, so it is d_model that num_heads has to divide.
        """
        return self.right(d_memory, num_heads, d_head) and (d_head or d_model // num_heads)


class TextLayers(FourLayers):
    """w_q reads x, w_k and w_v read the memory, and w_o writes where x was."""

    def memory_width_forgotten(self, d_model: int, num_heads: int, d_head: int, bias: bool, d_memory: int) -> Layers:
        """w_k and w_v are made for x, not for the memory.

        They read the memory, whose vectors are d_memory wide: nn.Linear(d_memory, num_heads * d_head).
        """
        return self.right(d_model, num_heads, d_head, bias)

    def widths_exchanged(self, d_model: int, num_heads: int, d_head: int, bias: bool, d_memory: int) -> Layers:
        """d_model and d_memory are exchanged.

        w_q reads x, which is d_model wide; w_k and w_v read the memory, which is d_memory wide. w_o goes back to
        d_model, because each row of the output belongs to a position of x.
        """
        width = num_heads * d_head
        return three_layers((d_memory, width), (d_model, width), (d_model, width), (width, d_memory), bias=bias)

    def out_to_d_memory(self, d_model: int, num_heads: int, d_head: int, bias: bool, d_memory: int) -> Layers:
        """The output is as wide as the memory.

        Each row of the output belongs to a position of x and takes its place: w_o leads to d_model, not to d_memory.
        """
        layers = self.right(d_model, num_heads, d_head, bias, d_memory)
        return *layers[:3], nn.Linear(num_heads * d_head, d_memory, bias=bias)


class SplitTexts(Split):
    """The two texts may differ in length."""

    @each(width_named=(False, True))
    def split_by_length_of_x(
        self, q: Tensor, k: Tensor, v: Tensor, num_heads: int, d_head: int, width_named: bool
    ) -> Three:
        """The memory is cut with the length of x.

        You take n from x.shape and use it for the keys and values as well. The memory has a length of its own: use
        memory.shape[1], or -1, or einops, for k and v.
        """
        b, n, _ = q.shape
        q, k, v = (t.view(b, n, num_heads, d_head if width_named else -1).transpose(1, 2) for t in (q, k, v))
        return q, k, v
