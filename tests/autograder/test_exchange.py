"""nbgrader's exchange and its downloads, in which students write: no link is followed, and nobody stops the others."""

import logging
import os

import pytest
from nbgrader.exchange import ExchangeError, ExchangeFactory
from tiny_course import TINY

from autograder.in_nbgrader.exchange import ExtractWithoutLinks
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.showing.errors import CourseError

SECRET = "what nobody else may read"
TIME = "2026-01-02 03:04:05 UTC"


@pytest.fixture
def exchange(tmp_path, monkeypatch, prepared, caplog):
    """The course, its exchange, and nbgrader's actions on them."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    caplog.set_level(logging.INFO)
    course = NbgraderCourse(tmp_path / "course")
    course.directory.db_url = NbgraderCourse(prepared.course).directory.db_url
    course.directory.course_id, course.directory.assignment_id = "attention", TINY
    course.config.Exchange.root = str(tmp_path / "exchange")
    (tmp_path / "exchange" / "attention" / "inbound").mkdir(parents=True)
    course.factory = ExchangeFactory(config=course.config)
    return course


def submit(tmp_path, student, files, time=TIME):
    folder = tmp_path / "exchange" / "attention" / "inbound" / f"{student}+{TINY}+{time}"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def collected(course):
    root = course.path("submitted", "x", TINY).parents[1]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in root.rglob("*") if path.is_file()}


def test_collecting_follows_no_link_and_stops_at_nobody(exchange, tmp_path):
    (tmp_path / "secret.txt").write_text(SECRET, encoding="utf-8")
    hostile = submit(tmp_path, "adam", {f"{TINY}.ipynb": "adam's"})
    (hostile / "seed.txt").symlink_to(tmp_path / "secret.txt")
    (hostile / "all").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(hostile / "pipe.txt")
    hostile.with_name(f"bob+{TINY}+{TIME}").symlink_to(tmp_path, target_is_directory=True)
    deep = submit(tmp_path, "cem", {f"{TINY}.ipynb": "cem's", "/".join(["d"] * 30) + "/x.txt": "deep"})
    assert deep.is_dir()
    submit(tmp_path, "dan", {f"{TINY}.ipynb": "dan's"}, time="no time")
    submit(tmp_path, "dan", {f"{TINY}.ipynb": "dan's"}, time="9" * 40)
    submit(tmp_path, "..", {"x.txt": "above"})
    submit(tmp_path, "eve", {f"{TINY}.ipynb": "eve's", "sub/data.csv": "1,2"})
    exchange.factory.Collect(coursedir=exchange.directory).start()
    assert collected(exchange) == {
        f"adam/{TINY}/{TINY}.ipynb": "adam's",
        f"cem/{TINY}/{TINY}.ipynb": "cem's",
        f"eve/{TINY}/{TINY}.ipynb": "eve's",
        f"eve/{TINY}/sub/data.csv": "1,2",
    }
    assert not (tmp_path / "course" / TINY).exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")  # nbgrader's
def test_feedback_is_released_to_all_who_have_what_it_takes(exchange, tmp_path):
    for student in ("ann", "bea", "cyd"):
        folder = exchange.path("feedback", student, TINY)
        folder.mkdir(parents=True)
        (folder / f"{TINY}.html").write_text(student, encoding="utf-8")
        (folder / "submission_secret.txt").write_text(f"secret of {student}", encoding="utf-8")
        if student != "bea":
            (folder / "timestamp.txt").write_text(TIME, encoding="utf-8")
    with pytest.raises(ExchangeError, match="bea"):
        exchange.factory.ReleaseFeedback(coursedir=exchange.directory).start()
    released = (tmp_path / "exchange" / "attention" / "feedback").glob("*.html")
    assert sorted(path.read_text(encoding="utf-8") for path in released) == ["ann", "cyd"]


def test_links_among_downloads_are_refused(tmp_path):
    (tmp_path / "secret.txt").write_text(SECRET, encoding="utf-8")
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / f"a_{TINY}.ipynb").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(CourseError, match="is a link"):
        ExtractWithoutLinks().extract(str(tmp_path / "archive"), str(tmp_path / "extracted"))
    assert not (tmp_path / "extracted").exists()


def test_the_config_names_these_ways(exchange):
    assert exchange.factory.collect.__name__ == "CollectWithoutLinks"
    assert exchange.factory.release_feedback.__name__ == "ReleaseOneByOne"
    assert exchange.config.ZipCollectApp.extractor_plugin.endswith(".ExtractWithoutLinks")
