"""An answer in the sandbox, questioned from here. Only numbers come back; the verdict is computed here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.asking.attempt import Attempt, Shapes, Terms
from attnlib.checks.asking.failure import REASONS, Failed, Failure
from attnlib.checks.asking.inputs import tensors_in, values_in
from autograder.sandbox.process import Child
from autograder.sandbox.template import Died

KINDS = ("unwritten", "raised", "time", "type", "parameters", "forbidden", "memory")


class RemoteAttempt(Attempt):
    """See `attnlib.checks.asking.attempt.Attempt`. The child has run the student's cells and holds the answer.

    `before_each` is called before each case: it raises if the grader's own work has taken too long. `source` is the
    answer's, if it can be read.
    """

    def __init__(
        self,
        child: Child,
        unfit: str | None,
        before_each: Callable[[], None] = lambda: None,
        explain: Callable[[], Any] = lambda: None,
        source: str = "",
    ) -> None:
        self.child, self.unfit, self.before_each = child, unfit, before_each
        self.explain, self.source = explain, source

    def unfit_reason(self, kind: str) -> str | None:
        return self.unfit

    def explained(self) -> Any:
        return self.explain()

    def open(self, terms: Terms) -> "RemoteSession":
        self.before_each()
        return RemoteSession(self.child, terms)


class RemoteSession:
    """See `attnlib.checks.asking.attempt.Session`."""

    def __init__(self, child: Child, terms: Terms) -> None:
        self.child, self.outputs, self.device = child, terms.outputs, terms.device
        self.printed, self.devices_mixed, self.touched = "", False, False
        self.shapes: Shapes = {}
        self.given: list[Tensor] = []
        self.values = 0
        self.before: list[dict[str, Any]] = []
        """The steps that only prepare: they are sent with the next question, to save their messages."""
        self.opening: dict[str, Any] = {
            "outputs": list(terms.outputs),
            "forbidden": [name for name in terms.forbidden if not name.startswith("attnlib.")],
            "device": terms.device,
            "largest": terms.largest,
            "detached": terms.detached,
            "again": terms.again,
        }

    def _prepare(self, what: str, **more: Any) -> None:
        self.before.append({"do": what, **more})

    def _ask(self, what: str, **more: Any) -> dict[str, Any]:
        opening, self.opening = self.opening, {}  # sent with the first question of a case, to save a message
        before, self.before = self.before, []
        return self._exchange({"do": what, **more, "before": before, "open": opening})

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            reply = self.child.ask(request)
        except Died as error:
            raise Failed(Failure("died", str(error))) from None
        self.printed = _text(reply.get("printed"), 2000)
        self.devices_mixed = reply.get("devices_mixed") is True
        self.touched = self.device != "meta" and reply.get("touched") is True  # there are no numbers to compare there
        if "failure" in reply:
            raise Failed(failure_from(reply["failure"]))
        return reply

    def _tensors(self, reply: dict[str, Any], count: int) -> list[Tensor]:
        found = reply.get("tensors")
        if not isinstance(found, list) or len(found) != count or not all(type(t) is Tensor for t in found):
            raise Failed(Failure("type", "did not answer with tensors"))
        if any(t.is_complex() for t in found):  # a comparison would drop the imaginary part
            raise Failed(Failure("type", "must return real numbers, but returned complex ones"))
        return found

    def _numbers(self, reply: dict[str, Any], count: int) -> list[Tensor]:
        """Return the reply's tensors; Failed unless they hold numbers exactly when the child was given numbers."""
        found = self._tensors(reply, count)
        if any(t.is_meta for t in found) != (self.device == "meta" and count > 0):
            raise Failed(Failure("type", "did not answer with numbers"))
        return found

    def build(self, sizes: Sequence[Any], shapes: Shapes | None, dtype: torch.dtype) -> None:
        self.shapes = dict(shapes or {})
        name = str(dtype).removeprefix("torch.")
        self._prepare("build", sizes=list(sizes), shapes=None if shapes is None else dict(shapes), dtype=name)

    def load(self, weights: Any) -> None:
        self._prepare("load", weights=dict(weights))

    def train(self, mode: bool) -> None:
        self._prepare("train", mode=mode)

    def keep(self, numbers: Mapping[str, float]) -> None:
        self._prepare("keep", numbers=dict(numbers))

    def call(self, inputs: Sequence[Any], gradient: bool = False) -> tuple[Tensor, ...]:
        self.given = tensors_in(list(inputs))
        self.values = len(values_in(list(inputs)))
        reply = self._ask("call", inputs=list(inputs), gradient=gradient)
        found = self._tensors(reply, len(self.outputs))
        if self.device != "meta" and any(t.is_meta for t in found):  # its shape could ask for all memory here
            raise Failed(
                Failure("type", "must return numbers, but returned a tensor on the meta device, which has none")
            )
        return tuple(found)

    def inputs(self) -> list[Tensor]:
        return self._numbers(self._ask("inputs"), self.values)

    def backward(self, cotangents: Sequence[Tensor | None]) -> list[Tensor]:
        shapes = [tuple(t.shape) for t in self.given if t.is_floating_point()]
        shapes += [tuple(self.shapes[name]) for name in sorted(self.shapes)]
        found = self._numbers(self._ask("backward", cotangents=list(cotangents)), len(shapes))
        if [tuple(t.shape) for t in found] != shapes:
            raise Failed(Failure("type", "did not answer with gradients"))
        return found

    def finish(self) -> None:
        if self.before:
            self._ask("nothing more")

    def close(self) -> None:
        pass


def failure_from(told: Any) -> Failure:
    """Read a failure in the child's words, which only its own student reads."""
    if not isinstance(told, dict) or told.get("kind") not in KINDS:
        return Failure("raised", "failed")
    line = told.get("line")
    return Failure(
        told["kind"],
        _text(told.get("text"), 500),
        line if type(line) is int and 0 < line < 1_000_000 else 0,
        _text(told.get("source"), 200),
        told.get("own") is True,
        exception=_text(told.get("exception"), 100),
        reason=next((reason for reason in REASONS if reason == told.get("reason")), ""),
        details=_text(told.get("details"), 500),
        lacks_name=_text(told.get("lacks_name"), 100),
        lacks_module=_text(told.get("lacks_module"), 100),
    )


def _text(value: Any, length: int) -> str:
    return value[:length] if type(value) is str else ""
