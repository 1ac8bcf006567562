"""Mistakes in three layers w_q, w_k and w_v, wherever a module has them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from attnlib.checks.exercise import Misconception
from attnlib.checks.usual import wrong


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
                lambda d_model, d_k, d_v, *_: {
                    "w_q": (both := linear(d_model, d_k)),
                    "w_k": both,
                    "w_v": linear(d_model, d_v),
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
