"""docs/how_a_check_works.md is followed word by word: its code runs, its files are made, its outputs are compared."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from attnlib.checks import course
from attnlib.checks.verdict import judge, write

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_a_check_works.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose lessons belong to the course, until the test ends."""
    monkeypatch.setattr(course, "__path__", [*course.__path__, str(tmp_path)])
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """The course is read anew."""
    for name in [name for name in sys.modules if name.startswith(f"{course.__name__}.lesson_12")]:
        del sys.modules[name]
    for cached in (course._exercises_of, course.called):
        cached.cache_clear()
    import_module("attnlib.checks.check")._MEMORIES.clear()


def put(code: str, where: dict[str, str], lessons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do with a block what the page says: make a file, add to a class of it, or put a function in another's place."""
    if "class" in where:
        file = lessons / where["file"]
        before, after = re.split(rf"(?<=\n)(?=class {where['class']}\b)", file.read_text(encoding="utf-8"))
        body, rest = re.split(r"\n(?=\n\n\S)", after, maxsplit=1)
        code = f"{before}{body}\n\n{code.rstrip()}\n{rest}"
    if "file" in where:
        (lessons / where["file"]).write_text(code, encoding="utf-8")
        forget()
    else:
        module, _, name = where["function"].rpartition(".")
        names: dict[str, object] = {}
        exec(code, names)
        for user in (import_module(module), judge, write):
            monkeypatch.setattr(user, name, names[name])


def test_every_block_of_the_page_does_what_it_says(lessons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    printed, compared = "", 0
    for language, info, code in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        where = dict(word.split("=") for word in info.split())
        if language == "python" and where:
            put(code, where, lessons, monkeypatch)
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, PAGE.name, "exec"), names)
            printed = out.getvalue()
        elif language == "output":
            assert printed == code
            compared += 1
    assert compared == 6
