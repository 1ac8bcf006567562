"""Regions that markers enclose in a lesson's cells: solutions, stubs and hidden tests.

    ### BEGIN SOLUTION
    weights = scores.softmax(dim=-1)
    ### BEGIN STUB
    # weights = scores.softmax(dim=-2)
    ### END SOLUTION

The lines between BEGIN SOLUTION and BEGIN STUB are the solution. Those below BEGIN STUB are what the student gets
instead, as comments; without BEGIN STUB, the student gets a line that raises NotImplementedError.
"""

import io
import re
import tokenize
from dataclasses import dataclass, field

BEGIN_SOLUTION, END_SOLUTION = "BEGIN SOLUTION", "END SOLUTION"
BEGIN_STUB = "BEGIN STUB"
BEGIN_HIDDEN, END_HIDDEN = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"

MARKER = re.compile(r"(BEGIN|END)\s+(SOLUTION|STUB|HIDDEN\s+TESTS?|MARK\s+SCHEME)", re.IGNORECASE)


@dataclass
class Regions:
    """A cell's lines by the kind of their region; `released` is what the student gets."""

    solution: list[str] = field(default_factory=list)
    stub: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    count: int = 0


def uncomment(line: str) -> str:
    """A stub's line without its comment sign: `    # x = 1` becomes `    x = 1`."""
    if not line.strip():
        return ""
    found = re.fullmatch(r"(\s*)# ?(.*)", line)
    if found is None:
        raise ValueError(f"a stub's lines are comments, got {line.strip()!r}")
    return (found[1] + found[2]).rstrip()


def split_regions(source: str, exercise: str = "") -> Regions:
    """Sort a cell's lines into regions; a ValueError names a marker in the wrong place."""
    regions = Regions()
    state, indent = "", ""
    stub: list[str] = []
    for line in source.split("\n"):
        marker = next((m for m in _NEXT if m in line), None)
        if marker is not None:
            if state not in _NEXT[marker][0]:
                raise ValueError(f"{line.strip()!r} must not stand {'in a ' + state if state else 'alone'}")
            if marker == BEGIN_SOLUTION:
                indent, stub = line[: len(line) - len(line.lstrip())], []
                regions.count += 1
            if marker == END_SOLUTION:
                regions.released += stub or [
                    f"{indent}# your code here",
                    f'{indent}raise NotImplementedError("{exercise}")',
                ]
            state = _NEXT[marker][1]
        elif state == "solution":
            regions.solution.append(line)
        elif state == "stub":
            regions.stub.append(line)
            stub.append(uncomment(line))
        elif state == "hidden test":
            regions.hidden.append(line)
        else:
            regions.released.append(line)
    if state:
        raise ValueError(f"a {state} has no end")
    return regions


def logical_lines(lines: list[str]) -> list[str]:
    r"""Join the lines of each statement: one in brackets over three lines becomes one entry.

    A statement that never ends, as in text that isn't Python, stays as it is.

    >>> logical_lines(["weights = softmax(", "    scores,", ")", "x = ("])
    ['weights = softmax(\n    scores,\n)', 'x = (']
    """
    found, first = [], 0
    while first < len(lines):
        last = next((n for n in range(first + 1, len(lines) + 1) if _is_whole("\n".join(lines[first:n]))), first + 1)
        found.append("\n".join(lines[first:last]))
        first = last
    return found


def _is_whole(text: str) -> bool:
    try:
        list(tokenize.generate_tokens(io.StringIO(text.strip()).readline))
    except tokenize.TokenError:
        return False
    except SyntaxError:
        return True
    return True


def solved_source(source: str) -> str:
    """The cell with its solution in place, without stub and markers."""
    lines, keep = [], True
    for line in source.split("\n"):
        if marker := next((m for m in _NEXT if m in line), None):
            keep = marker != BEGIN_STUB
        elif keep:
            lines.append(line)
    return "\n".join(lines)


_NEXT = {
    BEGIN_SOLUTION: (("",), "solution"),
    BEGIN_STUB: (("solution",), "stub"),
    END_SOLUTION: (("solution", "stub"), ""),
    BEGIN_HIDDEN: (("",), "hidden test"),
    END_HIDDEN: (("hidden test",), ""),
}
