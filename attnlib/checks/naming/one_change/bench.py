"""A module that is built once, to try one class after another on it."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.asking.attempt import Attempt, LocalSession, Terms
from attnlib.checks.asking.clock import Clock, Patience
from attnlib.checks.asking.time_limits import TimeLimits


class Bench(Attempt):
    """A module that is built once and given one class after another: changes in `forward` leave its layers alone."""

    def __init__(self, limits: TimeLimits) -> None:
        self.limits = limits
        self.target: Any = None
        self.names: dict[str, Any] = {}
        self.session: BuiltOnce | None = None

    def unfit_reason(self, kind: str) -> str | None:
        return None

    def open(self, terms: Terms) -> "BuiltOnce":
        clock = Clock(self.limits.case_cpu, Patience(self.limits.waiting))
        if self.session is None:
            self.session = BuiltOnce(self.target, terms, clock)
        self.session.names, self.session.clock = self.names, clock
        return self.session


class BuiltOnce(LocalSession):
    """The session of a `Bench`: its module, and those in it, have the attributes that they were built with."""

    names: Mapping[str, Any]
    built: list[tuple[nn.Module, dict[str, Any], str]] | None = None
    """Each module, its attributes, and the name of its class among `names`: none for a library's of the same name."""

    def build(self, sizes: Sequence[Any], shapes: Any, dtype: Any) -> None:
        if self.built is None:
            super().build(sizes, shapes, dtype)
            self.built = [(module, dict(vars(module)), self._name(type(module))) for module in self.call_it.modules()]
        for module, attributes, name in self.built:
            vars(module).clear()
            vars(module).update(attributes)
            module.__class__ = self.names.get(name, type(module))

    def _name(self, made: type) -> str:
        return made.__name__ if self.names.get(made.__name__) is made else ""

    def load(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, numbers in weights.items():
                self.weights[name].copy_(numbers)
