"""CSV files that people open in a spreadsheet: a cell is a number or text, and never a formula."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.showing.text import printable

NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
# Some programs also begin a formula behind blanks or quotes, and some take a semicolon for the end of a cell.
FORMULA = re.compile(r"""((?:^|;)[ "']*)(?=[=+\-@＝＋－＠])""")


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the rows under a line of headings; a column that a row lacks is left empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, restval="")
        table.writeheader()
        table.writerows({name: as_cell(value) for name, value in row.items()} for row in rows)


def as_cell(value: Any) -> Any:
    """Keep numbers as they are; put an apostrophe before text that a spreadsheet would compute.

    >>> as_cell(-0.5), as_cell("-0.5"), as_cell("=1+1"), as_cell("ada; =1+1")
    (-0.5, '-0.5', "'=1+1", "ada; '=1+1")
    """
    if value is None or isinstance(value, (int, float)):
        return value
    text = printable(value)
    return text if NUMBER.fullmatch(text) else FORMULA.sub(r"\1'", text)
