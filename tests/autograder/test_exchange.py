"""nbgrader's exchange, in which students write: no link is followed, and nobody stops the others."""

import errno
import logging
import os
import shutil
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nbgrader.auth import Authenticator
from nbgrader.exchange import ExchangeError, ExchangeFactory
from tiny_course import TINY

from autograder.in_nbgrader import exchange as collecting
from autograder.in_nbgrader.copying import Copy
from autograder.in_nbgrader.handed_in import time_of
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.intake.folder import MOST_BYTES
from autograder.judging.intake.timestamp import weighed
from autograder.showing.errors import CourseError
from autograder.watching.arrivals import Exchange as Arrivals
from autograder.watching.arrivals import HandIn

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


def test_collecting_goes_on_beside_what_is_no_submission(exchange, tmp_path, caplog):
    submit(tmp_path, "", {f"{TINY}.ipynb": "nobody's", f"{TINY}/{TINY}.ipynb": "nobody's"})
    inbound = tmp_path / "exchange" / "attention" / "inbound"
    (inbound / f"ann+{TINY}+{TIME}").symlink_to("/nowhere")
    (inbound / f"bob+{TINY}+{TIME}").write_text("a file", encoding="utf-8")
    submit(tmp_path, "eve", {f"{TINY}.ipynb": "eve's"})
    exchange.factory.Collect(coursedir=exchange.directory).start()
    assert collected(exchange) == {f"eve/{TINY}/{TINY}.ipynb": "eve's"}
    refused = [line for line in caplog.messages if line.startswith("No submission")]
    assert sorted(line.rpartition(": ")[2] for line in refused) == [
        "it has no student's name",
        "it is a link, or no folder",
        "it is a link, or no folder",
    ]


def test_a_submission_that_cannot_be_collected_replaces_none(exchange, tmp_path):
    submit(tmp_path, "adam", {f"{TINY}.ipynb": "adam's"})
    exchange.factory.Collect(coursedir=exchange.directory).start()
    exchange.directory.max_dir_size = 1
    submit(tmp_path, "adam", {f"{TINY}.ipynb": "adam's " * 1000}, time="2026-02-02 03:04:05 UTC")
    exchange.factory.Collect(coursedir=exchange.directory).start()
    assert collected(exchange) == {f"adam/{TINY}/{TINY}.ipynb": "adam's"}


def test_of_a_large_file_no_more_is_read_than_is_graded(exchange, tmp_path, caplog):
    place = submit(tmp_path, "adam", {f"{TINY}.ipynb": "adam's", "large.csv": ""})
    os.truncate(place / "large.csv", 4 << 30)
    tracemalloc.start()
    exchange.factory.Collect(coursedir=exchange.directory).start()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert collected(exchange) == {f"adam/{TINY}/{TINY}.ipynb": "adam's"}
    assert "large.csv: it has more than 32 MB" in caplog.text
    assert most < 3 * MOST_BYTES


@pytest.mark.parametrize("into", ["copy", f".{TINY}.new"], ids=["in TMPDIR", "in the course"])
def test_a_full_disk_leaves_what_was_collected_before(exchange, tmp_path, monkeypatch, into):
    submit(tmp_path, "adam", {f"{TINY}.ipynb": "adam's", "timestamp.txt": TIME})
    exchange.factory.Collect(coursedir=exchange.directory).start()
    before = collected(exchange)
    later = "2026-02-02 03:04:05 UTC"
    place = submit(tmp_path, "adam", {f"{TINY}.ipynb": "adam's later one", "timestamp.txt": later}, time=later)
    write, copy = Path.write_bytes, shutil.copy2

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", lambda path, data: (full if into in path.parts else write)(path, data))
    monkeypatch.setattr(shutil, "copy2", lambda a, b, **_: (full if into in Path(b).parts else copy)(a, b))
    monkeypatch.setattr(shutil.copytree, "__defaults__", (False, None, shutil.copy2, False, False))
    exchange.factory.Collect(coursedir=exchange.directory, update=True).start()
    assert collected(exchange) == before
    attempt = HandIn(place.name, "adam", TINY, 0.0, place)
    with pytest.raises(OSError, match="No space left"):  # `watch` tries it again, and doesn't refuse it
        Arrivals(exchange, [TINY]).take(attempt)
    assert collected(exchange) == before
    monkeypatch.undo()
    assert Arrivals(exchange, [TINY]).take(attempt) == ""
    assert collected(exchange)[f"adam/{TINY}/{TINY}.ipynb"] == "adam's later one"
    assert time_of(exchange.directory, "adam", TINY)[0] > datetime(2026, 2, 2, 3, 4, 5)


def test_nobody_hands_in_for_another_student(exchange, tmp_path, caplog, monkeypatch):
    """Here everything belongs to bob, of whom no gradebook has heard yet; then all of it is the collector's."""
    monkeypatch.setattr(collecting, "_name_of", lambda owner: {os.geteuid(): "bob"}[owner])
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    submit(tmp_path, "ada", {f"{TINY}.ipynb": "by bob"})
    submit(tmp_path, "bob", {f"{TINY}.ipynb": "bob's"})
    exchange.factory.Collect(coursedir=exchange.directory).start()
    assert collected(exchange) == {f"bob/{TINY}/{TINY}.ipynb": "bob's"}
    assert any("it belongs to bob, and neither to ada nor to you" in line for line in caplog.messages)
    monkeypatch.setattr(os, "getuid", os.geteuid)
    exchange.factory.Collect(coursedir=exchange.directory).start()
    assert set(collected(exchange)) == {f"{student}/{TINY}/{TINY}.ipynb" for student in ("ada", "bob")}


