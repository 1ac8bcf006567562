"""Grading on a Dask cluster: worker processes that do not see the course's folder, one of them killed."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_watch import judged, make, settle
from tiny_course import HANGS, RIGHT, TINY

from attnlib.checks.asking.time_limits import TimeLimits
from autograder.grading import cluster as on_cluster
from autograder.grading.certificates import Certificates, certificates, check_address, warning
from autograder.grading.grade_course import How, grade
from autograder.judging.submission import Judged, Task
from autograder.lesson_text.layout import ROOT
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("distributed") is None, reason="Dask is not installed: pip install 'attnlib[cluster]'"
    ),
]
WRONG = {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.transpose(-2, -1)"}


@contextlib.contextmanager
def cluster_of(tmp_path, size, scheduler_flags=(), worker_flags=(), security=None, path=ROOT):
    """The scheduler's address and its worker processes, each in a folder of its own; the course is hidden from them.

    Where bubblewrap is missing, the course is only out of their way.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{path}",
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "3",
    }
    hidden = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(tmp_path / "course")] if shutil.which("bwrap") else []
    (tmp_path / "course").mkdir(exist_ok=True)
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    processes = []

    def run(command, place):
        (tmp_path / place).mkdir()
        with (tmp_path / f"{place}.log").open("w") as log:
            return subprocess.Popen(command, cwd=tmp_path / place, env=environment, stdout=log, stderr=log)

    try:
        scheduler = run([*dask, "--host", "127.0.0.1", "--scheduler-file", str(file), *scheduler_flags], "scheduler")
        processes.append(scheduler)
        for _ in range(10 * HANGS):
            if file.is_file() and file.stat().st_size:
                break
            assert scheduler.poll() is None, (tmp_path / "scheduler.log").read_text()
            time.sleep(0.1)
        from distributed import Client

        with Client(scheduler_file=str(file), timeout=HANGS, security=security) as client:
            address = client.scheduler.address
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
            workers = [run([*hidden, *worker, *worker_flags, "--no-dashboard"], f"worker{n}") for n in range(size)]
            processes += workers
            client.wait_for_workers(size, timeout=HANGS)
        yield address, workers
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    with cluster_of(tmp_path, 2) as found:
        yield found


