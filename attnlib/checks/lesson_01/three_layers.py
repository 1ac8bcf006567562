"""Mistakes in three layers w_q, w_k and w_v, wherever a module has them."""

from collections.abc import Callable
from typing import Any

from attnlib.checks.exercise import Misconception
from attnlib.checks.usual import wrong


def mistakes_in_three_layers(sized: Callable[..., Any]) -> tuple[Misconception, ...]:
    """`sized` makes a module from (in, out) of each layer, a function of d_model, d_k and d_v."""
    return (
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
