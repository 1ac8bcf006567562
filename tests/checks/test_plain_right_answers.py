"""A plain right answer in `right/plain` is what slips change, and the reference where a declaration names no other."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_wronglines import CATALOGUE, course, declared, reference  # noqa: F401

from attnlib.checks.course import right
from attnlib.checks.course.right import plain
from attnlib.checks.course.wronglines import BadCatalogue, read

ANOTHER = "def triple(x):\n    return 3 * x\n"
HELPER = "class Added:\n    one = 1"
ANSWER = "def double(x):\n    doubled = 2 * x\n    return doubled + Added.one"


@pytest.fixture
def in_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A right answer of lesson 99 with a helper, in `right/plain`."""
    (tmp_path / "lesson_99.py").write_text("\n\n".join([ANOTHER, HELPER, ANSWER]), encoding="utf-8")
    monkeypatch.setattr(plain, "__path__", [str(tmp_path)])
    forget()
    yield
    del sys.modules[f"{plain.__name__}.lesson_99"]
    forget()


def forget() -> None:
    importlib.invalidate_caches()
    right._plain.cache_clear()
    right.plain_source.cache_clear()


def test_a_right_answer_in_right_plain_is_the_reference_and_what_slips_change(
    course: Path,  # noqa: F811
    in_plain: None,
) -> None:
    slips = CATALOGUE[CATALOGUE.index("### tripled") :]
    course.write_text(f"# right double\n\n{slips}", encoding="utf-8")
    read.cache_clear()
    exercise = declared(reference=None)
    assert exercise.reference(3) == 7
    assert exercise.right == f"{HELPER}\n\n{ANSWER}"
    assert exercise.programs["tripled"] == exercise.right.replace("2 * x", "3 * x")
    assert declared().reference is reference


def test_a_second_right_answer_is_refused_and_a_missing_reference(
    course: Path,  # noqa: F811
    in_plain: None,
) -> None:
    with pytest.raises(BadCatalogue, match="in right/plain or below `# right double`, found 2"):
        _ = declared().right
    with pytest.raises(LookupError, match=r"^half needs a reference, or a right answer of its name in .*lesson_99$"):
        declared(name="half", reference=None)