def signed(folder, name):
    """A new authority, and a certificate of it."""
    folder.mkdir()
    new = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    for command in (
        ["req", "-x509", *new, "-subj", f"/CN={name} authority", "-keyout", "ca.key", "-out", "ca.pem"],
        ["req", *new[:-2], "-subj", f"/CN={name}", "-keyout", "own.key", "-out", "own.csr"],
        ["x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "1", "-out", "own.pem"],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    return Certificates(folder / "ca.pem", folder / "own.pem", folder / "own.key")


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="NOT TESTED: the program openssl is not installed")
def test_over_tls_a_cluster_believes_nobody_without_its_certificate(klass, tmp_path):
    ours, theirs = signed(tmp_path / "ours", "course"), signed(tmp_path / "theirs", "stranger")
    mixed = dataclasses.replace(theirs, authority=ours.authority)
    flags = ["--tls-ca-file", str(ours.authority), "--tls-cert", str(ours.own), "--tls-key", str(ours.key)]
    klass.submit("right", RIGHT)
    layout, folder = klass.layout, klass.submitted
    with cluster_of(tmp_path, 1, ["--protocol", "tls", *flags], flags, ours.security()) as (address, _):
        assert address.startswith("tls://")
        with pytest.raises(CourseError, match="asks for certificates"):
            grade(layout, folder, (TINY,), How(layers=None, scheduler=address))
        for stranger in (theirs, mixed):
            with pytest.raises(CourseError, match=r"^No Dask scheduler answers"):
                grade(layout, folder, (TINY,), How(layers=None, scheduler=address, shown=stranger))
        with pytest.raises(CourseError, match=r"^No Dask scheduler answers"):
            grade(layout, folder, (TINY,), How(layers=None, scheduler=address.replace("tls", "tcp")))
        (graded,) = grade(layout, folder, (TINY,), How(layers=None, scheduler=address, shown=ours))
    assert graded.points == graded.max_points > 0


def test_certificates_come_together_and_with_their_address():
    some = Certificates(Path("ca.pem"), Path("own.pem"), Path("own.key"))
    assert certificates(None, None, None) is None
    assert certificates(some.authority, some.own, some.key) == some
    with pytest.raises(CourseError, match="needs all three"):
        certificates(some.authority, None, some.key)
    with pytest.raises(CourseError, match="need a scheduler at a tls:// address"):
        check_address("tcp://10.0.0.1:8786", some)


def test_an_address_beyond_this_machine_without_tls_is_warned_of():
    assert "no TLS" in (warning("tcp://10.0.0.1:8786") or "")
    assert "no TLS" in (warning("10.0.0.1:8786") or "")
    assert warning("tcp://127.0.0.1:8786") is None
    assert warning("tls://10.0.0.1:8786") is None


def test_a_cluster_that_loses_a_worker_grades_as_this_machine_does(klass, cluster):
    address, workers = cluster
    names = [f"student{number:02}" for number in range(10)]
    for number, name in enumerate(names):
        klass.submit(name, WRONG if number % 3 == 0 else RIGHT)
    klass.submit("broken").write_text("{ this is not JSON", encoding="utf-8")

    def step(state):
        if state.done == 3:
            workers[0].kill()

    graded = grade(klass.layout, klass.submitted, (TINY,), How(layers=None, scheduler=address), step)
    by_name = {one.student: one for one in graded}
    assert workers[0].wait(timeout=HANGS) != 0
    assert by_name.pop("broken").problem == "not graded: the notebook is not JSON"
    assert sorted(by_name) == names
    for number, name in enumerate(names):
        assert by_name[name].problem is None, by_name[name]
        assert (by_name[name].points == by_name[name].max_points) == (number % 3 != 0)
        assert sum(klass.scores(name).values()) == by_name[name].points


class Future:
    """A future of Dask's that has ended; where a result was lost with its worker, asking for it waits for another."""

    def __init__(self, status, result=None):
        self.status, self.outcome = status, result

    def cancelled(self):
        return self.status == "cancelled"

    def exception(self):
        return self.outcome if self.status == "error" else None

    def result(self):
        if self.status == "error":
            raise self.outcome
        return self.outcome


def test_a_result_that_was_lost_with_its_worker_is_waited_for():
    task = Task("ada", TINY, "", {})
    judged = Judged("ada", TINY, points={"test": 1.0})
    assert on_cluster._outcome(Future("lost", judged), task) is judged
    gone = on_cluster._outcome(Future("error", RuntimeError("three workers died")), task)
    assert gone.problem == gone.fault == "the cluster gave it up: three workers died"


def test_a_scheduler_that_goes_away_is_nobody_s_fault():
    with pytest.raises(CourseError, match=r"scheduler is gone\. What was entered is kept"):
        on_cluster._outcome(Future("cancelled"), Task("ada", TINY, "", {}))


def test_a_worker_with_another_version_judges_nothing(monkeypatch):
    monkeypatch.setattr(on_cluster, "_crew", lambda: pytest.fail("it judged"))
    judged = on_cluster.judge_on_worker(Task("ada", TINY, "", {}), None, "another")
    assert "has another version of the course" in judged.problem
    assert judged.fault


STUCK = """
import time
from pathlib import Path

from autograder.grading import workers
from autograder.judging import submission

HANGS = Path(__file__).with_name("hangs")


def judge_task(task, layers):
    if task.student == "stuck":
        HANGS.touch()
        time.sleep(10**6)
    return submission.judge_task(task, layers)


def longest():
    if not HANGS.exists():  # however slow the machine is
        return 10**6
    HANGS.unlink()
    return 0


workers.judge_task, workers.longest, workers.LOOK_SECONDS = judge_task, longest, 1.0
"""


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("nanny", [["--nanny"], pytest.param([], marks=pytest.mark.again)])
def test_a_submission_that_does_not_come_to_an_end_is_ended_on_the_worker(klass, tmp_path, nanny):
    """Its sandbox is not enough for that: here it is the judging itself that hangs.

    Below a nanny, as Dask has it by default, a worker's process may have no children. The other tests have none, and
    without one this repeats the same.
    """
    (tmp_path / "hanging.py").write_text(STUCK, encoding="utf-8")
    for name in ("a", "stuck", "z"):
        klass.submit(name, RIGHT)
    flags = ["--preload", "hanging", *nanny]
    with cluster_of(tmp_path, 1, worker_flags=flags, path=tmp_path) as (address, _):
        graded = grade(klass.layout, klass.submitted, (TINY,), How(layers=None, scheduler=address))
    by_name = {one.student: one for one in graded}
    assert by_name.pop("stuck").problem == "not graded: the grader's process did not come to an end"
    assert all(one.points == one.max_points > 0 for one in by_name.values())


def test_no_scheduler_at_the_address_is_said_in_a_sentence(klass, monkeypatch):
    monkeypatch.setattr(on_cluster, "here", lambda: TimeLimits(scheduler_wall=1.0))
    klass.submit("right", RIGHT)
    with pytest.raises(CourseError, match=r"^No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        grade(klass.layout, klass.submitted, (TINY,), How(layers=None, scheduler="tcp://127.0.0.1:9"))


def test_a_watch_answers_with_a_cluster_and_outlives_it(klass, tmp_path):
    klass.submit("ann", RIGHT)
    klass.submit("bob", WRONG)
    with cluster_of(tmp_path, 2) as (address, _):
        watch = make(klass)
        watch.how = How(layers=None, scheduler=address)
        try:
            assert settle(watch) == 2
            klass.submit("cleo", RIGHT)
            assert settle(watch) == 1
        except BaseException:
            watch.close()
            raise
    klass.submit("dan", RIGHT)
    with pytest.raises(CourseError, match="scheduler"):
        settle(watch)
    watch.close()
    assert judged(watch) == ["ann", "bob", "cleo"]
    assert sum(klass.scores("ann").values()) == sum(klass.scores("cleo").values()) > sum(klass.scores("bob").values())
    watch.how = How(layers=probe("none"))
    assert settle(watch) == 1
    watch.close()
