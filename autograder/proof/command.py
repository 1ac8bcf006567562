"""`python -m autograder checks`: try everything, in two processes, then show it."""

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from attnlib.checks import exercises
from autograder.building.catalogues import without_a_place
from autograder.lesson_text.layout import shown
from autograder.proof.counts import Proof
from autograder.proof.measure import code_exercises, fates, slips, verdicts
from autograder.proof.page import page
from autograder.proof.requirements import requirements
from autograder.proof.tables import (
    beside_table,
    cost_table,
    requirement_table,
    right_table,
    slips_table,
    told_table,
    wrong_table,
)
from autograder.showing.errors import CourseError
from autograder.showing.terminal import Terminal

PROCESSES = 2
SEEDS_AT_ONCE = 10

Task = tuple[Callable[..., Proof], tuple[object, ...]]


def prove(wanted: tuple[str, ...], *, seeds: int, page_file: Path | None) -> None:
    """Try the checks of the exercises, of all if none is named, and show it; a CourseError if too little holds."""
    names = _chosen(wanted)
    every = exercises()
    if homeless := without_a_place([every[name] for name in names], every.values()):
        raise CourseError("\n".join(homeless))
    if page_file is not None:
        page_file.parent.mkdir(parents=True, exist_ok=True)  # before the half hour that it takes
    proofs = measure(names, seeds)
    total = Proof.total(proofs.values())
    console = Terminal()
    for table in (wrong_table, right_table, told_table, slips_table, cost_table):
        console.print(table(proofs))
    if wanted:  # for all exercises, the page has the details
        console.print(beside_table(proofs))
    console.print(requirement_table(total))
    if page_file is not None:
        page_file.write_text(page(proofs), encoding="utf-8")
        console.print(f"The page: {shown(page_file.resolve())}", soft_wrap=True)
    complaints = [f"not met: {r.asked} ({r.found})" for r in requirements(total) if not r.holds]
    if complaints:
        raise CourseError("\n".join([*complaints, *_details(total), *_survivors(proofs)]))


def one_thread_each() -> None:
    """Give each of two processes one thread: with two each, they would wait for one another, and spin meanwhile."""
    torch.set_num_threads(1)


def measure(names: list[str], seeds: int) -> dict[str, Proof]:
    """Measure each exercise; two processes share the work, and each task is one exercise and one thing to try."""
    tasks: dict[str, list[Task]] = {name: [(fates, (name,)), (slips, (name,))] for name in names}
    for name in names:
        for start in range(0, seeds, SEEDS_AT_ONCE):
            tasks[name].append((verdicts, (name, range(start, min(seeds, start + SEEDS_AT_ONCE)))))
    found: dict[str, list[Proof]] = {name: [] for name in names}
    console = Terminal(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with (
        ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"), one_thread_each) as pool,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        running = {pool.submit(do, *args): name for name in names for do, args in tasks[name]}
        bar = progress.add_task("trying the checks", total=len(running))
        for number, done in enumerate(as_completed(running), 1):
            found[running[done]].append(done.result())
            if not console.is_terminal:  # a log
                console.print(f"tried {running[done]}, {number} of {len(running)}", soft_wrap=True)
            progress.update(bar, advance=1, description=f"tried {running[done]}")
    return {name: Proof.total(found[name]) for name in names}


def _chosen(wanted: tuple[str, ...]) -> list[str]:
    names = code_exercises()
    for name in wanted:
        if name not in names:
            raise CourseError(
                f"No exercise that is answered in code is called {name!r}; there are: {', '.join(names)}."
            )
    return [name for name in names if name in wanted] if wanted else names


def _details(total: Proof) -> list[str]:
    """List the answers and mutants behind a requirement that isn't met."""
    lines = []
    for v in total.verdicts:
        if v.passed != (v.misconception is None) or v.diagnosis not in (None, v.misconception):
            what = "passed" if v.passed else "did not pass"
            where = f"{'hidden' if v.hidden else 'visible'}, seed {v.seed}"
            lines.append(f"  {v.answer} ({where}): {what}, and was told {v.diagnosis or 'no name'}")
    lines += [f"  {answer}: not the same with every seed" for answer in total.unsteady()]
    lines += [f"  {d.exercise}: {d.id}: {d.said!r} is not said" for d in total.missed]
    lines += [f"  listed in equivalent.toml, but does not survive: {key}" for key in total.stale]
    return lines


def _survivors(proofs: Mapping[str, Proof]) -> list[str]:
    return [
        f"  survives: {name}: {fate.key}   ({fate.shown})" for name, proof in proofs.items() for fate in proof.surviving
    ]
