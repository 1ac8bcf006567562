"""torch's own operators that an exercise forbids, refused beneath every name that they have in Python."""

import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

import torch

from .failure import ContractBroken
from .ready_made import FAMILIES, operator_called, operators

KEYS = (
    "CPU",
    "Meta",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "SparseCPU",
    "SparseCsrCPU",
    "MkldnnCPU",
    "QuantizedCPU",
    "NestedTensorCPU",
)
"""Where an operator may have a kernel that runs here."""

vars(torch._C).pop("_dispatch_get_computed_kernel_for_dispatch_key", None)  # a kernel that is held is never refused

for family in FAMILIES:  # in the warm process: no child has to look for them
    operators(family)


class Refusal:
    """From `begin` on, the operators raise, whether called as torch.softmax, torch.ops.aten._softmax or TorchScript.

    A student's cells may compare their answer with torch's own; it begins when they have run.
    """

    def __init__(self, forbidden: Iterable[str]) -> None:
        self.wanted = {operator for name in forbidden if name in FAMILIES for operator in operators(name)}
        self.libraries: dict[tuple[str, str], torch.library.Library] = {}

    def begin(self) -> None:
        """Put a kernel that raises in the place of each operator's own, for as long as this process lives."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for operator in sorted(self.wanted):
                for key in KEYS:
                    if torch._C._dispatch_has_kernel_for_dispatch_key(operator, key):
                        self._refuse(operator, key)

    def _refuse(self, operator: str, key: str) -> None:
        namespace, _, name = operator.partition("::")
        if (namespace, key) not in self.libraries:
            self.libraries[namespace, key] = torch.library.Library(namespace, "IMPL", key)
        self.libraries[namespace, key].impl(name, _refusing(operator_called(operator)))


def _refusing(name: str) -> Any:
    def refuse(*arguments: Any, **more: Any) -> NoReturn:
        raise ContractBroken("forbidden", f"calls {name}, which this exercise asks you to do without")

    return refuse
