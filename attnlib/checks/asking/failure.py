"""The reason why an attempt gave no result, as data: code that needs details asks a field, not a sentence."""

import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, get_args

from .clock import Clock
from .endless import endless
from .installed import HERE, LIBRARIES

Kind = Literal["unwritten", "raised", "time", "type", "parameters", "forbidden", "memory", "choice", "died", "cell"]
Reason = Literal[
    "",
    "nothing",
    "something_else",
    "renamed",
    "shared",
    "unasked",
    "two_names",
    "frozen",
    "another_shape",
    "unsized",
    "missing",
    "in_a_list",
    "not_a_parameter",
    "endless",
    "square",
]
REASONS: tuple[Reason, ...] = get_args(Reason)
RETURNED: tuple[Reason, ...] = ("nothing", "something_else")
"""The ways in which the wrong kind of object is returned, where an error may have been asked for."""
MISSING: tuple[Reason, ...] = ("missing", "in_a_list", "not_a_parameter", "shared")
"""The ways in which a parameter is missing: absent, in a plain list, a tensor nobody trains, or another's."""


@dataclass(frozen=True)
class Failure:
    """The reason for having no result: its kind, and a clause on what happened (for an exception, its message)."""

    kind: Kind
    text: str
    line: int = 0
    """The number of the attempt's line and its source; 0 and empty if the failure is at no line of the attempt."""
    source: str = ""
    own: bool = False
    """For an exception: True if a `raise` or an `assert` of the attempt raised it, not something it calls."""
    exception: str = ""
    """The exception's name; for a class of the learner's, the name of Python's exception it counts as."""
    reason: Reason = ""
    """The broken promise of the contract, about what is returned, a parameter, or a tensor's size; or that a loop
    does not end."""
    details: str = ""
    """Details that a headline can do without."""
    lacks_name: str = ""
    """For a NameError the undefined name, for a ModuleNotFoundError the missing module."""
    lacks_module: str = ""

    @property
    def place(self) -> str:
        """The attempt's line in words; empty where there is none."""
        return f"line {self.line}: `{self.source}`" if self.source else ""

    @property
    def error(self) -> str:
        """An exception as Python shows it, `ValueError: …`; of any other failure the clause."""
        return f"{self.exception}: {self.text}".rstrip(": ") if self.exception else self.text

    @property
    def key(self) -> tuple[str, ...]:
        """The key that equal failures share: for an exception its type, for others the clause."""
        if self.kind == "raised":
            return self.kind, self.exception
        return (self.kind, self.text, self.reason, self.details if self.reason in MISSING else "")


class Failed(Exception):
    """Raised instead of a result: the attempt failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class ContractBroken(Exception):
    """Raised for a broken contract: `Failure` says in which way."""

    def __init__(self, kind: Kind, text: str, *, reason: Reason = "", details: str = "") -> None:
        super().__init__(text)
        self.failure = Failure(kind, text, reason=reason, details=details)


RAISES = re.compile(r"(^|:)\s*(raise|assert)\b")


def failure_of(error: BaseException) -> Failure:
    """Return the failure that an exception in the attempt amounts to, with the attempt's line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    (line, source), own = line_of_attempt(frames), _raised_itself(frames)
    if isinstance(error, NotImplementedError) and (not error.args or own):
        return Failure("unwritten", _unwritten(error), line, source)
    try:
        said = str(error)
    except BaseException:
        said = "(a message that cannot be printed)"
    name, special = _names(type(error))
    lines = said.strip().split("\n")
    is_trace = any(line.startswith("Traceback") for line in lines)  # as TorchScript's: it ends with what went wrong
    told = " ".join(lines[-1:] if is_trace else lines[:3])[:400]
    return Failure(
        "raised",
        f"{special}{told}".rstrip(": "),
        line,
        source,
        own,
        exception=name,
        lacks_name=_lacking(error) if name == "NameError" else "",
        lacks_module=_lacking(error) if name == "ModuleNotFoundError" else "",
    )


def _unwritten(error: NotImplementedError) -> str:
    """Say that a stub is still one: the answer, or what it calls; a class goes by the name that its stub raises."""
    names = [frame.name for frame in _own_frames(traceback.extract_tb(error.__traceback__))]
    name = names[-1] if names else ""
    if name in ("__init__", "forward") and error.args and type(error.args[0]) is str and error.args[0].isidentifier():
        name = error.args[0]
    called = f"calls `{name[:100]}`, which " if len(names) > 1 else ""
    return f"{called}is not written yet: put your code in place of `raise NotImplementedError`"


def _lacking(error: BaseException) -> str:
    """The name that Python notes in the error, without a module's submodules."""
    name = getattr(error, "name", None)
    return name.split(".")[0] if type(name) is str else ""


def _names(error: type[BaseException]) -> tuple[str, str]:
    """Return the exception's name; for a learner's class, the name of Python's it counts as, and then its own."""
    home = str(getattr(sys.modules.get(error.__module__), "__file__", None))
    if error.__module__ == "builtins" or any(part in home for part in LIBRARIES):
        return error.__name__, ""
    kind = next(base for base in error.__mro__ if base.__module__ == "builtins")
    return (error.__name__, "") if kind in (Exception, BaseException) else (kind.__name__, f"{error.__name__}: ")


def _raised_itself(frames: Sequence[traceback.FrameSummary]) -> bool:
    """True if a statement outside of libraries raised the exception itself, rather than something it calls."""
    if not frames or not RAISES.search(frames[-1].line or ""):
        return False
    home = frames[-1].filename  # the course's misconceptions are defined here, and raise as a learner would
    return home.startswith(HERE) or not any(part in home for part in LIBRARIES)


def line_of_attempt(frames: Sequence[traceback.FrameSummary]) -> tuple[int, str]:
    """Return the last line of the learner's own code in a traceback, in a notebook cell or a file outside libraries."""
    frame = _own_frame(frames)
    return (frame.lineno or 0, frame.line.strip()) if frame is not None and frame.line else (0, "")


def overtime(clock: Clock, trace: TracebackType | None = None) -> Failure:
    """Return the failure of an attempt out of time: where it waited, if it only did that, or why a loop goes on."""
    if clock.has_waited:
        frame = _own_frame(clock.waited_at or [])
        at = f"`{frame.line.strip()}` in line {frame.lineno}" if frame is not None and frame.line else ""
        return Failure("time", clock.said(), details=at)
    frames = traceback.extract_tb(trace)
    line, source = line_of_attempt(frames)
    why = endless(_own_frames(frames))
    return Failure("time", clock.said(), line, source, reason="endless" if why else "", details=why)


def _own_frame(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    own = _own_frames(frames)
    return own[-1] if own else None


def _own_frames(frames: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    return [f for f in frames if f.line and not any(part in f.filename for part in LIBRARIES)]
