"""Queries, keys and values: the layers that make them, and how they are made of x and of a memory.

`w_q`, `w_k` and `w_v` are called: they are layers, or functions that multiply with a matrix.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.steps import Step, each, spells

Layer = Callable[[Tensor], Tensor]
Three = tuple[Tensor, Tensor, Tensor]
Layers = tuple[nn.Module | None, ...]
Product = Callable[[Tensor, Tensor], Tensor]


def three_layers(*sizes: tuple[int, int], bias: bool) -> Layers:
    """A layer for each pair of widths, in and out."""
    return tuple(nn.Linear(d_in, d_out, bias=bias) for d_in, d_out in sizes)


class ThreeLayers(Step):
    """The layers of one head."""

    makes = ("w_q", "w_k", "w_v")
    in_constructor = True

    def right(self, d_model: int, d_k: int, d_v: int, bias: bool = False) -> Layers:
        return three_layers((d_model, d_k), (d_model, d_k), (d_model, d_v), bias=bias)

    def one_layer_for_both(self, d_model: int, d_k: int, d_v: int, bias: bool = False) -> Layers:
        """Queries and keys share one layer.

        w_q and w_k are two names of the same layer, and always compute the same. The query and the key of a word answer
        two questions, and need a layer each.
        """
        w_q, _, w_v = self.right(d_model, d_k, d_v, bias)
        return w_q, w_q, w_v

    def layers_not_registered(self, module: nn.Module, d_model: int, d_k: int) -> Layers:
        """The module does not know its layers.

        A module finds the layers that are its attributes. Those in a plain list, in a variable of __init__, or made
        inside forward are neither saved nor trained. Make them in __init__, as self.w_q, self.w_k and self.w_v.
        """
        module.layers = [nn.Linear(d_model, d_k)]  # type: ignore[assignment]
        return None, None, None

    def bare_parameters(self, module: nn.Module, d_model: int, d_k: int, d_v: int) -> Layers:
        """Parameters in place of layers.

        w_q, w_k and w_v are to be nn.Linear layers: call them, and they multiply.
        """
        for name, d in (("w_q", d_k), ("w_k", d_k), ("w_v", d_v)):
            setattr(module, name, nn.Parameter(torch.zeros(d_model, d)))
        return None, None, None

    def sizes_turned_round(self, d_model: int, d_k: int, d_v: int, bias: bool = False) -> Layers:
        """The layers go the wrong way.

        nn.Linear takes the width that comes in, then the width that goes out: nn.Linear(d_model, d_k).
        """
        return three_layers((d_k, d_model), (d_k, d_model), (d_v, d_model), bias=bias)

    def all_as_wide_as_x(self, d_model: int, bias: bool = False) -> Layers:
        """The layers go from d_model to d_model.

        Queries and keys are d_k wide, values d_v: nn.Linear(d_model, d_k).
        """
        return three_layers(*((d_model, d_model),) * 3, bias=bias)

    def widths_exchanged(self, d_model: int, d_k: int, d_v: int, bias: bool = False) -> Layers:
        """d_k and d_v are exchanged.

        w_q and w_k go to d_k, because queries and keys meet in a dot product; w_v goes to d_v.
        """
        return three_layers((d_model, d_v), (d_model, d_v), (d_model, d_k), bias=bias)

    def value_width(self, d_model: int, d_k: int, bias: bool = False) -> Layers:
        """w_v has the width of the keys.

        w_v maps to d_k. Values may have a width of their own, d_v: they never meet the keys in a dot product.
        """
        return three_layers(*((d_model, d_k),) * 3, bias=bias)

    @each(widths=((6, 4, 5), (7, 4, 2)))
    def fixed_widths(self, widths: tuple[int, int, int], bias: bool = False) -> Layers:
        """The widths are fixed numbers.

        These are the widths of the lesson's own example. Take them from the constructor's arguments: d_model, d_k and
        d_v.
        """
        return self.right(*widths, bias)

    def one_layer_for_all(self, module: nn.Module, d_model: int, d_k: int, d_v: int, bias: bool = False) -> Layers:
        """One layer in place of three.

        Fused weights are another exercise, project_qkv_fused in lesson 01. Here there are three layers: w_q, w_k and
        w_v.
        """
        module.w_qkv = nn.Linear(d_model, 2 * d_k + d_v, bias=bias)
        return None, None, None

    def init_forgotten(self, module: nn.Module) -> Layers:
        """super().__init__() is missing.

        nn.Module keeps a list of its layers, and makes that list in its own __init__. Call super().__init__() before
        the first layer.
        """
        unmade = type(module).__new__(type(module))
        unmade.w_q = nn.Linear(1, 1)
        return None, None, None

    def output_layer_added(self, module: nn.Module, d_model: int, d_k: int, d_v: int, bias: bool = False) -> Layers:
        """There is a fourth layer, w_o.

        Multi-head attention has one, and it comes in lesson 03. Here there are three: w_q, w_k and w_v.
        """
        module.w_o = nn.Linear(d_v, d_model, bias=False)
        return self.right(d_model, d_k, d_v, bias)


class Multiply(Step):
    """How vectors are multiplied with a matrix, (d_in, d_out)."""

    makes = ("product",)

    def right(self) -> Product:
        return torch.matmul

    def matrices_transposed(self) -> Product:
        """The matrices are transposed.

        A matrix is (d_in, d_out) here and multiplies from the right: x @ w. F.linear(x, w) would be x @ w.T, for
        matrices stored the other way round.
        """
        return lambda x, w: x @ w.T


class Matrices(Step):
    """In place of layers there are matrices to multiply with from the right."""

    makes = ("w_q", "w_k", "w_v")

    def right(self, product: Product, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Layer, Layer, Layer]:
        return (lambda x: product(x, w_q)), (lambda x: product(x, w_k)), (lambda x: product(x, w_v))


class OfItself(Step):
    """In self-attention x is its own memory; `itself` is True where a word meets itself."""

    makes = ("memory", "itself")

    def right(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, torch.eye(x.shape[-2], dtype=torch.bool, device=x.device)


class Project(Step):
    """x asks, and the memory answers."""

    makes = ("q", "k", "v")

    def right(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        return w_q(x), w_k(memory), w_v(memory)

    def nothing_projected(self, x: Tensor, memory: Tensor) -> Three:
        """The layers are not used.

        What comes in is used as it is. Project first: w_q makes the queries, w_k the keys and w_v the values.
        """
        return x, memory, memory

    def queries_and_keys_not_projected(self, x: Tensor, memory: Tensor, w_v: Layer) -> Three:
        """Queries and keys are not projected.

        They are the vectors themselves, and w_q and w_k do nothing. A word asks with its query and is found by its key:
        project first.
        """
        return x, memory, w_v(memory)

    def values_not_projected(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer) -> Three:
        """The values are not projected.

        They are the vectors themselves, and w_v is never used. What a word brings along is not its whole vector but
        what w_v picks out of it.
        """
        return w_q(x), w_k(memory), memory

    def chained(self, x: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """One projection starts from another.

        Keys or values were computed from the queries, or values from the keys: was x overwritten, as by
        `x = self.w_q(x)` or `x = x @ w_q`? Each projection takes what came in.
        """
        q = w_q(x)
        k = w_k(q)
        return q, k, w_v(k)

    @spells(chained)
    def keys_and_values_from_queries(self, x: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        q = w_q(x)
        return q, w_k(q), w_v(q)

    @spells(chained)
    def keys_from_queries(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        q = w_q(x)
        return q, w_k(q), w_v(memory)

    @spells(chained)
    def values_from_queries(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        q = w_q(x)
        return q, w_k(memory), w_v(q)

    @spells(chained)
    def values_from_keys(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        k = w_k(memory)
        return w_q(x), k, w_v(k)

    @each(which=("qkv", "q", "k", "v", "qk", "kv"))
    def nonlinear(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer, which: str) -> Three:
        """A nonlinearity after a projection.

        The negative numbers have become zero: that is a ReLU. A projection is a matrix product, and nothing comes after
        it.
        """
        q, k, v = self.right(x, memory, w_q, w_k, w_v)
        return F.relu(q) if "q" in which else q, F.relu(k) if "k" in which else k, F.relu(v) if "v" in which else v

    @each(percent=(10, 20, 50))
    def dropout_first(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer, percent: int) -> Three:
        """Dropout is always active, on the way in.

        F.dropout drops numbers of x at random unless it is told that no training is going on: every call gives another
        result. No dropout is asked for here.
        """
        dropped = F.dropout(x, percent / 100)
        return self.right(dropped, dropped if memory is x else memory, w_q, w_k, w_v)

    def normalised_inputs(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The vectors are normalised first.

        What comes in is brought to mean 0 and variance 1 before the projections. A norm belongs to the block around
        attention (lesson 06), not to attention itself.
        """
        x, memory = (F.layer_norm(t, t.shape[-1:]) for t in (x, memory))
        return self.right(x, memory, w_q, w_k, w_v)

    def unit_inputs(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """What comes in is brought to length 1 first.

        F.normalize divides each vector by its length. Use the vectors as they are.
        """
        return self.right(F.normalize(x, dim=-1), F.normalize(memory, dim=-1), w_q, w_k, w_v)

    def words_and_features_exchanged(self, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The words and their features have changed places.

        x came into the layers as (b, d_model, n). A layer works on the last axis, and that has to be d_model.
        """
        return self.right(x.mT, memory.mT, w_q, w_k, w_v)


class ProjectWithLayers(Project):
    """The same with layers that could be used otherwise than by calling them."""

    def weights_as_stored(self, x: Tensor, memory: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear) -> Three:
        """The weights are used as they are stored.

        The weight of nn.Linear is (d_out, d_in), and the layer computes x @ weight.T. You multiplied by the weight
        itself, which fits where it is square, or where the two widths of the layer have changed places. Make the layers
        as nn.Linear(d_in, d_out), and call them: self.w_q(x).
        """
        return x @ w_q.weight + bias(w_q), memory @ w_k.weight + bias(w_k), memory @ w_v.weight + bias(w_v)

    @spells(weights_as_stored)
    def weights_as_stored_without_bias(
        self, x: Tensor, memory: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear
    ) -> Three:
        return x @ w_q.weight, memory @ w_k.weight, memory @ w_v.weight

    def biases_unused(self, x: Tensor, memory: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear) -> Three:
        """The biases of w_q, w_k and w_v are not used.

        You multiplied by the weights alone. Call the layers instead, self.w_q(x): they add their bias.
        """
        return x @ w_q.weight.mT, memory @ w_k.weight.mT, memory @ w_v.weight.mT


def bias(layer: nn.Linear) -> Tensor | float:
    """The bias of a layer, 0 where it has none."""
    return 0.0 if layer.bias is None else layer.bias
