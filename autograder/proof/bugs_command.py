"""`python -m autograder bugs`: the table of bugs for practice, built in two processes, and its counts."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    """Try the bugs of these exercises, of all if none is named, and write the table, or compare it; then count.

    Either way, each exercise is done with before the end: its rows are written, or a line says whether they are right.
    """
    names = code_exercises()
    if unknown := [name for name in wanted if name not in names]:
        raise CourseError(f"No exercise that is answered in code is called {unknown[0]!r}.")
    chosen = [name for name in names if not wanted or name in wanted]
    console = Terminal(stderr=True)
    kept = {name: [row for row in rows() if row.exercise == name] for name in names}
    found = dict(kept)
    refused: Counter[str] = Counter()
    differ: list[str] = []
    for number, (name, its, reasons) in enumerate(_each_tried(chosen), 1):
        refused.update(map(_kind, reasons.values()))
        found[name] = its
        said = "tried"
        if check:
            said = _difference(kept[name], its)
            differ += [name] if said != "ok" else []
        else:
            _write(found, name)
        console.print(f"{number} of {len(chosen)}  {name}: {said}", soft_wrap=True)
    if check and not wanted:
        differ += sorted({row.exercise for row in rows()} - {*names})  # there is no such exercise any more
    if differ:
        raise CourseError(f"{len(differ)} of {len(chosen)} differ from what trying shows: {', '.join(differ)}")
    for reason, count in refused.most_common():
        console.print(f"not served, {count}: {reason}", soft_wrap=True)
    Terminal().print(counts([row for name in names for row in found[name]]))


def _each_tried(chosen: Sequence[str]) -> Iterator[tuple[str, list[Row], dict[str, str]]]:
    """Yield each exercise with its bugs and refusals as soon as it has been tried; those with few wrong lines begin."""
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"), one_thread_each) as pool:
        short_first = sorted(chosen, key=lambda name: len(exercises()[name].misconceptions))
        running = {pool.submit(tried, name): name for name in short_first}
        for done in as_completed(running):
            yield running[done], *done.result()


def _difference(kept: Sequence[Row], found: Sequence[Row]) -> str:
    """Return the keys of the rows that are not the same in both, or "ok"."""
    keys = sorted({row.key for row in {*kept} ^ {*found}})
    return f"differs: {', '.join(keys)}" if keys else "ok"


def _write(found: Mapping[str, Sequence[Row]], name: str) -> None:
    """Write the table that holds the exercise's bugs."""
    file = file_of(exercises()[name].lesson)
    its = (row for rows_of_one in found.values() for row in rows_of_one)
    file.write_text(as_text([r for r in its if file_of(exercises()[r.exercise].lesson) == file]), encoding="utf-8")


def show_counts() -> None:
    """Print how many bugs the table has."""
    Terminal().print(counts(rows()))


def _kind(reason: str) -> str:
    return "another line can be repaired as well" if reason.startswith("line ") else reason


def counts(table: Sequence[Row]) -> Table:
    """Tabulate how many bugs there are, by level."""
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
