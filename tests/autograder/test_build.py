"""From text to notebooks: the same bytes each time, all or nothing, and the committed ones are what the text builds."""

import base64
import doctest
import io
import os
import re
import subprocess
import sys

import matplotlib.pyplot as plt
import pytest
from nbformat.v4 import new_output
from PIL import Image
from tiny_course import EXERCISES, RIGHT, TINY, cell, make_layout

from attnlib.checks import exercises
from attnlib.plot import INK
from attnlib.plot.film import gif
from autograder.building import build_course, colab
from autograder.building.build_course import build, drift, pictures, prepare
from autograder.building.colab import add_colab, github_url, recorded_url, repository_url, with_badges
from autograder.building.compose_samples import compose, read_answers
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import read_notebook, to_text
from autograder.showing.errors import CourseError

URL = "https://github.com/someone/attention"


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DRAWING = f"""
# %% tags=["picture:dot.png"]
import base64

from IPython.display import Image

Image(
    base64.b64decode(
        "{DOT[:48]}"
        "{DOT[48:]}"
    )
)
"""


def silent(_):
    pass


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The tiny course with a picture, built once; the layout, and what was written."""
    layout = make_layout(tmp_path_factory.mktemp("built"))
    layout.readme.write_text("<!-- colab -->old<!-- /colab -->", encoding="utf-8")
    with (layout.solutions / f"{TINY}.py").open("a", encoding="utf-8") as text:
        text.write(DRAWING)
    return layout, build(layout, (), EXERCISES, URL, silent)


@pytest.mark.slow
def test_nbval_accepts_the_executed_notebook(built):
    layout, _ = built
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--nbval",
        str(layout.solutions),
    ]
    result = subprocess.run(command, cwd=layout.solutions, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "passed" in result.stdout


@pytest.mark.slow
def test_two_builds_are_equal_and_free_of_drift(built):
    layout, written = built
    first = {path: path.read_bytes() for path in written}
    assert layout.notebooks / f"{TINY}.ipynb" in first
    assert layout.source(TINY) in first
    assert drift(layout, (), EXERCISES) == []
    build(layout, (), EXERCISES, URL, silent)
    assert {path: path.read_bytes() for path in written} == first
    assert first[layout.solutions / "dot.png"] == base64.b64decode(DOT)
    assert (
        f"colab.research.google.com/github/someone/attention/blob/main/notebooks/{TINY}.ipynb"
        in layout.readme.read_text()
    )

    instructor = read_notebook(layout.solutions / f"{TINY}.ipynb")
    test = cell(instructor, "test_pairwise_dot")
    assert float(test.outputs[-1].data["text/plain"]) == test.metadata.nbgrader.points
    assert "execution" not in test.metadata
    assert all(
        c.id in (c.metadata.get("nbgrader", {}).get("grade_id"), f"cell-{i}") for i, c in enumerate(instructor.cells)
    )

    text = layout.solutions / f"{TINY}.py"
    text.write_text(text.read_text().replace("as small as", "as tiny as"), encoding="utf-8")
    (layout.notebooks / "07_gone.ipynb").write_text("{}", encoding="utf-8")
    assert len(drift(layout, (), EXERCISES)) == 3
    (layout.solutions / "dot.png").write_bytes(b"another picture")
    assert f"{layout.solutions / 'dot.png'} is not the figure in" in "\n".join(drift(layout, (), EXERCISES))


@pytest.mark.slow
def test_the_committed_notebooks_are_what_the_text_builds():
    assert drift(Layout(), (), exercises()) == [], "run: make build"


def test_the_pictures_in_the_readme_are_drawn_by_lessons():
    notebooks = [read_notebook(Layout().solutions / f"{lesson}.ipynb") for lesson in Layout().lessons()]
    drawn = [name for notebook in notebooks for name in pictures(notebook, "")]
    shown = re.findall(r"\]\(solutions/(\S+\.(?:png|gif))\)", Layout().readme.read_text(encoding="utf-8"))
    assert shown
    assert set(shown) <= set(drawn)


def test_a_film_is_kept_with_its_last_frame(source):
    figure, axes = plt.subplots(figsize=(2, 1))
    made = gif(figure, lambda colour: axes.set_facecolor(colour), ["white", INK])
    cell(source, "pairwise_dot").metadata["tags"] = ["picture:films/night.gif"]
    shown = {"image/gif": base64.b64encode(made).decode()}
    cell(source, "pairwise_dot").outputs = [new_output("display_data", data=shown)]
    found = pictures(source, TINY)
    assert list(found) == ["films/night.gif", "films/night.png"]
    assert found["films/night.gif"] == made
    with Image.open(io.BytesIO(found["films/night.png"])) as still:
        assert still.convert("RGB").getpixel((100, 50)) == (8, 48, 107)
    shown["image/gif"] = base64.b64encode(made + bytes(300_000)).decode()
    cell(source, "pairwise_dot").outputs = [new_output("display_data", data=shown)]
    with pytest.raises(CourseError, match=r"films/night\.gif has 30\d,\d{3} bytes, and 300,000 are allowed"):
        pictures(source, TINY)


def test_a_picture_is_one_figure(source):
    cell(source, "pairwise_dot").metadata["tags"] = ["picture:none.png"]
    with pytest.raises(
        CourseError, match=r"00_tiny, cell pairwise_dot: it is tagged 'picture:none\.png' and draws 0 figures"
    ):
        pictures(source, TINY)


@pytest.mark.slow
def test_one_bad_lesson_publishes_nothing(layout):
    text = (layout.solutions / f"{TINY}.py").read_text(encoding="utf-8")
    (layout.solutions / "01_bad.py").write_text(text.replace("### END SOLUTION", "", 1), encoding="utf-8")
    with pytest.raises(CourseError, match=r"Nothing was published.\n- nbgrader cannot release 01_bad: cell predict"):
        build(layout, (), EXERCISES, None, silent)
    assert not layout.notebooks.exists()
    assert not layout.course.exists()
    assert list(layout.solutions.glob("*.ipynb")) == []


@pytest.mark.slow
def test_a_leak_publishes_nothing(layout):
    text = layout.solutions / f"{TINY}.py"
    text.write_text(text.read_text() + '\n# %%\nlargest_dot = "B"\n', encoding="utf-8")
    with pytest.raises(CourseError, match=r"00_tiny, cell cell-\d+: a line of the solution is left"):
        build(layout, (), EXERCISES, None, silent)
    assert not layout.notebooks.exists()


@pytest.mark.slow
def test_a_solution_that_is_wrong_publishes_nothing(layout):
    text = layout.solutions / f"{TINY}.py"
    text.write_text(text.read_text().replace('largest_dot = "B"', 'largest_dot = "C"'), encoding="utf-8")
    with pytest.raises(CourseError, match="00_tiny, cell test_predict_largest_dot: the solution earns 0 of 1 points"):
        build(layout, (), EXERCISES, None, silent)
    text.write_text(text.read_text().replace("torch.get_num_threads()", "raise KeyError('gone')"), encoding="utf-8")
    with pytest.raises(CourseError, match=r"00_tiny, cell cell-.*: it raises KeyError"):
        build(layout, (), EXERCISES, None, silent)
    assert not layout.notebooks.exists()


@pytest.mark.slow
def test_preparing_twice_releases_once(layout):
    assert prepare(layout, ()) == [TINY]
    assert prepare(layout, ()) == []
    text = layout.solutions / f"{TINY}.py"
    text.write_text(text.read_text().replace("as small as", "as tiny as"), encoding="utf-8")
    assert prepare(layout, ()) == [TINY]


def test_a_clock_that_was_ahead_keeps_no_old_release(layout):
    """A release is of its source, and not merely younger."""
    prepare(layout, ())
    released = layout.course / "release" / TINY / f"{TINY}.ipynb"
    for path in (layout.source(TINY), released):
        at = path.stat().st_mtime_ns + 10**13
        os.utime(path, ns=(at, at))
    text = layout.text(TINY)
    text.write_text(text.read_text(encoding="utf-8").replace("# # ", "# # Anew: ", 1), encoding="utf-8")
    assert prepare(layout, ()) == [TINY]
    assert "Anew: " in released.read_text(encoding="utf-8")
    assert prepare(layout, ()) == []


def test_a_lesson_that_does_not_exist_is_named(layout):
    with pytest.raises(CourseError, match="No lesson is called '99_none'; there are: 00_tiny"):
        build(layout, ("99_none",), EXERCISES, None, silent)
    with pytest.raises(CourseError, match=r"99_none\.py does not exist"):
        read_lesson(layout.solutions / "99_none.py")


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/someone/attention",
        "https://github.com/someone/attention.git",
        "https://user:token@github.com/someone/attention.git",
        "git@github.com:someone/attention.git",
        "ssh://git@github.com/someone/attention",
    ],
)
def test_every_way_to_write_a_github_address(address):
    assert github_url(address) == URL


@pytest.mark.parametrize(
    "address", ["", "/srv/git/attention", "https://example.org/a/b", "file:///a/b", "git@host:a/b"]
)
def test_no_other_address_makes_a_link(address):
    assert github_url(address) is None


def test_the_address_is_the_setting_or_else_the_remote(tmp_path):
    assert repository_url(tmp_path) is None
    git = ["git", "-C", str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run([*git, "init", "-q"], check=True, env=environment)
    subprocess.run([*git, "remote", "add", "origin", "git@github.com:other/fork.git"], check=True, env=environment)
    assert repository_url(tmp_path) == "https://github.com/other/fork"
    (tmp_path / "unpacked").mkdir()
    assert repository_url(tmp_path / "unpacked") is None  # in somebody's repository, which is not the course's
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{URL}"\n', encoding="utf-8")
    assert repository_url(tmp_path) == URL


def test_without_an_address_there_is_no_badge_and_no_link(released, monkeypatch):
    notebook = add_colab(released, TINY, None)
    install = notebook.cells.pop(1)
    assert to_text(notebook) == to_text(released)
    exec(install.source, {})  # attnlib is here
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="Run `make lab` in the"):
        exec(install.source, {})
    monkeypatch.undo()
    assert with_badges("a <!-- colab -->x<!-- /colab --> b", [TINY], None) == "a <!-- colab -->\n<!-- /colab --> b"
    assert with_badges("no marks", [TINY], URL) == "no marks"


def test_with_an_address_the_notebook_has_badge_and_install_cell(released):
    notebook = add_colab(released, TINY, URL)
    assert [notebook.cells[i].id for i in (0, 2)] == ["colab-badge", "colab-install"]
    assert f'%pip install -q "attnlib @ git+{URL}"' in notebook.cells[2].source
    assert "torch" not in notebook.cells[2].source.split("\n", 1)[1]
    assert recorded_url(notebook) == URL
    assert [notebook.cells[1], *notebook.cells[3:]] == released.cells


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(colab).failed == 0
    assert doctest.testmod(build_course).failed == 0


def test_a_sample_is_the_release_with_answers(released, tmp_path):
    path = tmp_path / "someone.py"
    path.write_text(
        '# %% predict_largest_dot\nlargest_dot = "B"\n\n# %% pairwise_dot active="ipynb"\n# def pairwise_dot(x, y\n',
        encoding="utf-8",
    )
    answers = read_answers(path)
    assert answers == {"predict_largest_dot": RIGHT["predict_largest_dot"], "pairwise_dot": "def pairwise_dot(x, y"}
    notebook = compose(released, answers, "someone.py")
    assert cell(notebook, "pairwise_dot").source == "def pairwise_dot(x, y"
    with pytest.raises(CourseError, match=r"someone.py answers 'test_pairwise_dot', which the lesson does not ask"):
        compose(released, {"test_pairwise_dot": ""}, "someone.py")


def test_every_sample_answers_what_its_lesson_asks():
    layout = Layout()
    samples = sorted(layout.samples.glob("*/*.py"))
    assert len(samples) >= 6
    for path in samples:
        compose(read_lesson(layout.solutions / f"{path.parent.name}.py"), read_answers(path), path.name)


@pytest.mark.parametrize("lesson", Layout().lessons())
def test_a_committed_notebook_has_at_most_a_megabyte(lesson):
    layout = Layout()
    for folder in (layout.notebooks, layout.solutions):
        assert (folder / f"{lesson}.ipynb").stat().st_size <= 1_000_000
