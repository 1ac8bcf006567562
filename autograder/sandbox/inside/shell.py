"""Jupyter and Colab around a notebook's cells: magics, `display`, a running event loop, a drive to mount."""

import asyncio
import builtins
import functools
import os
import shlex
import sys
import threading
import types
from collections.abc import Coroutine, Iterator
from typing import Any

import matplotlib
import torch

RUNNING_MAGICS = ("time", "timeit", "capture", "prun", "matplotlib", "memit", "pyinstrument", "wandb")
"""The cell magics that run their cell."""
WRITING_MAGICS = ("writefile", "file")


class Nothing:
    """The result of a magic without effect, and all its attributes: nothing is measured, and nothing is shown."""

    def __getattr__(self, name: str) -> "Nothing":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **more: Any) -> "Nothing":
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __format__(self, how: str) -> str:
        return ""


class Missing:
    """Stands in for what is imported from a library that is not installed here: only its use is an error.

    An annotation, or a decorator without arguments, such as a type checker's, is no use.
    """

    def __init__(self, error: ModuleNotFoundError) -> None:
        self.__dict__["__error__"] = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> "Missing":
        return self

    def __or__(self, other: Any) -> "Missing":
        return self

    __ror__ = __or__

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        if len(arguments) == 1 and isinstance(arguments[0], types.FunctionType | type) and not more:
            return arguments[0]
        raise ModuleNotFoundError(str(self.__error__), name=self.__error__.name)

    __iter__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __call__


class Shell(Nothing):
    """The result of `get_ipython()`: it runs code, and writes and runs files beside the notebook, and no more."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.user_ns = namespace

    def run_cell_magic(self, name: str, line: str, cell: str) -> Any:
        if name in WRITING_MAGICS:
            write_file(line, cell)
        elif name in RUNNING_MAGICS:
            exec(cell, self.user_ns)
        return Nothing()

    def run_line_magic(self, name: str, line: str, *more: Any) -> Any:
        if name == "time":
            exec(line, self.user_ns)
        elif name == "run" and (words := [word for word in shlex.split(line) if not word.startswith("-")]):
            path = words[0] if words[0].endswith(".py") else f"{words[0]}.py"
            with open(path, encoding="utf-8") as file:
                exec(compile(file.read(), path, "exec", dont_inherit=True), self.user_ns)
        return Nothing()


def write_file(line: str, text: str) -> None:
    """Do as `%%writefile [-a] PATH` does."""
    words = shlex.split(line)
    path = os.path.expanduser(words[-1])
    with open(path, "a" if {"-a", "--append"} & set(words[:-1]) else "w", encoding="utf-8") as file:
        file.write(text)


class Colab(types.ModuleType):
    """`google.colab`, whose parts do nothing: an answer's cell may mount a drive before it defines the answer."""

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


def display(*objects: Any, **options: Any) -> None:
    """Print objects as text, in place of IPython's `display`."""
    print(*objects)


def new_namespace() -> dict[str, Any]:
    """Make a new `__main__` with all that a notebook finds there; modules beside the notebook can be imported."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.path.append(os.getcwd())  # last: a student's random.py must not take the place of a library's
    sys.modules.setdefault("google", types.ModuleType("google"))
    sys.modules["google.colab"] = Colab("google.colab")
    namespace = main.__dict__
    shell = Shell(namespace)
    names = {**dict.fromkeys(("_", "__", "___", "_i", "_ii", "_iii"), ""), "In": [""], "Out": {}}
    namespace.update(names, __builtins__=builtins, get_ipython=lambda: shell, display=display)
    asyncio.set_event_loop_policy(_Policy())
    vars(torch)["set_num_interop_threads"] = Nothing()  # too late here, but in time where the student ran it
    vars(matplotlib)["use"] = Nothing()  # there is no screen
    if (ipython := sys.modules.get("IPython")) is not None:
        ipython.get_ipython = namespace["get_ipython"]  # type: ignore[attr-defined]
    return namespace


class _Waits:
    """The selector of an event loop without connections: it waits only for time to pass, or for other threads."""

    def __init__(self) -> None:
        self.woken = threading.Event()

    def select(self, seconds: float | None) -> list[Any]:
        self.woken.wait(seconds)
        self.woken.clear()
        return []


class Loop(asyncio.BaseEventLoop):
    """An event loop without the pair of sockets by which asyncio's own wake themselves: no socket is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Waits()

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._selector.woken.set()


class _Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return Loop()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the notebook's one event loop: tasks that a cell leaves running go on while another cell waits."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def run_to_the_end(waiting: Coroutine[Any, Any, Any]) -> None:
    """Run a cell that awaits something, to its end."""
    _loop().run_until_complete(waiting)
