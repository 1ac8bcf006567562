"""An attempt: how it is built, called and differentiated, here or in another process.

Nothing in this file knows an answer. With the files that it imports (`clock`, `limits`, `time_limits`, `watch` and the
`ready_made` of that) it is all that has to stand beside a student's code: a grader runs these six in a sandbox.
"""

import contextlib
import functools
import os
import re
import sys
import sysconfig
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.utils._pytree import tree_leaves, tree_map_only

from . import limits  # relative, so that these files can stand elsewhere
from .clock import Clock, InputAsked, Patience, TimeLimitExceeded, nobody_to_ask, time_limit
from .time_limits import TimeLimits, here
from .watch import DeviceWatch, Watch

Shapes = Mapping[str, tuple[int, ...]]
HERE = os.path.dirname(os.path.abspath(__file__))
STANDARD = sysconfig.get_path("stdlib")
LIBRARIES = ("site-packages", "dist-packages", "/attnlib/", "<frozen", HERE, STANDARD)  # not the learner's own code


@dataclass(frozen=True)
class Failure:
    """Why there is no result: `kind` is one of those below, `text` a sentence, `place` the attempt's line."""

    kind: str  # "unwritten", "raised", "time", "type", "parameters", "forbidden", "choice", "died"
    text: str
    place: str = ""
    own: bool = False
    """Of an exception: raised by a `raise` or an `assert` of the attempt, not by anything that it calls."""


class Failed(Exception):
    """The attempt failed in place of answering."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class ContractBroken(Exception):
    """The attempt broke the exercise's contract; `kind` is that of `Failure`, the message a sentence."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Under which an attempt is called: the names of its outputs, what it may not call, and where tensors live."""

    outputs: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    device: str = "cpu"


class Session(Protocol):
    """One attempt on one case. Every method may raise `Failed`."""

    printed: str
    devices_mixed: bool

    def build(self, sizes: Sequence[Any], shapes: Shapes | None, dtype: torch.dtype) -> None:
        """Construct a module, in evaluation mode; its parameters must have these names and shapes."""

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set parameters of the module."""

    def train(self, mode: bool) -> None:
        """Put the module in training mode, or in evaluation mode."""

    def call(self, inputs: Sequence[Any], gradient: bool = False) -> tuple[Tensor, ...]:
        """The outputs; with `gradient`, those that carry one require it, and `backward` may follow."""

    def inputs(self) -> list[Tensor]:
        """The tensors among the inputs of the last call, as the attempt left them: as many, empty if lists changed."""

    def backward(self, cotangents: Sequence[Tensor | None]) -> list[Tensor]:
        """Gradients of Σ output · cotangent: of the last call's inputs, then of the weights in alphabetical order."""

    def close(self) -> None:
        """There is nothing more to ask."""


