"""Shapes are enforced: the jaxtyping annotations of attnlib's modules are checked by beartype while the tests run."""

import os
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from deep_folders import too_deep
from jaxtyping import install_import_hook
from xdist.scheduler import LoadScopeScheduling

os.environ.setdefault("MPLBACKEND", "Agg")

ROOT = Path(__file__).resolve().parent.parent
MODULES = [f"attnlib.{m.name}" for m in pkgutil.iter_modules([str(ROOT / "attnlib")]) if not m.ispkg]

install_import_hook(MODULES, "beartype.beartype")

from attnlib.checks import exercises  # noqa: E402  after the hook: what is imported earlier is not checked


@pytest.fixture(scope="session", autouse=True)
def _no_deep_folder_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """pytest could not remove it, and would fail in a later run, whatever that is about."""
    yield
    assert too_deep(tmp_path_factory.getbasetemp()) is None


class ByExercise(LoadScopeScheduling):
    """Give one worker all tests of an exercise, which share what its misconceptions did, or else those of a file.

    The tests of a file stay in one process because the cells of a notebook share its kernel.
    """

    def _split_scope(self, nodeid: str) -> str:
        named = [word for word in re.split(r"[\[\]-]", nodeid) if word in exercises()]
        return named[0] if named and nodeid.startswith("tests/checks/") else nodeid.split("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByExercise:
    return ByExercise(config, log)