def test_a_folder_that_changes_hands_between_two_looks_is_not_copied(tmp_path):
    (tmp_path / "ada").mkdir()
    with pytest.raises(CourseError, match="it belongs to another user"):
        Copy(tmp_path / "ada", tmp_path / "copy", 1 << 20, lambda owner: False)
    assert not (tmp_path / "copy").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_of_somebody_else_in_a_student_s_folder_stays_there(tmp_path):
    """As a hard link to the course's seed would be."""
    folder = tmp_path / "ada"
    (folder / "sub").mkdir(parents=True)
    for name in ("own.txt", "theirs.txt", "sub/x.txt"):
        (folder / name).write_text(SECRET, encoding="utf-8")
    for name in (".", "own.txt", "sub/x.txt"):
        os.chown(folder / name, 4711, 4711)
    copy = Copy(folder, tmp_path / "copy", 1 << 20, lambda owner: owner == 4711)
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["own.txt"]
    assert sorted(copy.left_out) == ["sub: it belongs to another user", "theirs.txt: it belongs to another user"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")  # nbgrader's
def test_feedback_is_released_to_all_who_have_what_it_takes(exchange, tmp_path, caplog):
    for student in ("ann", "bea", "cyd"):
        folder = exchange.path("feedback", student, TINY)
        folder.mkdir(parents=True)
        (folder / f"{TINY}.html").write_text(student, encoding="utf-8")
        (folder / "submission_secret.txt").write_text(f"secret of {student}", encoding="utf-8")
        if student != "bea":
            (folder / "timestamp.txt").write_text(TIME, encoding="utf-8")
    elsewhere = exchange.path("feedback", "dan", TINY)
    elsewhere.mkdir(parents=True)
    (elsewhere / f"{TINY}.html").write_text("dan", encoding="utf-8")
    with pytest.raises(ExchangeError, match=r"from \S*bea\S*$"):
        exchange.factory.ReleaseFeedback(coursedir=exchange.directory).start()
    assert f"Not handed in through the exchange, so send this yourself: {elsewhere}" in caplog.messages
    released = (tmp_path / "exchange" / "attention" / "feedback").glob("*.html")
    assert sorted(path.read_text(encoding="utf-8") for path in released) == ["ann", "cyd"]


def test_collecting_names_all_that_it_leaves_out(exchange, tmp_path, caplog, monkeypatch):
    folder = submit(tmp_path, "adam", {f"{TINY}.ipynb": "adam's", "locked/data.csv": "1", "open/data.csv": "2"})
    (folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(folder / "pipe.txt")
    inner = os.open

    def refused(path, *arguments, **more):
        if path == "locked":  # a folder of mode 0, which root can open
            raise PermissionError(13, "Permission denied", path)
        return inner(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refused)
    exchange.factory.Collect(coursedir=exchange.directory).start()
    assert set(collected(exchange)) == {f"adam/{TINY}/{TINY}.ipynb", f"adam/{TINY}/open/data.csv"}
    said = {line.removeprefix("Not collected: ") for line in caplog.messages if line.startswith("Not collected")}
    assert said == {"linked: it is a link", "locked: Permission denied", "pipe.txt: it is not a regular file"}


def test_a_time_that_a_student_chose_is_not_believed_where_the_exchange_knows_better(exchange, tmp_path):
    now = datetime.now(UTC).replace(tzinfo=None)
    for student, time in {"cheat": datetime(2020, 1, 1), "prompt": now}.items():
        text = f"{time.isoformat(' ', 'seconds')} UTC"
        folder = submit(tmp_path, student, {f"{TINY}.ipynb": "a notebook", "timestamp.txt": text}, time=text)
        os.utime(folder / f"{TINY}.ipynb", (0, 0))
        os.utime(folder, (0, 0))
    exchange.factory.Collect(coursedir=exchange.directory).start()
    told, doubt = time_of(exchange.directory, "cheat", TINY)
    assert abs(told - now) < timedelta(minutes=30)
    assert doubt.startswith("timestamp.txt says 2020-01-01 00:00, but it was received at ")
    assert time_of(exchange.directory, "prompt", TINY) == (now.replace(microsecond=0), "")


def test_a_submission_goes_through_the_exchange_and_is_on_time(exchange, tmp_path, monkeypatch, prepared):
    """`nbgrader release_assignment`, `fetch_assignment`, `submit` and `collect`, all by the same user."""
    shutil.copytree(prepared.course / "release", tmp_path / "course" / "release")
    (tmp_path / "student").mkdir()
    monkeypatch.chdir(tmp_path / "student")

    def run(step):
        how = {"coursedir": exchange.directory, "authenticator": Authenticator(config=exchange.config)}
        getattr(exchange.factory, step)(**how, config=exchange.config).start()

    for step in ("ReleaseAssignment", "FetchAssignment", "Submit", "Collect"):
        run(step)
    (student,) = {name.split("/")[0] for name in collected(exchange)}
    assert {Path(name).name for name in collected(exchange)} >= {f"{TINY}.ipynb", "timestamp.txt"}
    time, doubt = time_of(exchange.directory, student, TINY)
    assert doubt == ""
    assert timedelta() <= datetime.now(UTC).replace(tzinfo=None) - time < timedelta(minutes=5)


def test_a_table_without_fractions_of_a_second_contradicts_nobody():
    told = datetime(2026, 1, 31, 23, 59, 59, 900000)
    assert weighed(told, "", told.replace(microsecond=0)) == (told, "")
    assert weighed(told, "", told - timedelta(seconds=2))[0] == told - timedelta(seconds=2)


def test_the_config_names_these_ways(exchange):
    assert exchange.factory.collect.__name__ == "CollectWithoutLinks"
    assert exchange.factory.release_feedback.__name__ == "ReleaseOneByOne"
    assert exchange.config.ZipCollectApp.extractor_plugin.endswith(".ExtractWithinBounds")
