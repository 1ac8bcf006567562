"""Slips as wrong lines: the right answer is plain source, and a slip replaces one of its lines.

A catalogue is a Markdown file. `# right NAME` begins the slips of that exercise's right answer, which is in
`right/plain`, or stands below the heading, indented. Under `# given NAME` stands the code of a "find the bug" exercise;
under `# question NAME`, up to the next heading of this size, the wrong letters of a question. Under `### id: title`
stand an explanation and, indented, the letter, or the change:

- a line that assigns what a line of the right answer assigns, or a `return`, takes that line's place; lines before it
  come before it, and `...` among them, or `name = ...`, is the right line itself;
- `old → new` replaces a piece of the right answer, and `old →` takes it away;
- `and` on a line of its own joins two changes, `or` begins another spelling of the slip, `{4|8|64}` stands for several
  (and where it is written twice, for the same one).

In a lesson's file, a heading `### id` without a title takes title and explanation from the file of `course/` that has
them, and has lines of its own. Under `# texts`, such a file has slips without lines.

A slip belongs to every exercise whose right answer has such a line and binds all names that the wrong line reads. The
explanation may end with the address of a discussion, `<https://…>`. A comment, `<!-- unless: PATTERN -->`, says what
contradicts the text in a student's source.
"""

import ast
import builtins
import functools
import itertools
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import einops
import torch
import torch.nn.functional as F
from torch import nn

import attnlib
from attnlib.checks import course

WORLD = {"torch": torch, "F": F, "math": math, "nn": nn, "einops": einops, "attnlib": attnlib, **vars(builtins)}
"""The names that a right answer may use without binding them."""


class BadCatalogue(ValueError):
    """Raised for a catalogue that can't be meant as written; the message begins with file and line."""


class NoPlace(Exception):
    """Raised if the right answer has no such line, or doesn't bind a name that the wrong line reads."""


@dataclass(frozen=True, kw_only=True)
class WrongLine:
    """A slip as written in the catalogue."""

    id: str
    title: str
    explanation: str
    spellings: tuple[str, ...]
    """Changes of a right answer; the second and later ones make the same mistake in other words."""
    where: str
    """File and line of its heading."""
    thread: str = ""
    unless: str = ""


@dataclass(frozen=True)
class Catalogue:
    """The contents of one file: code by its exercise, slips by their id, and wrong letters by their question."""

    right: Mapping[str, str] = field(default_factory=dict)
    """The right answers; "" where one is in `right/plain`."""
    given: Mapping[str, str] = field(default_factory=dict)
    slips: Mapping[str, WrongLine] = field(default_factory=dict)
    letters: Mapping[str, Mapping[str, WrongLine]] = field(default_factory=dict)
    texts: Mapping[str, WrongLine] = field(default_factory=dict)
    """Slips without a line, for lessons that take only their text from here."""


HEADING = re.compile(r"^(?=#{1,3} )", re.MULTILINE)
SLIP = re.compile(r"### (\w+)(?:: (\S.*))?")
TOP = re.compile(r"# (?:(right|given|question) (\w+)|texts)")


