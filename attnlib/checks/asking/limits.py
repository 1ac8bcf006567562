"""Protect the process that judges an attempt from endless printing and from changes of global state."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch


class BoundedText(io.TextIOBase):
    """A stream that keeps the first `limit` characters and counts nothing else."""

    def __init__(self, limit: int = 2000) -> None:
        self.limit = limit
        self.kept: list[str] = []
        self.room = limit

    def write(self, text: str) -> int:
        if self.room > 0:
            self.kept.append(text[: self.room])
            self.room -= len(text)
        return len(text)

    def text(self) -> str:
        return "".join(self.kept)


@contextlib.contextmanager
def quiet() -> Iterator[BoundedText]:
    """Catch what the body prints, on stdout and stderr, and silence its warnings."""
    with without_warnings() as text, contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        yield text


@contextlib.contextmanager
def without_warnings() -> Iterator[BoundedText]:
    """Silence the body's warnings, but not its printing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield BoundedText()


def on_the_cpu() -> AbstractContextManager[object]:
    """In the body, make tensors on the CPU even where a cell has set another default device."""
    return contextlib.nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")


@contextlib.contextmanager
def global_state_kept(seed: int = 0) -> Iterator[None]:
    """Fix a seed, one thread and gradients in the body; then restore random state, dtype, gradient mode and threads.

    On tensors of a few numbers each further thread only waits; and a verdict must not depend on how many there are,
    nor on a gradient mode that a cell of the notebook has left behind.
    """
    dtype, gradient, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also keep a traceback for each kind of device that is not in use, which takes longer
        # than most attempts do
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        torch.set_num_threads(1)
        torch.set_grad_enabled(True)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(gradient)
            torch.set_num_threads(threads)
