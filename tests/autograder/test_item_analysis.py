"""`python -m autograder report`: small classes, counted by hand."""

import io
from datetime import date

import pytest
from nbformat.v4 import new_code_cell, new_output
from rich.console import Console
from small_class import FIVE, KNOWN, LESSON, LOST, PARTS, attempt, submission

from autograder.grading.results import NOT_ANSWERED, what_happened
from autograder.report.analysis import OTHER, analyse, shared_misconceptions
from autograder.report.collect import Mark
from autograder.report.page import page
from autograder.report.statistics import chance, discrimination, wilson
from autograder.report.tables import tables


def softmax(submissions, **options):
    return next(item for item in analyse(submissions, KNOWN, **options)[0].items if item.exercise == "softmax")


def test_wilson_as_published():
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3
    for successes, trials, low, high in [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)]:
        assert wilson(successes, trials) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert wilson(29, 29) == (pytest.approx(0.8830, abs=5e-5), 1)


def test_discrimination_is_the_point_biserial_correlation():
    # 10 that passed have 4 in the rest, 10 that did not have 2, two of them swapped: means 3.8 and 2.2, deviation 1
    passed = [True] * 10 + [False] * 10
    rest = [4.0] * 9 + [2.0] + [2.0] * 9 + [4.0]
    assert discrimination(passed, rest) == pytest.approx((3.8 - 2.2) / 1 * 0.5)


@pytest.mark.parametrize(
    ("right", "wrong", "rest"), [(10, 9, None), (18, 2, None), (2, 18, None), (20, 0, None), (10, 10, 3.0)]
)
def test_discrimination_of_too_few_is_not_said(right, wrong, rest):
    passed = [True] * right + [False] * wrong
    assert discrimination(passed, [float(n) if rest is None else rest for n in range(right + wrong)]) is None


def test_chance_is_said_from_the_smallest_class_on():
    assert chance(19) is None
    assert chance(26) == pytest.approx(1.96 / 5, abs=1e-5)


@pytest.mark.parametrize(("name", "counted"), [("ValueError", "ValueError"), (NOT_ANSWERED, "Exception")])
def test_an_error_of_a_students_own_is_not_taken_for_no_answer(name, counted):
    raised = new_code_cell("raise error", outputs=[new_output("error", ename=name, evalue="", traceback=[])])
    raised.metadata.nbgrader = {
        "checksum": "another",
        "cell_type": "code",
        "grade_id": "x",
        "grade": False,
        "points": 0,
    }
    for why in (
        what_happened(new_code_cell(), raised, {}),
        what_happened(new_code_cell(), None, {"error_of_cell": name}),
    ):
        assert why == (counted, counted)


def test_a_class_of_five_counted_by_hand():
    item = softmax([*FIVE, LOST])
    assert (item.submissions, item.passed, item.share) == (5, 1, 0.2)
    assert item.points == pytest.approx((5 + 0 + 3 + 0 + 0) / 25)
    assert item.not_answered.students == ("eve",)
    assert item.discrimination is None
    assert [(found.what, found.count, found.students) for found in item.findings] == [
        ("over_queries", 2, ("bea", "dan")),
        ("no_shift", 1, ("cyd",)),
    ]
    assert item.findings[0].title == "The softmax runs over the queries"
    assert [(part.name, part.earned, part.known) for part in item.parts] == [
        ("values", 2, 5),
        ("large scores", 1, 5),
        ("gradient", 1, 5),
        ("robustness", 2, 5),
    ]
    assert item.parts[1].without == ("bea", "cyd", "dan", "eve")


def test_an_exercise_counts_only_those_who_had_it():
    [lesson] = analyse(FIVE, KNOWN)
    assert [(item.exercise, item.submissions) for item in lesson.items] == [("attention_scores", 1), ("softmax", 5)]


def test_what_was_not_graded_counts_nowhere():
    [lesson] = analyse([*FIVE, LOST], KNOWN)
    assert (lesson.graded, lesson.without_grade, lesson.not_graded) == (5, 1, (LOST,))
    assert softmax([*FIVE, LOST]) == softmax(FIVE)


def test_a_lesson_of_which_nothing_was_graded():
    [lesson] = analyse([LOST], KNOWN)
    assert (lesson.graded, lesson.items) == (0, ())
    assert "the notebook is not JSON" in page([lesson], [], date(2026, 1, 2))


def test_who_misses_two_bugs_of_a_kind_is_named_once():
    item = softmax([submission("ada", attempt(0, "over_queries"), attempt(0, "over_queries")), FIVE[1]])
    assert [(found.count, found.students) for found in item.findings] == [(3, ("ada", "bea"))]
    assert item.parts[0].without == ("ada", "bea")


def test_equal_mistakes_with_unequal_details_are_one():
    said = [("raised ValueError: no 1", "raised ValueError"), ("raised ValueError: no 2", "raised ValueError")]
    said += [("SyntaxError", "SyntaxError"), (None, None)]
    item = softmax([submission(f"s{n}", attempt(0, text, in_short=short)) for n, (text, short) in enumerate(said)])
    assert [(found.kind, found.what, found.count) for found in item.findings] == [
        (OTHER, "raised ValueError", 2),
        (OTHER, "SyntaxError", 1),
        (OTHER, "none of the usual mistakes", 1),
    ]


def test_what_a_result_shows_is_a_mistake_with_a_title_too():
    class_of_three = [submission(name, attempt(0, "rows_with_a_factor")) for name in ("amy", "bob")]
    class_of_three.append(submission("cem", attempt(0, "one_factor_more")))
    found = softmax(class_of_three, names=False).findings
    assert [(one.kind, one.title, one.count) for one in found] == [
        ("misconception", "Each row is right up to a factor of its own", 2),
        ("misconception", "Every number is … times the right one", 1),
    ]


def test_parts_that_contradict_the_gradebook_are_not_counted():
    forged = submission("x", attempt(3, right=PARTS))
    unknown = submission("y", Mark("softmax", 3, 5, None, {"anything": True}))
    item = softmax([*FIVE, forged, unknown])
    assert (item.parts[0].earned, item.parts[0].known, item.submissions) == (2, 5, 7)


def test_a_misconception_is_followed_through_the_exercises():
    both = submission("cyd", attempt(0, "over_queries"), attempt(0, "no_scale", exercise="attention_scores"))
    again = submission("bea", attempt(0, "over_queries", exercise="scaled_dot_product_attention"))
    first, second = shared_misconceptions([both, again, FIVE[1]], KNOWN)
    assert (first.what, first.count, first.students) == ("no_scale", 2, ("bea", "cyd"))
    assert (second.what, second.count, second.students) == ("over_queries", 2, ("bea", "cyd"))
    assert second.exercises == ("softmax", "scaled_dot_product_attention")


def test_the_tables_say_it_in_80_columns():
    console = Console(width=80, record=True, file=io.StringIO())
    for table in tables(analyse([*FIVE, LOST], KNOWN)[0]):
        console.print(table)
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "softmax 1/5 20 % 4–62 32 % 1 n/a" in lines
    assert "softmax The softmax runs over the queries 2 bea, dan" in lines
    assert "fay the notebook is not JSON" in lines
    assert f"{LESSON}: 5 graded, 1 not graded" in lines
