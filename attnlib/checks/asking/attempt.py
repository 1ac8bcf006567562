"""An attempt: how it is built, called and differentiated, here or in another process.

Nothing in this file knows an answer. With the files that it imports, and the `ready_made` that `watch` does, it is all
that has to stand beside a student's code: a grader runs these in a sandbox.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from . import given, limits  # relative, so that these files can stand elsewhere
from .clock import Clock, InputAsked, Patience, TimeLimitExceeded, nobody_to_ask, time_limit
from .contract import checked, compare_parameters, parameters_of, require_detached, require_small, unfit_reason
from .failure import ContractBroken, Failed, Failure, failure_of, line_of_attempt, overtime
from .other_device import OtherDevice, on_other_device
from .time_limits import TimeLimits, here
from .watch import Watch

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Under which an attempt is called: the names of its outputs, what it may not call or make, where tensors live."""

    outputs: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    device: str = "cpu"
    largest: int = 0
    """Of how many numbers its largest tensor may be; 0 where that is left open."""
    detached: bool = False
    """Whether its outputs may not require a gradient."""


class Session(Protocol):
    """One attempt on one case. Every method may raise `Failed`."""

    printed: str

    @property
    def devices_mixed(self) -> bool:
        """Whether tensors on the CPU met some on another device."""

    def build(self, sizes: Sequence[Any], shapes: Shapes | None, dtype: torch.dtype) -> None:
        """Construct a module, in evaluation mode; its parameters must have these names and shapes."""

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set parameters of the module."""

    def train(self, mode: bool) -> None:
        """Put the module in training mode, or in evaluation mode."""

    def call(self, inputs: Sequence[Any], gradient: bool = False) -> tuple[Tensor, ...]:
        """The outputs; with `gradient`, those that carry one require it, and `backward` may follow."""

    def inputs(self) -> list[Tensor]:
        """Tensors and numbers among the inputs of the last call, as the attempt left them (see `values_in`).

        As many as there were; empty tensors if something was taken out of a list or a dictionary, or put into it.
        """

    def backward(self, cotangents: Sequence[Tensor | None]) -> list[Tensor]:
        """Gradients of Σ output · cotangent: of the last call's inputs, then of the weights in alphabetical order."""

    def close(self) -> None:
        """There is nothing more to ask."""


class Attempt(ABC):
    """What is judged, wherever it lives."""

    source = ""
    """Its own text; empty where nobody has it."""

    def explained(self) -> Any:
        """What its own source tells of its mistake, from the process where it lives; None if nobody can say."""
        return None

    @abstractmethod
    def unfit_reason(self, kind: str) -> str | None:
        """Why it cannot be called at all, as a sentence without its subject; None if it can."""

    @abstractmethod
    def open(self, terms: Terms) -> Session:
        """Begin a case."""


class Local(Attempt):
    """An attempt that is an object of this process; all its cases together have so much patience, usually that here."""

    def __init__(self, target: Any, limits: TimeLimits | None = None) -> None:
        self.target, self.limits = target, limits or here()
        self.patience = Patience(self.limits.waiting, self.limits.check_wall)

    def unfit_reason(self, kind: str) -> str | None:
        return unfit_reason(kind, self.target)

    def open(self, terms: Terms) -> "LocalSession":
        if self.patience.waiting_left <= 0:  # cases of other parts are still tried, by a grader
            self.patience = Patience(self.limits.waiting_again, self.patience.wall_left)
        return LocalSession(self.target, terms, Clock(self.limits.case_cpu, self.patience))


