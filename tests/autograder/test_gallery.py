"""The gallery: a page for each mistake that a check names, with what one sees of it, and an index that has them all."""

import json
import re
from collections import Counter

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attnlib.checks import exercises
from attnlib.checks.exercise import AS_GIVEN
from attnlib.checks.naming.symptom_names import SYMPTOMS as OF_THE_ENGINE
from attnlib.checks.verdict.judge import cases_of, try_case
from autograder.building import site
from autograder.building.gallery import seen as trying
from autograder.building.gallery.fragments import MISSING, in_context, repair, wrong_rows
from autograder.building.gallery.mistakes import mistakes
from autograder.building.gallery.pages import heading, index, mistake_pages, symptom_pages, task
from autograder.building.gallery.symptom_texts import SYMPTOMS
from autograder.building.gallery.symptoms import ALWAYS, OF_TRAINING, ONCE, ONLY, SAME, symptoms
from autograder.building.gallery.topics import ANYWHERE, TOPICS
from autograder.lesson_text.layout import Layout
from autograder.showing.errors import CourseError

pytestmark = pytest.mark.slow

FEW = ("attention_scores", "softmax", "causal_mask", "masked_softmax", "next_token_loss")
TITLES = {"02": "", **{one.lesson: f"Lesson {one.lesson[:2]}" for one in exercises().values()}}


@pytest.fixture(scope="module")
def known():
    """All mistakes of the course."""
    return mistakes(exercises().values())


@pytest.fixture(scope="module")
def found():
    """What is seen of those of a few exercises, tried here and not in processes of their own."""
    few = mistakes(exercises()[name] for name in FEW)
    tried = {}
    for name in FEW:
        ids = [one.id for one in few if one.places[0].exercise.name == name]
        tried |= trying.try_all(name, ids)
    return [trying.Seen(one, *tried[one.id]) for one in few]


@pytest.fixture(scope="module")
def pages(found):
    return {page.name.removeprefix("mistakes/"): page for page in mistake_pages(found, TITLES)}


def symptoms_of(found, id):
    return next(one.symptoms for one in found if one.mistake.id == id)


def test_a_folder_that_holds_something_else_is_not_emptied(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it", encoding="utf-8")
    with pytest.raises(CourseError, match="holds something else than a site"):
        site.write_site(Layout(), tmp_path)
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "all of it"


def test_every_slip_that_is_told_has_one_page(known):
    told = Counter(one.id for one in known)
    assert set(told.values()) == {1}
    assert len(told) > 1300  # as the README says
    for exercise in exercises().values():
        hidden = exercise.kind == "choice" or any(one.id == AS_GIVEN for one in exercise.misconceptions)
        places = [one for one in known if any(place.exercise.name == exercise.name for place in one.places)]
        named = {one.id for one in exercise.misconceptions if one.same_as is None and not one.both}
        assert {one.id for one in places} == (set() if hidden else named), exercise.name


def test_a_slip_that_is_told_under_another_name_is_shown_there(known):
    by_id = {one.id: one for one in known}
    for exercise in {place.exercise.name: place.exercise for one in known for place in one.places}.values():
        for told in exercise.misconceptions:
            if told.same_as is not None and told.id in exercise.programs and not told.both:
                place = next(p for p in by_id[told.same_as].places if p.exercise.name == exercise.name)
                assert exercise.programs[told.id] in place.others


def test_every_mistake_has_a_wrong_line_and_its_repair(known):
    for one in known:
        place = one.places[0]
        if one.id in ANYWHERE:
            assert not place.program
            continue
        code, marked = in_context(place.right, place.program)
        assert marked, one.id
        assert all(0 < row <= len(code.split("\n")) for row in marked)
        rows = [code.split("\n")[row - 1].strip() for row in marked]
        assert [row for row in rows if row != MISSING] == [
            row.strip() for row in wrong_rows(place.right, place.program).split("\n") if row != MISSING
        ], one.id
        assert re.search(r"^[+-]", repair(place.right, place.program), re.MULTILINE), one.id


def test_every_page_has_a_title_of_its_own_and_every_exercise_a_topic(known):
    titles = Counter(heading(one) for one in known)
    assert [title for title, times in titles.items() if times > 1] == []
    written = {place.exercise.name for one in known for place in one.places}
    assert written == set(TOPICS)


def test_a_page_says_what_is_wrong_what_one_sees_and_why(found, pages):
    assert len(pages) == len(found)
    for one in found:
        page = pages[one.mistake.id]
        assert one.symptoms
        assert one.report.headline not in ("", "all right")
        assert not one.report.passed
        for section in ("wrong", "seen", "why", "taught"):
            text = re.search(rf'<section id="{section}">(.*?)</section>', page.body, re.DOTALL)[1]
            assert len(re.sub(r"<.*?>|\s", "", text.split("</h2>")[1])) > 10, (page.name, section)
        assert f"notebooks/{one.mistake.places[0].exercise.lesson}.html#task-" in page.body
        assert 0 < len(page.description) <= 160
        assert len(page.body) < 250_000


def test_the_answer_is_folded_and_nowhere_else(pages):
    body = pages["no_scale"].body
    opened = re.sub(r"<details>.*?</details>", "", body, flags=re.DOTALL)
    right = re.compile(r"shape.*?math|math.*?shape", re.DOTALL)
    assert right.search(re.sub(r"<.*?>", "", body))
    assert not right.search(re.sub(r"<.*?>", "", opened.split("The same mistake")[0]))
    assert body.index("try the exercise first") < body.index("<details>")


def test_what_comes_from_the_course_is_escaped(pages):
    for page in pages.values():
        assert "<script" not in page.body
        assert not re.search(r"&(?!\w+;|#\d+;)", page.body), page.name


@pytest.mark.parametrize(
    ("id", "symptom"),
    [
        ("over_queries", "columns_add_up"),
        ("over_queries", "rows_do_not_add_up"),
        ("no_shift", "large_scores"),
        ("no_shift", "not_a_number"),
        ("no_causal_mask", "leaks_the_future"),
        ("no_causal_mask", "mask_too_open"),
        ("one_key_too_few", "mask_too_closed"),
        ("mask_ignored", "weight_where_closed"),
        ("scaled_by_d", "one_factor"),
    ],
)
def test_a_symptom_is_what_the_engine_has_seen(found, id, symptom):
    assert symptom in symptoms_of(found, id)


def test_a_right_leak_free_mistake_is_not_said_to_leak(found):
    assert "leaks_the_future" not in symptoms_of(found, "one_key_too_few")
    assert "not_a_number" not in symptoms_of(found, "scaled_by_d")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda x, y: x[:, 1:1][:, -1] @ y.mT,  # an axis that is empty
        lambda x, y: x.__add__((x, y)),
        lambda x, y: x if x.bool() else y,
        lambda x, y: x(y),
    ],
)
def test_an_error_with_an_explanation_of_its_own_is_shown_among_those_that_raise(attempt):
    exercise = exercises()["pairwise_dot"]
    trials = [try_case(exercise, attempt, case) for case in cases_of(exercise, hidden=False)]
    shown = symptoms(exercise, trials, leaks=False)
    assert "raises" in shown
    assert set(shown) <= set(SYMPTOMS)


