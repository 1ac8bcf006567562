"""Find the forbidden functions that an attempt's source names, from its syntax tree; nothing is executed."""

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from .ready_made import ELSEWHERE, pattern_of, plain

REFERENCES = ("attnlib.checks.exercises", "attnlib.checks.course")
"""The modules with the references, which no answer needs."""

LIBRARIES = ("torch.", "numpy.")
"""Libraries whose functions are recognized by name; what other libraries' functions do is seen when they run."""

COMPILED = re.compile(rf"({'|'.join(ELSEWHERE)})\.(?!datasets)")
"""Libraries whose compiled functions have no names that could be found; lessons only take data from them."""

LOCAL = ""  # a name that the source binds itself: possibly to a tensor
OBJECT = "an object of the attempt"


Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Use:
    """A forbidden name in the source: by its qualified name, with the line's number and text."""

    name: str
    line: int
    text: str


def shortcuts(
    source: str, forbidden: Iterable[str], *, names: Mapping[str, str] | None = None, methods: Iterable[str] = ()
) -> list[Use]:
    r"""The uses of forbidden functions, by whatever name: through imports, aliases, attributes, getattr and methods.

    `names` are those that the source finds outside of itself, with what they stand for (`F`: `torch.nn.functional`);
    `methods` are those that the attempt's own objects have: calling them is no shortcut.

    >>> from attnlib.checks.asking.ready_made import SOFTMAX
    >>> shortcuts("import torch.nn.functional as F\nweights = F.softmax(scores, -1)", [SOFTMAX])
    [Use(name='torch.nn.functional.softmax', line=2, text='weights = F.softmax(scores, -1)')]
    """
    tree = ast.parse(source)
    forbidden = tuple(forbidden)
    banned = {_short(name): name.removesuffix(".forward") for name in forbidden}
    own = set(methods) | _own_methods(tree)
    reader = _Reader(banned, pattern_of(forbidden), source.splitlines(), own)
    reader.scopes.append(dict(names or {}))
    reader.read(tree.body)
    return sorted(set(reader.uses), key=lambda use: use.line)


def _own_methods(tree: ast.Module) -> set[str]:
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name for c in classes for node in c.body if isinstance(node, ast.FunctionDef)}


