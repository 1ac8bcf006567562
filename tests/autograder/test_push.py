"""Grades go to a stand-in for Canvas and Moodle: each once, whatever happens meanwhile."""

import json
import warnings

import pytest
from click.testing import CliRunner
from stand_in import TOKEN, Platform, _Handler
from tiny_course import POINTS, TINY

from autograder.__main__ import main
from autograder.elsewhere.push import Grade, plan
from autograder.elsewhere.push import Remote as There
from autograder.in_nbgrader.course_files import alone

SCORES = {"ada": 5.0, "bob": 4.0, "cy": 0.0}


@pytest.fixture(params=["canvas", "moodle"])
def there(request, klass, monkeypatch):
    """A graded class, a platform that knows it, and how to push."""
    for student, score in SCORES.items():
        klass.submit(student)
        enter(klass, student, score)
    klass.submit("dot")  # handed in, and not graded
    platform = Platform(TINY, sum(POINTS.values()), [*SCORES, "dot"])
    monkeypatch.setenv(f"{request.param.upper()}_TOKEN", TOKEN)

    def push(*options: str):
        where = ["--address", platform.address, "--course-id", "3", "--course", str(klass.layout.course)]
        done = CliRunner().invoke(main, ["push", request.param, *where, *options])
        assert TOKEN not in done.output
        return done

    platform.push = push
    platform.course = klass.layout.course
    platform.kind = request.param
    yield platform
    platform.close()


def enter(klass, student: str, score: float) -> None:
    with klass.course.gradebook() as gradebook, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's, on nbgrader's own way of adding
        gradebook.update_or_create_student(student)
        gradebook.update_or_create_submission(TINY, student)
        notebook = gradebook.find_submission_notebook(TINY, TINY, student)
        for grade in notebook.grades:
            grade.auto_score = min(score, grade.max_score)
            score -= grade.auto_score
        gradebook.db.commit()
    done = klass.course.path("autograded", student, TINY)
    done.mkdir(parents=True, exist_ok=True)
    (done / f"{TINY}.ipynb").write_text("{}")


def scores(platform: Platform) -> dict[str, float | None]:
    return {student: platform.scores[number] for student, number in platform.ids.items()}


def test_a_dry_run_shows_what_would_change_and_sends_nothing(there):
    done = there.push("--dry-run")
    assert done.exit_code == 0, done.output
    assert "3 to send. Nothing was sent." in done.output
    lines = {line.split()[0]: line for line in done.output.splitlines() if line.strip()}
    assert lines["ada"].split() == ["ada", "→", "5", "new"]
    assert "not graded" in lines["dot"]
    assert there.writes == []


def test_each_grade_is_sent_once_and_no_other(there):
    assert there.push("--yes").output.endswith("3 sent.\n")
    assert scores(there) == {**SCORES, "dot": None}
    assert there.push("--yes").output.endswith("0 to send. Nothing was sent.\n")
    assert len(there.writes) == 3
    assert json.loads((there.course / "pushed" / f"{there.kind}.json").read_text()) == {TINY: SCORES}


def test_one_that_fails_is_named_and_tried_again(there):
    there.faults["bob"] = 500
    done = there.push("--yes")
    assert done.exit_code == 1
    assert f"Not sent: bob, {TINY}: the platform answered " in done.output
    assert "The other 2 are there." in done.output
    there.faults.clear()
    assert there.push("--yes").output.endswith("1 sent.\n")
    assert sorted(score for _, score in there.writes) == [0, 4, 5]


def test_a_token_that_expires_on_the_way_ends_the_run_and_the_next_goes_on(there):
    there.expires = 1
    done = there.push("--yes")
    assert done.exit_code == 1
    assert "The token is refused: it is wrong, has expired, or may not do this" in done.output
    assert len(there.writes) == 1
    there.expires = None
    assert there.push("--yes").output.endswith("2 sent.\n")
    assert len(there.writes) == len(dict(there.writes)) == 3


def test_a_grade_whose_answer_was_lost_is_not_sent_twice(there):
    there.lost.add("ada")
    done = there.push("--yes")
    assert done.exit_code == 1
    assert f"Not sent: ada, {TINY}: no answer" in done.output
    assert "the next run will show whether it arrived" in done.output
    assert there.push("--yes").output.endswith("0 to send. Nothing was sent.\n")
    assert len(there.writes) == 3


def test_what_was_changed_there_stays_unless_it_is_overwritten(there, klass):
    there.push("--yes")
    there.scores[there.ids["ada"]] = 4.5
    done = there.push("--yes")
    assert "was changed there; --overwrite replaces it" in done.output
    assert scores(there)["ada"] == 4.5
    enter(klass, "bob", 3.0)  # judged again here
    assert there.push("--yes").output.endswith("1 sent.\n")
    assert there.push("--yes", "--overwrite").output.endswith("1 sent.\n")
    assert scores(there) == {**SCORES, "bob": 3.0, "dot": None}


