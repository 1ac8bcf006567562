"""Record the forbidden functions that an attempt calls while it runs, and the largest tensor it makes."""

import functools
import importlib
import inspect
import math
import re
import sys
import threading
from types import CodeType, FrameType
from typing import Any

import torch
from torch._C import _autograd, _profiler

from .clock import Clock
from .installed import INSTALLED
from .ready_made import BACKWARD, ENGINE, Elsewhere, operator_called, pattern_of, plain

ATTENTION_OF_ATTNLIB = (
    "attnlib.scaled_dot_product_attention",
    "attnlib.attention.equation",
    "attnlib.in_place_attention.in_place_attention",
    "attnlib.tiled_attention",
    "attnlib.cross_attention",
    "attnlib.SelfAttention.forward",
    "attnlib.CrossAttention.forward",
    "attnlib.MultiHeadAttention.forward",
)


def resolve(name: str) -> Any:
    """The object behind a qualified name, beneath the wrappers that jaxtyping puts around it in the tests.

    None for the name of a family, and where the package is not installed.
    """
    package, *parts = name.split(".")
    if not parts:
        return None
    try:
        target: Any = importlib.import_module(package)
    except ImportError:
        return None
    for part in parts:
        target = getattr(target, part, None)
    return getattr(target, "__wrapped__", target)


class Watch:
    """Record the forbidden calls made in the body: Python's functions by the profiler hook, operators by torch's.

    torch's profiler sees every operator, whatever called it: those inside of other operators, private ones, those of
    TorchScript. The hook sees functions that are not operators, such as torch's own copies in Python, and SciPy's.

    >>> from attnlib.checks.asking.ready_made import SOFTMAX
    >>> with Watch((SOFTMAX,)) as watch:
    ...     _ = torch.special.softmax(torch.zeros(2, 3), dim=-1)
    >>> watch.called[0]
    'torch.special.softmax'

    With `sizes` it notes the largest tensor that any operator is given, too. What an operator makes is given to the
    next one, but for the result itself, whose shape is in the contract.

    >>> x = torch.ones(3, 2)
    >>> with Watch((), sizes=True) as watch:
    ...     _ = (x @ x.mT).sum()
    >>> watch.largest
    (3, 3)
    """

    def __init__(self, forbidden: tuple[str, ...], *, sizes: bool = False) -> None:
        self.pattern, self.sizes = pattern_of(forbidden), sizes
        targets = {name: target for name in forbidden if (target := resolve(name)) is not None}
        code = {target.__code__: name for name, target in targets.items() if hasattr(target, "__code__")}
        self.known: dict[int, tuple[CodeType, str]] = {id(c): (c, name) for c, name in code.items()}
        self.called: list[str] = []
        self.largest: tuple[int, ...] | None = None
        """The shape of the largest tensor; None if nothing could be observed."""
        self.observing = self.is_unhooked = self.is_cut = False
        self.mark = f"watched from here on: {id(self)}"
        self.most_recorded = 0
        """The most events held at one time."""
        self.thread = threading.get_ident()
        self.elsewhere = Elsewhere()

    def __enter__(self) -> "Watch":
        self._previous = sys.getprofile(), threading.getprofile()
        WATCHING.append(self)
        if self.pattern is not None:
            sys.meta_path.insert(0, self.elsewhere)
        sys.setprofile(self._on_call)
        threading.setprofile(self._on_call)  # also in threads that it starts
        self._observe()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: Any) -> None:
        own = sys.getprofile()
        WATCHING.remove(self)
        sys.setprofile(self._previous[0])  # before the last note: an alarm after it would record for good
        threading.setprofile(self._previous[1])
        found = {
            "sys.setprofile": own == self._on_call and not (self.is_unhooked and self.pattern),
            "sys.meta_path": self.pattern is None or self.elsewhere in sys.meta_path,
        }
        if self.elsewhere in sys.meta_path:
            sys.meta_path.remove(self.elsewhere)
        self._note_operators()
        found["torch's profiler"] = not self.is_cut
        if kind is None:  # Python itself takes away a profile function in which an exception was raised
            for name in [name for name, is_there in found.items() if not is_there]:
                self._note(name)

    def _observe(self) -> None:
        """Make torch record its operators, unless somebody profiles the check itself."""
        if (self.sizes or self.pattern is not None) and not _autograd._profiler_enabled():
            self.observing = True
            _autograd._enable_profiler_legacy(_settings(self.sizes))
            with _profiler._RecordFunctionFast(self.mark):
                pass

    def _note_operators(self) -> None:
        if not self.observing:
            return
        self.observing = False
        recorded = _autograd._disable_profiler_legacy() if _autograd._profiler_enabled() else []
        self.most_recorded = max(self.most_recorded, sum(map(len, recorded)))
        names = dict.fromkeys(event.name() for events in recorded for event in events)
        self.is_cut |= self.mark not in names  # it was off for a while, however that was done
        for name in names:
            if self.pattern is not None and (called := _called_by_operator(name, self.pattern)) is not None:
                self._note(called)
        if self.sizes:
            given = {tuple(shape) for events in recorded for event in events for shape in event.shapes()}
            self.largest = max(given | {self.largest or ()}, key=math.prod)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            self._on_call_of_c(frame, argument)
        if event != "call":
            return
        code = frame.f_code
        if (known := self.known.get(id(code))) is None:
            known = self.known[id(code)] = (code, _called_in_python(code, frame.f_globals, self.pattern))
        if known[1]:
            self._note(known[1])
        elif code is ALARM and self.thread == threading.get_ident():  # ten times a second: else a loop fills the memory
            self._note_operators()
            self._observe()

    def _on_call_of_c(self, frame: FrameType, function: Any) -> None:
        """Note forbidden NumPy functions, and new threads, which torch's profiler doesn't see."""
        module = getattr(function, "__module__", None)
        if type(module) is not str or self.pattern is None:
            return
        if module.startswith("numpy"):
            name = f"{module}.{function.__name__}"
            if self.pattern.search(plain(name)):
                self._note(name)
        elif module == "_thread" and function.__name__.startswith("start_") and not _starts_for_a_library(frame):
            self._note("threading.Thread")

    def _note(self, name: str) -> None:
        if name not in self.called:
            self.called.append(name)


