"""The gradebook on a real PostgreSQL server, such as Debian's, started here for the test."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tiny_course import HANGS, POINTS, RIGHT, TINY

from autograder.building.build_course import prepare
from autograder.grading.grade_course import How, grade
from autograder.sandbox.probe import probe

pytestmark = pytest.mark.slow
WRONG = {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.transpose(-2, -1)"}
READER = """
import select, sys
from nbgrader.api import Gradebook
count = 0
while count < 2 or not select.select([sys.stdin], [], [], 0.1)[0]:
    with Gradebook(sys.argv[1], "default_course") as gradebook:
        [submission.score for submission in gradebook.assignment_submissions(sys.argv[2])]
    count += 1
print(count)
"""


def programs() -> Path | None:
    """The folder with initdb and postgres."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places else None


@pytest.fixture(scope="module")
def server():
    """The URL of a fresh server without any table; PostgreSQL refuses to run as root, so it runs as another user."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'attnlib[postgresql]'")
    place = programs()
    if place is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    user = next((u for u in ("postgres", "nobody") if u in {p.pw_name for p in pwd.getpwall()}), None)
    other = {"user": user} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    if other:
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **other}
    subprocess.run(
        [place / "initdb", "-D", data, "-U", "teacher", "--auth=trust", "-E", "UTF8", "--no-sync"], check=True, **quiet
    )
    command = [place / "postgres", "-D", data, "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1"]
    process = subprocess.Popen([str(part) for part in command], **quiet)
    try:
        import psycopg

        for _ in range(10 * HANGS):
            try:
                psycopg.connect(host="127.0.0.1", port=port, user="teacher", dbname="postgres").close()
                break
            except psycopg.OperationalError:
                assert process.poll() is None
                time.sleep(0.1)
        yield f"postgresql://teacher@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait(timeout=HANGS)
        shutil.rmtree(folder, ignore_errors=True)


def test_the_scores_are_those_of_sqlite_while_others_read(klass, server, monkeypatch):
    klass.submit("right", RIGHT)
    klass.submit("untouched")
    for number in range(4):
        klass.submit(f"wrong{number}", WRONG)
    klass.submit("broken").write_text("[]", encoding="utf-8")
    klass.submit("y" * 200, RIGHT)
    klass.submit("z" * 128, RIGHT)
    names = ["right", "untouched", "wrong0", "wrong3"]
    how = How(layers=probe(), workers=1)
    graded = grade(klass.layout, klass.submitted, (TINY,), how)
    in_sqlite = {name: klass.scores(name) for name in names}

    monkeypatch.setenv("AUTOGRADER_DB", server)
    shutil.rmtree(klass.layout.course / "entries")
    klass = type(klass)(klass.layout)
    assert klass.course.directory.db_url.startswith("postgresql")
    prepare(klass.layout, (TINY,))
    with subprocess.Popen(
        [sys.executable, "-Wignore", "-c", READER, klass.course.directory.db_url, TINY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as formgrader:
        again = grade(klass.layout, klass.submitted, (TINY,), how)
        read, errors = formgrader.communicate("enough")
    assert formgrader.returncode == 0, errors
    assert int(read) > 1
    assert again == graded
    assert {name: klass.scores(name) for name in names} == in_sqlite
    assert sum(in_sqlite["right"].values()) == sum(POINTS.values())


def test_a_submission_already_entered_is_not_entered_again(klass, server, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_DB", server)
    klass = type(klass)(klass.layout)
    klass.submit("once", RIGHT)
    how = How(layers=probe(), workers=1)
    grade(klass.layout, klass.submitted, (TINY,), how)
    (entry,) = (klass.layout.course / "entries").glob("*/*.json")
    before = entry.stat().st_mtime_ns
    grade(klass.layout, klass.submitted, (TINY,), how)
    assert entry.stat().st_mtime_ns == before
