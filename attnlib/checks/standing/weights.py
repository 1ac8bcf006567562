"""A model that took a while to train is kept on disk, in the learner's own package: the next run only loads it."""

import contextlib
import os
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from attnlib.checks.standing.folder import day, is_off, own_folder, shown

Model = TypeVar("Model", bound=nn.Module)


def trained(
    name: str, model: Model, train: Callable[[Model], Any] | None = None, folder: str | Path | None = None
) -> Model:
    """Load the weights that are kept under `name` into the model, or call `train(model)` and keep them; say which.

    They are kept in `my_attention/weights/` beside the notebooks, or in `folder`, and nowhere while nbgrader runs a
    notebook or where the environment variable `ATTNLIB_PROGRESS` is empty: then the model is always trained. It comes
    back in the mode, training or evaluation, in which it was given; what `train` returns is not used.

    >>> line = trained("a_line", nn.Linear(1, 1), lambda model: nn.init.ones_(model.weight))
    a_line was trained here.
    >>> line.weight.item()
    1.0

    Raises ValueError for a name that cannot be a file's, and where neither weights nor `train` are there.
    """
    path, mode = _path(name, folder), model.training
    told = _load(path, model) if path else f"{name} was trained here"
    if told:
        if train is None:
            raise ValueError(f"no weights of {name!r} can be loaded, and there is no `train` to make them")
        train(model)
        if path:
            told += _keep(path, model)
        print(f"{told}.")
    return model.train(mode)


def keep_weights(name: str, model: nn.Module, folder: str | Path | None = None) -> None:
    """Keep the weights of a model that a cell has just trained: later, `trained` loads them by this name.

    Where nothing is kept, it does nothing and says nothing.
    """
    if path := _path(name, folder):
        print(f"{name} was trained here{_keep(path, model)}.")


def _path(name: str, folder: str | Path | None) -> Path | None:
    if not re.fullmatch(r"\w[\w-]*", name):
        raise ValueError(f"a name of weights is made of letters, digits, _ and -, got {name!r}")
    place = own_folder() if folder is None else None if is_off() else Path(folder)
    if place is None:
        return None
    return place / f"{name}.pt" if folder is not None else place / "weights" / f"{name}.pt"


def _load(path: Path, model: nn.Module) -> str:
    """Load the weights, and say so; or say, without a full stop, why the model has to be trained."""
    name = path.stem
    try:
        kept = torch.load(path, map_location="cpu", weights_only=True)
        since = day(date.fromtimestamp(path.stat().st_mtime))
    except FileNotFoundError:
        return f"{name} was trained here"
    except Exception as error:  # a broken file may raise anything
        return f"{shown(path)} cannot be read ({type(error).__name__}), so {name} was trained again"
    asked = model.state_dict()
    if not isinstance(kept, dict) or {k: _size(v) for k, v in kept.items()} != {k: _size(v) for k, v in asked.items()}:
        return f"The weights in {shown(path)} are another model's, so {name} was trained again"
    model.load_state_dict(kept)
    print(f"{name} was trained on {since}; its weights are loaded ({shown(path)}: delete the file to train anew).")
    return ""


def _size(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _keep(path: Path, model: nn.Module) -> str:
    """Write the weights, whole or not at all; say where they are, or why not. Another model's are moved away."""
    weights = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(weights, fresh)
        if path.exists():
            path.replace(path.with_suffix(".old.pt"))
        fresh.replace(path)
    except (OSError, RuntimeError) as error:  # torch's own writer raises the latter where a disk is full
        return f"; its weights cannot be kept in {shown(path.parent)} ({type(error).__name__})"
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
    return f"; its weights are kept in {shown(path)}"
