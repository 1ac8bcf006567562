"""An attempt: how it is built, called and differentiated, here or in another process.

Nothing in this file knows an answer. This file, the files it imports and `ready_made` (for `watch`) are all that a
grader has to put beside a student's code in its sandbox.
"""

import contextlib
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from . import given, limits  # relative, so that these files also work elsewhere
from .clock import Clock, InputAsked, Patience, TimeLimitExceeded, nobody_to_ask
from .contract import checked, compare_parameters, parameters_of, require_detached, require_small, unfit_reason
from .failure import ContractBroken, Failed, Failure, failure_of, line_of_attempt, overtime
from .inputs import are_alike, copied, values_left
from .other_device import OtherDevice
from .time_limits import TimeLimits, here
from .watch import Watch
from .window import Window, time_limit

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a call: the names of the outputs, what the attempt may not call or make, and its device."""

    outputs: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    device: str = "cpu"
    largest: int = 0
    """The most numbers a tensor made by the attempt may hold; 0 for no limit."""
    detached: bool = False
    """True if the outputs must not require a gradient."""
    again: int = 0
    """The number of the call, from 0, that is made with the objects of the call before; 0 for none."""


class Session(Protocol):
    """One attempt on one case. Every method may raise `Failed`."""

    printed: str
    touched: bool
    """True if the last call changed any of its inputs; `inputs` says which."""

    @property
    def devices_mixed(self) -> bool:
        """True if tensors on the CPU met tensors on another device."""

    def build(self, sizes: Sequence[Any], shapes: Shapes | None, dtype: torch.dtype) -> None:
        """Construct a module, in evaluation mode; its parameters must have these names and shapes."""

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set parameters of the module."""

    def train(self, mode: bool) -> None:
        """Put the module in training mode, or in evaluation mode."""

    def keep(self, numbers: Mapping[str, float]) -> None:
        """Require that the module has stored these numbers, as attributes of these names."""

    def call(self, inputs: Sequence[Any], gradient: bool = False) -> tuple[Tensor, ...]:
        """The outputs; with `gradient`, those that carry one require it, and `backward` may follow."""

    def inputs(self) -> list[Tensor]:
        """Tensors and numbers among the inputs of the last call, as the attempt left them (see `values_in`).

        As many as there were; empty tensors where something was taken out of a list or a dictionary, or put into it.
        """

    def backward(self, cotangents: Sequence[Tensor | None]) -> list[Tensor]:
        """Gradients of Σ output · cotangent: of the last call's inputs, then of the weights in alphabetical order."""

    def finish(self) -> None:
        """Make sure that all that was asked has been done: a module may be built and never called."""

    def close(self) -> None:
        """End the session."""


class Attempt(ABC):
    """An answer to be judged, in this process or in another."""

    source = ""
    """Its own source text; empty if that can't be had."""

    def explained(self) -> Any:
        """Return the findings that its own source gives in the process it lives in; None if there are none."""
        return None

    @abstractmethod
    def unfit_reason(self, kind: str) -> str | None:
        """Return the reason why it can't be called at all, as a sentence without its subject; None if it can."""

    @abstractmethod
    def open(self, terms: Terms) -> Session:
        """Begin a case."""


class Local(Attempt):
    """An attempt that is an object of this process; one patience, usually this machine's, covers all of its cases.

    An attempt that is `ours`, the course's own, prints nothing, so no stream that other threads use is redirected.
    """

    def __init__(self, target: Any, limits: TimeLimits | None = None, *, ours: bool = False) -> None:
        self.target, self.limits, self.ours = target, limits or here(), ours
        self.patience = Patience(self.limits.waiting, self.limits.check_wall)

    def unfit_reason(self, kind: str) -> str | None:
        return unfit_reason(kind, self.target)

    def open(self, terms: Terms) -> "LocalSession":
        if self.patience.waiting_left <= 0:  # a grader still tries cases of other parts
            self.patience = Patience(self.limits.waiting_again, self.patience.wall_left)
        session = OurSession if self.ours else LocalSession
        return session(self.target, terms, Clock(self.limits.case_cpu, self.patience))


class LocalSession:
    """See `Session`. Each method runs within the limits on what an attempt may do to its process."""

    def __init__(self, target: Any, terms: Terms, clock: Clock) -> None:
        self.target, self.terms, self.clock = target, terms, clock
        self.call_it: Any = target
        self.weights: dict[str, nn.Parameter] = {}
        self.arguments: tuple[Any, ...] = ()
        self.before: tuple[Any, ...] = ()
        self.given: list[Tensor] = []
        self.touched = False
        self.outputs: tuple[Tensor, ...] = ()
        self.printed = ""
        self.other_device = OtherDevice() if terms.device == "meta" else None
        self.calls = 0

    @property
    def devices_mixed(self) -> bool:
        return self.other_device is not None and self.other_device.mixed

    def _bounded(self, around: contextlib.ExitStack) -> tuple[Window, limits.BoundedText]:
        """Enter the limits on time, on what is printed, and on who may be asked."""
        within, text = around.enter_context(time_limit(self.clock)), around.enter_context(limits.quiet())
        around.enter_context(nobody_to_ask())
        return within, text

    @contextlib.contextmanager
    def _limited(self) -> Iterator[Window]:
        """Enter everything that surrounds an attempt; only calls through the window may run the attempt's own code."""
        with contextlib.ExitStack() as around:
            within, text = self._bounded(around)
            around.enter_context(limits.global_state_kept(seed=self.calls))
            try:
                yield within
                if self.clock.is_over():  # and the attempt swallowed the exception
                    raise TimeLimitExceeded
            except InputAsked as error:
                at = line_of_attempt(traceback.extract_tb(error.__traceback__))
                raise Failed(Failure("time", "asks for input, but nobody is there to answer", *at)) from None
            except ContractBroken as error:
                raise Failed(error.failure) from None
            except BaseException as error:
                if within.interrupts.pressed:
                    raise KeyboardInterrupt from None
                raise Failed(self._failure(error, within)) from None
            finally:
                self.printed += text.text()

    def _failure(self, error: BaseException, within: Window) -> Failure:
        if not self.clock.is_over():  # else this error may follow from the timeout, such as a lock released twice
            with contextlib.suppress(TimeLimitExceeded):
                return within(failure_of, error)  # an exception's text may run the attempt's own code
        while isinstance(error.__context__, TimeLimitExceeded):  # raised again in each frame on its way out
            error = error.__context__
        return overtime(self.clock, error.__traceback__)

    def build(self, sizes: Sequence[Any], shapes: Shapes | None, dtype: torch.dtype) -> None:
        with self._limited() as within:
            module = within(self.target, *sizes)
            if not isinstance(module, nn.Module):
                raise ContractBroken("type", f"must be an nn.Module, but calling it gave a {type(module).__name__}")
            within(compare_parameters, shapes, module)
            with self.other_device or contextlib.nullcontext():
                self.call_it = within(_placed, module, self.terms.device, dtype)
            self.weights = within(parameters_of, self.call_it, shapes)
            for weight in self.weights.values():
                weight.requires_grad_()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        with self._limited() as within, torch.no_grad(), self.other_device or contextlib.nullcontext():
            for name, numbers in weights.items():
                within(self.weights[name].copy_, numbers)

    def train(self, mode: bool) -> None:
        with self._limited() as within:
            within(self.call_it.train, mode)

    def keep(self, numbers: Mapping[str, float]) -> None:
        with self._limited() as within:
            within(_require_kept, self.call_it, numbers)

    def call(self, inputs: Sequence[Any], gradient: bool = False) -> tuple[Tensor, ...]:
        earlier = self.given if 0 < self.calls == self.terms.again else ()
        drawn, self.given = copied(tuple(inputs), self.terms.device, earlier)
        self.before, self.arguments, self.touched = tuple(inputs), drawn, False
        if gradient:
            for tensor in self._differentiable():
                tensor.requires_grad_()
        self.calls += 1  # the seed: what is drawn anew at each call differs from one to the next, the same each time
        with self._limited() as within:
            watch = Watch(self.terms.forbidden, sizes=self.terms.largest > 0)
            is_watched = self.terms.forbidden or self.terms.largest
            watched = watch if is_watched else contextlib.nullcontext()  # under watch, torch is slower
            try:
                with self.other_device or watched:
                    self.outputs = within(self._answer, given.made(drawn))
            except Exception:
                if not watch.called:
                    raise
            finally:
                self.touched = self.other_device is None and not are_alike(self.before, drawn)
            if watch.called:  # even if the forbidden function refused its arguments
                told = f"calls {watch.called[0]}, which this exercise asks you to do without"
                raise ContractBroken("forbidden", told)
            if self.terms.largest and self.other_device is None:
                require_small(watch.largest, self.terms.largest)
            if self.terms.detached:
                require_detached(self.outputs)
            return within(_copies, self.outputs, gradient)

    def _answer(self, objects: tuple[Any, ...]) -> tuple[Tensor, ...]:
        try:
            return checked(self.terms.outputs, self.call_it(*objects))
        finally:  # changes made before an error count as well
            given.note(objects, self.arguments)

    def _differentiable(self) -> list[Tensor]:
        return [t for t in self.given if t.is_floating_point()]

    def inputs(self) -> list[Tensor]:
        with self._limited() as within:  # a number may be too large for a tensor
            return within(values_left, self.before, self.arguments)

    def backward(self, cotangents: Sequence[Tensor | None]) -> list[Tensor]:
        pairs = [(out, c) for out, c in zip(self.outputs, cotangents, strict=True) if c is not None]
        targets = [*self._differentiable(), *(self.weights[name] for name in sorted(self.weights))]
        with self._limited() as within, torch.enable_grad():
            loss = torch.stack([(out * c.to(out)).sum().double() for out, c in pairs]).sum()
            found = within(torch.autograd.grad, loss, targets, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g.detach().clone() for t, g in zip(targets, found, strict=True)]

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class OurSession(LocalSession):
    """One of the course's own answers on one case: its limits are entered once, not for each of its calls."""

    def __init__(self, target: Any, terms: Terms, clock: Clock) -> None:
        super().__init__(target, terms, clock)
        self.entered = contextlib.ExitStack()
        self.held = self.entered.enter_context(time_limit(clock)), self.entered.enter_context(limits.without_warnings())

    def _bounded(self, _around: contextlib.ExitStack) -> tuple[Window, limits.BoundedText]:
        return self.held

    def close(self) -> None:
        self.entered.close()


def _placed(module: nn.Module, device: str, dtype: torch.dtype) -> nn.Module:
    tensors = (*module.parameters(), *module.buffers())
    others = (t for t in tensors if t.is_floating_point() or t.is_complex())
    if all(t.device.type == device for t in tensors) and all(t.dtype == dtype for t in others):
        return module.eval()  # it is there: moving takes as long as a call does
    return module.to(device=device, dtype=dtype).eval()


def _require_kept(module: nn.Module, numbers: Mapping[str, float]) -> None:
    for name, number in numbers.items():
        found = getattr(module, name, None)
        if type(found) not in (int, float) or found != number:
            got = f"it is {found!r:.40}" if hasattr(module, name) else "there is none"
            raise ContractBroken("parameters", f"must store self.{name} = {number}, but {got}")


def _copies(outputs: tuple[Tensor, ...], gradient: bool) -> tuple[Tensor, ...]:
    return tuple(t.detach().clone().requires_grad_(gradient and t.requires_grad) for t in outputs)
