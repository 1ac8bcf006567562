"""The settings of a check, and the record of what an attempt does on one case."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.time_limits import TimeLimits


class Measured:
    """A tensor prepared for many comparisons: on the CPU, in float64, with the size of its largest finite number."""

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device
        self.tensor = tensor.detach()

    @cached_property
    def on_cpu(self) -> Tensor:
        return self.tensor.cpu()

    @cached_property
    def doubled(self) -> Tensor:
        return self.on_cpu.double()

    @cached_property
    def largest(self) -> float:
        size = float(self.doubled.abs().max()) if self.doubled.numel() else 0.0
        if math.isfinite(size):
            return size
        finite = self.doubled[self.doubled.isfinite()]
        return float(finite.abs().max()) if finite.numel() else 0.0


@dataclass
class Observation:
    """Everything a case reveals of an attempt. Two attempts are the same if their observations agree."""

    inputs: tuple[Any, ...] = ()
    outputs: tuple[Tensor, ...] | None = None
    returned: tuple[tuple[int, ...], ...] = ()
    """The shapes that the attempt returned, before a probe made the outputs of them."""
    gradients: dict[str, Tensor] | None = None
    connected: bool = True
    mutated: tuple[str, ...] = ()
    """The names of the inputs that have changed; for a model, with what has changed of it."""
    counted: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """For changed inputs that hold numbers beside their tensors: these numbers, such as the length of a cache."""
    place: str = "cpu"
    """The device that the outputs belong on."""
    devices_mixed: bool = False
    failure: Failure | None = None
    printed: str = ""
    exact: bool = False
    sizes: tuple[Any, ...] = ()
    cpu: float = field(default=0.0, compare=False)
    """The seconds of processor time that it took."""

    @cached_property
    def terms(self) -> int:
        """The longest axis of the inputs: no sum of theirs has more terms."""
        return max([2, *(size for t in tree_leaves(self.inputs) if isinstance(t, Tensor) for size in t.shape)])

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """The outputs, prepared for many comparisons: with two hundred misconceptions, if one is to be named."""
        return tuple(Measured(t) for t in self.outputs or ())

    @cached_property
    def measured_gradients(self) -> dict[str, Measured]:
        """The gradients, in the same way."""
        return {name: Measured(gradient) for name, gradient in (self.gradients or {}).items()}


def both_shapes(expected: Observation, got: Observation, output: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of an output: as returned, if that of the attempt was such that a probe could make nothing of it."""
    theirs, ours = (tuple(seen.measured[output].shape) for seen in (expected, got))
    if ours in got.returned[output : output + 1] and ours != expected.returned[output]:
        theirs = expected.returned[output]
    return theirs, ours


Memory = dict[tuple[object, ...], Observation]
"""Observations of the course's own answers, the reference and the misconceptions: these never change."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The settings of a check: the numbers, the device, the time limits, and what is known of the answers."""

    seed: int = 0
    device: str = "cpu"
    limits: TimeLimits | None = None
    """The time limits; None for this machine's."""
    memory: Memory | None = None
    """Observations that aren't made again; shared by many runs, it keeps those of the course's own answers."""

    @property
    def anew(self) -> "Asking":
        """The same settings without a memory, as a student's attempt needs them."""
        return replace(self, memory=None)


AS_IN_A_NOTEBOOK = Asking()
