"""A worker's memory and processor time, process by process, while a class is judged.

    python -m benchmarks.worker_memory [--workers 1] [--students 12] [--only wrong]

PSS counts a page shared by n processes as one n-th for each of them. What only one process holds is private (USS).
With `--only wrong`, every worker gets to explain an answer, and so reaches the most it ever holds. In the same run,
stock nbgrader grades one of the submissions, with its kernel.
"""

import dataclasses
import os
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import click
import psutil

from autograder.building.build_course import prepare
from autograder.grading.workers import Crew
from autograder.judging.submission import Task
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook, to_text
from autograder.sandbox.probe import probe

from .made_class import SHARES, Handed, made_class
from .measure import header, row, verdict
from .stock_nbgrader import Stock

LESSON = "02_scaled_dot_product_attention"
LOOK_SECONDS = 0.2
SPENDING = ("worker", "template", "warm processes")
"""The roles whose time is counted: the last includes all children that have ended."""
ROLES = ("worker", "template", "warm processes", "their child")
"""There are two warm processes, one that judges and one that explains, and of all children one lives at a time."""
Held = dict[str, tuple[float, float]]
"""MiB by role: PSS, and what is private."""


class Looking(threading.Thread):
    """Looks at all processes below this one, and keeps the moment when they held the most."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: Held = {}
        self.each: Held = {}
        self.spent: dict[int, tuple[str, float]] = {}
        self.over = False

    def run(self) -> None:
        while not self.over:
            now = self.look()
            if sum(pss for pss, _ in now.values()) > sum(pss for pss, _ in self.most.values()):
                self.most = now
            for role, (pss, own) in now.items():
                most, more = self.each.get(role, (0.0, 0.0))
                self.each[role] = max(most, pss), max(more, own)
            time.sleep(LOOK_SECONDS)

    def look(self) -> Held:
        """Measure each role's processes now."""
        found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for worker in psutil.Process().children():
            roles = {worker.pid: "worker"}
            for process in sorted((p for p in worker.children(recursive=True) if _is_inside(p)), key=lambda p: p.pid):
                place = ROLES.index(roles.get(_parent(process), "worker"))
                roles[process.pid] = ROLES[min(place + 1, len(ROLES) - 1)]
            for pid, role in roles.items():
                pss, own, cpu = _held(pid)
                found[role][0] += pss
                found[role][1] += own
                if role in SPENDING:
                    self.spent[pid] = role, max(cpu, self.spent.get(pid, (role, 0.0))[1])
        return {role: (pss, own) for role, (pss, own) in found.items()}


def _is_inside(process: psutil.Process) -> bool:
    try:
        return "template.py" in " ".join(process.cmdline()) and "bwrap" not in process.name()
    except psutil.Error:
        return False


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0


def _held(pid: int) -> tuple[float, float, float]:
    """MiB: PSS and private; and processor seconds; nothing of a process that has ended."""
    try:
        lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines())
        found = {line[0]: int(line[1]) / 1024 for line in lines if line[-1] == "kB"}
        times = psutil.Process(pid).cpu_times()
    except (OSError, psutil.Error):
        return 0.0, 0.0, 0.0
    below = times.children_user + times.children_system
    return found["Pss:"], found["Private_Clean:"] + found["Private_Dirty:"], times.user + times.system + below


def stock(layout: Layout, handed: Handed, folder: Path) -> tuple[float, float]:
    """The most MiB that stock nbgrader and its kernel held, PSS and private, while they graded one submission."""
    course, most = Stock(layout, LESSON, folder), (0.0, 0.0)
    course.hand_in([(handed.student, handed.notebook)])
    grading = course.begin("autograde")
    while grading.poll() is None:
        held = [_held(process.pid) for process in _with_children(grading.pid)]
        most = max(most, (sum(pss for pss, _, _ in held), sum(own for _, own, _ in held)))
        time.sleep(LOOK_SECONDS)
    return most


def _with_children(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def main(workers: int = 1, students: int = 12, only: str = "") -> None:
    """Judge a class, or those of one kind in it, and print what was held."""
    with tempfile.TemporaryDirectory() as folder:
        layout = dataclasses.replace(Layout(), course=Path(folder, "course"))
        prepare(layout, (LESSON,))
        release = read_notebook(layout.course / "release" / LESSON / f"{LESSON}.ipynb")
        source = to_text(Assignment.read(layout.source(LESSON)).source)
        made = made_class(layout, LESSON, release, students)
        klass = [one for one in made if (one.kind == only if only else one.kind != "hanging")]
        tasks = [Task(o.student, LESSON, source, {f"{LESSON}.ipynb": to_text(o.notebook).encode()}, 1) for o in klass]
        looking = Looking()
        with closing(Crew(workers)) as crew:
            looking.start()
            for batch in crew.judge(tasks, probe()):
                for one in batch:
                    kind = next(handed.kind for handed in klass if handed.student == one.student)
                    print(f"{one.student} {kind}: {one.seconds:.1f} s", flush=True)
            looking.over = True
            looking.join()
        theirs = stock(layout, klass[0], Path(folder, "stock"))
    header(
        f"memory of {workers} workers, {len(tasks)} submissions",
        "PSS at most",
        "private",
        "when all held most",
        "CPU s each",
    )
    for role in ROLES:
        if role in looking.each:
            spent = sum(seconds for of, seconds in looking.spent.values() if of == role)
            told = spent / len(tasks) if role in SPENDING else ""
            row(role, *looking.each[role], looking.most.get(role, (0.0, 0.0))[0], told)
    here = _held(os.getpid())
    row("stock nbgrader and its kernel, one submission", *theirs, "", "")
    row("this process, which has the workers' libraries too", here[0], here[1], "", "")
    most = sum(pss for pss, _ in looking.most.values())
    print(f"a worker with all its processes / stock nbgrader: {most / workers / theirs[0]:.2f}")
    verdict("MiB of a worker with all its processes", most / workers, 400)


@click.command(help=__doc__)
@click.option("--workers", default=1, show_default=True)
@click.option("--students", default=12, show_default=True)
@click.option("--only", default="", type=click.Choice(["", *SHARES]), help="one kind of submission")
def command(workers: int, students: int, only: str) -> None:
    """Measure what workers hold."""
    main(workers, students, only)


if __name__ == "__main__":
    command()
