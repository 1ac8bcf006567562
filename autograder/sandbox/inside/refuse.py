"""torch's own operators that an exercise forbids, refused beneath every name that they have in Python."""

import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

import torch

from .attempt import ContractBroken

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
SOFTMAX = "torch.softmax"
LAYER_NORM = "torch.nn.functional.layer_norm"
OPERATORS: dict[str, dict[str, tuple[str, ...]]] = {
    SOFTMAX: {
        "_softmax": ("CPU", "Meta"),
        "_softmax.out": ("CPU", "Meta"),
        "_log_softmax": ("CPU", "Meta"),
        "_log_softmax.out": ("CPU", "Meta"),
        "_safe_softmax": ("CompositeExplicitAutograd",),
    },
    ATTENTION: {
        "scaled_dot_product_attention": ("CompositeImplicitAutograd",),
        "_scaled_dot_product_attention_math": ("CompositeImplicitAutograd",),
        "_scaled_dot_product_flash_attention_for_cpu": ("CPU", "Meta"),
        "_native_multi_head_attention": ("CPU",),
    },
    LAYER_NORM: {
        "native_layer_norm": ("CPU", "Meta"),
        "native_layer_norm.out": ("CPU", "Meta"),
    },
}


class Refusal:
    """From `begin` on, the operators raise, whether called as torch.softmax, torch.ops.aten._softmax or TorchScript.

    A student's cells may compare their answer with torch's own; it begins when they have run.
    """

    def __init__(self, forbidden: Iterable[str]) -> None:
        names = set(forbidden)
        self.wanted = [
            (torch.library.Library("aten", "IMPL", key), operator, name)
            for name, operators in OPERATORS.items()
            if name in names
            for operator, keys in operators.items()
            for key in keys
            if hasattr(torch.ops.aten, operator.split(".")[0])
        ]

    def begin(self) -> None:
        """Put a kernel that raises in the place of each operator's own, for as long as this process lives."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for library, operator, name in self.wanted:
                library.impl(operator, _refusing(name))


def _refusing(name: str) -> Any:
    def refuse(*arguments: Any, **more: Any) -> NoReturn:
        raise ContractBroken("forbidden", f"calls {name}, which this exercise asks you to do without")

    return refuse
