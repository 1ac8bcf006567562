"""Shapes are enforced: the jaxtyping annotations of attnlib's modules are checked by beartype while the tests run."""

import os
import pkgutil
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

os.environ.setdefault("MPLBACKEND", "Agg")

ROOT = Path(__file__).resolve().parent.parent
MODULES = [f"attnlib.{m.name}" for m in pkgutil.iter_modules([str(ROOT / "attnlib")]) if not m.ispkg]

install_import_hook(MODULES, "beartype.beartype")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give one worker all tests of an exercise, which share what its misconceptions did, or else those of a file."""
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        exercise = parameters.get("name") if item.path.parent.name == "checks" else None
        item.add_marker(pytest.mark.xdist_group(exercise or str(item.path.relative_to(ROOT))))
