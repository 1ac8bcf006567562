"""One change of a node, with the words that name it."""

import ast
from dataclasses import dataclass
from typing import Any

OLD = "<what is there>"
"""Marks, in the words of a change, the place for the old node's text."""


@dataclass(frozen=True)
class Repair:
    """A new node, the kind of change, and the words before the old node's text."""

    node: ast.AST
    kind: str
    what: str = ""
    clause: str = ""
    """A clause that replaces these words; `OLD` marks where it quotes the old node's text."""
    at: ast.AST | None = None
    """The node whose line is shown, if not the changed node itself."""


WORDS = {
    "always": "",
    "branch": "",
    "removal": "",
    "reduction": "",
    "number": "another number in place of",
    "flag": "the opposite in place of",
    "operator": "another operator in",
    "function": "another function in place of",
    "order": "another order in",
    "pattern": "another pattern in place of",
    "condition": "another condition in place of",
    "name": "another variable in place of",
}
REORDERED = f"if {OLD} split the axes in the order they have in memory, and a transpose then exchanged them"
PIECES = f"if {OLD} took the length of each piece, as `split` does, and not the number of pieces"
IN_PLACE = f"if {OLD} made a new tensor instead of changing the old one"


def reworded(node: ast.AST, kind: str) -> Repair:
    """A change that the words of its kind describe."""
    return Repair(node, kind, WORDS[kind])


def expression(text: str, **parts: Any) -> Any:
    """An expression whose placeholders `_name` are other nodes."""

    class Filled(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return parts.get(node.id.removeprefix("_"), node) if node.id.startswith("_") else node

    made = ast.parse(text, mode="eval").body
    for node in ast.walk(made):  # new nodes have no line yet: they get the replaced node's
        for place in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            vars(node).pop(place, None)
    return Filled().visit(made)
