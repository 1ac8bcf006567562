"""Tests of a change before it is reported: other numbers and sizes, and that it does more than hide the mistake.

Nearly every place can be changed so that something raises, or is never found again. If an error was asked for, or a
stale entry of a cache was to blame, the numbers are then right, and the reason would be wrong.
"""

import ast
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from attnlib.checks.asking.observation import Asking, Observation
from attnlib.checks.asking.observe import observe
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.naming.one_change.edits import Edit
from attnlib.checks.naming.one_change.written import Written

SEEDS = (1, 2, 3)
"""Added to the seed of the notebook's own numbers."""
LARGE = 100.0
"""From this magnitude on, a case is one of scores that are too large for exp."""
HASH = getattr(Tensor.__hash__, "__code__", None)
ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)


def other_cases(
    exercise: Exercise, cases: Sequence[Case], asking: Asking
) -> Iterator[tuple[Case, Observation, Asking]]:
    """Yield the cases with other numbers, with sizes of earlier calls and, if some case is large, large numbers."""
    sizes = [
        replace(case, name=f"{case.name} ({number})", inputs=make, after=())
        for case in cases
        if case.probe is None and not case.raises
        for number, make in enumerate(case.after, 1)
    ]
    for more in SEEDS:
        other = replace(asking, seed=asking.seed + more)
        for case in (*cases, *sizes, *_large(cases)):
            if case.watched:  # devices and sizes of tensors don't depend on the numbers
                continue
            expected = observe(exercise, exercise.reference, case, other, exact=True)
            if (expected.failure is not None) == case.raises:
                yield case, expected, other.anew


def _large(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield inputs thirty times as large: a softmax that is right only by luck underflows, or becomes infinite."""
    magnitude = max((case.magnitude for case in cases), default=0.0)
    if magnitude < LARGE:
        return
    for case in cases:
        if not (case.raises or case.probe or case.gradient or case.magnitude):
            name, inputs = f"{case.name}, thirty times as large", partial(_thirty_times, case.inputs)
            yield replace(case, name=name, inputs=inputs, dtype=torch.float64, magnitude=30 * magnitude)


def _thirty_times(make: Callable[[Draw], Any], draw: Draw) -> Any:
    return tree_map_only(Tensor, lambda t: 30 * t if t.is_floating_point() else t, make(draw))


@dataclass
class Steps:
    """A record of one run: the statements reached, the steps between them, the errors raised, who hashed."""

    statements: dict[int, int]
    own: set[int]
    """The lines of its own `raise` and `assert`."""
    reached: set[int] = field(default_factory=set)
    ways: set[tuple[str, int, int]] = field(default_factory=set)
    raised: set[tuple[str, int]] = field(default_factory=set)
    hashed: set[int] = field(default_factory=set)
    """The statements that look a tensor up: by its identity, never by its numbers."""

    def at(self, frame: FrameType) -> int:
        """Return the statement that a frame is in."""
        return self.statements.get(frame.f_lineno, frame.f_lineno)


@contextlib.contextmanager
def followed(written: Written) -> Iterator[Steps]:
    """Note what the answer's own lines do in the body."""
    steps = Steps(dict(_statements(written.tree)), _lines_of(written.tree, (ast.Raise, ast.Assert)))

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        caller = frame.f_back
        if frame.f_code is HASH and caller is not None and caller.f_code.co_filename == written.path:
            steps.hashed.add(steps.at(caller))
        return _follow(steps, written.path) if frame.f_code.co_filename == written.path else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield steps
    finally:
        sys.settrace(before)


def _follow(steps: Steps, path: str) -> Any:
    last = 0

    def on_event(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal last
        if event == "line":
            steps.reached.add(steps.at(frame))
            if last and steps.at(frame) != last:
                steps.ways.add((frame.f_code.co_name, last, steps.at(frame)))
            last = steps.at(frame)
        elif event == "exception" and not issubclass(argument[0], ENDS):
            last = 0  # the answer didn't choose where it goes on
            trace = argument[2]
            while trace.tb_next is not None:
                trace = trace.tb_next
            if not (trace.tb_frame.f_code.co_filename == path and trace.tb_lineno in steps.own):
                steps.raised.add((argument[0].__name__, steps.at(frame)))
        return on_event

    return on_event


def hides(before: Steps, after: Steps, edit: Edit) -> bool:
    """True if the change adds an error or a look-up by tensor, or closes a way through the code without saying so."""
    if after.raised - before.raised or after.hashed - before.hashed:
        return True
    return not edit.moves_statements and bool(before.ways - after.ways)


def _statements(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Each line with the first line of its statement; of one with a body, those of its head."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            yield from ((line, node.lineno) for line in range(first, last + 1))


def _lines_of(tree: ast.Module, kinds: tuple[type[ast.AST], ...]) -> set[int]:
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return {line for n in found for line in range(getattr(n, "lineno", 0), (getattr(n, "end_lineno", 0) or 0) + 1)}
