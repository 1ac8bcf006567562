"""Queries, keys and values as the answer itself: multiplied with matrices, cut out of one product, given back."""

from collections.abc import Callable, Sequence

import torch
from einops import rearrange
from torch import Tensor, nn

from attnlib.checks.course.slips.projections import Layer, Matrices, Multiply, Product, Project, Three
from attnlib.checks.course.steps import Step, each, spells

Layers = tuple[Layer, Layer, Layer]
Cutter = Callable[[Tensor], Sequence[Tensor]]


class MultiplyByHand(Multiply):
    """The product is what the exercise is about."""

    def reshaped_weights(self) -> Product:
        """A matrix is reshaped.

        `reshape` (or `view`) keeps the numbers in their order in memory and breaks the rows in other places: no column
        is what it was. Nothing needs to be transposed here, x @ w; for F.linear, transpose it: w.T.
        """
        return lambda x, w: x @ w.reshape(w.shape[1], w.shape[0]).T

    @each(bias=(True, False))
    def new_layers(self, bias: bool) -> Product:
        """New layers have weights of their own.

        nn.Linear(...) is made with random numbers, and the matrices that you were given are not used: x @ w.
        """
        return lambda x, w: nn.Linear(w.shape[0], w.shape[1], bias=bias)(x)

    def bias_of_a_layer(self) -> Product:
        """A layer adds a bias.

        nn.Linear has a bias unless it is told not to, and starts with random numbers in it. A projection is one matrix
        product and nothing else: x @ w.
        """
        return lambda x, w: x @ w + nn.Linear(w.shape[0], w.shape[1]).bias

    def matrix_first(self) -> Product:
        """The matrix is on the wrong side of x.

        The words are the rows of x, so x comes first: x @ w. `w @ x` multiplies along the words, and `w.T @ x` is for
        words that are columns.
        """
        return lambda x, w: w @ x

    @spells(matrix_first)
    def transposed_matrix_first(self) -> Product:
        return lambda x, w: w.T @ x

    def entry_by_entry(self) -> Product:
        """Multiplied entry by entry.

        `*` multiplies numbers that are in the same place. A projection is a matrix product: `@`.
        """
        return lambda x, w: x * w

    def summed_apart(self) -> Product:
        """Both are summed before they are multiplied.

        x and the matrix name their shared axis with two different letters, so einsum sums each on its own. The axis
        over which the product runs needs one letter in both.
        """
        return lambda x, w: x.sum(dim=-1, keepdim=True) * w.sum(dim=0)

    def matrix_alone(self) -> Product:
        """There is no product.

        What comes back is made of the matrix alone. Multiply x with it: x @ w.
        """
        return lambda x, w: w