class Attempt(ABC):
    """What is judged, wherever it lives."""

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
        self.outputs: tuple[Tensor, ...] = ()
        self.printed = ""
        self.devices_mixed = False
        self.calls = 0

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
                line = place_in_attempt(error.__traceback__)
                raise Failed(Failure("time", "asks for input, and a check calls it by itself", line)) from None
            except ContractBroken as error:
                raise Failed(Failure(error.kind, str(error))) from None
            except BaseException as error:
                if interrupted.is_set():
                    raise
                if self.clock.is_over():  # whatever else that has led to: a lock that is released twice, say
                    raise Failed(Failure("time", overtime(self.clock))) from None
                raise Failed(failure_of(error)) from None
            finally:
                self.printed += text.text()

    def build(self, sizes: Sequence[Any], shapes: Shapes | None, dtype: torch.dtype) -> None:
        with self._limited():
            module = self.target(*sizes)
            if not isinstance(module, nn.Module):
                raise ContractBroken("type", f"must be an nn.Module, but calling it gave a {type(module).__name__}")
            if lazy := [name for name, p in module.named_parameters() if isinstance(p, UninitializedParameter)]:
                told = f"has no sizes for {', '.join(lazy)} until it is called: make the layers with their sizes"
                raise ContractBroken("parameters", f"{told}, nn.Linear(d_in, d_out), which the constructor knows")
            if shapes is not None:
                _compare_parameters(shapes, {name: tuple(p.shape) for name, p in module.named_parameters()})
                if frozen := [name for name, p in module.named_parameters() if not p.requires_grad]:
                    told = f"{', '.join(frozen)} cannot learn, because requires_grad is False"
                    raise ContractBroken("parameters", f"has frozen parameters: {told}")
            self.call_it = module.to(device=self.terms.device, dtype=dtype).eval()
            self.weights = dict(self.call_it.named_parameters())
            for weight in self.weights.values():
                weight.requires_grad_()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        if self.terms.device == "meta":
            return
        with self._limited(), torch.no_grad():
            for name, numbers in weights.items():
                self.weights[name].copy_(numbers)

    def train(self, mode: bool) -> None:
        with self._limited():
            self.call_it.train(mode)

    def call(self, inputs: Sequence[Any], gradient: bool = False) -> tuple[Tensor, ...]:
        if self.terms.device == "meta":
            ready_for_meta()
        drawn = tree_map_only(Tensor, lambda t: laid_out_like(t, self.terms.device), tuple(inputs))
        self.arguments, self.given = drawn, _tensors_in(drawn)
        if gradient:
            for tensor in self._differentiable():
                tensor.requires_grad_()
        self.calls += 1  # the seed: what is drawn anew at each call differs from one to the next, the same each time
        with self._limited():
            if self.terms.device == "meta":
                with DeviceWatch() as devices:
                    try:
                        self.outputs = checked(self.terms.outputs, self.call_it(*drawn))
                    except RuntimeError:
                        self._call_with_numbers(inputs)
                        raise
                    finally:
                        self.devices_mixed = self.devices_mixed or devices.mixed
            else:
                watch = Watch(self.terms.forbidden)
                try:
                    with watch if self.terms.forbidden else contextlib.nullcontext():  # under watch, torch is slower
                        self.outputs = checked(self.terms.outputs, self.call_it(*drawn))
                except Exception:
                    if not watch.called:
                        raise
                if watch.called:  # also where the forbidden function has refused its arguments
                    told = f"calls {watch.called[0]}, which this exercise asks you to do without"
                    raise ContractBroken("forbidden", told)
            return tuple(t.detach().clone().requires_grad_(gradient and t.requires_grad) for t in self.outputs)

    def _call_with_numbers(self, inputs: Sequence[Any]) -> None:
        """The devices the other way round, for a function that needs the numbers, and on `meta` there are none.

        The inputs are on the CPU, and `meta` is where new tensors are made that follow no input.
        """
        if isinstance(self.call_it, nn.Module):
            return  # its parameters are on `meta` already
        with torch.device("meta"), DeviceWatch(gpu="cpu") as devices:
            try:
                outputs = checked(self.terms.outputs, self.call_it(*tree_map_only(Tensor, Tensor.clone, tuple(inputs))))
                elsewhere = any(t.is_meta for t in outputs)
            except (RuntimeError, ContractBroken):  # the new tensors have no numbers
                elsewhere = False
        self.devices_mixed = self.devices_mixed or devices.mixed or elsewhere

    def _differentiable(self) -> list[Tensor]:
        return [t for t in self.given if t.is_floating_point()]

    def inputs(self) -> list[Tensor]:
        now = _tensors_in(self.arguments)
        if len(now) != len(self.given):  # something was taken out of a list, or put into it
            return [t.new_empty(0) for t in self.given]
        return [t.detach() for t in now]

    def backward(self, cotangents: Sequence[Tensor | None]) -> list[Tensor]:
        pairs = [(out, c) for out, c in zip(self.outputs, cotangents, strict=True) if c is not None]
        targets = [*self._differentiable(), *(self.weights[name] for name in sorted(self.weights))]
        with self._limited(), torch.enable_grad():
            loss = torch.stack([(out * c.to(out)).sum().double() for out, c in pairs]).sum()
            found = torch.autograd.grad(loss, targets, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g.detach().clone() for t, g in zip(targets, found, strict=True)]

    def close(self) -> None:
        pass


@functools.cache
def ready_for_meta() -> None:
    """Load what torch imports at its first call on `meta`: it takes a second, which is not the attempt's time."""
    torch.empty(2, 3, device="meta").div(2)


def _tensors_in(arguments: Any) -> list[Tensor]:
    return [t for t in tree_leaves(arguments) if isinstance(t, Tensor)]


