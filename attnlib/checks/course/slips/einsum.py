"""einsum by hand: read the pattern, line the axes up by name, multiply, sum what is missing after the arrow."""

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step, spells

Names = list[str]
Three = tuple[Names, Names, Names]


class ReadPattern(Step):
    """The names of each input's axes, and those of the result."""

    makes = ("names_x", "names_y", "kept")

    def right(self, pattern: str) -> Three:
        inputs, _, output = pattern.partition("->")
        first, _, second = inputs.partition(",")
        return first.split(), second.split(), output.split()

    def kept_in_the_order_of_the_inputs(self, pattern: str) -> Three:
        """The axes are in the order of the inputs.

        The right axes are kept, but in the order in which the inputs have them. What follows the arrow also says in
        which *order* they should be.
        """
        first, second, kept = self.right(pattern)
        return first, second, [name for name in dict.fromkeys(first + second) if name in kept]

    def inputs_exchanged(self, pattern: str) -> Three:
        """The two inputs have each other's names.

        The names before the comma belong to the axes of x, those after it to the axes of y.
        """
        first, second, kept = self.right(pattern)
        return second, first, kept

    def letters_for_names(self, pattern: str) -> Three:
        """The pattern is read letter by letter.

        That is torch.einsum's way. Here a name may be a word, and names are separated by spaces: `split()`.
        """
        first, second, kept = ([*"".join(names)] for names in self.right(pattern))
        return first, second, kept


class LineUp(Step):
    """Both inputs with all axes in one order: first those that are kept, then those that are summed."""

    makes = ("aligned_x", "aligned_y", "missing")

    def right(self, x: Tensor, y: Tensor, names_x: Names, names_y: Names, kept: Names) -> tuple[Tensor, Tensor, int]:
        every = self._every(names_x, names_y, kept)
        return self._aligned(x, names_x, every), self._aligned(y, names_y, every), len(every) - len(kept)

    def _every(self, names_x: Names, names_y: Names, kept: Names) -> Names:
        return [*kept, *(name for name in dict.fromkeys(names_x + names_y) if name not in kept)]

    def _ones(self, tensor: Tensor, names: Names, every: Names) -> list[int]:
        return [tensor.shape[names.index(name)] if name in names else 1 for name in every]

    def _aligned(self, tensor: Tensor, names: Names, every: Names) -> Tensor:
        moved = tensor.permute([names.index(name) for name in every if name in names])
        return moved.reshape(self._ones(tensor, names, every))

    def reshaped_without_moving(
        self, x: Tensor, y: Tensor, names_x: Names, names_y: Names, kept: Names
    ) -> tuple[Tensor, Tensor, int]:
        """The axes are reshaped, not moved.

        The shapes are right, but reshape keeps all numbers in their order and only breaks the lines elsewhere. Move the
        axes first (`permute`), then insert the axes of size 1.
        """
        every = self._every(names_x, names_y, kept)
        aligned = (t.reshape(self._ones(t, names, every)) for t, names in ((x, names_x), (y, names_y)))
        return *aligned, len(every) - len(kept)  # type: ignore[return-value]

    def permuted_backwards(
        self, x: Tensor, y: Tensor, names_x: Names, names_y: Names, kept: Names
    ) -> tuple[Tensor, Tensor, int]:
        """The axes are permuted the wrong way round.

        For each axis of the result, `permute` expects the axis that it comes *from*. You gave it where each axis goes.
        The two are equal when two axes change places, and differ when three are rotated.
        """
        every = self._every(names_x, names_y, kept)

        def aligned(tensor: Tensor, names: Names) -> Tensor:
            moved = self._permuted_backwards(tensor, names, every)
            sizes = iter(moved.shape)
            return moved.reshape([next(sizes) if name in names else 1 for name in every])

        return aligned(x, names_x), aligned(y, names_y), len(every) - len(kept)

    @spells(permuted_backwards)
    def permuted_backwards_and_reshaped(
        self, x: Tensor, y: Tensor, names_x: Names, names_y: Names, kept: Names
    ) -> tuple[Tensor, Tensor, int]:
        every = self._every(names_x, names_y, kept)

        def aligned(tensor: Tensor, names: Names) -> Tensor:
            return self._permuted_backwards(tensor, names, every).reshape(self._ones(tensor, names, every))

        return aligned(x, names_x), aligned(y, names_y), len(every) - len(kept)

    def _permuted_backwards(self, tensor: Tensor, names: Names, every: Names) -> Tensor:
        own = [name for name in every if name in names]
        return tensor.permute([own.index(name) for name in names])


class MultiplyAligned(Step):
    """Number by number, by broadcasting."""

    makes = ("product",)

    def right(self, aligned_x: Tensor, aligned_y: Tensor) -> Tensor:
        return aligned_x * aligned_y

    def added(self, aligned_x: Tensor, aligned_y: Tensor) -> Tensor:
        """The two are added, not multiplied.

        einsum multiplies the numbers that meet, and then sums.
        """
        return aligned_x + aligned_y


class SumMissing(Step):
    """Axes that are missing after the arrow are summed: the last ones."""

    def right(self, product: Tensor, missing: int) -> Tensor:
        return product.sum(dim=list(range(-missing, 0))) if missing else product

    def not_summed(self, product: Tensor) -> Tensor:
        """Nothing is summed.

        The products are there, with all axes. Those that are missing after the arrow must be summed.
        """
        return product

    def averaged(self, product: Tensor, missing: int) -> Tensor:
        """A mean is taken, not a sum.

        einsum adds up the products and does not divide.
        """
        return product.mean(dim=list(range(-missing, 0))) if missing else product

    def largest_taken(self, product: Tensor, missing: int) -> Tensor:
        """The largest product is taken, not the sum.

        A missing axis is summed: every product counts.
        """
        return product.amax(dim=list(range(-missing, 0))) if missing else product

    def summed_axes_kept(self, product: Tensor, missing: int) -> Tensor:
        """The summed axes are still there, with size 1.

        `keepdim=True` keeps them. The result has the axes that are named after the arrow, and no others.
        """
        return product.sum(dim=list(range(-missing, 0)), keepdim=True) if missing else product

    def only_one_axis_summed(self, product: Tensor, missing: int) -> Tensor:
        """At most one axis is summed.

        `sum(dim=-1)` sums the last axis. *All* names that are missing after the arrow are summed: `sum` takes several
        axes at once.
        """
        return product.sum(dim=-1) if missing else product

    def empty_list_sums_all(self, product: Tensor, missing: int) -> Tensor:
        """Where nothing is missing, everything is summed.

        `sum(dim=[])` and `sum(dim=())` mean all axes. If every name stays, return the product as it is.
        """
        return product.sum(dim=list(range(-missing, 0)))

    @spells(not_summed)
    def product_copied(self, product: Tensor) -> Tensor:
        return torch.clone(product)
