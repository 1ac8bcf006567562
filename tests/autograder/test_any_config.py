"""Whatever configuration nbgrader starts from, it judges in the sandbox or refuses; feedback is cleaned or refused."""

import shutil
import subprocess
import sys

import pytest
from tiny_course import RIGHT, TINY, Class

from autograder.building.build_course import prepare
from autograder.in_nbgrader.course_config import FIRST
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.lesson_text.layout import CONFIG, ROOT, SETTINGS
from autograder.showing.errors import CourseError

OWN = "c = get_config()\nc.CourseDirectory.course_id = 'attention'\nc.Exchange.root = '/nowhere'\n"
REFUSED = ("No such kernel named none-for-students", "Nothing was graded: ")


@pytest.fixture
def escaping(klass, tmp_path):
    """A class whose one student writes a file outside, if that can be done."""
    outside = tmp_path / "outside"
    outside.mkdir()
    klass.submit("ann", {**RIGHT, "pairwise_dot": f"open({str(outside / 'file')!r}, 'w')\n{RIGHT['pairwise_dot']}"})
    return klass


def autograde(klass: Class, cwd, *options: str) -> tuple[int, str]:
    """nbgrader's command; the one student's cell has written nothing outside."""
    command = [sys.executable, "-m", "nbgrader", "autograde", TINY, *options]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert not list((klass.layout.course.parent / "outside").iterdir()), done.stderr
    return done.returncode, done.stderr


def refuses(found: tuple[int, str]) -> bool:
    return found[0] != 0 and any(sentence in found[1] for sentence in REFUSED)


def judges(klass: Class, found: tuple[int, str]) -> bool:
    """Whether it judged in the sandbox: the answer that opens a file outside has failed, and the other has not."""
    scores = klass.scores("ann")
    return found[0] == 0 and scores["test_predict_largest_dot"] > 0 == scores["test_pairwise_dot"]


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.slow
def test_in_the_course_s_own_folder_it_judges_with_the_instructor_s_settings(escaping):
    (escaping.layout.course / SETTINGS).write_text(OWN, encoding="utf-8")
    assert judges(escaping, autograde(escaping, escaping.layout.course))


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.slow
def test_from_anywhere_else_it_judges_by_the_course_s_own_config(escaping, tmp_path):
    assert judges(escaping, autograde(escaping, ROOT, f"--course-dir={escaping.layout.course}"))
    own = f"{OWN}c.CourseDirectory.root = {str(escaping.layout.course)!r}\n"
    (tmp_path / CONFIG.name).write_text(own, encoding="utf-8")
    assert judges(escaping, autograde(escaping, tmp_path, "--force"))


@pytest.mark.slow
@pytest.mark.parametrize("text", [OWN, f"{OWN}1 / 0\n", ""], ids=["the instructor's", "broken", "none"])
def test_beside_a_config_that_is_not_the_grader_s_it_refuses(escaping, text):
    (escaping.layout.course / CONFIG.name).write_text(text, encoding="utf-8")
    assert refuses(found := autograde(escaping, escaping.layout.course)), found


@pytest.mark.slow
def test_settings_that_end_in_an_error_or_take_the_sandbox_away_are_refused(escaping):
    for text in (f"{OWN}1 / 0\n", f"{OWN}c.Autograde.autograde_preprocessors = ['nbgrader.preprocessors.Execute']\n"):
        (escaping.layout.course / SETTINGS).write_text(text, encoding="utf-8")
        assert refuses(found := autograde(escaping, escaping.layout.course)), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "options"),
    [(f"{OWN}1 / 0\n", ()), (OWN, ("--GenerateFeedback.exporter_class=nbconvert.HTMLExporter",))],
    ids=["settings that end in an error", "another exporter"],
)
def test_feedback_that_would_not_be_cleaned_is_refused(klass, settings, options):
    course, of = klass.layout.course, f"ann/{TINY}"
    (course / "autograded" / of).mkdir(parents=True)
    shutil.copy(course / "release" / TINY / f"{TINY}.ipynb", course / "autograded" / of)
    (course / SETTINGS).write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "nbgrader", "generate_feedback", TINY, *options]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "No feedback was written: " in done.stderr
    assert not (course / "feedback").exists()


@pytest.mark.slow
def test_a_course_that_was_moved_away_from_the_grader_is_refused(escaping, tmp_path):
    """With its gradebook, and with a config that knows nothing of the grader."""
    away = tmp_path / "away"
    shutil.copytree(escaping.layout.course, away)
    (away / CONFIG.name).unlink()
    assert refuses(found := autograde(escaping, away)), found


def test_somebody_else_s_config_in_the_course_is_named_before_anything_is_graded(klass):
    path = klass.layout.course / CONFIG.name
    assert path.read_text(encoding="utf-8").startswith(FIRST)
    path.write_text(OWN, encoding="utf-8")
    with pytest.raises(CourseError, match=f"is not the grader's own.* rename it to {SETTINGS}"):
        NbgraderCourse(klass.layout.course)
    path.rename(klass.layout.course / SETTINGS)
    assert NbgraderCourse(klass.layout.course).config.Exchange.root == "/nowhere"
    assert path.read_text(encoding="utf-8").startswith(FIRST)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's
def test_a_course_that_was_prepared_before_is_made_one_for_the_sandbox(klass):
    def kernels():
        with klass.course.gradebook() as book:
            return {notebook.kernelspec for notebook in book.find_assignment(TINY).notebooks}

    before = kernels()
    assert "none-for-students" in before.pop()
    klass.submit("ann", RIGHT)
    with klass.course.gradebook() as book:
        book.update_or_create_student("ann")
        book.update_or_create_submission(TINY, "ann")
        book.find_notebook(TINY, TINY).kernelspec = '{"name": "python3"}'
        book.db.commit()
    assert prepare(klass.layout, (TINY,)) == [TINY]
    assert "none-for-students" in kernels().pop()
    assert prepare(klass.layout, (TINY,)) == []
    assert klass.release().metadata.kernelspec.name == "python3"