def test_every_symptom_has_a_text():
    of_the_engine = {SAME.get(id, id) for id in OF_THE_ENGINE}
    assert {*ONCE, *OF_TRAINING, *ALWAYS, *ONLY, *SAME.values(), *of_the_engine} <= set(SYMPTOMS)
    for symptom in SYMPTOMS.values():
        assert symptom.title
        assert symptom.text.endswith((".", "?"))
        assert len(symptom.text) >= 30  # it is all that a search engine shows of the page


def test_the_index_and_the_symptoms_cover_every_page(found, pages):
    listed = symptom_pages(found, TITLES)
    covered = {id for page in listed for id in re.findall(r'href="(\w+)\.html"', page.body)}
    assert covered - {"index"} == set(pages)
    first = index(found, TITLES)
    assert {page.name for page in listed} == {
        f"mistakes/{name}" for name in re.findall(r'"(symptom-\w+)\.html"', first)
    }


def test_links_between_mistakes_lead_to_pages(known, found):
    """Of the whole course, without running anything."""
    ids = {one.id for one in known}
    report, symptoms = found[0].report, found[0].symptoms
    for page in mistake_pages([trying.Seen(one, report, symptoms) for one in known], TITLES):
        links = re.findall(r'href="(\w+)\.html"', page.body)
        assert set(links) <= ids | {"index"}, page.name
        assert page.name.removeprefix("mistakes/") not in links


def test_an_exercise_in_a_lesson_gets_an_address_and_a_link(monkeypatch):
    cells = [
        new_markdown_cell("## A part\n\n### Exercise: scores (4 points)\n\nWrite it.", id="text"),
        new_code_cell('check("attention_scores", attention_scores)', id="check"),
    ]
    page = site.with_links(new_notebook(cells=cells), {"attention_scores": exercises()["attention_scores"]})
    assert f"({task('attention_scores')})=\n### Exercise: scores" in page.cells[0].source
    assert page.cells[2].source == "[What the check says about wrong answers](#exercise-attention-scores)"


def test_an_exercise_without_a_heading_of_its_own_gets_an_address_too():
    cells = [new_markdown_cell("# Title", id="text"), new_code_cell('check("softmax", softmax)', id="check")]
    page = site.with_links(new_notebook(cells=cells), {"softmax": exercises()["softmax"]})
    assert page.cells[2].source == (
        f"({task('softmax')})=\n[What the check says about wrong answers](#exercise-softmax)"
    )


def test_two_courses_pictures_with_one_name_are_refused(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name / "solutions").mkdir(parents=True)
        (tmp_path / name / "solutions" / "heads.png").write_text(name)
    site.copy(tmp_path / "one" / "solutions" / "heads.png", tmp_path / "site", tmp_path / "one")
    with pytest.raises(CourseError, match=r"solutions/heads.png is in two courses"):
        site.copy(tmp_path / "other" / "solutions" / "heads.png", tmp_path / "site", tmp_path / "other")
    assert (tmp_path / "site" / "solutions" / "heads.png").read_text() == "one"


def test_a_lesson_lists_the_mistakes_of_its_exercises(known):
    text = site.list_of_mistakes("Lesson", [exercises()["softmax"]], known)
    named = [one.id for one in exercises()["softmax"].misconceptions if one.same_as is None and not one.both]
    assert sorted(re.findall(r"mistakes/(\w+)\.html", text)) == sorted(named)
    assert "(exercise-softmax)=" in text


def test_what_is_written_for_sphinx_can_be_read_back(pages):
    records = json.loads(json.dumps([page.as_record() for page in pages.values()]))
    assert {tuple(record) for record in records} == {("name", "title", "description", "body", "contents", "words")}