@functools.cache
def read(path: Path) -> Catalogue:
    """Read the catalogue in a file of `course/`; `BadCatalogue` says where it is malformed."""
    code: dict[str, dict[str, str]] = {"right": {}, "given": {}}
    slips: dict[str, WrongLine] = {}
    texts: dict[str, WrongLine] = {}
    letters: dict[str, dict[str, WrongLine]] = {}
    known, line = slips, 1
    for block in HEADING.split(_text_of(path)):
        where = f"{path.parent.name}/{path.name}:{line}"
        line += block.count("\n")
        head, _, body = block.partition("\n")
        if top := TOP.fullmatch(head.strip()):
            kind, name = top.groups()
            if kind is None:
                known = texts
                continue
            if name in (letters if kind == "question" else code[kind]):
                raise BadCatalogue(f"{where}: {kind} {name} is there a second time")
            known = letters.setdefault(name, {}) if kind == "question" else slips
            if kind in code:
                code[kind][name] = _parsed(_indented(body), where) if body.strip() or kind == "given" else ""
        elif found := SLIP.fullmatch(head.strip()):
            slip = _slip(found[1], found[2] or "", body, where, has_line=known is not texts)
            if slip.id in {**known, **texts}:
                first = {**known, **texts}[slip.id].where
                raise BadCatalogue(f"{where}: {slip.id} is there a second time, first at {first}")
            if not slip.title:
                slip = _with_text(slip, path)
            known[slip.id] = slip
        elif head.startswith(("# ", "### ")):
            raise BadCatalogue(f"{where}: required is `### id: title` or `# right NAME`, got {head!r}")
    return Catalogue(code["right"], code["given"], slips, letters, texts)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadCatalogue(f"{path.parent.name}/{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadCatalogue(f"{path.parent.name}/{path.name} is not in UTF-8") from None


def _with_text(slip: WrongLine, path: Path) -> WrongLine:
    """The slip of a lesson with title and explanation of the file of `course/` that has them."""
    if str(path.parent) in course.__path__:
        raise BadCatalogue(f"{slip.where}: {slip.id} has no title, which only a lesson's slip may take from elsewhere")
    titled = re.compile(rf"^### {slip.id}: ", re.MULTILINE)
    places = sorted(map(Path, course.__path__), key=lambda place: place != path.parents[1])  # its own course's first
    named = ([file for file in sorted(place.glob("*.md")) if titled.search(_text_of(file))] for place in places)
    files = next(filter(None, named), [])
    if len(files) != 1:
        found = f"found {', '.join(file.name for file in files) or 'none'}"
        raise BadCatalogue(f"{slip.where}: {slip.id} has no title; required is one file of course/ with it, {found}")
    if slip.explanation:
        raise BadCatalogue(f"{slip.where}: {slip.id} has an explanation and no title, which is in {files[0].name}")
    there = read(files[0])
    text = {**there.slips, **there.texts}[slip.id]
    return replace(text, spellings=slip.spellings, where=slip.where, unless=slip.unless or text.unless)


def _indented(body: str) -> str:
    rows = [row for row in body.split("\n") if row.startswith("    ") or not row.strip()]
    return textwrap.dedent("\n".join(rows)).strip("\n")


def _parsed(code: str, where: str) -> str:
    try:
        if not ast.parse(code).body:
            raise BadCatalogue(f"{where}: there is no code, indented by four spaces, under the heading")
    except SyntaxError as error:
        raise BadCatalogue(f"{where}: it is no Python: {error.msg} (its line {error.lineno})") from None
    return code


def _slip(id: str, title: str, body: str, where: str, *, has_line: bool) -> WrongLine:
    code = _indented(body)
    prose = " ".join(row.strip() for row in body.split("\n") if row.strip() and not row.startswith("    "))
    unless, thread = (re.findall(pattern, prose) for pattern in (r"<!-- unless: (.*?) -->", r"<(https://\S+)>"))
    if len(unless) > 1 or len(thread) > 1:
        raise BadCatalogue(f"{where}: {id} has two patterns or two addresses, and one of each is meant")
    prose = re.sub(r"<!--.*?-->", "", prose)
    explanation = re.sub(r"\s*<https://\S+>", "", prose).strip()
    if title and not explanation:
        raise BadCatalogue(f"{where}: {id} ends without its explanation")
    if bool(code) != has_line:
        raise BadCatalogue(f"{where}: {id} {'ends without a wrong line' if has_line else 'has a line under `# texts`'}")
    if "<!--" in prose:
        raise BadCatalogue(f"{where}: {id} has a comment that doesn't end: required is `<!-- unless: PATTERN -->`")
    if re.search(r"(^|\n)(or|and)$|^(or|and)\n|\n(or|and)\n(or|and)\n", code):
        raise BadCatalogue(f"{where}: {id} has an `or` or `and` with no change beside it")
    spellings = [way for part in re.split(r"^or\n", code, flags=re.MULTILINE) for way in _expanded(part.strip("\n"))]
    return WrongLine(
        id=id,
        title=title,
        explanation=explanation,
        spellings=tuple(spellings),
        where=where,
        thread="".join(thread),
        unless="".join(unless),
    )


def _expanded(change: str) -> Iterator[str]:
    """The change with each of the values in `{4|8|64}`."""
    several = [*dict.fromkeys(re.findall(r"\{([^{}]*\|[^{}]*)\}", change))]
    for chosen in itertools.product(*(values.split("|") for values in several)):
        expanded = change
        for values, value in zip(several, chosen, strict=True):
            expanded = expanded.replace(f"{{{values}}}", value)
        yield expanded


def applied(source: str, change: str, where: str = "") -> str:
    """The source with a change, which may be of several lines; NoPlace if it has no such line.

    >>> print(applied("def double(x):\\n    twice = x + x\\n    return twice", "twice = x * x"))
    def double(x):
        twice = x * x
        return twice
    """
    changed = source
    for part in re.split(r"^and\n", change, flags=re.MULTILINE):
        if "→" not in part:
            changed = _with_lines(changed, part.strip("\n"), where)
            continue
        for row in filter(None, part.split("\n")):
            old, new = (piece.strip() for piece in row.split("→"))
            changed = _with_piece(changed, old, new, where)
    if changed == source:
        raise BadCatalogue(f"{where}: the wrong line is the right one: {change!r}")
    return changed


def _with_piece(source: str, old: str, new: str, where: str) -> str:
    found = source.count(old)
    if found == 0:
        raise NoPlace(f"{old!r} is not there")
    if found > 1:
        raise BadCatalogue(f"{where}: {old!r} stands in {found} places of the right answer; write more of the line")
    changed = source.replace(old, new)
    start = source.rfind("\n", 0, source.index(old)) + 1
    line = changed[start:].partition("\n")[0]
    return changed if line.strip() else changed[:start] + changed[start + len(line) + 1 :]


def _with_lines(source: str, block: str, where: str) -> str:
    rows = block.split("\n")
    try:
        wrong = ast.parse("\n".join("pass" if row == "..." else row for row in rows)).body
    except SyntaxError as error:
        raise BadCatalogue(f"{where}: the wrong line is no Python: {error.msg}: {block!r}") from None
    [*_, target] = ["", *filter(None, map(_assigned, wrong))]
    if not target:
        raise BadCatalogue(
            f"{where}: a line that assigns and returns nothing has no place; write `old → new`: {block!r}"
        )
    places = _places(source).get(target, [])
    if not places:
        raise NoPlace(f"no line assigns {target}")
    if len(places) > 1:
        raise BadCatalogue(f"{where}: {len(places)} lines of the right answer assign {target}; write `old → new`")
    [place] = places
    lines = source.split("\n")
    first, last = place.lineno - 1, place.end_lineno or place.lineno
    own = [line[place.col_offset :] for line in lines[first:last]]
    put = [line for row in rows for line in (own if row == "..." or row.endswith(" = ...") else [row])]
    return "\n".join([*lines[:first], *(" " * place.col_offset + line if line else "" for line in put), *lines[last:]])


@functools.lru_cache(maxsize=16)
def _places(source: str) -> dict[str, list[ast.stmt]]:
    """The lines of a right answer, by what they are known by."""
    found: dict[str, list[ast.stmt]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and (target := _assigned(node)):
            found.setdefault(target, []).append(node)
    return found


def _assigned(statement: ast.stmt) -> str:
    """Return a line's key: the target that it assigns, or "return"."""
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0])
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target) + " +="
    return "return" if isinstance(statement, ast.Return) else ""


def made(source: str, name: str) -> Any:
    """Run the source and return what it defines under this name; NoPlace if it reads a name that nothing binds."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if missing := read - bound - WORLD.keys():
        raise NoPlace(f"nothing binds {', '.join(sorted(missing))}")
    names = {**WORLD, "__name__": f"{__name__}.{name}"}
    exec(compile(tree, f"<{name}>", "exec"), names)
    return names[name]
