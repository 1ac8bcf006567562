"""Mistakes with queries, keys and values that the exercises of lesson 01, and more, can make alike."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception

Step = Callable[[Tensor], Tensor]
Three = tuple[Tensor, Tensor, Tensor]
Compute = Callable[[Tensor, Step, Step, Step], Three]
"""Queries, keys and values out of x and the three right steps from x to each of them."""


def mistakes_of_order(reordered: Callable[[tuple[int, ...]], Any], *known: str) -> tuple[Misconception, ...]:
    """`reordered((0, 2, 1))` gives the right three as q, v, k; `known` are the orders that an exercise has already."""
    wrong_orders = {
        "k_q_v": "Queries and keys are exchanged",
        "q_v_k": "Keys and values are exchanged",
        "v_k_q": "Returned in another order",
        "k_v_q": "Returned in another order",
        "v_q_k": "Returned in another order",
        "q_q_v": "The queries are returned as keys, too",
        "q_k_k": "The keys are returned as values, too",
        "k_k_v": "The keys are returned as queries, too",
        "q_v_v": "The values are returned as keys, too",
        "q_k_q": "The queries are returned as values, too",
        "q_q_q": "The queries are returned three times",
    }
    return tuple(
        wrong(
            f"returned_{order}",
            title,
            f"What comes back is {', '.join(order.split('_'))}. Each of the three has a matrix, or columns, of its "
            "own, and the order is q, k, v. Is it a slip of copy and paste?",
            reordered(tuple("qkv".index(name) for name in order.split("_"))),
        )
        for order, title in wrong_orders.items()
        if order not in known
    )


def mistakes_before_and_after(around: Callable[[Compute], Any]) -> tuple[Misconception, ...]:
    """Something more than the projections; `around(compute)` makes the attempt."""

    def kinked(*which: str) -> Compute:
        def compute(x: Tensor, to_q: Step, to_k: Step, to_v: Step) -> Three:
            q, k, v = to_q(x), to_k(x), to_v(x)
            return (
                F.relu(q) if "q" in which else q,
                F.relu(k) if "k" in which else k,
                F.relu(v) if "v" in which else v,
            )

        return compute

    def first(change: Step) -> Compute:
        return lambda x, to_q, to_k, to_v: (to_q(y := change(x)), to_k(y), to_v(y))

    return (
        *(
            wrong(
                f"nonlinear_{'_'.join(which)}",
                f"A nonlinearity after the projection to {names}",
                "The negative numbers have become zero: that is a ReLU. A projection is a matrix product, and nothing "
                "comes after it.",
                around(kinked(*which)),
            )
            for names, which in (
                ("the queries", "q"),
                ("the keys", "k"),
                ("the values", "v"),
                ("queries and keys", "qk"),
                ("keys and values", "kv"),
            )
        ),
        *(
            wrong(
                f"dropout_of_{percent}_percent_first",
                "Dropout is always active",
                "F.dropout drops numbers of x at random unless it is told that no training is going on: every call "
                "gives another result. No dropout is asked for here.",
                around(first(lambda x, p=percent / 100: F.dropout(x, p))),  # type: ignore[misc]
            )
            for percent in (10, 20, 50)
        ),
        wrong(
            "normalised_inputs",
            "The tokens are normalised first",
            "x is brought to mean 0 and variance 1 before the projection. That is LayerNorm, and it comes in lesson "
            "06.",
            around(first(lambda x: F.layer_norm(x, x.shape[-1:]))),
        ),
        wrong(
            "unit_inputs",
            "The tokens are brought to length 1 first",
            "F.normalize divides each vector by its length. The vectors are wanted as they are.",
            around(first(lambda x: F.normalize(x, dim=-1))),
        ),
    )


def chained_projections(around: Callable[[Compute], Any]) -> tuple[Misconception, ...]:
    """One projection starts from another, as `x = self.w_q(x)` in the first line would have it."""
    chains: dict[str, tuple[str, str, Compute]] = {
        "keys_and_values_from_queries": (
            "Keys and values are computed from the queries",
            "k and v were computed from q: was x overwritten by the queries? ",
            lambda x, to_q, to_k, to_v: (q := to_q(x), to_k(q), to_v(q)),
        ),
        "keys_from_queries": (
            "The keys are computed from the queries",
            "k was computed from q. ",
            lambda x, to_q, to_k, to_v: (q := to_q(x), to_k(q), to_v(x)),
        ),
        "values_from_keys": (
            "The values are computed from the keys",
            "v was computed from k. ",
            lambda x, to_q, to_k, to_v: (to_q(x), k := to_k(x), to_v(k)),
        ),
        "values_from_queries": (
            "The values are computed from the queries",
            "v was computed from q. ",
            lambda x, to_q, to_k, to_v: (q := to_q(x), to_k(x), to_v(q)),
        ),
    }
    return tuple(
        wrong(name, title, f"{told}All three are projections of the same x.", around(compute))
        for name, (title, told, compute) in chains.items()
    )


def scaled_projections(around: Callable[[Compute], Any]) -> tuple[Misconception, ...]:
    """The scale of lesson 02 in a place, or of a size, that is rarer than the root on the query."""

    def scaled(change_q: Step, change_k: Step = lambda k: k) -> Compute:
        return lambda x, to_q, to_k, to_v: (change_q(to_q(x)), change_k(to_k(x)), to_v(x))

    return (
        wrong(
            "scaled_key",
            "The key is scaled",
            "k is divided by the root of its width. The scale has its place in lesson 02.",
            around(scaled(lambda q: q, lambda k: k / k.shape[-1] ** 0.5)),
        ),
        wrong(
            "query_divided_by_width",
            "The query is scaled",
            "q is divided by its width. The scale has its place in lesson 02, and there it is the root.",
            around(scaled(lambda q: q / q.shape[-1])),
        ),
        wrong(
            "query_multiplied",
            "The query is scaled",
            "q is multiplied by the root of its width. The scale has its place in lesson 02, and there it divides.",
            around(scaled(lambda q: q * q.shape[-1] ** 0.5)),
        ),
        wrong(
            "reversed_and_scaled",
            "Returned in reverse order, and the query is scaled",
            "Two things at once: the three come back as q, k, v, and the root of the width has its place in lesson 02.",
            around(lambda x, to_q, to_k, to_v: (to_v(x), to_k(x), (q := to_q(x)) / q.shape[-1] ** 0.5)),
        ),
        wrong(
            "last_two_exchanged_and_scaled",
            "Keys and values are exchanged, and the query is scaled",
            "Two things at once: the three come back as q, k, v, and the root of the width has its place in lesson 02.",
            around(lambda x, to_q, to_k, to_v: ((q := to_q(x)) / q.shape[-1] ** 0.5, to_v(x), to_k(x))),
        ),
    )


def unpacked(cut: Callable[..., Any]) -> Callable[..., Any]:
    """`q, k, v = ...` first: where there are not three pieces, that is what fails."""

    def attempt(*inputs: Any) -> Any:
        q, k, v = cut(*inputs)
        return q, k, v

    return attempt


def mistakes_in_three_layers(
    sized: Callable[..., Any], layers: Callable[..., Any], linear: Callable[..., nn.Linear]
) -> tuple[Misconception, ...]:
    """`sized` makes a module from (in, out) of each layer, a function of d_model, d_k and d_v.

    `layers` makes one from a function of the same that gives its layers by name, of which `linear` makes each.
    """
    return (
        wrong(
            "one_layer_for_both",
            "Queries and keys share one layer",
            "w_q and w_k are two names of the same layer, and always compute the same. The query and the key of a word "
            "answer two questions, and need a layer each.",
            layers(
                lambda d_model, d_k, d_v, *bias: {
                    "w_q": (both := linear(d_model, d_k, *bias)),
                    "w_k": both,
                    "w_v": linear(d_model, d_v, *bias),
                }
            ),
        ),
        wrong(
            "layers_not_registered",
            "The module does not know its layers",
            "Layers in a plain list, or made inside forward, are no parameters of the module: they are neither saved "
            "nor trained. Make them in __init__, as self.w_q, self.w_k and self.w_v.",
            layers(lambda d_model, d_k, d_v, *_: {"layers": [linear(d_model, d_k)]}),
        ),
        wrong(
            "bare_parameters",
            "Parameters in place of layers",
            "w_q, w_k and w_v are to be nn.Linear layers: call them, and they multiply.",
            layers(
                lambda d_model, d_k, d_v, *_: {
                    name: nn.Parameter(torch.zeros(d_model, d))
                    for name, d in (("w_q", d_k), ("w_k", d_k), ("w_v", d_v))
                }
            ),
        ),
        wrong(
            "sizes_turned_round",
            "The layers go the wrong way",
            "nn.Linear takes the width that comes in, then the width that goes out: nn.Linear(d_model, d_k).",
            sized(lambda d_model, d_k, d_v: ((d_k, d_model), (d_k, d_model), (d_v, d_model))),
        ),
        wrong(
            "all_as_wide_as_x",
            "The layers go from d_model to d_model",
            "Queries and keys are d_k wide, values d_v: nn.Linear(d_model, d_k).",
            sized(lambda d_model, d_k, d_v: ((d_model, d_model),) * 3),
        ),
        wrong(
            "widths_exchanged",
            "d_k and d_v are exchanged",
            "w_q and w_k go to d_k, because queries and keys meet in a dot product; w_v goes to d_v.",
            sized(lambda d_model, d_k, d_v: ((d_model, d_v), (d_model, d_v), (d_model, d_k))),
        ),
        *(
            wrong(
                f"fixed_widths_{d_model}",
                "The widths are fixed numbers",
                f"{d_model}, {d_k} and {d_v} are the widths of the lesson's own example. Take them from the "
                "constructor's arguments: d_model, d_k and d_v.",
                sized(lambda *_, widths=((d_model, d_k), (d_model, d_k), (d_model, d_v)): widths),
            )
            for d_model, d_k, d_v in ((6, 4, 5), (7, 4, 2))
        ),
    )
