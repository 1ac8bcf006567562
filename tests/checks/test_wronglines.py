"""A slip is a wrong line: a catalogue becomes programs, and what it cannot mean is refused with file and line."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnlib.checks import Case, exercises
from attnlib.checks import course as course_package
from attnlib.checks.course import wronglines
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.wronglines import BadCatalogue, applied, read
from attnlib.checks.verdict.judge import run_exercise
from autograder.building.catalogues import complaints

CATALOGUE = """
# right double

    def double(x):
        doubled = 2 * x
        return doubled + 1

### tripled: Three times as much
Twice is asked for: 2 * x, and that is
the same as x + x. <https://github.com/a/b/issues/1>
<!-- unless: doubled -->

    doubled = 3 * x
    or
    doubled = {4|5} * x

### taken_away: One is taken away
Add one to twice the number, and do not take it away.

    doubled + 1 → doubled - 1

### added_first: One is added before
It has to be added after doubling, and not before.

    x = x + 1
    ...
    doubled = doubled
    and
    return doubled

### of_the_memory: The memory is doubled
Never known here, since there is no memory in this exercise.

    doubled = 2 * memory

### of_another_line: Another line goes wrong
Never known here, since nothing has this name.

    halved = x / 3

# question which

### too_small: That is too small
Count again, and begin with the first one.

    A
"""


def reference(x: Tensor) -> Tensor:
    return 2 * x + 1


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The catalogue of a lesson 99, in a course of its own."""
    monkeypatch.setattr(course_package, "__path__", [str(tmp_path)])
    path = tmp_path / "lesson_99" / "slips.md"
    path.parent.mkdir()
    path.write_text(CATALOGUE.lstrip("\n"), encoding="utf-8")
    read.cache_clear()
    return path


def declared(**options: object) -> WrittenExercise:
    return WrittenExercise(
        lesson="99_none",
        contract="x -> 2x + 1",
        parts={"values": 1},
        cases=(Case(name="numbers", inputs=lambda draw: (draw.normal(2, 3),)),),
        excused={"a second call": "The slip that keeps an answer is not what this test is about."},
        **{"name": "double", "reference": reference, **options},  # type: ignore[arg-type]
    )


def test_a_slip_is_a_heading_an_explanation_and_a_line(course: Path) -> None:
    slip = declared().misconceptions[0]
    assert (slip.id, slip.title) == ("tripled", "Three times as much")
    assert slip.explanation == "Twice is asked for: 2 * x, and that is the same as x + x."
    assert (slip.thread, slip.unless) == ("https://github.com/a/b/issues/1", "doubled")
    assert torch.equal(slip.implementation(torch.ones(2, 3)), torch.full((2, 3), 4.0))


def test_a_program_is_the_right_answer_with_one_wrong_line(course: Path) -> None:
    programs = declared().programs
    assert programs["tripled"] == "def double(x):\n    doubled = 3 * x\n    return doubled + 1"
    assert programs["taken_away"] == "def double(x):\n    doubled = 2 * x\n    return doubled - 1"
    assert programs["added_first"] == (
        "def double(x):\n    x = x + 1\n    doubled = 2 * x\n    doubled = doubled\n    return doubled"
    )
    assert applied("doubled = 2 * x", "x = x + 1\ndoubled = ...") == "x = x + 1\ndoubled = 2 * x"


def test_spellings_share_name_and_text(course: Path) -> None:
    found = {m.id: m for m in declared().misconceptions}
    assert [id for id in found if id.startswith("tripled")] == ["tripled", "tripled_2", "tripled_3"]
    assert found["tripled_3"].same_as == "tripled"
    assert found["tripled_3"].implementation(torch.ones(1)) == 6


def test_equal_braces_stand_for_one_choice(course: Path) -> None:
    catalogue = CATALOGUE.replace(
        "    doubled + 1 → doubled - 1", "    {doubled|tripled} + 1 → {doubled|tripled} - {1|2}"
    )
    course.write_text(catalogue, encoding="utf-8")
    read.cache_clear()
    assert [found.split("→")[1] for found in read(course).slips["taken_away"].spellings] == [
        " doubled - 1",
        " doubled - 2",
        " tripled - 1",
        " tripled - 2",
    ]


def test_a_slip_belongs_where_its_line_is_and_its_names_are_bound(course: Path) -> None:
    assert not {"of_the_memory", "of_another_line"} & {m.id for m in declared().misconceptions}


