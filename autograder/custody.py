"""Taking a submission in: find the notebook, read what can be read, and account for everything that was handed in."""

import io
import json
import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from autograder.showing.text import printable

MOST_BYTES = 32 << 20
MOST_BYTES_IN_ALL = 128 << 20
MOST_CELLS = 5000
MOST_SOURCE = 1 << 20
MOST_CODE = 2 << 20
MOST_FILES = 2000
BAD_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, RuntimeError, OSError, EOFError, ValueError)
MAKE_CELL = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class NotGraded(Exception):
    """Why a submission cannot be graded, as a clause; never a 0."""


@dataclass(frozen=True)
class TakenIn:
    """A submission's notebook, and in clauses what was unusual about it."""

    notebook: NotebookNode
    remarks: tuple[str, ...] = ()


def collect(folder: Path) -> dict[str, bytes]:
    """Every notebook and zip file beneath a submission's folder, by its name there; links are not followed."""
    found: dict[str, bytes] = {}
    if folder.is_symlink():
        raise NotGraded("the folder is a link, and no folder of its own")
    for number, path in enumerate(sorted(folder.rglob("*"))):
        if number > MOST_FILES:
            raise NotGraded(f"the folder holds more than {MOST_FILES} files")
        name = path.relative_to(folder)
        if path.suffix.lower() not in (".ipynb", ".zip") or _is_hidden(name.parts):
            continue
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise NotGraded(f"{printable(name)} is a link, and no file of its own")
        if stat.S_ISREG(mode):
            found[str(name)] = bytes_of(path)
        if sum(map(len, found.values())) > MOST_BYTES_IN_ALL:
            raise NotGraded(f"the notebooks and zip files have more than {MOST_BYTES_IN_ALL >> 20} MB")
    return found


def take_in(files: Mapping[str, bytes], lesson: str, known_ids: Iterable[str] = ()) -> TakenIn:
    """The notebook among a submission's files.

    It should be called LESSON.ipynb. Another name, a sub-folder or a zip file will do if it is the only one that there
    is, or the only one with this lesson's grade ids; raises NotGraded if none can be told to be it.
    """
    if f"{lesson}.ipynb" in files:
        return read(files[f"{lesson}.ipynb"])
    found = dict(_notebooks(files))
    if not found:
        raise NotGraded(f"no notebook is called {lesson}.ipynb, and there is no other")
    if len(found) > 1:
        fitting = {name: data for name, data in found.items() if _fits(data, set(known_ids))}
        if len(fitting) != 1:
            raise NotGraded(f"no notebook is called {lesson}.ipynb, only {printable(', '.join(sorted(found)))[:200]}")
        found = fitting
    ((name, data),) = found.items()
    taken = read(data)
    return TakenIn(taken.notebook, (f"handed in as {printable(name)}", *taken.remarks))


def _notebooks(files: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
    room = MOST_BYTES_IN_ALL
    for name, data in files.items():
        if not name.lower().endswith(".zip"):
            yield name, data
            continue
        for inner, content in _in_zip(name, data):
            room -= len(content)
            if room < 0:
                raise NotGraded(f"the zip files hold more than {MOST_BYTES_IN_ALL >> 20} MB of notebooks")
            yield inner, content


def _in_zip(name: str, data: bytes) -> Iterable[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[:MOST_FILES]:
                parts = member.filename.split("/")
                if parts[-1].lower().endswith(".ipynb") and not _is_hidden(parts):
                    if member.file_size > MOST_BYTES:
                        raise NotGraded(f"{printable(name)} holds a notebook of {member.file_size >> 20} MB")
                    with archive.open(member) as file:  # the size that it names need not be true
                        yield f"{name}/{member.filename}", file.read(MOST_BYTES)
    except BAD_ZIP as error:
        raise NotGraded(printable(f"{name} cannot be opened: {error}")) from None


def _is_hidden(parts: Sequence[str]) -> bool:
    """Whether a file is a system's own: a checkpoint, or what a Mac adds to a zip file."""
    return any((part.startswith(".") and part != "..") or part == "__MACOSX" for part in parts)


def bytes_of(path: Path) -> bytes:
    """The file; NotGraded if it is far larger than any notebook."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise NotGraded(f"{printable(path.name)} has {size >> 20} MB; a notebook may have {MOST_BYTES >> 20}")
    return path.read_bytes()


def _fits(data: bytes, known_ids: set[str]) -> bool:
    try:
        cells = read(data).notebook.cells
    except NotGraded:
        return False
    return any(_grade_id(cell.metadata) in known_ids for cell in cells)


def read(data: bytes) -> TakenIn:
    """The notebook in a file's bytes: every cell that has a source, without its outputs; NotGraded if it is none.

    nbformat would refuse the whole file for one wrong key. What a cell lacks is put in; what is no cell is named.
    """
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
        raise NotGraded(f"the notebook has {len(cells)} cells; {MOST_CELLS} are the most")
    kept: list[NotebookNode] = []
    for number, cell in enumerate(cells):
        made = _cell(cell, number)
        if made is None:
            remarks.append(f"cell {number + 1} is no cell, and was left out")
        else:
            kept.append(made)
    code = sum(len(cell.source) for cell in kept if cell.cell_type == "code")
    if code > MOST_CODE:
        raise NotGraded(f"the notebook has {code >> 20} MB of code; {MOST_CODE >> 20} are the most")
    kernel = plain.get("metadata", {}) if isinstance(plain.get("metadata"), dict) else {}
    kernel = kernel.get("kernelspec", {}) if isinstance(kernel.get("kernelspec"), dict) else {}
    language = kernel.get("language", "python")
    if isinstance(language, str) and language.lower() not in ("python", "python3", ""):
        remarks.append(f"its kernel is for {language[:40]}, and it was graded as Python")
    notebook = new_notebook(cells=kept)
    notebook.nbformat_minor = 5
    return TakenIn(notebook, tuple(remarks[:20]))


def _cells(plain: dict[str, Any]) -> list[Any] | None:
    if isinstance(plain.get("cells"), list):
        return plain["cells"]
    sheets = plain.get("worksheets")  # format 3
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
    make = MAKE_CELL.get(kind) if isinstance(kind, str) else None
    if make is None:
        make = new_markdown_cell if kind in ("heading", "html") else new_raw_cell
    metadata = plain.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = _grade_id(metadata)
    cell = make(source=source, metadata={"nbgrader": {"grade_id": name}} if name and isinstance(nbgrader, dict) else {})
    cell.id = f"submitted-{number}"
    return cell


def _grade_id(metadata: Any) -> str | None:
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return name if isinstance(name, str) and len(name) < 200 else None