@dataclass
class _Reader:
    """Reads statements in order; the bodies of functions last, for they run when all names are bound."""

    banned: Mapping[str, str]  # what is exported under this name, to where it is
    pattern: re.Pattern[str] | None
    lines: list[str]
    methods: set[str]
    scopes: list[dict[str, str]] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)

    def read(self, body: list[ast.stmt]) -> None:
        later: list[Function] = []
        for statement in body:
            self._visit(statement, later)
        for function in later:
            self._read_function(function)

    def _read_function(self, node: Function) -> None:
        arguments = node.args
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self.scopes.append({a.arg: LOCAL for a in listed if a is not None})
        self.read([ast.Expr(node.body)] if isinstance(node, ast.Lambda) else node.body)
        self.scopes.pop()

    def _visit(self, node: ast.AST, later: list[Function]) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.scopes[-1][node.name] = LOCAL
            self._visit_all([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults], later)
            later.append(node)
        elif isinstance(node, ast.Lambda):
            self._visit_all(node.args.defaults, later)
            later.append(node)
        elif isinstance(node, ast.ClassDef):
            self._visit_all([*node.bases, *node.decorator_list], later)
            self.scopes[-1][node.name] = LOCAL
            self.scopes.append({})
            self._visit_all(node.body, later)
            self.scopes.pop()
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.For | ast.comprehension | ast.withitem):
            self._bind(node, later)
        elif (name := self._name_of(node)) is not None and self._is_banned(name):
            self._note(node, name)
        else:
            self._note_method(node)
            self._visit_all(_in_order(node), later)

    def _visit_all(self, nodes: Iterable[ast.AST | None], later: list[Function]) -> None:
        for node in nodes:
            if node is not None:
                self._visit(node, later)

    def _bind(self, node: ast.AST, later: list[Function]) -> None:
        """Visit the assigned value, then the targets; an alias of a module or function stands for it from here on."""
        value = next(getattr(node, f) for f in ("value", "iter", "context_expr") if hasattr(node, f))
        targets = getattr(node, "targets", [getattr(node, "target", getattr(node, "optional_vars", None))])
        self._visit_all([value], later)
        stands_for = self._name_of(value) if value is not None and not isinstance(node, ast.For) else None
        for target in targets:
            for leaf in ast.walk(target) if target is not None else ():
                if isinstance(leaf, ast.Name):
                    self.scopes[-1][leaf.id] = stands_for or LOCAL
        self._visit_all([c for f in ("ifs", "body", "orelse") for c in getattr(node, f, [])], later)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                name, stands_for = alias.asname or alias.name.split(".")[0], alias.name
                self.scopes[-1][name] = stands_for if alias.asname else name
            elif alias.name == "*":
                names = dir(sys.modules.get(str(node.module)))
                self.scopes[-1] |= {n: f"{node.module}.{n}" for n in names if self._is_banned(f"{node.module}.{n}")}
            else:
                qualified = f"{node.module}.{alias.name}"
                self.scopes[-1][alias.asname or alias.name] = qualified
                if self._is_banned(qualified):
                    self._note(node, qualified)

    def _name_of(self, node: ast.AST | None) -> str | None:
        """The qualified name that an expression stands for; LOCAL for the source's own, None for what is unknown."""
        if isinstance(node, ast.Name):
            return next((scope[node.id] for scope in reversed(self.scopes) if node.id in scope), None)
        if isinstance(node, ast.Attribute):
            return self._member(node.value, node.attr)
        if isinstance(node, ast.Subscript) and (text := _literal(node.slice)):
            inner = node.value
            if isinstance(inner, ast.Attribute) and inner.attr == "__dict__":
                return self._member(inner.value, text)
            if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "vars" and inner.args:
                return self._member(inner.args[0], text)
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.rpartition(".")[2][:1].isupper():
                return OBJECT
            if called == "getattr" and len(node.args) > 1 and (text := _literal(node.args[1])):
                return self._member(node.args[0], text)
            if called in ("__import__", "import_module", "importlib.import_module") and node.args:
                return _literal(node.args[0])
        return None

    def _member(self, owner: ast.AST, name: str) -> str | None:
        base = self._name_of(owner)
        return f"{base}.{name}" if base else None

    def _is_banned(self, name: str) -> bool:
        if _short(name) in self.banned or name.startswith(REFERENCES):
            return True
        if self.pattern is None or COMPILED.match(name):
            return self.pattern is not None
        last = plain(".".join(name.split(".")[-2:]))
        return name.startswith(LIBRARIES) and bool(self.pattern.search(last))

    def _note_method(self, node: ast.AST) -> None:
        """`x.softmax(…)`, `(q @ k).softmax(…)`: a method of what may be a tensor, not of a module or an object."""
        owner, name = None, None
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) > 1:
            owner, name = node.args[0], _literal(node.args[1])
        if owner is None or name in self.methods or not hasattr(Tensor, str(name)):
            return
        if self.pattern is None or not self.pattern.search(plain(str(name))):
            return
        is_tensor = self._name_of(owner) == LOCAL if isinstance(owner, ast.Name | ast.Attribute) else True
        if is_tensor and self._name_of(owner) != OBJECT and ast.unparse(owner) not in ("self", "cls", "super()"):
            self._note(node, f"torch.Tensor.{name}")

    def _note(self, node: ast.AST, name: str) -> None:
        line = getattr(node, "lineno", 1)
        self.uses.append(Use(self.banned.get(_short(name), name), line, self.lines[line - 1].strip()))


def _short(name: str) -> str:
    """attnlib's functions by the name that the package exports, wherever they were found; a class, not its forward."""
    name = name.removesuffix(".forward")
    return f"attnlib.{name.rpartition('.')[2]}" if name.startswith("attnlib.") else name


def _in_order(node: ast.AST) -> list[ast.AST]:
    """The node's parts; of a comprehension the loops first, which bind what its element uses."""
    return sorted(ast.iter_child_nodes(node), key=lambda child: not isinstance(child, ast.comprehension))


def _literal(node: ast.AST) -> str | None:
    """The string that an expression of literals comes to."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left), _literal(node.right)
        return left + right if left is not None and right is not None else None
    if isinstance(node, ast.JoinedStr):
        parts = [_literal(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values]
        return "".join(p for p in parts if p is not None) if None not in parts else None
    return None
