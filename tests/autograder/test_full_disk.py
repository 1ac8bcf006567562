"""A disk that takes no more, and a database that is gone: one sentence, nothing lost, and the next run goes on."""

import errno
import json
import shutil
import subprocess
import sys

import pytest
from sqlalchemy.exc import OperationalError
from tiny_course import HANGS, RIGHT

from autograder.grading import entering
from autograder.lesson_text.layout import ROOT
from autograder.showing.errors import CourseError

FULL = OSError(errno.ENOSPC, "No space left on device")
GONE = OperationalError("INSERT", {}, Exception("server closed the connection"))
ON_A_SMALL_DISK = """
import os, shutil, sys
from pathlib import Path
from autograder import __main__
from autograder.lesson_text import layout
course, disk = Path(sys.argv[1]), Path(sys.argv[2])
shutil.copytree(course, disk / "course")
place = layout.Layout(solutions=course.parent / "solutions", course=disk / "course")
__main__.LAYOUT = place
filler = open(disk / "filler", "wb", buffering=0)
try:
    while True:
        filler.write(bytes(4096))
except OSError:
    filler.truncate(os.path.getsize(disk / "filler") - int(sys.argv[3]))
code = __main__.main(["grade", "--sandbox", "none", "--workers", "1"], standalone_mode=False)
"""


@pytest.fixture
def three(klass, run):
    """Three submissions."""
    for student in "abc":
        klass.submit(student, RIGHT)
    return run


@pytest.mark.parametrize("error", [FULL, GONE], ids=["a full disk", "a database that is gone"])
def test_a_run_that_cannot_enter_ends_with_a_sentence_and_the_next_goes_on(three, monkeypatch, error):
    write_whole = entering.write_whole

    def faulty(path, text):
        if json.loads(text)["student"] != "a":
            raise error
        write_whole(path, text)

    monkeypatch.setattr(entering, "write_whole", faulty)
    with pytest.raises(
        CourseError, match=r"The result of b, 00_tiny, cannot be entered.*(No space left|server closed)"
    ):
        three()
    monkeypatch.setattr(entering, "write_whole", write_whole)
    assert three() == ["b", "c"]
    assert three() == []


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 16384, 49152])
def test_a_disk_that_fills_up_at_any_step_gives_no_traceback(klass, tmp_path, left):
    """On a disk of 8 MB, all of it taken but for some bytes."""
    small = [shutil.which("bwrap") or "bwrap", "--dev-bind", "/", "/", "--size", str(8 << 20), "--tmpfs"]
    (tmp_path / "disk").mkdir()
    try:
        subprocess.run([*small, str(tmp_path / "disk"), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk of a size of its own can be had here: {error}")
    for student in "abc":
        klass.submit(student, RIGHT)
    shutil.copytree(klass.layout.solutions, klass.layout.course.parent / "solutions")
    command = [sys.executable, "-c", ON_A_SMALL_DISK, str(klass.layout.course), str(tmp_path / "disk"), str(left)]
    done = subprocess.run(
        [*small, str(tmp_path / "disk"), *command], cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 1, done.stdout
    (said,) = [line for line in done.stderr.splitlines() if not line.startswith("sandbox:")]
    assert "No space left on device" in said or "disk is full" in said