def test_two_slips_of_different_lines_are_a_pair(course: Path) -> None:
    found = {m.id: m for m in declared(pairs=("tripled", "taken_away", "added_first")).misconceptions}
    both = found["tripled_and_taken_away"]
    assert (both.title, both.implementation(torch.ones(1))) == ("Three times as much, and one is taken away", 2)
    assert both.both == ("tripled", "taken_away")
    assert found["tripled_and_added_first"].implementation(torch.ones(1)) == 6


def test_two_wrong_lines_in_one_place_are_no_pair(course: Path) -> None:
    course.write_text(CATALOGUE.replace("doubled + 1 → doubled - 1", "doubled = x").lstrip("\n"), encoding="utf-8")
    read.cache_clear()
    assert "tripled_and_taken_away" not in {m.id for m in declared(pairs=("tripled", "taken_away")).misconceptions}


def test_the_check_follows_from_the_catalogue(course: Path) -> None:
    assert run_exercise(declared(), lambda x: x + x + 1).passed
    assert run_exercise(declared(), lambda x: x + x + x + 1).diagnosis == "tripled"


def test_the_wrong_letters_of_a_question_are_its_own(course: Path) -> None:
    question = WrittenExercise(
        name="which", lesson="99_none", contract="A or B", kind="choice", parts={"choice": 1}, reference="B"
    )
    assert [(m.id, m.implementation) for m in question.misconceptions] == [("too_small", "A")]
    assert question.programs == {}
    assert "too_small" not in {m.id for m in declared().misconceptions}


