"""`python -m autograder bugs`: the table of bugs for practice, built in two processes, and what is in it."""

import multiprocessing
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.table import Table

from attnlib.checks import exercises
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.table import Row, as_text, file_of, rows
from autograder.proof.bugs import tried
from autograder.proof.command import PROCESSES, one_thread_each
from autograder.proof.measure import code_exercises
from autograder.showing.errors import CourseError
from autograder.showing.terminal import Terminal


def build_table(wanted: Sequence[str], *, check: bool) -> None:
    """Try the bugs of these exercises, of all if none is named, and write the table, or compare it; then count."""
    names = code_exercises()
    if unknown := [name for name in wanted if name not in names]:
        raise CourseError(f"No exercise that is answered in code is called {unknown[0]!r}.")
    chosen = [name for name in names if not wanted or name in wanted]
    console = Terminal(stderr=True)
    kept = rows()
    found = {name: [row for row in kept if row.exercise == name] for name in names}
    refused: Counter[str] = Counter()
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"), one_thread_each) as pool:
        short_first = sorted(chosen, key=lambda name: len(exercises()[name].misconceptions))
        running = {pool.submit(tried, name): name for name in short_first}
        for number, done in enumerate(as_completed(running), 1):
            found[running[done]], reasons = done.result()
            refused.update(_kind(reason) for reason in reasons.values())
            console.print(f"tried {running[done]}, {number} of {len(running)}", soft_wrap=True)
            table = [row for name in names for row in found[name]]
            if not check:  # each time: who stops it keeps what is tried
                file = file_of(exercises()[running[done]].lesson)
                its = [row for row in table if file_of(exercises()[row.exercise].lesson) == file]
                file.write_text(as_text(its), encoding="utf-8")
    if check and (wrong := sorted({row.key for row in {*table} ^ {*kept}})):
        raise CourseError(f"{len(wrong)} rows are not what trying shows: {', '.join(wrong[:9])}")
    for reason, count in refused.most_common():
        console.print(f"not served, {count}: {reason}", soft_wrap=True)
    Terminal().print(counts(table))


def show_counts() -> None:
    """How many bugs the table has."""
    Terminal().print(counts(rows()))


def _kind(reason: str) -> str:
    return "another line can be repaired as well" if reason.startswith("line ") else reason


def counts(table: Sequence[Row]) -> Table:
    """How many bugs there are, by level."""
    shown_table = Table(title="Bugs that can be served", title_justify="left")
    for head in ("level", "what is seen", "bugs", "silent", "exercises"):
        shown_table.add_column(head, justify="left" if head == "what is seen" else "right")
    for level, what in LEVELS.items():
        of_level = [row for row in table if row.level == level]
        shown_table.add_row(str(level), what, *_numbers(of_level))
    shown_table.add_row("", "all", *_numbers(table), style="bold")
    shown_table.add_row("", "one wrong line in a right answer of the bank", *_numbers([r for r in table if r.dialect]))
    missing = len(code_exercises()) - len({row.exercise for row in table})
    shown_table.caption = f"{missing} of {len(exercises())} exercises have code and no bug."
    return shown_table


def _numbers(table: Sequence[Row]) -> tuple[str, str, str]:
    return str(len(table)), str(sum(row.silent for row in table)), str(len({row.exercise for row in table}))