def laid_out_like(tensor: Tensor, device: str) -> Tensor:
    """A copy with the strides of the original, so that an input meant not to be contiguous stays so."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return copy if device == "meta" else copy.copy_(tensor)


def is_tensor(value: Any) -> bool:
    """A plain tensor or parameter, with all of its numbers: a subclass could answer the comparison itself."""
    return type(value) in (Tensor, nn.Parameter) and value.layout == torch.strided and not value.is_quantized


def checked(wanted: tuple[str, ...], result: Any) -> tuple[Tensor, ...]:
    """The result as a tuple of as many plain tensors as are wanted; raises `ContractBroken` for anything else."""
    if len(wanted) == 1 and not isinstance(result, (tuple, list)):
        result = (result,)
    asked = "a tensor" if len(wanted) == 1 else f"a tuple ({', '.join(wanted)}) of {len(wanted)} tensors"
    if not isinstance(result, (tuple, list)):
        hint = " (is the `return` missing?)" if result is None else ""
        raise ContractBroken("type", f"must return {asked}, but returned {_kind_of(result)}{hint}")
    if len(result) != len(wanted):
        raise ContractBroken("type", f"must return {asked}, but returned a {type(result).__name__} of {len(result)}")
    for name, value in zip(wanted, result, strict=True):
        if not is_tensor(value):
            hint = " (is the `return` missing?)" if value is None else ""
            what = asked if len(wanted) == 1 else f"a tensor as {name}"
            raise ContractBroken("type", f"must return {what}, but returned {_kind_of(value)}{hint}")
    return tuple(result)


def _kind_of(value: Any) -> str:
    if value is None or value is NotImplemented or value is Ellipsis:
        return str(value)
    if type(value) in (Tensor, nn.Parameter):
        if value.is_quantized:
            return "a quantized tensor"
        return "a sparse tensor" if value.layout != torch.strided else "a single tensor"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def unfit_reason(kind: str, attempt: Any) -> str | None:
    """Why the attempt cannot be called at all, as a sentence without its subject; None if it can."""
    is_class = isinstance(attempt, type)
    if kind == "function" and is_class:
        return f"must be a function, but you passed the class {attempt.__name__}"
    if kind == "module" and isinstance(attempt, nn.Module):
        name = type(attempt).__name__
        return f"must be the class, but you passed an object made from it: pass {name}, not {name}(…)"
    if kind == "module" and is_class and not issubclass(attempt, nn.Module):
        name = attempt.__name__
        return f"must be a subclass of nn.Module, but the class {name} is not: write class {name}(nn.Module)"
    if not callable(attempt):
        wanted = "a class" if kind == "module" else "a function"
        hint = ": pass the function itself, without calling it" if isinstance(attempt, (Tensor, tuple)) else ""
        return f"must be {wanted}, but you passed {described(attempt)}{hint}"
    return None


def described(value: Any) -> str:
    """What kind of thing was passed."""
    return str(value) if value is None or value is Ellipsis else f"a value of type {type(value).__name__}"


RAISES = re.compile(r"(^|:)\s*(raise|assert)\b")


def failure_of(error: BaseException) -> Failure:
    """What an exception in the attempt is to be called, and the attempt's line that raised it."""
    place, own = place_in_attempt(error.__traceback__), _raised_itself(error.__traceback__)
    if isinstance(error, NotImplementedError) and (not error.args or own):
        return Failure("unwritten", "is not written yet: put your code in place of `raise NotImplementedError`", place)
    try:
        said = str(error)
    except BaseException:
        said = "(a message that cannot be printed)"
    first_lines = " ".join(said.strip().split("\n")[:3])
    return Failure("raised", f"raised {_named(type(error))}: {first_lines[:400]}".rstrip(": "), place, own)


def _named(error: type[BaseException]) -> str:
    """The exception's name; if the learner has made it, behind that of Python's own exception as which it counts."""
    home = str(getattr(sys.modules.get(error.__module__), "__file__", None))
    if error.__module__ == "builtins" or any(part in home for part in LIBRARIES):
        return error.__name__
    kind = next(base for base in error.__mro__ if base.__module__ == "builtins")
    return error.__name__ if kind in (Exception, BaseException) else f"{kind.__name__}: {error.__name__}"


def _raised_itself(trace: TracebackType | None) -> bool:
    """Whether the exception was raised by a statement outside of libraries, and not in what that statement calls."""
    frames = traceback.extract_tb(trace)
    if not frames or not RAISES.search(frames[-1].line or ""):
        return False
    home = frames[-1].filename  # a misconception of the course stands in these checks, and raises as a learner would
    return home.startswith(HERE) or not any(part in home for part in LIBRARIES)


def place_in_attempt(trace: TracebackType | None) -> str:
    """The last line of the learner's own code in a traceback: of a notebook cell, or of a file outside libraries."""
    frame = _own_frame(traceback.extract_tb(trace))
    return f"line {frame.lineno}: `{frame.line.strip()}`" if frame is not None and frame.line else ""


def overtime(clock: Clock) -> str:
    """Why the time is over, as a clause, and for what the attempt waited if it did nothing else."""
    frame = _own_frame(clock.waited_at or [])
    at = f": `{frame.line.strip()}` in line {frame.lineno}" if frame is not None and frame.line else ""
    return clock.said() + at


def _own_frame(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    own = [f for f in frames if f.line and not any(part in f.filename for part in LIBRARIES)]
    return own[-1] if own else None


def _compare_parameters(wanted: Shapes, found: Shapes) -> None:
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    if missing and sorted(found.values()) == sorted(map(tuple, wanted.values())):
        told = f"it has {', '.join(extra)} in place of {', '.join(missing)}"
        numbered = any(part.isdigit() for name in extra for part in name.split("."))
        raise ContractBroken("parameters", f"has parameters under {'numbers' if numbered else 'other names'}: {told}")
    if missing:
        has = f"it has {', '.join(found)}" if found else "it has no parameters at all"
        raise ContractBroken("parameters", f"has no parameter {missing[0]!r}; {has}")
    if extra:
        hint = " (make the layer with bias=False)" if extra[0].endswith(".bias") else ""
        raise ContractBroken("parameters", f"has a parameter {extra[0]!r} that the contract does not ask for{hint}")
    for name, shape in wanted.items():
        if found[name] != tuple(shape):
            raise ContractBroken("parameters", f"parameter {name!r} must have shape {tuple(shape)}, got {found[name]}")
