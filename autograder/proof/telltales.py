"""Code beside the mistake that gives it away, or that nobody would write: such bugs are not served.

A linter finds a variable that nothing reads any more without understanding anything, and so does a practised eye.
"""

import ast
from collections.abc import Iterator

from attnlib.checks.practising.bug import Bug

Definition = ast.FunctionDef | ast.ClassDef


def telltale(bug: Bug) -> str:
    """Return what gives the bug away, or misleads, without being its mistake; "" if nothing does."""
    right, wrong = ast.parse(bug.right), ast.parse(bug.code)
    if dead(right) or never_used(right):
        return "a right answer with code that never runs"
    if (unread(wrong) - unread(right)) | dead(wrong):
        return "a name that is left over"
    if any(_odd(statement) for statement in _wrong_statements(bug, wrong)):
        return "a line that nobody writes"
    new = [line for change in bug.changes for line in change.lines if " else " not in change.repair]
    if any(" if " in code and " else " in code for code in (bug.code.split("\n")[line - 1] for line in new)):
        return "a condition that the right line does without"
    return ""


def unread(tree: ast.Module) -> set[str]:
    r"""Return the variables that are assigned, and modules imported, that nothing reads.

    What is unpacked or counted may stay unread, and `math` and `torch`, which every bug imports.

    >>> sorted(unread(ast.parse("a, b = f()\nc = a\nd = c")))
    ['d']
    """
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    read = {name.id for name in names if not isinstance(name.ctx, ast.Store)}
    read |= {n.target.id for n in ast.walk(tree) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    stored = {t.id for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    imports = (alias for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names)
    stored |= {alias.asname or alias.name for alias in imports} - {"math", "torch"}
    return {name for name in stored - read if not name.startswith("_")}


def dead(tree: ast.Module) -> set[str]:
    r"""Return the helpers that nothing outside them names, and the methods that a class below overrides.

    >>> sorted(dead(ast.parse("def f(): return f()\ndef g(): return 1\ndef h(): return g()")))
    ['f']
    """
    defined = [node for node in tree.body if isinstance(node, Definition)]
    found = {
        one.name for one in defined[:-1] if not any(_names(other, one.name) for other in tree.body if other != one)
    }
    classes = {one.name: one for one in defined if isinstance(one, ast.ClassDef)}
    for below in classes.values():
        calls = {node.attr for node in ast.walk(below) if isinstance(node, ast.Attribute) and _is_super(node.value)}
        for base in (classes[b.id] for b in below.bases if isinstance(b, ast.Name) and b.id in classes):
            found |= {f"{base.name}.{name}" for name in (_methods(base) & _methods(below)) - calls}
    return found


def never_used(tree: ast.Module) -> set[str]:
    r"""Return the layers, buffers and other attributes of `self` that nothing reads.

    >>> sorted(never_used(ast.parse("self.a = 1\nself.b = self.a\nself.register_buffer('c', mask)")))
    ['b', 'c']
    """
    own = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
    own = [node for node in own if isinstance(node.value, ast.Name) and node.value.id == "self"]
    made = {node.attr for node in own if isinstance(node.ctx, ast.Store)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.func in own and node.args):
        if getattr(call.func, "attr", "").startswith("register_") and isinstance(call.args[0], ast.Constant):
            made.add(str(call.args[0].value))
    return made - {node.attr for node in own if isinstance(node.ctx, ast.Load)}


def _names(node: ast.stmt, name: str) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))


def _methods(node: ast.ClassDef) -> set[str]:
    return {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _wrong_statements(bug: Bug, tree: ast.Module) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno in bug.lines)


def _odd(statement: ast.stmt) -> bool:
    """True if a variable gets the value of another one, or its own."""
    if not isinstance(statement, ast.Assign):
        return False
    [target, *_], value = statement.targets, statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        both = zip(target.elts, value.elts, strict=False)
        return any(isinstance(a, ast.Name) and isinstance(b, ast.Name) and a.id == b.id for a, b in both)
    return isinstance(target, ast.Name) and isinstance(value, ast.Name)
