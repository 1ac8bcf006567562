"""A newer edition of a notebook with what the learner wrote into the older one."""

from collections.abc import Mapping
from typing import Any

Cell = dict[str, Any]
YOURS = "# What you had here before the update:\n"


def sources(notebook: Mapping[str, Any]) -> dict[str, str]:
    """The text of each cell by its id, in order; a notebook keeps a text in one piece or in lines."""
    return {cell["id"]: "".join(cell["source"]) for cell in _with_own_ids(notebook["cells"])}


def merged(base: Mapping[str, Any], mine: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """`new`, with the learner's answers, changed cells and added cells of `mine`; `base` is what `mine` began as.

    A cell that only one side changed is as that side has it. Where both did, an answer stays the learner's; any other
    cell is the new one, and the learner's stands below it, with a comment that says so. Nothing of the learner's is
    dropped.

    >>> cell = lambda id, text: {"id": id, "cell_type": "code", "source": text, "metadata": {}, "outputs": []}
    >>> base = {"cells": [cell("a", "x = 1"), cell("b", "...")]}
    >>> mine = {"cells": [cell("a", "x = 1"), cell("mine", "x + 1"), cell("b", "y = 2")]}
    >>> new = {"cells": [cell("a", "x = 3"), cell("b", "..."), cell("c", "z")]}
    >>> [c["source"] for c in merged(base, mine, new)["cells"]]
    ['x = 3', 'x + 1', 'y = 2', 'z']
    """
    mine = {**mine, "cells": _with_own_ids(mine["cells"])}
    before, written, published = sources(base), sources(mine), sources(new)
    by_id = {cell["id"]: cell for cell in mine["cells"]}
    below: dict[str, list[Cell]] = {}
    last = ""
    for cell in mine["cells"]:
        if cell["id"] in published:
            last = cell["id"]
        elif written[cell["id"]] != before.get(cell["id"]):
            below.setdefault(last, []).append(cell)
    cells = [*below.get("", [])]
    for cell in new["cells"]:
        own = by_id.get(cell["id"])
        text = written.get(cell["id"], published[cell["id"]])
        untouched = text == before.get(cell["id"], text)
        if own is None or (untouched and text != published[cell["id"]]):
            cells.append(cell)
        elif text in (published[cell["id"]], before.get(cell["id"])) or _is_answer(cell) or not _changed(cell, before):
            cells.append({**cell, "source": own["source"], **{key: own[key] for key in RESULTS if key in own}})
        else:
            cells += [cell, _aside(own, text)]
        cells += below.get(cell["id"], [])
    return {**new, "cells": _with_own_ids(cells)}


def _with_own_ids(cells: list[Cell]) -> list[Cell]:
    """The cells with an id each: a copy of another cell may have that one's, from some editors and from git."""
    found: dict[str, Cell] = {}
    for cell in cells:
        id = cell["id"]
        while id in found:
            id = f"{id[-50:]}-{len(found)}"
        found[id] = {**cell, "id": id}
    return list(found.values())


RESULTS = ("outputs", "execution_count")


def _changed(cell: Cell, before: Mapping[str, str]) -> bool:
    return "".join(cell["source"]) != before.get(cell["id"])


def _is_answer(cell: Cell) -> bool:
    return bool(cell.get("metadata", {}).get("nbgrader", {}).get("solution"))


def _aside(own: Cell, text: str) -> Cell:
    commented = YOURS + "\n".join(f"# {line}".rstrip() for line in text.split("\n"))
    aside = {"id": f"{own['id']}-before"[-64:], "cell_type": own["cell_type"], "metadata": {}, "source": commented}
    if own["cell_type"] == "code":
        return {**aside, "outputs": [], "execution_count": None}
    return {**aside, "source": f"*What you had here before the update:*\n\n{text}"}
