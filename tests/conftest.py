"""Shapes are enforced: the jaxtyping annotations of attnlib's modules are checked by beartype while the tests run."""

import functools
import importlib.util
import os
import pkgutil
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import clean_environment
import pytest
from deep_folders import too_deep
from jaxtyping import install_import_hook
from xdist.scheduler import LoadScopeScheduling

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read as torch is imported: beside other workers a second thread waits
os.environ["ATTNLIB_PROGRESS"] = ""  # what the tests' kernels check is nobody's progress

ROOT = Path(__file__).resolve().parent.parent
MODULES = [f"attnlib.{m.name}" for m in pkgutil.iter_modules([str(ROOT / "attnlib")]) if not m.ispkg]

install_import_hook(MODULES, "beartype.beartype")

from attnlib import reactions  # noqa: E402
from attnlib.checks import exercises  # noqa: E402  after the hook: what is imported earlier is not checked


@pytest.fixture(scope="session", autouse=True)
def _no_deep_folder_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """pytest could not remove it, and would fail in a later run, whatever that is about."""
    yield
    assert too_deep(tmp_path_factory.getbasetemp()) is None


def pytest_configure(config: pytest.Config) -> None:
    """The workers share the environment that their controller announces."""
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="clean-"))
        config.add_cleanup(lambda: shutil.rmtree(folder))
        for what in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):  # HOME may be read-only
            os.environ[what] = str(folder / what.lower())
        clean_environment.announce(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """It is made before a kernel starts in it, which has to answer within nbval's minute.

    Unlike pytest_runtest_setup, this one is also called for notebooks, which do not lie below this folder.
    """
    if item.path.suffix == ".ipynb" and item.config.option.nbval_kernel_name == clean_environment.KERNEL:
        clean_environment.python()


NO_SANDBOX = "There is no sandbox here"


@functools.cache
def has_a_sandbox() -> bool:
    """Whether anything can be graded on this machine."""
    from autograder.sandbox.probe import probe  # not before: this folder has an `autograder`, too
    from autograder.showing.errors import CourseError

    try:
        probe()
    except CourseError:
        return False
    return True


AGAIN_BEHIND_THE_SAME = pytest.StashKey[bool]()


@functools.cache
def has_landlock_alone() -> bool:
    """Whether "auto" and "landlock" are the same layers here."""
    from autograder.sandbox.probe import probe

    return has_a_sandbox() and probe() == probe("landlock")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where Landlock is the only layer, a test is tried behind it once."""
    if item.stash.get(AGAIN_BEHIND_THE_SAME, False) and has_landlock_alone():
        pytest.skip("Landlock is the only layer here, and this test runs behind it as “auto”")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Where there is no sandbox, what fails because nothing is graded there was not tested, and says so."""
    report = yield
    said = report.longreprtext + report.caplog + report.capstdout + report.capstderr
    if report.failed and NO_SANDBOX in said and not has_a_sandbox():
        where = item.location[0], (item.location[1] or 0) + 1
        report.outcome, report.longrepr = "skipped", (*where, "NOT TESTED: there is no sandbox on this machine")
    return report


LONG = {
    "tests/hostile/test_scripts.py": 130,
    "tests/autograder/test_cluster.py": 110,
    "tests/autograder/test_gradescope.py": 110,
    "tests/autograder/test_postgresql.py": 60,
    "tests/autograder/test_prairielearn.py": 60,
    "tests/autograder/test_github.py": 50,
}
"""About how many seconds these take: more than their slow tests would say, since each does a lot, or waits."""


A_KERNEL_EACH = "tests/autograder/test_other_answers.py::"
"""Each of these tests runs a whole lesson, and shares nothing with the others."""


def scope_of(nodeid: str) -> str:
    """The tests of an exercise share what its misconceptions did; those of a file, its fixtures or its kernel."""
    if nodeid.startswith(A_KERNEL_EACH):
        return nodeid
    named = [word for word in re.split(r"[\[\]-]", nodeid) if word in exercises()]
    return named[0] if named and nodeid.startswith("tests/checks/") else nodeid.split("::")[0]


def seconds(scope: str, slow: int, others: int) -> float:
    """About how long a scope takes, by its slow tests and its others: what is long begins first.

    It asks an exercise for no misconceptions, because making them takes every worker longer than importing torch does.
    """
    if scope in exercises():
        return len(exercises()[scope].cases) * (1.0 if exercises()[scope].kind == "module" else 0.5)
    return LONG.get(scope, 30 if scope.endswith(".ipynb") else 8 * slow + 0.1 * others)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A worker of xdist has the tests in the order in which they are given out; lesson 12 needs its weights."""
    if importlib.util.find_spec("rxnmapper") is None:
        missing = pytest.mark.skip(reason=f"NOT TESTED: lesson 12's weights are not installed: {reactions.INSTALL}")
        for item in items:
            if item.path.name == "12_a_real_model.ipynb":
                item.add_marker(missing)
    names = {item.nodeid for item in items}
    for item in items:
        same = item.nodeid.replace("landlock", "auto")
        item.stash[AGAIN_BEHIND_THE_SAME] = same != item.nodeid and same in names
    if hasattr(config, "workerinput"):
        all_of = Counter(scope_of(item.nodeid) for item in items)
        slow = Counter(scope_of(item.nodeid) for item in items if item.get_closest_marker("slow"))
        lasts = {scope: seconds(scope, slow[scope], count - slow[scope]) for scope, count in all_of.items()}
        items.sort(key=lambda item: -lasts[scope_of(item.nodeid)])


class LongestFirst(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LongestFirst:
    config.option.loadscopereorder = False  # not by how many tests there are
    return LongestFirst(config, log)
