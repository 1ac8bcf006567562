"""One Chromium for all tests of a session, the system's; without it, or without Playwright, each test fails."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_servers import BOUND

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "autograder"), str(ROOT / "tests" / "hostile")]  # a tiny course, and hostile text
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session", autouse=True)
def _this_checkout_and_environment() -> Iterator[None]:
    """Kernels import attnlib from here; nbgrader finds what it calls by its bare name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        patch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        yield


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    assert program, f"no browser: none of {', '.join(NAMES)} is installed (apt install chromium)"
    from playwright.sync_api import sync_playwright  # not before: the tests of files need none

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """A page of its own, without another test's cookies; it waits long, since a kernel may start slowly.

    What it showed last is kept beside the test's other files.
    """
    context = chromium.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(1000 * BOUND)
    page = context.new_page()
    yield page
    page.screenshot(path=tmp_path / "last.png")
    context.close()


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[Any, str], None]:
    """Takes a screenshot: into docs/images where `make pictures` asks for it, else into the test's folder."""
    folder = ROOT / "docs" / "images" if os.environ.get("PICTURES") else tmp_path

    folder.mkdir(exist_ok=True)

    def take(page: Any, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png")

    return take