ALARM = Clock.look.__code__
OWN = {f.__code__ for f in (Watch.__enter__, Watch.__exit__)}
WATCHING: list[Watch] = []


def _hook_is_set(event: str, _arguments: tuple[Any, ...]) -> None:
    """Note that the profiling hook was replaced, however it was: the hook itself sees no call that `map` makes."""
    if event == "sys.setprofile" and sys._getframe(1).f_code not in OWN:
        for watch in WATCHING:
            if watch.thread == threading.get_ident():  # a new thread sets its own
                watch.is_unhooked = True


sys.addaudithook(_hook_is_set)
NODE = re.compile(r"\w+Backward\d+")
"""The name of a node of torch's backward graph, which can be called without the engine: `y.grad_fn(gradient)`."""


def _starts_for_a_library(frame: FrameType | None) -> bool:
    """True if an installed library starts the thread, as tqdm does to see whether a bar moves."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("threading", "concurrent"):
        frame = frame.f_back
    return frame is not None and any(part in frame.f_code.co_filename for part in INSTALLED)


@functools.cache
def _settings(sizes: bool) -> Any:
    without = dict.fromkeys(("memory", "stack", "flops", "modules"), False)
    autograd: Any = torch.autograd  # its stub exports neither of the two
    more = _profiler._ExperimentalConfig()
    return autograd.ProfilerConfig(autograd.ProfilerState.CPU, sizes, *without.values(), more)


@functools.cache
def _called_by_operator(name: str, pattern: re.Pattern[str]) -> str | None:
    if name.startswith(ENGINE) or NODE.fullmatch(name):  # no matter whose step it is
        name = ENGINE
    found = "::" in name and BACKWARD not in name.lower() and pattern.search(plain(name))
    return operator_called(name) if found else None


def _called_in_python(code: CodeType, names: dict[str, Any], pattern: re.Pattern[str] | None) -> str:
    """Return the name students know a library's forbidden function by; empty for any other function."""
    if pattern is None or not any(part in code.co_filename for part in INSTALLED) or "/attnlib/" in code.co_filename:
        return ""
    if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or of a class, which is being imported
        return ""
    name = f"{names.get('__name__')}.{code.co_qualname}"
    if not pattern.search(plain(name)):
        return ""
    name = name.replace("einops.einops.", "einops.")
    return re.sub(r"^torch\.nn\.modules\.\w+\.([A-Z]\w+)\..*", r"torch.nn.\1", name)