class InOrder(Step):
    """The three as a tuple, in the order of the contract."""

    def right(self, q: Tensor, k: Tensor, v: Tensor) -> Three:
        return q, k, v

    @each(order=("vkq", "kvq", "vqk"))
    def order_returned(self, q: Tensor, k: Tensor, v: Tensor, order: str) -> tuple[Tensor, ...]:
        """They are returned in another order.

        Some codebases pass them as v, k, q; here the order is q, k, v.
        """
        return tuple({"q": q, "k": k, "v": v}[name] for name in order)

    def equal_thirds(self, x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
        """Cut into three equal parts.

        `chunk(3)`, `(three d)` and a reshape to (…, 3, width) make three parts of one size. The values may be wider or
        narrower than the keys: the widths are d_k, d_k and d_v.
        """
        return (x @ w_qkv).chunk(3, dim=-1)

    @spells(equal_thirds)
    def reshaped_to_thirds(self, x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
        return (x @ w_qkv).reshape(*x.shape[:2], 3, -1).unbind(dim=2)

    @spells(equal_thirds)
    def rearranged_to_thirds(self, x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
        return tuple(rearrange(x @ w_qkv, "b n (three d) -> three b n d", three=3))

    def values_d_k_wide(self, q: Tensor, k: Tensor, v: Tensor) -> Three:
        """The values are as wide as the keys.

        v has d_k columns. Values may have a width of their own, d_v: they never meet the keys in a dot product.
        (`split(d_k)` goes on cutting pieces of d_k columns.)
        """
        return q, k, v[..., : k.shape[-1]]

    def stacked(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Tensors of different widths cannot be stacked.

        `torch.stack` wants one shape, but values may have another width than keys. Make three products, and return
        three tensors, with commas between.
        """
        return torch.stack([q, k, v])


class SideBySide(Step):
    """The three matrices as one."""

    makes = ("w_qkv",)

    def right(self, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
        return torch.cat([w_q, w_k, w_v], dim=1)


class ThreeMatrices(Matrices):
    """The matrices are multiplied with one by one."""

    @spells(InOrder.stacked)
    def matrices_stacked(self, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Layers:
        matrices = torch.stack([w_q, w_k, w_v])
        return three(lambda x: (x.unsqueeze(0) @ matrices.unsqueeze(1)).unbind(0))


def three(cut: Cutter) -> Layers:
    """What makes queries, keys and values, out of what makes all of them at once."""
    return lambda x: cut(x)[0], lambda x: cut(x)[1], lambda x: cut(x)[2]


class Cut(Step):
    """One product for all three, whose columns are cut."""

    makes = ("w_q", "w_k", "w_v")

    def right(self, product: Product, w_qkv: Tensor, d_k: int, d_v: int) -> Layers:
        return three(lambda x: product(x, w_qkv).split([d_k, d_k, d_v], dim=-1))

    @staticmethod
    def _slices(w_qkv: Tensor, *places: tuple[int, int | None]) -> Layers:
        return three(lambda x: [(x @ w_qkv)[..., start:end] for start, end in places])

    def values_with_keys(self, w_qkv: Tensor, d_k: int) -> Layers:
        """The pieces overlap.

        Keys or values begin too early or end too late, and take columns of the others. Each slice begins where the one
        before it ends.
        """
        return self._slices(w_qkv, (0, d_k), (d_k, 2 * d_k), (d_k, None))

    @spells(values_with_keys)
    def values_overlap(self, w_qkv: Tensor, d_k: int, d_v: int) -> Layers:
        return self._slices(w_qkv, (0, d_k), (d_k, 2 * d_k), (d_k, d_k + d_v))

    @spells(values_with_keys)
    def values_from_the_front(self, w_qkv: Tensor, d_k: int, d_v: int) -> Layers:
        return self._slices(w_qkv, (0, d_k), (d_k, 2 * d_k), (0, d_v))

    @spells(values_with_keys)
    def keys_with_values(self, w_qkv: Tensor, d_k: int) -> Layers:
        return self._slices(w_qkv, (0, d_k), (d_k, None), (2 * d_k, None))

    def one_column_skipped(self, w_qkv: Tensor, d_k: int) -> Layers:
        """A column is skipped.

        The end of a slice does not belong to it: `fused[..., :n]` ends at column n - 1, and the next slice begins at n,
        not at n + 1.
        """
        return self._slices(w_qkv, (0, d_k), (d_k + 1, 2 * d_k + 1), (2 * d_k + 1, None))

    @each(axis=(1, 0))
    def positions_cut(self, w_qkv: Tensor, d_k: int, axis: int) -> Layers:
        """The positions are cut, not the columns.

        The first index of x @ w_qkv counts sentences, the second one positions; q, k and v are side by side along the
        last axis. Cut that one: `[..., :d_k]`, or `split(…, dim=-1)`.
        """
        return three(lambda x: (x @ w_qkv).tensor_split((d_k, 2 * d_k), dim=axis))

    @each(end=(None, 12))
    def fixed_places(self, w_qkv: Tensor, end: int | None) -> Layers:
        """The widths are fixed numbers.

        Columns 4 and 8 are the places to cut in the lesson's own example. Take the widths from the arguments.
        """
        return self._slices(w_qkv, (0, 4), (4, 8), (8, end))

    def reshaped_across(self, w_qkv: Tensor) -> Layers:
        """The positions are mixed.

        The reshape put the axis of q, k and v before that of the positions, although its numbers are on the last axis
        in memory. A reshape never moves an axis. Cut the last axis where it is, and then move the new one.
        """
        return three(lambda x: (x @ w_qkv).reshape(3, *x.shape[:2], -1).unbind(0))

    @spells(reshaped_across)
    def reshaped_positions(self, w_qkv: Tensor) -> Layers:
        return three(lambda x: (x @ w_qkv).reshape(x.shape[0], 3, x.shape[1], -1).unbind(1))


class GiveThree(Step):
    """What has been made, and nothing more."""

    makes = ("q", "k", "v")

    def right(self, q: Tensor, k: Tensor, v: Tensor) -> Three:
        return q, k, v

    @each(power=(0.5, 1, -0.5))
    def scaled_query(self, q: Tensor, k: Tensor, v: Tensor, power: float) -> Three:
        """The query is scaled.

        q is divided, or multiplied, by its width or the root of it. Many libraries hide the scale there; here it
        belongs to lesson 02.
        """
        return q / q.shape[-1] ** power, k, v

    @each(powers=((0.5, 0.5), (0.25, 0.25), (0, 0.5)))
    def scaled_both(self, q: Tensor, k: Tensor, v: Tensor, powers: tuple[float, float]) -> Three:
        """The keys are scaled.

        k, or both q and k, are divided by a root of their width. The scale belongs to lesson 02, once.
        """
        return q / q.shape[-1] ** powers[0], k / k.shape[-1] ** powers[1], v

    @each(by=("d_model", "d_k", "own"))
    def all_scaled(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, by: str) -> Three:
        """All three are scaled.

        They are divided by the root of a width. A projection is a matrix product (and a bias, where there is one), and
        nothing else; the scale comes in lesson 02.
        """
        width = {"d_model": x.shape[-1], "d_k": q.shape[-1]}.get(by)
        q, k, v = (t / (width or t.shape[-1]) ** 0.5 for t in (q, k, v))
        return q, k, v

    def softmax_taken(self, q: Tensor, k: Tensor, v: Tensor) -> Three:
        """A softmax after the projection.

        The numbers of each vector add up to 1. Nothing comes after the matrix product.
        """
        return q.softmax(dim=-1), k.softmax(dim=-1), v.softmax(dim=-1)

    def averaged(self, q: Tensor, k: Tensor, v: Tensor) -> Three:
        """The words are averaged.

        The axis of the words is gone. Every word has a query, a key and a value of its own: (b, n, d).
        """
        return q.mean(dim=1), k.mean(dim=1), v.mean(dim=1)


class CutInOrder(InOrder):
    """The three are cut out of one product."""


class ProjectThree(Project):
    """The three could be mistaken for one another."""

    def _from(self, order: str, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        layers = {"q": w_q, "k": w_k, "v": w_v}
        return self.right(x, memory, *(layers[name] for name in order))

    def q_k_exchanged(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """Queries and keys are exchanged.

        q holds what k should, and k what q should. The shapes cannot tell, the meaning can: in lesson 02 row i of the
        scores belongs to query i.
        """
        return self._from("kqv", x, memory, w_q, w_k, w_v)

    def keys_values_exchanged(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """Keys and values are exchanged.

        k holds what v should, and v what k should. The key is what a word is found by, the value what it brings along.
        """
        return self._from("qvk", x, memory, w_q, w_k, w_v)

    @each(order=("qqv", "kkv"))
    def all_from_w_q(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer, order: str) -> Three:
        """Queries and keys are made with the same weights.

        q and k hold the same numbers: every word looks for exactly what it offers, and *it* would score *animal* just
        as *animal* scores *it*. The query and the key of a word answer two questions, and need weights each. A
        copy-and-paste slip?
        """
        return self._from(order, x, memory, w_q, w_k, w_v)

    @each(order=("qkk", "qvv", "qkq", "qqq"))
    def values_with_w_k(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer, order: str) -> Three:
        """Values are made with the same weights as keys or queries.

        Two of the three hold the same numbers, and some weights are never used. What a word brings along is neither
        what it is found by nor what it looks for. A copy-and-paste slip?
        """
        return self._from(order, x, memory, w_q, w_k, w_v)
