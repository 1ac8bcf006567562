"""Compare a right and a wrong answer, and prepare both for a learner: with imports, and without a telltale alias."""

import ast
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

IMPORTS = {
    "einops": "import einops",
    "F": "import torch.nn.functional as F",
    "nn": "from torch import nn",
    "attnlib": "import attnlib",
}
"""Imported where they are used. `math` and `torch` always are: an import without a use would give the bug away."""


@dataclass(frozen=True)
class Change:
    """One place where two programs differ: the wrong lines, counted from 1, and the right lines in their place."""

    lines: tuple[int, ...]
    repair: str

    @property
    def is_missing(self) -> bool:
        """True if no line is wrong here: a line is missing."""
        return not self.lines


def changes(right: str, wrong: str) -> tuple[Change, ...]:
    r"""Return every place where the wrong program differs from the right one.

    >>> changes("a = 1\nb = 2", "a = 1\nb = 3")
    (Change(lines=(2,), repair='b = 2'),)
    """
    ours = right.split("\n")
    return tuple(
        Change(tuple(range(start + 1, stop + 1)), "\n".join(ours[first:last]))
        for first, last, start, stop in differences(right, wrong)
    )


def differences(right: str, wrong: str) -> list[tuple[int, int, int, int]]:
    r"""Return each range of rows in the right program with the range that replaces it in the wrong one.

    >>> differences("a = 1\nb = 2", "a = 1\nb = 3")
    [(1, 2, 1, 2)]
    """
    matcher = difflib.SequenceMatcher(None, right.split("\n"), wrong.split("\n"), autojunk=False)
    return [(first, last, start, stop) for tag, first, last, start, stop in matcher.get_opcodes() if tag != "equal"]


def wrong_lines(right: str, wrong: str) -> list[int]:
    """Return the numbers, from 1, of the wrong program's lines that differ from the right one's.

    >>> wrong_lines("a = 1", "a = 2")
    [1]
    """
    return [row + 1 for *_, start, stop in differences(right, wrong) for row in range(start, stop)]


def with_imports(right: str, wrong: str) -> tuple[str, str]:
    """Put both under the same imports, so that each is a complete file."""
    used = {n.id for code in (right, wrong) for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}
    lines = ["import math", "import torch", *(line for name, line in IMPORTS.items() if name in used)]
    plain, from_torch = [row for row in lines if row.startswith("import")], [r for r in lines if r.startswith("from")]
    head = "\n".join([*sorted(plain), *from_torch])
    return f"{head}\n\n\n{right}", f"{head}\n\n\n{wrong}"


def without_alias(right: str, wrong: str) -> tuple[str, str]:
    r"""Merge `b = …` and `a = b` into `a = …` in both if the wrong line is such an alias, which would stand out.

    >>> right, wrong = without_alias("b = q @ k\na = b / 2\nreturn a", "b = q @ k\na = b\nreturn a")
    >>> print(wrong)
    a = q @ k
    return a
    >>> print(right)
    a = (q @ k) / 2
    return a
    """
    found = changes(right, wrong)
    if len(found) != 1 or len(found[0].lines) != 1 or "\n" in found[0].repair:
        return right, wrong
    ours, theirs, at = right.split("\n"), wrong.split("\n"), found[0].lines[0] - 1
    alias = re.fullmatch(r"(\s*)(\w+) = (\w+)", theirs[at])
    mended = re.fullmatch(r"(\s*)(\w+) = (.+)", found[0].repair)
    before = re.fullmatch(r"(\s*)(\w+) = (.+)", theirs[at - 1]) if at else None
    if alias is None or mended is None or before is None:
        return right, wrong
    indent, name, source = alias.groups()
    if before[1] != indent or before[2] != source or mended[1] != indent or mended[2] != name:
        return right, wrong
    if _uses(theirs[: at - 1] + theirs[at + 1 :], source) or _uses(ours[: at - 1] + ours[at + 1 :], source):
        return right, wrong
    put = _put(mended[3], source, before[3])
    if put is None:
        return right, wrong
    return (
        "\n".join([*ours[: at - 1], f"{indent}{name} = {put}", *ours[at + 1 :]]),
        "\n".join([*theirs[: at - 1], f"{indent}{name} = {before[3]}", *theirs[at + 1 :]]),
    )


def _uses(lines: Sequence[str], name: str) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line in lines)


def _put(expression: str, name: str, value: str) -> str | None:
    """Put a value in place of a name in the expression; None unless it is used once, in ASCII that parses."""
    try:
        places = [n for n in ast.walk(ast.parse(expression, mode="eval")) if isinstance(n, ast.Name) and n.id == name]
        simple = isinstance(ast.parse(value, mode="eval").body, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
    except SyntaxError:
        return None
    if len(places) != 1 or not expression.isascii():
        return None
    start, stop = places[0].col_offset, places[0].end_col_offset
    return f"{expression[:start]}{value if simple else f'({value})'}{expression[stop:]}"


def size(right: str, wrong: str) -> int:
    """Count the words and signs that differ: a small repair is harder to see than a large one.

    >>> size("a = b + 1", "a = b - 1")
    2
    >>> size("a.split('->')", "a.split(' -> ')")
    1
    """
    ours, theirs = ([*re.findall(r"\w+|[^\w\s]", code)] for code in (right, wrong))
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    differ = [code for tag, *code in matcher.get_opcodes() if tag != "equal"]
    return sum(last - first + stop - start for first, last, start, stop in differ) or 1  # spaces in a text
