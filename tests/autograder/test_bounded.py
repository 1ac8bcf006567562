"""The bounds on what is read of a submission hold also within each other, in threads, and against our own `except`."""

import resource
import signal
import threading
import time

import pytest
from tiny_course import TINY

from autograder.judging.budget import OutOfTime
from autograder.judging.intake import folder
from autograder.judging.intake.bounded import bounded


@pytest.mark.parametrize("late", [f"{TINY}.ipynb", "beside.csv"])
def test_what_takes_too_long_is_not_taken_for_one_file_that_cannot_be_read(tmp_path, monkeypatch, late):
    """Else it would be judged without that file, and the rest be read without any bound."""
    read = folder.read_regular
    for name in (f"{TINY}.ipynb", "beside.csv"):
        (tmp_path / name).write_bytes(b"{}")

    def slow(path, *about):
        time.sleep(60.0 * (path.name == late))
        return read(path, *about)

    monkeypatch.setattr(folder, "read_regular", slow)
    with pytest.raises(OutOfTime, match="could not be read"), bounded(0.5):
        folder.collect(tmp_path, TINY)


def test_within_a_bound_another_leaves_it_its_time():
    def work() -> None:
        with bounded(60):
            pass
        time.sleep(60)

    with pytest.raises(OutOfTime, match=r"within 0\.2 seconds"), bounded(0.2):
        work()
    with pytest.raises(OutOfTime), bounded(0.2), bounded(60):
        time.sleep(60)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_threads_that_read_at_the_same_time_leave_no_bound_behind():
    before, second = resource.getrlimit(resource.RLIMIT_AS), threading.Event()

    def work() -> None:
        with bounded():
            second.set()
            time.sleep(1)

    with bounded():
        thread = threading.Thread(target=work)
        thread.start()
        second.wait(0.5)
    thread.join()
    assert resource.getrlimit(resource.RLIMIT_AS) == before
