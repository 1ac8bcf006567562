"""Grading on a Dask cluster: three worker processes that do not see the course's folder, one of them killed."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from tiny_course import HANGS, RIGHT, TINY

from autograder.errors import CourseError
from autograder.grade_course import How, grade
from autograder.layout import ROOT

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'attnlib[cluster]'")
pytestmark = pytest.mark.slow
WRONG = {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.transpose(-2, -1)"}


@pytest.fixture
def cluster(tmp_path):
    """The scheduler's address and three worker processes, each in a folder of its own; the course is hidden from them.

    Where bubblewrap is missing, the course is only out of their way.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "3"}
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
        scheduler = run([*dask, "--host", "127.0.0.1", "--scheduler-file", str(file)], "scheduler")
        processes.append(scheduler)
        for _ in range(10 * HANGS):
            if file.is_file() and file.stat().st_size:
                break
            assert scheduler.poll() is None, (tmp_path / "scheduler.log").read_text()
            time.sleep(0.1)
        from distributed import Client

        with Client(scheduler_file=str(file), timeout=HANGS) as client:
            address = client.scheduler.address
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
            workers = [run([*hidden, *worker, "--no-dashboard"], f"worker{n}") for n in range(3)]
            processes += workers
            client.wait_for_workers(3, timeout=HANGS)
        yield address, workers
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


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


def test_no_scheduler_at_the_address_is_said_in_a_sentence(klass):
    klass.submit("right", RIGHT)
    with pytest.raises(CourseError, match=r"^No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        grade(klass.layout, klass.submitted, (TINY,), How(layers=None, scheduler="tcp://127.0.0.1:9"))
