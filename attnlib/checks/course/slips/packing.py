"""One packed matrix for queries, keys and values of all heads, and the orders in which its rows are packed."""

from einops import rearrange
from torch import Tensor

from attnlib.checks.course.steps import Step, along_with, spells

Three = tuple[Tensor, Tensor, Tensor]


class Unpack(Step):
    """The rows with an axis for q, k and v, one for the heads and one for the numbers of a head."""

    makes = ("parts",)

    def right(self, weight: Tensor, packing: str, num_heads: int) -> Tensor:
        return self._read(weight, packing.strip("()").split(), num_heads)

    def _read(self, weight: Tensor, order: list[str], num_heads: int) -> Tensor:
        names = " ".join("three" if name == "3" else name for name in order)
        return rearrange(weight, f"({names}) m -> three h d m", three=3, h=num_heads)

    def always_three_first(self, weight: Tensor, num_heads: int) -> Tensor:
        """`packing` is ignored: always (3 h d).

        That is nn.MultiheadAttention's order, and GPT-2's; `reshape(3, h, d, …)` reads it. `packing` names the axes
        from the slowest to the fastest, in any order: cut the rows in that order, then move the axes.
        """
        return self._read(weight, ["3", "h", "d"], num_heads)

    def always_head_first(self, weight: Tensor, num_heads: int) -> Tensor:
        """`packing` is ignored: always (h 3 d).

        That is the order of GPT-NeoX and BLOOM. `packing` names the axes from the slowest to the fastest, in any order.
        """
        return self._read(weight, ["h", "3", "d"], num_heads)

    def read_from_the_right(self, weight: Tensor, packing: str, num_heads: int) -> Tensor:
        """The packing is read from the wrong end.

        In einops, and in memory, the name on the right runs fastest: in (h 3 d), neighbouring rows are neighbouring
        features d of one head.
        """
        return self._read(weight, packing.strip("()").split()[::-1], num_heads)

    def permuted_backwards(self, weight: Tensor, packing: str, num_heads: int) -> Tensor:
        """The axes are permuted the wrong way round.

        For each axis of the result, `permute` expects the axis that it comes from. The list of where each axis goes is
        the inverse of that: for most orders the two are equal, but not for (h d 3) and (d 3 h).
        """
        order, wanted = packing.strip("()").split(), ["3", "h", "d"]
        size = weight.shape[0] // 3 // num_heads
        cut = weight.reshape(*({"3": 3, "h": num_heads, "d": size}[name] for name in order), -1)
        moved = cut.permute(*(wanted.index(name) for name in order), 3)
        return moved.reshape(3, num_heads, size, -1)

    def heads_and_numbers_exchanged(self, weight: Tensor, packing: str, num_heads: int) -> Tensor:
        """h and d are exchanged.

        h is the number of heads, d the width of one. Where the packing says h, the rows run over the heads.
        """
        swapped = {"h": "d", "d": "h", "3": "3"}
        return self._read(weight, [swapped[name] for name in packing.strip("()").split()], num_heads)

    @spells(heads_and_numbers_exchanged)
    @along_with("numbers_before_heads")
    def num_heads_for_d(self, weight: Tensor, packing: str, num_heads: int) -> Tensor:
        return self.heads_and_numbers_exchanged(weight, packing, num_heads)


class JoinHeads(Step):
    """A matrix each for queries, keys and values, its rows packed (h d)."""

    makes = ("w_q", "w_k", "w_v")

    def right(self, parts: Tensor) -> Three:
        w_q, w_k, w_v = rearrange(parts, "three h d m -> three (h d) m")
        return w_q, w_k, w_v

    def numbers_before_heads(self, parts: Tensor) -> Three:
        """The matrices are packed (d h).

        The rows of one head stay together, head 0 on top: (h d).
        """
        w_q, w_k, w_v = rearrange(parts, "three h d m -> three (d h) m")
        return w_q, w_k, w_v

    def keys_and_values_exchanged(self, parts: Tensor) -> Three:
        """Keys and values are exchanged.

        The order inside the 3 is queries, keys, values.
        """
        w_q, w_k, w_v = self.right(parts)
        return w_q, w_v, w_k

    def transposed(self, parts: Tensor) -> Three:
        """The matrices are transposed.

        nn.Linear keeps its weight as (out, in): the heads' rows first, d_model second, as in the packed matrix.
        """
        w_q, w_k, w_v = self.right(parts)
        return w_q.mT, w_k.mT, w_v.mT


class Unpacked(Step):
    """The three of them."""

    def right(self, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Three:
        return w_q, w_k, w_v
