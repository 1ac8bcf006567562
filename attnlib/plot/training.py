"""A progress bar for a loop that trains, with its loss."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm


class training(tqdm):  # type: ignore[misc]  # tqdm has no types
    """Count the steps of a training loop, as `range(steps)` does, and show how far it has got and its loss.

    The bar vanishes when the loop ends, so a saved notebook keeps nothing of it. It is not drawn if the environment
    variable ATTNLIB_PROGRESS is set, but empty.

    >>> for step in (bar := training(3)):
    ...     bar.loss(2.5 / (step + 1))
    >>> bar.n
    3
    """

    def __init__(self, steps: int) -> None:
        # not disabled by tqdm itself, which would count nothing
        watched = os.environ.get("ATTNLIB_PROGRESS") != ""
        super().__init__(
            range(steps),
            file=sys.stdout if watched else _Nowhere(),
            leave=False,
            mininterval=0.3,
            delay=1,  # seconds: no bar is drawn in a check, whose loops are short
            unit=" steps",
        )

    def loss(self, loss: float) -> None:
        """Show this loss beside the bar from its next drawing on; a tensor of one number will do."""
        self.set_postfix_str(f"loss {float(loss):.3f}", refresh=False)


@contextmanager
def watched(model: nn.Module, targets: Sequence[Tensor] | Tensor) -> Iterator[None]:
    """Show the bar of `training` while a loop that knows nothing of it calls the model once for each of the targets.

    The loss it shows is the cross-entropy of the logits with the target; if the model returns a tuple, the logits are
    its first entry.

    >>> import torch
    >>> model = torch.nn.Embedding(3, 5)
    >>> with watched(model, torch.tensor([[[1, 4]]])):
    ...     logits = model(torch.tensor([[0, 2]]))
    """
    bar = training(len(targets))
    steps = zip(bar, targets, strict=True)

    def show(_model: nn.Module, _inputs: Any, output: Any) -> None:
        logits = output[0] if isinstance(output, tuple) else output
        _, target = next(steps, (0, None))
        if target is None:  # the loop is over: it looks at what it has learned, say
            return
        bar.loss(F.cross_entropy(logits.detach().flatten(0, 1), target.flatten()).item())

    hook = model.register_forward_hook(show)
    try:
        yield
    finally:
        hook.remove()
        bar.close()


class _Nowhere:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass
