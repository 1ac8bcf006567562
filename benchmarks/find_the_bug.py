"""Find the bug: programs of attention with one wrong line, verified, as JSON lines, and what a person or a tool finds.

    python -m benchmarks.find_the_bug write find_the_bug.jsonl
    python -m benchmarks.find_the_bug score find_the_bug.jsonl answers.jsonl [--run]

Each line is a bug: id, lesson, exercise, level (1 an exception … 6 two bugs at once), silent, contract, symptom, code,
four options; and the answer: lines, repair, letter, explanation. 300 bugs, drawn with a seed, are held out, with every
spelling and every dialect of the same mistake in the same exercise; `write --kept-out` writes these instead. The
same versions of this benchmark and of torch, whose rounding shows in the symptoms, always write the same files.

An answer is a line {"id": …} with any of "lines" (a list of numbers), "letter", and "code" (the whole repaired
program). With `--run`, the code is run by its check, in this process and with your rights: only for code that you
trust, or in a container.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attnlib.checks import run
from attnlib.checks.practising.bug import defined
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.records import record
from attnlib.checks.practising.review import slip_of
from attnlib.checks.practising.table import Row, rows

VERSION, SEED, KEPT_OUT = 2, 0, 300


def kept_out(seed: int = SEED, count: int = KEPT_OUT) -> set[str]:
    """The ids of the bugs that are not public: whole mistakes, so that none has a twin in the public file."""
    mistakes: dict[tuple[str, str], list[str]] = {}
    for row in rows():
        mistakes.setdefault((row.exercise, slip_of(row.slip)), []).append(row.key)
    order = sorted(mistakes)
    random.Random(f"{VERSION} {seed}").shuffle(order)
    chosen: set[str] = set()
    for mistake in order:
        if len(chosen) + len(mistakes[mistake]) <= count:
            chosen |= {*mistakes[mistake]}
    return chosen


def bugs(*, held: bool = False, seed: int = SEED) -> list[Row]:
    """The public ones, or those that are kept out."""
    out = kept_out(seed)
    return [row for row in rows() if (row.key in out) is held]


def as_lines(chosen: Sequence[Row]) -> Iterable[str]:
    """JSON lines, keys in order."""
    for row in chosen:
        yield json.dumps({"version": VERSION, **record(row)}, ensure_ascii=False)


def read(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines; a ValueError names a line that is not an object or has no id."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("id"), str):
            raise ValueError(f'{path}, line {number}: required is a JSON object with an "id", got {line:.60}')
        found.append(told)
    return found


def score(bug: dict[str, Any], answer: dict[str, Any], *, may_run: bool) -> dict[str, bool]:
    """Say for each of the three answers that is given whether it is right."""
    right: dict[str, bool] = {}
    if "lines" in answer:
        right["line"] = _lines_right(bug, answer["lines"])
    if "letter" in answer:
        right["letter"] = answer["letter"] == bug["letter"]
    if may_run and isinstance(answer.get("code"), str):
        right["repair"] = _passes(bug, answer["code"])
    return right


def _lines_right(bug: dict[str, Any], lines: Any) -> bool:
    """True if the lines include one of each wrong place, and no right line; any line of a wrong place will do."""
    named = set(lines) if isinstance(lines, list) and all(isinstance(line, int) for line in lines) else set()
    runs: list[list[int]] = []
    for line in bug["lines"]:
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    return bool(named) and named <= {*bug["lines"]} and all(named & {*run} for run in runs)


def _passes(bug: dict[str, Any], code: str) -> bool:
    try:
        return run(bug["exercise"], defined(code, bug["exercise"], "benchmark")).passed
    except Exception:  # code that does not even define its function
        return False


def table(asked: Sequence[dict[str, Any]], answers: Sequence[dict[str, Any]], *, may_run: bool) -> list[str]:
    """A line for each level: of the bugs asked, how many were answered rightly in each way."""
    given = {answer["id"]: answer for answer in answers}
    known = {bug["id"] for bug in asked}
    if strange := [id for id in given if id not in known]:
        raise ValueError(f"there is no bug {strange[0]!r:.80} in the file of bugs")
    rows_shown = [f"{'level':<8}{'bugs':>6}{'line':>8}{'letter':>8}{'repair':>8}"]
    for level in [*LEVELS, None]:
        of_level = [bug for bug in asked if level in (bug["level"], None)]
        results = [score(bug, given[bug["id"]], may_run=may_run) for bug in of_level if bug["id"] in given]
        cells = [_share([r.get(way, False) for r in results], len(of_level)) for way in ("line", "letter", "repair")]
        rows_shown.append(f"{level or 'all':<8}{len(of_level):>6}" + "".join(f"{cell:>8}" for cell in cells))
    return rows_shown


def _share(right: Sequence[bool], of: int) -> str:
    """The share of right answers; a missing answer counts as wrong."""
    return f"{sum(right) / of:.1%}" if of else "–"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bugs, or score answers."""
    parser = argparse.ArgumentParser("python -m benchmarks.find_the_bug", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="write the bugs as JSON lines")
    write.add_argument("file", type=Path)
    write.add_argument("--kept-out", action="store_true", help="write those that are not public instead")
    write.add_argument("--seed", type=int, default=SEED, help="which are kept out")
    scoring = commands.add_parser("score", help="score answers")
    scoring.add_argument("bugs", type=Path)
    scoring.add_argument("answers", type=Path)
    scoring.add_argument("--run", action="store_true", help="run repaired code, with your rights")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "write":
            chosen = bugs(held=asked.kept_out, seed=asked.seed)
            asked.file.write_text("".join(f"{line}\n" for line in as_lines(chosen)), encoding="utf-8")
            print(f"{len(chosen)} bugs, {sum(row.silent for row in chosen)} of them silent: {asked.file}")
        else:
            print("\n".join(table(read(asked.bugs), read(asked.answers), may_run=asked.run)))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
