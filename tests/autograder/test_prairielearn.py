"""A PrairieLearn package, set up and run in a container laid out as theirs."""

import json
import shutil

import pytest
from laid_out import in_container, needs_root
from tiny_course import POINTS, RIGHT, TINY, cell, make_layout

from autograder.building.build_course import prepare
from autograder.elsewhere import prairielearn
from autograder.in_nbgrader.course_files import course_seed
from autograder.lesson_text.notebook import read_notebook, write_notebook

RESULTS = "results/results.json"
SPIES = """def pairwise_dot(x, y):
    for place in ("/grade/serverFilesCourse/attention/seed", "/opt/grader/grader/package.json", "/grade/results/x"):
        try:
            open(place, "w" if place.endswith("x") else "r")
        except OSError:
            continue
        raise AssertionError(f"got out: {place}")
    return x @ y.mT"""


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """The image's folder, set up, and a job's folder as PrairieLearn fills it."""
    folder = tmp_path_factory.mktemp("prairielearn")
    layout = make_layout(folder)
    prepare(layout, ())
    packed = prairielearn.pack(layout, TINY, folder / "packed")
    bound = {"/opt/grader": packed / "image", "/grade": folder / "grade"}
    shutil.copytree(packed / "course" / "serverFilesCourse", folder / "grade" / "serverFilesCourse")
    (folder / "grade" / "student").mkdir()
    done = in_container("bash", "/opt/grader/setup.sh", bound=bound)
    assert done.returncode == 0, done.stderr

    def run(answer: str, landlock: bool = True):
        notebook = read_notebook(layout.course / "release" / TINY / f"{TINY}.ipynb")
        cell(notebook, "pairwise_dot").source = answer
        write_notebook(notebook, folder / "grade" / "student" / f"{TINY}.ipynb")
        return in_container("/opt/grader/run.sh", bound=bound, landlock=landlock)

    return layout, packed, folder / "grade", run


@needs_root
@pytest.mark.slow
def test_a_wrong_answer_gets_its_small_example_as_a_table(placed):
    _, _, grade, run = placed
    done = run(RIGHT["pairwise_dot"].replace("return ", "return 2 * "))
    assert done.returncode == 0, done.stderr
    found = json.loads((grade / RESULTS).read_text())
    assert (found["gradable"], found["score"]) == (True, 0)
    _, product = found["tests"]
    assert (product["name"], product["points"], product["max_points"]) == ("pairwise_dot", 0, POINTS["pairwise_dot"])
    example = product["message"].partition("On a small example")[2]
    (head,) = [line for line in example.splitlines() if line.split() == ["yours", "right"]]
    rows = example.partition(f"{head}\n")[2].splitlines()
    assert rows[0][head.index("right")] == "["


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("landlock", [True, False])
def test_what_spies_finds_nothing(placed, landlock):
    layout, _, grade, run = placed
    done = run(SPIES, landlock)
    assert done.returncode == 0, done.stderr
    found = json.loads((grade / RESULTS).read_text())
    assert [test["points"] for test in found["tests"]] == [0, POINTS["pairwise_dot"]], found["tests"][1]["message"]
    assert found["score"] == pytest.approx(POINTS["pairwise_dot"] / sum(POINTS.values()), abs=1e-12)
    assert str(course_seed(layout.course)) not in json.dumps(found) + done.stdout + done.stderr


@needs_root
@pytest.mark.slow
def test_what_cannot_be_graded_costs_no_attempt(placed):
    _, packed, grade, run = placed
    (grade / "serverFilesCourse" / "attention" / "seed").rename(grade / "kept")
    done = run(RIGHT["pairwise_dot"])
    assert (done.returncode, (grade / RESULTS).exists()) == (1, False)
    assert "has no seed, which should be in /grade/serverFilesCourse/attention/seed." in done.stderr
    (grade / "kept").rename(grade / "serverFilesCourse" / "attention" / "seed")
    (grade / "student" / f"{TINY}.ipynb").unlink()
    done = in_container("/opt/grader/run.sh", bound={"/opt/grader": packed / "image", "/grade": grade})
    assert done.returncode == 0, done.stderr
    found = json.loads((grade / RESULTS).read_text())
    assert found["gradable"] is False
    assert found["format_errors"][0].startswith("Not graded: ")
    assert "score" not in found


def test_the_seed_is_with_the_course_and_not_in_the_image(tmp_path):
    layout = make_layout(tmp_path)
    packed = prairielearn.pack(layout, TINY, tmp_path / "packed")
    seed = str(course_seed(layout.course)).encode()
    holders = [p.relative_to(packed).as_posix() for p in packed.rglob("*") if p.is_file() and seed in p.read_bytes()]
    assert holders == ["course/serverFilesCourse/attention/seed"]
    question = json.loads((packed / "course" / "questions" / TINY / "info.json").read_text())
    assert question["externalGradingOptions"]["timeout"] == 600
    assert question["externalGradingOptions"]["entrypoint"] == "/opt/grader/run.sh"
