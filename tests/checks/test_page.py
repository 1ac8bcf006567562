"""docs/how_a_check_works.md is followed word by word: its code runs, its files grow, its outputs are compared."""

import contextlib
import importlib
import io
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from attnlib.checks import course
from attnlib.checks.course import right, wronglines
from attnlib.checks.course.right import plain

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_a_check_works.md"
LESSON = "lesson_07"
MODULES = tuple(f"{package.__name__}.{LESSON}" for package in (course, plain))
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a copy of lesson 07, which takes the place of the course's own until the test ends."""
    for folder in (LESSON, "right/plain"):
        own = Path(course.__path__[0], folder)
        shutil.copytree(own, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(course, "__path__", [str(tmp_path), *course.__path__])
    monkeypatch.setattr(plain, "__path__", [str(tmp_path / "right/plain")])
    before = {name: module for name, module in sys.modules.items() if name.startswith(MODULES)}
    forget()
    yield tmp_path
    forget()
    sys.modules.update(before)


def forget() -> None:
    """The lesson is read anew."""
    for name in [name for name in sys.modules if name.startswith(MODULES)]:
        del sys.modules[name]
    importlib.invalidate_caches()
    for cached in (course._exercises_of, course.called, wronglines.read, right._plain, right.plain_source):
        cached.cache_clear()
    import_module("attnlib.checks.check")._MEMORIES.clear()


def add(code: str, file: Path) -> None:
    """Add a block to a file of the lesson."""
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"\n\n{code}")
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)  # a second change within a second
    forget()


def test_every_block_of_the_page_does_what_it_says(lessons: Path) -> None:
    names: dict[str, object] = {}
    printed, compared = "", 0
    for language, info, code in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        where = dict(word.split("=") for word in info.split())
        if where:
            add(code, lessons / where["file"])
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, PAGE.name, "exec"), names)
            printed = out.getvalue()
        elif language == "output":
            assert printed == code
            compared += 1
    assert compared == 4
