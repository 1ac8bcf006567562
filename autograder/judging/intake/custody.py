"""Take a submission in: find the notebook, read what can be read, and account for every file."""

import io
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_notebook

from autograder.judging.intake.archives import Member, Room, Unfit, zip_members
from autograder.judging.intake.bounded import bounded
from autograder.judging.intake.folder import (
    MOST_BYTES,
    MOST_BYTES_BESIDE,
    MOST_BYTES_IN_ALL,
    MOST_ENTRIES,
    NOTEBOOKS,
    SMALLER,
    TIMESTAMP,
    is_hidden,
    read_regular,
)
from autograder.showing.errors import NotGraded
from autograder.showing.text import printable

MOST_CELLS = 5000
MOST_SOURCE = 1 << 20
MOST_CODE = 2 << 20
MOST_VALUES = 1_000_000  # lists and objects in one file's JSON
MOST_BESIDE = 200
MOST_BYTES_BESIDE_IN_ALL = 16 << 20
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # a last one may have no end: none is read twice
KINDS = ("code", "markdown", "raw")


@dataclass(frozen=True)
class TakenIn:
    """A submission's notebook, the files beside it by name, and anything unusual about it, in clauses."""

    notebook: NotebookNode
    remarks: tuple[str, ...] = ()
    beside: dict[str, bytes] = field(default_factory=dict)


@bounded()
def take_in(files: Mapping[str, bytes], lesson: str, known_ids: Iterable[str] = ()) -> TakenIn:
    """Find the notebook among a submission's files.

    It should be called LESSON.ipynb. Another name, a sub-folder or a zip file will do for the only notebook, or for the
    only one with this lesson's grade ids; raises NotGraded if no single one qualifies.
    """
    known = set(known_ids)
    notebooks = {n: data for n, data in files.items() if n.lower().endswith(NOTEBOOKS)}
    name, archive = f"{lesson}.ipynb", ""
    if name in notebooks:
        data, remarks = notebooks[name], []
    else:
        name, archive, data = _only_one(notebooks, lesson, known)
        remarks = [f"handed in as {printable(f'{archive}/{name}' if archive else name)[:200]}"]
    if unread := [other for other in notebooks if other.lower().endswith(".ipynb") and other != name]:
        remarks.append(f"not read: {printable(', '.join(unread))[:200]}")
    taken = read(data)
    ids = {_grade_id(cell.metadata) for cell in taken.notebook.cells} - {None}
    if ids and known and ids.isdisjoint(known):
        remarks.append("none of its answer cells belongs to this lesson: it may be another lesson's notebook")
    others, left_out = _beside_in_zip(archive, files[archive]) if archive else (files, 0)
    home = name.rpartition("/")[0]
    beside, more = _beside(others, f"{home}/" if home else "", left_out)
    return TakenIn(taken.notebook, (*remarks, *taken.remarks, *more), beside)


def _only_one(files: Mapping[str, bytes], lesson: str, known_ids: set[str]) -> tuple[str, str, bytes]:
    """Return the only notebook, or the only one that fits: its name, the zip file it is in, its bytes."""
    found = list(_notebooks(files))
    if not found:
        raise NotGraded(f"no notebook is called {lesson}.ipynb, and there is no other")
    if len(found) > 1:
        fitting = [one for one in found if _fits(one[2], known_ids)]
        if len(fitting) != 1:
            names = sorted(f"{archive}/{name}" if archive else name for name, archive, _ in found)
            raise NotGraded(f"no notebook is called {lesson}.ipynb, only {printable(', '.join(names))[:200]}")
        found = fitting
    return found[0]


def _notebooks(files: Mapping[str, bytes]) -> Iterable[tuple[str, str, bytes]]:
    room = MOST_BYTES_IN_ALL
    for name, data in files.items():
        if not name.lower().endswith(".zip"):
            yield name, "", data
            continue
        for inner, content in _notebooks_in_zip(name, data):
            room -= len(content)
            if room < 0:
                raise NotGraded(f"the zip files hold more than {MOST_BYTES_IN_ALL >> 20} MB of notebooks")
            yield inner, name, content


def _is_notebook(member: Member) -> bool:
    return member.name.lower().endswith(".ipynb")


def _in_zip(name: str, data: bytes) -> list[Member]:
    try:
        return [one for one in zip_members(io.BytesIO(data)) if not is_hidden(one.name.split("/"))]
    except Unfit as why:
        raise NotGraded(printable(f"{name} cannot be opened: {why}")) from None


def _notebooks_in_zip(name: str, data: bytes) -> Iterable[tuple[str, bytes]]:
    for member in islice(filter(_is_notebook, _in_zip(name, data)), MOST_ENTRIES):
        if member.size > MOST_BYTES:
            raise NotGraded(f"{printable(name)} holds a notebook of {member.size >> 20} MB")
        try:
            yield member.name, member.read()
        except Unfit as why:
            raise NotGraded(printable(f"{name} cannot be opened: {member.name}: {why}")) from None


def _beside_in_zip(name: str, data: bytes) -> tuple[dict[str, bytes], int]:
    """Return the zip file's other files, small ones first, as far as they fit; and the number of the rest."""
    others = sorted((m for m in _in_zip(name, data) if not _is_notebook(m)), key=lambda member: member.size)
    found: dict[str, bytes] = {}
    room = Room(MOST_BYTES_BESIDE_IN_ALL, MOST_ENTRIES)
    for member in others:
        with suppress(Unfit):
            if member.size <= MOST_BYTES_BESIDE and room.takes(member.size):
                found[member.name] = member.read()
    return found, len(others) - len(found)