class LocalSession:
    """See `Session`. Each method runs within the limits on what an attempt may do to its process."""

    def __init__(self, target: Any, terms: Terms, clock: Clock) -> None:
        self.target, self.terms, self.clock = target, terms, clock
        self.call_it: Any = target
        self.weights: dict[str, nn.Parameter] = {}
        self.arguments: tuple[Any, ...] = ()
        self.given: list[Tensor] = []
        self.values = 0
        self.outputs: tuple[Tensor, ...] = ()
        self.printed = ""
        self.other_device = OtherDevice() if terms.device == "meta" else None
        self.calls = 0

    @property
    def devices_mixed(self) -> bool:
        return self.other_device is not None and self.other_device.mixed

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        state_kept = limits.global_state_kept(seed=self.calls)
        with limits.interrupts_told_apart() as interrupted, limits.quiet() as text, state_kept, nobody_to_ask():
            try:
                with time_limit(self.clock):
                    yield
                if self.clock.is_over():  # and the attempt has swallowed that
                    raise TimeLimitExceeded
            except InputAsked as error:
                at = line_of_attempt(error.__traceback__)
                raise Failed(Failure("time", "asks for input, and a check calls it by itself", *at)) from None
            except ContractBroken as error:
                raise Failed(error.failure) from None
            except BaseException as error:
                if interrupted.is_set():
                    raise
                if self.clock.is_over():  # whatever else that has led to: a lock that is released twice, say
                    raise Failed(overtime(self.clock)) from None
                raise Failed(failure_of(error)) from None
            finally:
                self.printed += text.text()

    def build(self, sizes: Sequence[Any], shapes: Shapes | None, dtype: torch.dtype) -> None:
        with self._limited():
            module = self.target(*sizes)
            if not isinstance(module, nn.Module):
                raise ContractBroken("type", f"must be an nn.Module, but calling it gave a {type(module).__name__}")
            compare_parameters(shapes, module)
            with self.other_device or contextlib.nullcontext():
                self.call_it = module.to(device=self.terms.device, dtype=dtype).eval()
            self.weights = parameters_of(self.call_it, shapes)
            for weight in self.weights.values():
                weight.requires_grad_()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        with self._limited(), torch.no_grad(), self.other_device or contextlib.nullcontext():
            for name, numbers in weights.items():
                self.weights[name].copy_(numbers)

    def train(self, mode: bool) -> None:
        with self._limited():
            self.call_it.train(mode)

    def call(self, inputs: Sequence[Any], gradient: bool = False) -> tuple[Tensor, ...]:
        drawn = tree_map_only(Tensor, lambda t: laid_out_like(t, self.terms.device), tuple(inputs))
        self.arguments, self.given, self.values = drawn, _tensors_in(drawn), len(values_in(drawn))
        if gradient:
            for tensor in self._differentiable():
                tensor.requires_grad_()
        self.calls += 1  # the seed: what is drawn anew at each call differs from one to the next, the same each time
        with self._limited():
            watch = Watch(self.terms.forbidden, sizes=self.terms.largest > 0)
            is_watched = self.terms.forbidden or self.terms.largest
            watched = watch if is_watched else contextlib.nullcontext()  # under watch, torch is slower
            try:
                with self.other_device or watched:
                    objects = given.made(drawn)
                    try:
                        self.outputs = checked(self.terms.outputs, self.call_it(*objects))
                    finally:  # what is left behind after an error is seen, too
                        given.note(objects, drawn)
            except Exception:
                if not watch.called:
                    raise
            if watch.called:  # also where the forbidden function has refused its arguments
                told = f"calls {watch.called[0]}, which this exercise asks you to do without"
                raise ContractBroken("forbidden", told)
            if self.terms.largest and self.other_device is None:
                require_small(watch.largest, self.terms.largest)
            if self.terms.detached:
                require_detached(self.outputs)
            return tuple(t.detach().clone().requires_grad_(gradient and t.requires_grad) for t in self.outputs)

    def _differentiable(self) -> list[Tensor]:
        return [t for t in self.given if t.is_floating_point()]

    def inputs(self) -> list[Tensor]:
        with self._limited():  # a number may be too large for a tensor
            now = values_in(self.arguments)
        return [t.detach() for t in now] if len(now) == self.values else [torch.empty(0)] * self.values

    def backward(self, cotangents: Sequence[Tensor | None]) -> list[Tensor]:
        pairs = [(out, c) for out, c in zip(self.outputs, cotangents, strict=True) if c is not None]
        targets = [*self._differentiable(), *(self.weights[name] for name in sorted(self.weights))]
        with self._limited(), torch.enable_grad():
            loss = torch.stack([(out * c.to(out)).sum().double() for out, c in pairs]).sum()
            found = torch.autograd.grad(loss, targets, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g.detach().clone() for t, g in zip(targets, found, strict=True)]

    def close(self) -> None:
        pass


def _tensors_in(arguments: Any) -> list[Tensor]:
    return [t for t in tree_leaves(arguments) if isinstance(t, Tensor)]


def values_in(arguments: Any) -> list[Tensor]:
    """The tensors among them, and the numbers as tensors: a cache is two buffers and how many positions they hold."""
    leaves = (leaf for leaf in tree_leaves(arguments) if isinstance(leaf, (Tensor, int, float)))
    return [leaf if isinstance(leaf, Tensor) else torch.tensor(leaf) for leaf in leaves]


def laid_out_like(tensor: Tensor, device: str) -> Tensor:
    """A copy with the strides of the original, so that an input meant not to be contiguous stays so."""
    is_elsewhere = device == "meta"
    place = "cpu" if is_elsewhere else device
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=place).copy_(tensor)
    return on_other_device(copy) if is_elsewhere else copy
