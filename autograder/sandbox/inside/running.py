"""Run a notebook's cells within their limits: an error ends its cell, and no other."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from .cells import Outcome, Unit, first_line
from .clock import Clock, Patience, TimeLimitExceeded, nobody_to_ask
from .failure import Failure, failure_of, overtime
from .limits import quiet
from .names import bound_names, surely_bound
from .shell import Missing, run_to_the_end
from .time_limits import TimeLimits
from .window import time_limit
from .withheld import Withheld

OURS = ("attnlib", "autograder")


def run_units(
    units: list[Unit],
    namespace: dict[str, Any],
    limits: TimeLimits,
    stuck: Mapping[str, Any] | None = None,
    shown: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[Outcome]:
    """Run the units, cell by cell; an error ends its cell, and no other.

    Cells known to be `stuck` are run as far as they came before: it has the line of the statement that did not end, and
    what was said of it. Where the line isn't known, such a cell gets little time.
    `shown` holds, by cell, the values that demonstrations bind which need names that are withheld here.
    """
    stuck = stuck or {}
    place, waiting = 0, limits.waiting_again if stuck else limits.waiting
    while place < len(units):
        first = units[place]
        seconds = limits.given_cell_cpu if first.role == "given" else limits.cell_cpu
        line, said = stuck.get(first.cell, (0, ""))
        seconds = limits.stuck_cell_cpu if first.cell in stuck and not line else seconds
        clock = Clock(seconds, Patience(waiting))
        body: list[ast.stmt] = []
        while place < len(units) and units[place].cell == first.cell:
            body += units[place].body
            place += 1
        values = (shown or {}).get(first.cell) if first.role == "given" else None
        outcome = run_cell(first.cell, _before(line, body), namespace, clock, first.flags, values)
        if line and not outcome.error:
            outcome.error, outcome.text, outcome.stopped = "TimeLimit", said, line
        yield outcome
        if clock.has_waited:
            waiting = limits.waiting_again


def run_cell(
    cell: str,
    body: list[ast.stmt],
    namespace: dict[str, Any],
    clock: Clock,
    flags: int,
    values: Mapping[str, Any] | None = None,
) -> Outcome:
    """Run one cell's statements within the limits."""
    outcome = Outcome(cell)
    with quiet() as text:
        try:
            with nobody_to_ask(), time_limit(clock) as within:
                while body:
                    body = within(_run_statements, body, f"<cell {cell}>", namespace, flags, values, outcome)
        except BaseException as error:
            _note(outcome, failure_of(error), type(error).__name__)
            if clock.is_over():  # whatever error that has led to in the cell
                _note(outcome, overtime(clock), "TimeLimit")
                while isinstance(error.__context__, TimeLimitExceeded):  # raised again in each frame on its way out
                    error = error.__context__
                at = _stopped_at(body, error, f"<cell {cell}>")
                outcome.stopped = 0 if at is None else first_line(body[at])
    outcome.printed = text.text()
    return outcome


def _before(line: int, body: list[ast.stmt]) -> list[ast.stmt]:
    return [statement for statement in body if first_line(statement) < line] if line else body


def _note(outcome: Outcome, failure: Failure, name: str) -> None:
    outcome.error, outcome.text = failure.exception or name, failure.text
    outcome.text += f": {failure.details}" if failure.details else ""
    outcome.text += f", at {failure.place}" if failure.place else ""
    outcome.lacks_name, outcome.lacks_module = failure.lacks_name, failure.lacks_module


def _run_statements(
    body: list[ast.stmt],
    filename: str,
    namespace: dict[str, Any],
    flags: int,
    values: Mapping[str, Any] | None,
    outcome: Outcome,
) -> list[ast.stmt]:
    """Run the statements; return those after one that fails only while grading, which is noted and skipped."""
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(ast.Module(body, []), filename, "exec", flags, dont_inherit=True)
    try:
        waiting = eval(code, namespace)
        if code.co_flags & inspect.CO_COROUTINE:
            run_to_the_end(waiting)
    except Exception as error:
        place = _stopped_at(body, error, filename)
        if place is None or not (values is not None or _is_of_grading(error)):
            raise
        _note(outcome, failure_of(error), type(error).__name__)
        bound = bound_names(body[place])
        if isinstance(error, ModuleNotFoundError) and values is None:
            namespace.update(dict.fromkeys(surely_bound(body[place]), Missing(error)))
        namespace.update({name: value for name, value in (values or {}).items() if name in bound})
        return body[place + 1 :]
    return []


def _is_of_grading(error: Exception) -> bool:
    """True if what has failed may work where the student wrote it, with all of attnlib and with other packages."""
    if isinstance(error, ModuleNotFoundError):
        return (error.name or "").split(".")[0] not in OURS
    return isinstance(error, Withheld)


def _stopped_at(body: list[ast.stmt], error: BaseException, filename: str) -> int | None:
    """Return the index of the statement that an exception comes from; None if it comes from elsewhere."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != filename:
        trace = trace.tb_next
    if trace is None:
        return None
    line = trace.tb_lineno
    return next((i for i, s in enumerate(body) if first_line(s) <= line <= (s.end_lineno or s.lineno)), None)
