"""Catalogues of several authors: each reads its own, and what would mix them up is refused before a release."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_wronglines import TEXTS, course, declared  # noqa: F401

from attnlib.checks import course as course_package
from attnlib.checks import exercises
from attnlib.checks.course.wronglines import BadCatalogue, read
from attnlib.checks.practising.table import rows
from autograder.building import catalogues
from autograder.building.catalogues import complaints


def test_catalogues_of_another_course_change_nothing_in_this_one(
    course: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path / "of_others"
    other.mkdir()
    text = course.read_text(encoding="utf-8")
    title, explanation = TEXTS.split("\n")[2:4]
    course.write_text(text.replace(title, "### taken_away").replace(explanation + "\n", ""), encoding="utf-8")
    (tmp_path / "shared.md").write_text(TEXTS, encoding="utf-8")
    (other / "shared.md").write_text("### taken_away: Another thing\nOf others.\n\n    x → y\n", encoding="utf-8")
    for path in ([tmp_path, other], [other, tmp_path]):
        monkeypatch.setattr(course_package, "__path__", [str(place) for place in path])
        read.cache_clear()
        assert read(course).slips["taken_away"].title == "One is taken away"
        assert declared(catalogues=("shared",)).files == (course, tmp_path / "shared.md")


def test_a_catalogue_that_is_missing_or_in_another_encoding_is_named(course: Path) -> None:  # noqa: F811
    course.write_bytes("### übrig: Some are left\n".encode("latin-1"))
    with pytest.raises(BadCatalogue, match=r"^lesson_99/slips.md is not in UTF-8$"):
        read(course)
    course.unlink()
    with pytest.raises(BadCatalogue, match=r"^lesson_99/slips.md cannot be read: No such file or directory$"):
        read(course)


def test_before_a_release_the_bugs_of_practice_are_those_that_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in rows() if row.exercise == "softmax")
    monkeypatch.setattr(catalogues, "rows", lambda: (row, replace(row, code=1), replace(row, slip="gone")))
    changed, gone = catalogues._untried(exercises()["softmax"])  # type: ignore[arg-type]
    assert changed == f"{row.key} is not the bug that was tried: python -m autograder bugs softmax"
    assert gone.startswith("softmax/gone is not the bug that was tried")


def test_before_a_release_a_slip_has_the_id_of_no_other_mistake(course: Path) -> None:  # noqa: F811
    other = course.parents[1] / "lesson_98" / "slips.md"
    other.parent.mkdir()
    other.write_text("### tripled: Not doubled at all\nTwice, please.\n\n    doubled = 3 * x\n", encoding="utf-8")
    first = replace(declared(), lesson="98_other")
    said = "lesson_99/slips.md:7: tripled is 'Not doubled at all' at lesson_98/slips.md:1: give this one another id"
    assert said in complaints(["99_none"], [first, declared()])
