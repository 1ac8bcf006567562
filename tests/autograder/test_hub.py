"""A real JupyterHub with ngshare: two instructors, twenty students, and nbgrader's own commands."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from hub import NEEDED, Hub, running_hub
from nbgrader.api import Gradebook
from tiny_course import POINTS, RIGHT, TINY, cell, make_layout

from autograder.building.build_course import prepare
from autograder.lesson_text.notebook import read_notebook, write_notebook

pytestmark = [pytest.mark.slow, NEEDED]

WRONG = RIGHT["pairwise_dot"].replace("return ", "return 2 * ")
STUDENTS = [*("ada", "bea", "carl", "dana", "eli", "fay", "gus", "hana", "ivan", "june"), "kim", "kim-lee", "kim.lee"]
STUDENTS += ["leo", "mia", "noor", "otto", "pia", "quinn", "rosa"]
ANSWERED_WRONG = {"carl", "june", "kim.lee", "otto"}
TWICE, NEVER, LATE = "bea", "quinn", "rosa"
HANDED_IN = [who for who in STUDENTS if who != NEVER]
COURSE = "attention/course"
MANAGE = "ngshare_exchange.course_management"
BY = re.compile(r"# by ([\w.-]+)")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Two instructors with a course folder each, and twenty students on the roster that one of them read in."""
    with running_hub(tmp_path_factory.mktemp("hub"), ["admin", "ann", "ian", *STUDENTS]) as hub:
        for instructor in ("ann", "ian"):
            layout = make_layout(hub.home(instructor) / "attention")
            prepare(layout, ())
            (layout.course / "course_settings.py").write_text(hub.settings)
        hub.call("admin", MANAGE, "create_course", "attention", "ann", "ian")
        rows = [f"{who},{who.title()},Student,{who}@example.edu" for who in STUDENTS]
        text = "\n".join(["student_id,first_name,last_name,email", *rows])
        (hub.home("ann") / "class.csv").write_text(text, encoding="utf-8")
        said = hub.call("ann", MANAGE, "add_students", "attention", "class.csv", "--no-gb")
        assert said.count("was successfully added") == len(STUDENTS)
        assert "Successfully released" in hub.call("ann", "nbgrader", "release_assignment", TINY, folder=COURSE)
        yield hub


def both(action: Callable[[str], None], students: list[str]) -> None:
    """The action for each student, for two at the same time."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(action, students))


def fetch(hub: Hub, student: str) -> None:
    hub.call(student, "nbgrader", "fetch_assignment", TINY)


def submit(hub: Hub, student: str, answer: str) -> None:
    """Answer, with the student's name beside the code, and hand in."""
    path = hub.home(student) / TINY / f"{TINY}.ipynb"
    notebook = read_notebook(path)
    cell(notebook, "pairwise_dot").source = f"{answer}  # by {student}"
    write_notebook(notebook, path)
    assert "Submitted as: attention" in hub.call(student, "nbgrader", "submit", TINY)


def hand_in(hub: Hub, student: str) -> None:
    fetch(hub, student)
    if student == TWICE:
        submit(hub, student, WRONG)
        time.sleep(1)
    if student not in (NEVER, LATE):
        submit(hub, student, WRONG if student in ANSWERED_WRONG else RIGHT["pairwise_dot"])


def status(hub: Hub, student: str, path: str) -> int:
    """What the exchange answers when the student asks for that path."""
    request = Request(f"{hub.address}/services/ngshare/{path}")
    request.add_header("Authorization", f"token {hub.tokens[student]}")
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def feedback(hub: Hub, student: str) -> list[tuple[set[str], tuple[float, ...]]]:
    """The authors whose answers are in each page that the student has, and the score there."""
    found = []
    for path in (hub.home(student) / TINY / "feedback").rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        score = re.search(r"Score: ([\d.]+) / ([\d.]+)", page)
        assert score is not None
        found.append((set(BY.findall(page)), tuple(map(float, score.groups()))))
    return found


def test_one_instructor_releases_and_another_grades_twenty_students(hub):
    both(lambda student: hand_in(hub, student), STUDENTS)
    deadline = datetime.now(UTC) + timedelta(seconds=2)
    due = ["db", "assignment", "add", TINY, "--duedate", f"{deadline:%Y-%m-%d %H:%M:%S} UTC"]
    hub.call("ian", "nbgrader", *due, folder=COURSE)
    time.sleep(max(0.0, (deadline - datetime.now(UTC)).total_seconds()))
    submit(hub, LATE, RIGHT["pairwise_dot"])
    assert "Permission denied" in hub.call("ada", "nbgrader", "collect", TINY, code=1)

    hub.call("ann", "nbgrader", "collect", TINY, folder=COURSE)  # whoever collects has the whole class
    assert sorted(one.name for one in (hub.home("ann") / COURSE / "submitted").iterdir()) == sorted(HANDED_IN)
    for command in ("collect", "autograde", "generate_feedback", "release_feedback"):
        hub.call("ian", "nbgrader", command, TINY, folder=COURSE)
    with Gradebook(f"sqlite:///{hub.home('ian') / COURSE}/gradebook.db") as gradebook:
        submissions = {one.student.id: one for one in gradebook.find_assignment(TINY).submissions}
        assert sorted(submissions) == sorted(HANDED_IN)
        assert {who for who, one in submissions.items() if one.total_seconds_late > 0} == {LATE}
        assert {who for who, one in submissions.items() if one.score == 0} == ANSWERED_WRONG

    both(lambda student: hub.call(student, "nbgrader", "fetch_feedback", TINY), STUDENTS)
    for student in HANDED_IN:
        pages = feedback(hub, student)
        points = 0 if student in ANSWERED_WRONG else POINTS["pairwise_dot"]
        assert ({student}, (points, sum(POINTS.values()))) in pages
        assert {author for authors, _ in pages for author in authors} == {student}
    assert feedback(hub, NEVER) == []


def test_nobody_gets_what_another_student_handed_in_or_got_back(hub):
    for student, other in (("kim.lee", "kim-lee"), ("kim", "kim.lee"), ("ada", "quinn")):
        for what in ("submission", "submissions", "feedback"):
            assert status(hub, student, f"{what}/attention/{TINY}/{other}") == 403
    assert status(hub, "ann", f"submissions/attention/{TINY}/kim") == 200
    assert status(hub, "kim", f"submissions/attention/{TINY}/kim") == 200