def test_what_is_wrong_is_one_sentence_and_nothing_is_sent(there, tmp_path, monkeypatch):
    def said(*options: str) -> str:
        done = there.push("--yes", *options)
        assert (done.exit_code, there.writes) == (1, [])
        return done.output

    assert said("none") == "none is not in the gradebook: grade it first.\n"
    assert "One assignment should be called 'other'" in said(TINY, "--assignment", "other")
    assert said("--address", "http://example.org").startswith("The address should begin with https://, got")
    there.possible = 10
    assert f"{TINY} has 5 points, and 10 on {there.kind}: set them to 5 there." in said()
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert "Others can read" in said("--token-file", str(file))
    monkeypatch.delenv(f"{there.kind.upper()}_TOKEN")
    assert said().startswith(f"A token is required in the environment variable {there.kind.upper()}_TOKEN")
    file.chmod(0o600)
    there.possible = 5
    assert there.push("--yes", "--token-file", str(file)).output.endswith("3 sent.\n")


@pytest.mark.parametrize("there", ["canvas"], indirect=True)
def test_a_platform_that_is_busy_is_asked_again_and_one_that_is_broken_is_not(there):
    there.later = 2
    assert there.push("--dry-run").exit_code == 0
    there.fails_at_reading = True
    done = there.push("--yes")
    assert done.exit_code == 1
    assert "cannot be looked up on canvas: the platform answered 500" in done.output
    assert done.output.endswith("Nothing was sent.\n")


def test_a_student_whom_nobody_there_knows_is_named():
    (row,) = plan({"ada": Grade(1.0, "graded")}, There("7", 5, {}), {}, overwrite=False)
    assert (row.do, row.why) == ("missing", "nobody there has this id")


@pytest.fixture
def answered(monkeypatch):
    """Change the lists in which the platform answers, row by row."""

    def answered(key: str, change) -> None:
        answer = _Handler.answer

        def changed(self, status: int, data: object, **headers: str) -> None:
            if isinstance(data, list) and data and key in data[0]:
                data = [row | change(row) for row in data]
            answer(self, status, data, **headers)

        monkeypatch.setattr(_Handler, "answer", changed)

    return answered


def test_nobody_gets_the_grade_of_another_who_has_their_name_elsewhere(there, answered):
    """Eve's other name is Ada's id: on Moodle the user name and the ID number, on Canvas the user id and the login."""
    there.ids["eve"], there.scores[999] = 999, None
    answered("idnumber", lambda row: {"username": "ada"} if row["id"] == 999 else {})
    answered("login_id", lambda row: {"sis_user_id": "ada"} if row["id"] == 999 else {})
    assert there.push("--yes").output.endswith("3 sent.\n")
    assert scores(there) == {**SCORES, "dot": None, "eve": None}


def test_who_is_known_by_the_other_id_gets_the_grade(there, answered):
    answered("login_id", lambda row: {"login_id": f"{row['login_id']}@example.edu", "sis_user_id": row["login_id"]})
    answered("idnumber", lambda row: {"idnumber": "", "email": row["idnumber"]})
    assert there.push("--yes").output.endswith("3 sent.\n")
    assert scores(there) == {**SCORES, "dot": None}


def test_what_the_platform_takes_off_for_lateness_is_no_change_of_the_grade(there, answered, klass):
    """Canvas's `score` is the grade less what its policy takes off."""
    answered("score", lambda row: {"entered_score": row["score"], "score": row["score"] and row["score"] - 1})
    there.push("--yes", "--raw")
    assert "0 to send" in there.push("--yes", "--raw").output
    enter(klass, "ada", 4.5)
    assert there.push("--yes", "--raw").output.endswith("1 sent.\n")


@pytest.mark.parametrize("fault", ["a date to ask again at", "half an answer"])
def test_an_odd_answer_is_one_sentence(there, monkeypatch, fault):
    def odd(self, *_: object, **__: str) -> None:
        self.send_response(429 if "date" in fault else 200)
        self.send_header("Retry-After", "Fri, 27 Nov 2026 17:00:00 GMT")
        self.send_header("Content-Length", "2" if "date" in fault else "1000")
        self.end_headers()
        self.wfile.write(b"[]")
        self.close_connection = True

    monkeypatch.setattr(_Handler, "answer", odd)
    monkeypatch.setattr("time.sleep", lambda _: None)
    done = there.push("--yes")
    assert done.exit_code == 1
    assert done.output.startswith(f"{TINY} cannot be looked up on {there.kind}: ")


def test_a_second_push_at_the_same_time_is_refused(there):
    """It has seen what was there before the first one sent."""
    with alone(there.course, "push", "pushed"):
        done = there.push("--yes")
    assert (done.exit_code, there.writes) == (1, [])
    assert "is pushed already, by process" in done.output
    assert there.push("--yes").output.endswith("3 sent.\n")
