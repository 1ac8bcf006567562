"""The headings keep what they promise: a lesson's exercises fit into the times that it states."""

import re
from pathlib import Path
from symtable import SymbolTable, symtable

import pytest

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
LESSONS = sorted(path.stem for path in SOLUTIONS.glob("[0-9][0-9]_*.py"))
HEADING = re.compile(r"^# (?P<level>##+) (?P<title>.*)$", re.MULTILINE)
TAG = re.compile(r" · (core|more|stretch)$")
MINUTES = re.compile(r"(\d+) minutes\)$")
OWN_LINES = re.compile(r"### BEGIN SOLUTION\n.*?### END SOLUTION", re.DOTALL)
DURATION = r"(?:(\d+) hours?)?(?: ?(\d+) minutes)?"


def text(lesson: str) -> str:
    return (SOLUTIONS / f"{lesson}.py").read_text(encoding="utf-8")


def minutes(hours: str | None, rest: str | None) -> int:
    return 60 * int(hours or 0) + int(rest or 0)


def promised(lesson: str) -> tuple[int, int]:
    """The core's minutes and everything's, over all evenings of a lesson."""
    head = text(lesson).split("\n# %%\n")[0]
    core = [minutes(*found) for found in re.findall(rf"core (?=\d){DURATION}", head)]
    whole = [minutes(*found) for found in re.findall(rf"everything (?=\d){DURATION}", head)]
    assert 0 < len(core) <= len(whole)  # a second evening may have no core
    return sum(core), sum(whole)


def of_exercises(lesson: str) -> dict[str, int]:
    """The minutes of the exercises by the tag of the section that they are in."""
    found, tag = {"core": 0, "more": 0, "stretch": 0}, "core"
    for heading in HEADING.finditer(text(lesson)):
        if heading["level"] == "##" and (tagged := TAG.search(heading["title"])):
            tag = tagged[1]
        elif timed := MINUTES.search(heading["title"]):
            found["stretch" if heading["title"].startswith("Stretch") else tag] += int(timed[1])
    return found


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_section_says_whether_it_is_core(lesson):
    titles = [found["title"] for found in HEADING.finditer(text(lesson)) if found["level"] == "##"]
    assert [title for title in titles if not TAG.search(title) and title != "Symbols"] == []


def asked_for(table: SymbolTable) -> set[str]:
    """The global names that a cell's code reads, in its functions as well."""
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global()}
    return own.union(*map(asked_for, table.get_children()))


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_core_asks_for_nothing_that_only_the_rest_defines(lesson):
    made, tag = {"core": set(), "more": set(), "stretch": set()}, "core"
    for cell in text(lesson).split("\n# %%"):
        kind, _, source = cell.partition("\n")
        if "[markdown]" in kind:
            tag = next((found[1] for line in reversed(source.splitlines()) if (found := TAG.search(line))), tag)
            continue
        top = symtable(OWN_LINES.sub("...", source), lesson, "exec")
        made[tag] |= {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        if tag == "core":
            assert asked_for(top) & (made["more"] | made["stretch"]) <= made["core"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_exercises_fit_into_the_time(lesson):
    core, whole = promised(lesson)
    needed = of_exercises(lesson)
    assert 0 < needed["core"] < core <= whole
    assert sum(needed.values()) < whole


def test_the_core_path_takes_an_evening_or_two_a_lesson():
    assert 13 * 60 <= sum(promised(lesson)[0] for lesson in LESSONS[:12]) <= 17 * 60  # and the capstone
    assert [promised(lesson)[0] <= 2 * 60 for lesson in LESSONS[12:]] == [True]


@pytest.mark.parametrize("page", ["solutions/00_start_here.py", "docs/instructors.md"])
def test_the_time_of_the_whole_core_is_the_sum_of_the_lessons(page):
    said = re.search(r"core\w* (?:takes|add up to) about (\d+)( and a half)?", (SOLUTIONS.parent / page).read_text())
    hours = int(said[1]) + (0.5 if said[2] else 0)
    assert abs(60 * hours - sum(promised(lesson)[0] for lesson in LESSONS)) <= 15
