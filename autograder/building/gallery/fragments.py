"""The wrong line as shown to a reader: with its function around it, and beside the right one."""

import textwrap
from collections.abc import Iterator, Sequence

from attnlib.checks.practising.programs import differences, wrong_lines

MISSING = "# a line is missing here"


def in_context(right: str, program: str) -> tuple[str, list[int]]:
    r"""Return the wrong lines with the line before and the heads of their blocks, and their numbers in that, from 1.

    >>> code, wrong = in_context("if a:\n    b = 1\n    c = 2\n    d = 3", "if a:\n    b = 1\n    c = 2\n    d = 4")
    >>> print(code)
    if a:
        ...
        c = 2
        d = 4
    >>> wrong
    [4]
    """
    rows, found = program.split("\n"), differences(right, program)
    missing = {start: first for first, _, start, end in found if start == end}
    wrong = {line - 1 for line in wrong_lines(right, program)}
    around = {start - 1 for _, _, start, _ in found} | missing.keys()
    kept = {row for row in wrong | around if 0 <= row < len(rows) and rows[row].strip()}
    kept |= {head for row in kept for head in _heads(rows, row)}
    shown: list[str] = []
    marked: list[int] = []
    before = -1
    for row in sorted(kept):
        if row > before + 1 and any(rows[between].strip() for between in range(before + 1, row)):
            shown.append(_indent(rows[row]) + "...")
        if row in missing:
            shown.append(_indent(right.split("\n")[missing[row]]) + MISSING)
            marked.append(len(shown))
        shown.append(rows[row])
        marked += [len(shown)] if row in wrong else []
        before = row
    if len(rows) in missing:  # at the very end
        shown.append(_indent(right.split("\n")[missing[len(rows)]]) + MISSING)
        marked.append(len(shown))
    return textwrap.dedent("\n".join(shown)), marked


def _heads(rows: Sequence[str], row: int) -> Iterator[int]:
    """The rows that open the blocks around a row."""
    depth = len(_indent(rows[row]))
    for above in range(row - 1, -1, -1):
        if rows[above].strip() and len(_indent(rows[above])) < depth:
            depth = len(_indent(rows[above]))
            yield above


def _indent(row: str) -> str:
    return row[: len(row) - len(row.lstrip())]


def repair(right: str, program: str) -> str:
    r"""Show the repair as a diff without context: the wrong lines, then the right ones.

    >>> print(repair("def f(x):\n    return x + 1", "def f(x):\n    return x"))
    -return x
    +return x + 1
    """
    was, now = program.split("\n"), right.split("\n")
    hunks = []
    for first, last, start, end in differences(right, program):
        lines = textwrap.dedent("\n".join([*was[start:end], *now[first:last]])).split("\n")
        signs = ["-"] * (end - start) + ["+"] * (last - first)
        hunks.append("\n".join(f"{sign}{line}" for sign, line in zip(signs, lines, strict=True)))
    return "\n\n".join(hunks)


def wrong_rows(right: str, program: str) -> str:
    """The wrong lines alone, or a note that a line is missing."""
    rows = program.split("\n")
    return textwrap.dedent("\n".join(rows[line - 1] for line in wrong_lines(right, program))) or MISSING