def _beside(files: Mapping[str, bytes], home: str, left_out: int) -> tuple[dict[str, bytes], list[str]]:
    """Return the files in the notebook's folder, except notebooks, as far as their names are clean and they fit."""
    found: dict[str, bytes] = {}
    size = 0
    for name, data in sorted(files.items()):
        inner = name.removeprefix(home)
        if not name.startswith(home) or inner == TIMESTAMP or inner.lower().endswith(".ipynb"):
            continue
        is_in_a_file = any(str(parent) in found for parent in PurePosixPath(inner).parents)  # a zip file may say so
        too_much = len(found) >= MOST_BESIDE or size + len(data) > MOST_BYTES_BESIDE_IN_ALL
        if too_much or is_in_a_file or not _is_clean(inner):
            left_out += 1
            continue
        found[inner] = data
        size += len(data)
    return found, [f"{left_out} files beside the notebook were left out: names, number or size"] if left_out else []


def _is_clean(name: str) -> bool:
    """True if a file can be written under this name, in a folder of its own, on any machine that judges."""
    parts = name.split("/")
    return (
        name.isprintable()
        and "\\" not in name
        and len(parts) <= 10
        and all(part not in ("", ".", "..") and len(part.encode()) < 200 for part in parts)
    )


def bytes_of(path: Path) -> bytes:
    """Return the notebook's bytes; NotGraded if it isn't a regular file, or is far larger than any notebook."""
    return read_regular(path, path.name, MOST_BYTES)[0]


def _fits(data: bytes, known_ids: set[str]) -> bool:
    try:
        cells = read(data).notebook.cells
    except NotGraded:
        return False
    return any(_grade_id(cell.metadata) in known_ids for cell in cells)


def read(data: bytes) -> TakenIn:
    """Read the notebook in a file's bytes: all cells with a source, without outputs; NotGraded if it isn't one.

    nbformat would refuse the whole file for one wrong key. Whatever a cell lacks is added; what isn't a cell is named.
    """
    if _brackets(data) > MOST_VALUES and _brackets(STRING.sub(b"", data)) > MOST_VALUES:
        raise NotGraded(f"the notebook has more than {MOST_VALUES} lists and objects: {SMALLER}")
    try:
        plain = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise NotGraded("the notebook is not JSON: it is not text in UTF-8") from None
    except ValueError:
        raise NotGraded("the file is empty" if not data.strip() else "the notebook is not JSON") from None
    except RecursionError:
        raise NotGraded("the notebook is not JSON of any sensible depth") from None
    if not isinstance(plain, dict):
        raise NotGraded(f"the notebook is not valid: it is a JSON {type(plain).__name__}, not an object with cells")
    cells, remarks = _cells(plain), []
    if cells is None:
        raise NotGraded("the notebook is not valid: it has no list of cells")
    if len(cells) > MOST_CELLS:
        raise NotGraded(f"the notebook has {len(cells)} cells; at most {MOST_CELLS} are allowed")
    kept: list[NotebookNode] = []
    for number, cell in enumerate(cells):
        made = _cell(cell, number)
        if made is None:
            remarks.append(f"cell {number + 1} is not a cell, and was left out")
        else:
            kept.append(made)
    code = sum(len(cell.source) for cell in kept if cell.cell_type == "code")
    if code > MOST_CODE:
        raise NotGraded(f"the notebook has {code >> 20} MB of code; at most {MOST_CODE >> 20} are allowed")
    kernel = plain.get("metadata", {}) if isinstance(plain.get("metadata"), dict) else {}
    kernel = kernel.get("kernelspec", {}) if isinstance(kernel.get("kernelspec"), dict) else {}
    language = kernel.get("language", "python")
    if isinstance(language, str) and language.lower() not in ("python", "python3", ""):
        remarks.append(f"its kernel is for {language[:40]}, and it was graded as Python")
    notebook = new_notebook(cells=kept)
    notebook.nbformat_minor = 5
    return TakenIn(notebook, tuple(remarks[:20]))


def _brackets(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _cells(plain: dict[str, Any]) -> list[Any] | None:
    cells, sheets = plain.get("cells"), plain.get("worksheets")  # the second in format 3
    if isinstance(cells, list):
        return cells
    if isinstance(sheets, list):
        return [c for s in sheets if isinstance(s, dict) and isinstance(s.get("cells"), list) for c in s["cells"]]
    return None


def _cell(plain: Any, number: int) -> NotebookNode | None:
    if not isinstance(plain, dict):
        return None
    source = plain.get("source", plain.get("input", ""))
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    source = source.encode("utf-8", errors="replace").decode()  # a lone surrogate cannot be written again
    if len(source) > MOST_SOURCE:
        raise NotGraded(f"cell {number + 1} has {len(source) >> 20} MB of source")
    kind = plain.get("cell_type")
    other = "markdown" if kind in ("heading", "html") else "raw"
    kind = kind if isinstance(kind, str) and kind in KINDS else other
    metadata = plain.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = _grade_id(metadata)
    given = {"nbgrader": {"grade_id": name}} if name and isinstance(nbgrader, dict) else {}
    made: dict[str, Any] = {"cell_type": kind, "id": f"submitted-{number}", "metadata": given, "source": source}
    if kind == "code":
        made |= {"outputs": [], "execution_count": None}
    cell: NotebookNode = from_dict(made)  # nbformat's own constructors validate each cell, and then the notebook
    return cell


def _grade_id(metadata: Any) -> str | None:
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return name if isinstance(name, str) and len(name) < 200 else None
