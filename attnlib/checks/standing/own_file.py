"""A file of the learner's own package: one lesson's answers, with what they need, as Python."""

import ast
from collections.abc import Iterable
from textwrap import wrap

from attnlib.checks.standing.own_source import OwnSource, bindings, bound, import_of

PASSED = "passed on"
ABOUT = '''"""Lesson {lesson}: what I wrote.

Each answer came here when it passed its check. The file is mine to import, to edit and to publish; once I have
edited it, nothing is written into it unless I say so, with attnlib.checks.keep.
"""
'''


def answers_in(text: str) -> dict[str, str]:
    r"""The exercises whose answers a file holds, and the name of each answer.

    >>> answers_in("# merge_heads, passed on 2 May 2026\ndef merge(x):\n    return x")
    {'merge_heads': 'merge'}
    """
    lines = text.split("\n")
    found = {}
    for statement in ast.parse(text).body:
        exercise, separator, _ = lines[_first_line(statement) - 2].partition(f", {PASSED} ")
        if separator and exercise.startswith("# ") and bound(statement):
            found[exercise[2:]] = bound(statement)[0]
    return found


def changed_in(before: str, after: str) -> set[str]:
    r"""The names that both files have, with another statement or import.

    >>> changed_in("from torch import exp, nn\na = 1", "from torch import nn\nfrom math import exp\na = 1\nb = 2")
    {'exp'}
    """

    def meanings(text: str) -> dict[str, str]:
        imports = (ast.Import, ast.ImportFrom)
        return {name: import_of(name, by) if isinstance(by, imports) else code for name, (by, code) in bindings([text])}

    now = meanings(after)
    return {name for name, meant in meanings(before).items() if now.get(name, meant) != meant}


def with_answer(text: str, exercise: str, name: str, source: OwnSource, day: str) -> tuple[str, str]:
    """The file with this answer in it, and what stood there under the same names with another text.

    Only the lines of the answer, of its helpers and of the imports change; everything else in the file stays. What was
    a helper may be the answer now, and what was the answer, under another name, is none any more.
    """
    replaced = []
    text = _without_other_heads(text, exercise, name)
    place = len(text)
    for bound_name, statement in reversed(source.statements.items()):  # the answer itself comes last
        head = f"# {exercise}, {PASSED} {day}\n" if bound_name == name else ""
        if old := _where(text, bound_name):
            start, end, body = old
            if text[body:end].strip() != statement.strip():
                replaced.append(text[start:end])
            elif text[start:body].startswith(head.partition(f" {PASSED} ")[0]):
                head, statement = text[start:body], text[body:end]
            statement = (head or text[start:body]) + statement
            if start <= place:
                text, place = text[:start] + statement + text[end:], start
                continue
            head, text = "", text[:start].rstrip("\n") + text[end:]  # it stands below what needs it
        before, after = text[:place].rstrip("\n"), text[place:]
        text = f"{before}\n\n\n{head}{statement}\n" + (f"\n\n{after}" if after.strip() else "")
        place = len(before) + 3
    return _with_imports(text, source.imports.values()), "\n\n\n".join(reversed(replaced))


def _without_other_heads(text: str, exercise: str, name: str) -> str:
    lines = text.split("\n")
    for statement in reversed(ast.parse(text).body):
        above = max(_first_line(statement) - 2, 0)
        if lines[above].startswith(f"# {exercise}, {PASSED} ") and name not in bound(statement):
            del lines[above]
    return "\n".join(lines)


def _where(text: str, name: str) -> tuple[int, int, int] | None:
    """Return the range of the statement that binds a name, with its comment; and where its code begins."""
    lines = text.split("\n")
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line) + 1)
    for statement in ast.parse(text).body:
        if name in bound(statement) and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            first = _first_line(statement) - 1
            has_head = first > 0 and lines[first - 1].startswith("# ") and f", {PASSED} " in lines[first - 1]
            return ends[first - has_head], ends[statement.end_lineno or first + 1] - 1, ends[first]
    return None


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _with_imports(text: str, wanted: Iterable[str]) -> str:
    """Return the file with one sorted block of imports: the wanted ones, and those it has already under other names.

    One that shares its line with something else, or has to be the file's first, stays where it is.
    """
    body = ast.parse(text).body
    lines = text.split("\n")
    there = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    new = [node for line in wanted for node in ast.parse(line).body]
    if {ast.unparse(one) for node in new for one in _each(node)} <= {
        ast.unparse(one) for n in there for one in _each(n)
    }:
        return text
    first: list[ast.stmt] = [n for n in there if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    first += body[:1] if ast.get_docstring(ast.parse(text)) else []
    moved = [n for n in there if n not in first and not {*"#;"} & {*"".join(lines[n.lineno - 1 : n.end_lineno])}]
    for node in reversed(moved):
        del lines[node.lineno - 1 : node.end_lineno]
    at = moved[0].lineno - 1 if moved else max((node.end_lineno or 0 for node in first), default=0)
    rebound = {_bound_name(one) for node in new for one in _each(node)}
    kept = [one for node in moved for one in _each(node) if _bound_name(one) not in rebound]
    block = [*([""] if not moved else []), *imports_of([*kept, *new])]
    above, below = "\n".join(lines[:at]).rstrip("\n"), "\n".join(lines[at:]).strip("\n")
    return "\n".join([*([above] if above else []), *([""] if above and moved else []), *block]) + f"\n\n\n{below}\n"


def _each(node: ast.stmt) -> list[ast.stmt]:
    if isinstance(node, ast.Import):
        return [ast.Import([alias]) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
    return []


def _bound_name(one: ast.stmt) -> str:
    """The name under which one thing is imported; `import a.b` is another thing than `import a`."""
    assert isinstance(one, (ast.Import, ast.ImportFrom))
    return one.names[0].asname or one.names[0].name


def imports_of(nodes: Iterable[ast.stmt]) -> list[str]:
    r"""Lines of imports, each name once: `import x` before `from x import y`, those of one module together.

    >>> imports_of(ast.parse("from torch import nn\nimport torch\nfrom torch import Tensor, nn").body)
    ['import torch', 'from torch import Tensor, nn']
    """
    plain, by_module = set(), dict[str, set[str]]()
    for node in nodes:
        for one in _each(node):
            if isinstance(one, ast.ImportFrom):
                by_module.setdefault("." * one.level + (one.module or ""), set()).add(ast.unparse(one.names[0]))
            else:
                plain.add(ast.unparse(one))
    lines = sorted(plain)
    for module, names in sorted(by_module.items()):
        line = f"from {module} import {', '.join(sorted(names))}"
        inner = "\n".join(wrap(", ".join(sorted(names)) + ",", 80, initial_indent="    ", subsequent_indent="    "))
        lines.append(line if len(line) <= 88 else f"from {module} import (\n{inner}\n)")
    return lines