def test_a_right_answer_reads_no_catalogue(course: Path) -> None:
    course.unlink()
    assert run_exercise(declared(), reference).passed


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "### taken_away:",
            "### tripled:",
            "slips.md:16: tripled is there a second time, first at lesson_99/slips.md:7",
        ),
        ("### taken_away: One", "### taken away One", "slips.md:16: required is `### id: title`"),
        ("doubled + 1 → doubled - 1", "2 → 3\n    and\n    doubled → x", "'doubled' stands in 2 places"),
        ("doubled + 1 → doubled - 1", "doubled + 1 → doubled + 1", "slips.md:16: the wrong line is the right one"),
        ("doubled + 1 → doubled - 1", "doubled -= = 1", "slips.md:16: the wrong line is no Python"),
        ("doubled + 1 → doubled - 1", "print(x)", "slips.md:16: a line that assigns and returns nothing has no place"),
        (
            "### taken_away: One is taken away",
            "### taken_away",
            "slips.md:16: taken_away has no title; required is",
        ),
        ("<!-- unless: doubled -->", "<!-- unless: doubled", "slips.md:7: tripled has a comment that doesn't end"),
        ("<!-- unless:", "<!-- unless: a -->\n<!-- unless:", "slips.md:7: tripled has two patterns or two addresses"),
        ("    or\n    doubled = {4|5} * x\n", "    or\n", "slips.md:7: tripled has an `or` or `and` with no change"),
        ("    doubled + 1 → doubled - 1\n", "", "slips.md:16: taken_away ends without a wrong line"),
        ("Add one to twice the number, and do not take it away.\n", "", "ends without its explanation"),
        ("def double(x):", "def double(x:", "slips.md:1: it is no Python"),
        ("# right double", "# right other", "in right/plain or below `# right double`, found 0"),
        ("    def double(x):\n        doubled = 2 * x\n        return doubled + 1", "x", "md:1: there is no code"),
        ("# question which", "# right double\n\n    x = 1\n", "right double is there a second time"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_file_and_line(course: Path, old: str, new: str, said: str) -> None:
    text = course.read_text(encoding="utf-8")
    assert old in text
    course.write_text(text.replace(old, new), encoding="utf-8")
    read.cache_clear()
    with pytest.raises(BadCatalogue) as refused:
        _ = declared().misconceptions
    assert said in str(refused.value)


TEXTS = """# texts

### taken_away: One is taken away
Add one to twice the number, and do not take it away.
"""


def test_a_slip_without_a_title_takes_its_text_from_a_file_of_the_course(course: Path) -> None:
    text = course.read_text(encoding="utf-8")
    title, explanation = TEXTS.split("\n")[2:4]
    course.write_text(text.replace(title, "### taken_away").replace(explanation + "\n", ""), encoding="utf-8")
    (course.parents[1] / "shared.md").write_text(TEXTS, encoding="utf-8")
    slip = declared().misconceptions[3]
    assert (slip.id, slip.title, slip.explanation) == ("taken_away", "One is taken away", explanation)
    (course.parents[1] / "other.md").write_text(TEXTS, encoding="utf-8")
    read.cache_clear()
    with pytest.raises(BadCatalogue, match=r"slips.md:16: taken_away has no title; .* found other.md, shared.md"):
        _ = declared().misconceptions


def test_a_slip_that_takes_its_text_has_none(course: Path) -> None:
    text = course.read_text(encoding="utf-8")
    course.write_text(text.replace("### taken_away: One is taken away", "### taken_away"), encoding="utf-8")
    (course.parents[1] / "shared.md").write_text(TEXTS, encoding="utf-8")
    with pytest.raises(BadCatalogue, match=r"slips.md:16: taken_away has an explanation and no title"):
        _ = declared().misconceptions


def test_a_text_has_no_line_and_a_file_of_the_course_has_its_own_titles(course: Path) -> None:
    shared = course.parents[1] / "shared.md"
    shared.write_text(f"{TEXTS}\n    x → y\n", encoding="utf-8")
    with pytest.raises(BadCatalogue, match=r"shared.md:3: taken_away has a line under `# texts`"):
        read(shared)
    shared.write_text("### taken_away\n\n    x → y\n", encoding="utf-8")
    read.cache_clear()
    with pytest.raises(BadCatalogue, match=r"shared.md:1: taken_away has no title, which only a lesson's slip"):
        read(shared)


def test_before_a_release_each_slip_has_a_place_and_does_something_else_than_the_right_answer(course: Path) -> None:
    [nothing_bound, no_line, unasked] = complaints(["99_none"], [declared()])
    assert nothing_bound == "lesson_99/slips.md:30: of_the_memory fits nowhere (double: nothing binds memory)"
    assert no_line == "lesson_99/slips.md:35: of_another_line fits nowhere (double: no line assigns halved)"
    assert unasked == "lesson_99/slips.md: `# question which` is of no exercise of this lesson"
    course.write_text(course.read_text(encoding="utf-8").replace("doubled - 1", "1 + doubled"), encoding="utf-8")
    read.cache_clear()
    first = complaints(["99_none"], [declared()])[0]
    assert first == "lesson_99/slips.md:16: taken_away does what the right answer to double does, in every case"
    course.write_text("### cut\nIn the middle.\n", encoding="utf-8")
    read.cache_clear()
    assert complaints(["99_none"], [declared()]) == ["lesson_99/slips.md:1: cut ends without a wrong line"]


@pytest.mark.parametrize("option", [{"pairs": ("nothing",)}, {"same": {"a": "b"}}, {"without": ("nothing",)}])
def test_an_exercise_cannot_speak_of_slips_that_it_does_not_have(course: Path, option: dict[str, object]) -> None:
    with pytest.raises(BadCatalogue, match="has no such slips"):
        _ = declared(**option).misconceptions


def test_a_line_that_is_taken_away_leaves_none() -> None:
    assert applied("x = 1\ny = x\nz = y", "y = x →") == "x = 1\nz = y"
    assert applied("x = 1\ny = x", "x = 1 →") == "y = x"


def test_two_lines_of_one_name_need_more_of_the_line() -> None:
    with pytest.raises(BadCatalogue, match="2 lines of the right answer assign x"):
        applied("x = 1\nx = 2", "x = 3", "here:1")


def test_every_slip_has_a_place_in_some_exercise_and_every_program_an_exercise() -> None:
    written = [e for e in exercises().values() if isinstance(e, WrittenExercise)]
    for file in {file for e in written for file in e.files}:
        users = [e for e in written if file in e.files]
        known = {id for e in users for m in e.misconceptions for id in (m.id, m.same_as)}
        catalogue = read(file)
        assert {slip.where for id, slip in catalogue.slips.items() if id not in known} == set()
        assert {*catalogue.right, *catalogue.given, *catalogue.letters} <= {e.name for e in users}


def test_an_id_has_one_title_in_all_catalogues() -> None:
    written = [s for file in Path(course_package.__path__[0]).rglob("*.md") for s in read(file).slips.values()]
    titles: dict[str, set[str]] = {}
    for slip in written:
        titles.setdefault(slip.id, set()).add(slip.title)
    assert len(written) > 500
    assert {id: found for id, found in titles.items() if len(found) > 1} == {}


def test_the_right_answer_of_a_catalogue_passes() -> None:
    for exercise in exercises().values():
        if isinstance(exercise, WrittenExercise) and exercise.kind != "choice":
            report = run_exercise(exercise, wronglines.made(exercise.right, exercise.name), hidden=True)
            assert report.passed, report.message
