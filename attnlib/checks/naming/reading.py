"""Find slips in the source of an attempt: code that is a mistake wherever it occurs."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from attnlib.checks.asking.observe import argument_names
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.errors import Names, names_of
from attnlib.checks.naming.one_change.written import Written

HEADING = "What your code shows"
KEEPS_NOTHING = ("backward", "add", "remove", "index_copy", "register_hook", "retain_grad", "share_memory", "item")
"""Methods of tensors that do something, and those that lists and sets have as well."""
EINOPS = ("einsum", "rearrange", "reduce", "repeat")


@dataclass(frozen=True)
class Read:
    """An attempt's source: `certain` findings explain a wrong result by themselves, `hints` may or may not."""

    certain: tuple[Misconception, ...]
    hints: tuple[Misconception, ...]
    names: Names


def read(exercise: Exercise, written: Written) -> Read:
    """Everything that can be said of a wrong attempt by reading it."""
    slips = _Slips(exercise, written)
    certain = (*slips.methods(), *slips.notebook_variables(), *slips.lost_results(), *slips.dropout())
    hints = (*slips.unused_arguments(), *slips.unused_layers(), *slips.unused_variables())
    local = {n.id for n in ast.walk(written.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {n.arg for n in ast.walk(written.tree) if isinstance(n, ast.arg)}
    return Read(certain, hints, names_of(exercise, slips.attributes, local))


def _finding(id: str, title: str, explanation: str) -> Misconception:
    return Misconception(id=id, title=title, explanation=explanation, implementation=None, heading=HEADING)


class _Slips:
    """The answer's own functions and classes, and what its names stand for."""

    def __init__(self, exercise: Exercise, written: Written) -> None:
        self.exercise, self.written = exercise, written
        self.classes = [n for n in written.tree.body if isinstance(n, ast.ClassDef)]
        self.functions = [n for n in ast.walk(written.tree) if isinstance(n, ast.FunctionDef)]
        self.attributes = {
            n.attr
            for n in ast.walk(written.tree)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and _is_self(n.value)
        }

    def _line(self, node: ast.AST) -> str:
        number = getattr(node, "lineno", 1)
        text = self.written.lines[number - 1].strip() if number <= len(self.written.lines) else ""
        return f"line {number} (`{text}`)"

    def methods(self) -> Iterator[Misconception]:
        """A method without `self`, and one whose name nobody calls."""
        for node in self.classes:
            own = [n for n in node.body if isinstance(n, ast.FunctionDef)]
            for method in own:
                first = method.args.args[0].arg if method.args.args else None
                if not method.decorator_list and first in (None, *names_of(self.exercise).arguments):
                    yield _finding(
                        "self_missing",
                        f"`{method.name}` has no `self`",
                        f"Python passes the object itself to each of its methods, ahead of the other arguments, and "
                        f"{self._line(method)} has no parameter for it. Write `self` first.",
                    )
            named = {method.name for method in own}
            for right, like in (("forward", r"fo?r?r?wa?r?d|call|__forward__"), ("__init__", r"_*(init|int|inti)_*")):
                for method in own:
                    if right not in named and re.fullmatch(like, method.name, re.IGNORECASE):
                        yield _finding(
                            "method_misspelt",
                            f"`{method.name}` is never called; perhaps you meant `{right}`",
                            f"Python and PyTorch find a method by its exact name, underscores and capitals included: "
                            f"`{right}`. In {self._line(method)} it has a different one.",
                        )

    def notebook_variables(self) -> Iterator[Misconception]:
        """Tensors, layers and numbers that other cells of the notebook have bound, and that the answer reads."""
        own = {n.id for n in ast.walk(self.written.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {n.arg for n in ast.walk(self.written.tree) if isinstance(n, ast.arg)} | self.written.beside
        read: dict[str, ast.Name] = {}
        for function in self.functions:
            for node in (n for statement in function.body for n in ast.walk(statement)):
                if not isinstance(node, ast.Name) or node.id in own or hasattr(builtins, node.id):
                    continue
                if _is_of_the_notebook(node.id, self.written.namespace.get(node.id)):
                    first = read.setdefault(node.id, node)
                    read[node.id] = min(first, node, key=_position)
        if read:
            yield self._notebook_variables(sorted(read.values(), key=_position))

    def _notebook_variables(self, nodes: Sequence[ast.Name]) -> Misconception:
        names, value = [node.id for node in nodes], self.written.namespace[nodes[0].id]
        if names[0] in self.attributes:
            meant = f"The object's own is `self.{names[0]}`."
        elif isinstance(value, int | float):
            meant = (
                f"There, `{names[0]}` is {value}. Take the number from the arguments, from the shape of a tensor, or "
                "from `self`, if `__init__` kept it."
            )
        else:
            arguments = " and ".join(f"`{a.arg}`" for a in self._arguments()) or "the arguments"
            meant = f"Your code has to work with what it is given: {arguments}."
        several = len(names) > 1
        listed = f"{', '.join(f'`{name}`' for name in names[:-1])} and `{names[-1]}`" if several else f"`{names[0]}`"
        return _finding(
            "notebook_variable",
            f"{listed} {'are variables' if several else 'is a variable'} of the notebook",
            f"In {self._line(nodes[0])} your code reads what another cell has made, and that does not change with the "
            f"arguments. {meant}",
        )

    def _arguments(self) -> list[ast.arg]:
        """Those of the judged call, as the attempt names them."""
        wanted = "forward" if self.exercise.kind == "module" else self.written.name
        found = [f for f in self.functions if f.name == wanted]
        return [a for a in found[-1].args.args if a.arg != "self"] if found else []

    def lost_results(self) -> Iterator[Misconception]:
        """Statements that compute a new tensor, and that nobody keeps."""
        layers = _layers(self.written.tree)
        for function in self.functions:
            for node in ast.walk(function):
                if isinstance(node, ast.Expr) and (what := _lost(node.value, layers)):
                    yield _finding(
                        "result_not_kept",
                        f"The result of line {node.lineno} is not kept",
                        f"In {self._line(node)} {what} computed and dropped: every tensor is the same after this line "
                        "as before it. Give the result a name, and continue with that.",
                    )

    def dropout(self) -> Iterator[Misconception]:
        """Dropout that nobody asked for, or that does not know of evaluation mode."""
        wanted = self.exercise.kind == "module" and "dropout" in argument_names(self.exercise.reference)
        idle = self._idle()
        for node in (n for n in ast.walk(self.written.tree) if isinstance(n, ast.Call)):
            if not wanted and _drops(node) and id(node) not in idle:
                yield _finding(
                    "dropout_not_asked_for",
                    "No dropout is asked for",
                    f"In {self._line(node)} numbers are dropped at random, at least in training mode, in which the "
                    "gradients are checked. The contract has no dropout: leave it out.",
                )
                return
            if wanted and isinstance(node.func, ast.Call) and ast.unparse(node.func.func).endswith("nn.Dropout"):
                yield _finding(
                    "dropout_made_anew",
                    "A new dropout layer is made at each call",
                    f"In {self._line(node)} the layer is made and called at once. A new layer is in training mode, so "
                    "it drops at evaluation, too. Make it in `__init__`, where `model.eval()` finds it.",
                )
            given = {keyword.arg for keyword in node.keywords}
            if wanted and _is_functional_dropout(node) and not given & {"training", None} and len(node.args) < 3:
                yield _finding(
                    "dropout_always_on",
                    "F.dropout does not know about evaluation mode",
                    f"In {self._line(node)} `training=self.training` is missing, and without it F.dropout drops at "
                    "evaluation as well. An nn.Dropout created in `__init__` knows the mode by itself.",
                )

    def _idle(self) -> set[int]:
        """The calls, by their `id`, whose result nobody uses: as a statement, or as an attribute that is not read."""
        statements = [n for n in ast.walk(self.written.tree) if isinstance(n, ast.Expr)]
        lost = {id(n) for s in statements for n in ast.walk(s)}
        read = {
            n.attr
            for n in ast.walk(self.written.tree)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and id(n) not in lost
        }
        for node in ast.walk(self.written.tree):
            if isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute) for t in node.targets):
                lost |= {id(node.value)} if not {t.attr for t in node.targets} & read else set()  # type: ignore[attr-defined]
        return lost

    def unused_arguments(self) -> Iterator[Misconception]:
        """Arguments on which the result cannot depend."""
        judged = ("forward", "__init__") if self.exercise.kind == "module" else (self.written.name,)
        for function in self.functions:
            if function.name not in judged or _is_unwritten(function):
                continue
            read = _loads(function)
            for argument in [*function.args.args, *function.args.kwonlyargs]:
                name = argument.arg
                if name != "self" and not name.startswith("_") and not read & {name, "locals", "vars", "eval"}:
                    yield _finding(
                        "argument_not_used",
                        f"`{name}` is never used",
                        f"`{function.name}` takes it and never reads it, so the result cannot depend on it. Is there a "
                        "number or another variable in its place, or is a step missing?",
                    )

    def unused_layers(self) -> Iterator[Misconception]:
        """Layers that are made and never called."""
        for node in self.classes:
            text = ast.unparse(node)
            if {ast.unparse(base) for base in node.bases} - {"nn.Module", "Module", "torch.nn.Module"}:
                continue
            if re.search(r"getattr|children\(|modules\(|super\(\)\.forward|vars\(|__dict__", text):
                continue
            used = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}
            for name in sorted(_layers(node) - used):
                yield _finding(
                    "layer_not_used",
                    f"`self.{name}` is made and never used",
                    "`__init__` makes it, and `forward` does not call it. Where does it belong?",
                )

    def unused_variables(self) -> Iterator[Misconception]:
        """Results under a name that nobody reads."""
        for function in self.functions:
            read = _loads(function)
            for node in ast.walk(function):
                if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                    continue
                name = node.targets[0].id
                if name not in read and not name.startswith("_") and not isinstance(node.value, ast.Constant):
                    yield _finding(
                        "variable_not_used",
                        f"`{name}` is computed and never used",
                        f"It gets its value in {self._line(node)}, and no line reads it. Is a different variable used "
                        "further down, or returned, in its place?",
                    )


def _layers(tree: ast.AST) -> set[str]:
    """The attributes that are set to an object of some class: layers."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func).rpartition(".")[2]
            if called[:1].isupper():
                found |= {t.attr for t in node.targets if isinstance(t, ast.Attribute) and _is_self(t.value)}
    return found


def _is_functional_dropout(node: ast.Call) -> bool:
    called = ast.unparse(node.func)
    return re.fullmatch(r"(F|(torch\.)?nn\.functional|functional|torch)\.(\w+_)?dropout\w*", called) is not None


def _drops(node: ast.Call) -> bool:
    """Whether it makes a dropout layer or calls the function, with any other share than none."""
    layer = re.fullmatch(r"((torch\.)?nn\.)?\w*Dropout\d?d?", ast.unparse(node.func)) is not None
    off = [*node.args[:1], *_given(node, "p")] if layer else [*node.args[1:3], *_given(node, "p", "training")]
    never = any(isinstance(value, ast.Constant) and not value.value for value in off)
    return (layer or _is_functional_dropout(node)) and not never


def _given(node: ast.Call, *names: str) -> list[ast.expr]:
    return [keyword.value for keyword in node.keywords if keyword.arg in names]


def _position(node: ast.Name) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_of_the_notebook(name: str, value: Any) -> bool:
    """Whether it is data: a tensor, a layer, some of them in a list, or a number that is not written as a constant."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(v, Tensor | nn.Module) for v in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return not name.isupper()
    return isinstance(value, Tensor | nn.Module)


def _lost(value: ast.expr, layers: set[str]) -> str:
    """What a statement of this expression computes for nobody; empty if it may do something else as well."""
    if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare):
        return f"`{_short(value)}` is"
    if not isinstance(value, ast.Call):
        return ""
    if isinstance(value.func, ast.Name):
        return f"`{value.func.id}(…)` is" if value.func.id in EINOPS else ""
    if not isinstance(value.func, ast.Attribute):
        return ""
    name, owner = value.func.attr, value.func.value
    if any(k.arg == "out" for k in value.keywords) or name.endswith("_"):
        return ""
    if _is_self(owner):
        return f"`self.{name}(…)` is" if name in layers else ""
    of_torch = ast.unparse(owner) in ("torch", "F", "nn.functional", "torch.nn.functional", "einops")
    known = name in EINOPS or hasattr(nn.functional, name) or hasattr(Tensor, name)
    of_tensor = not of_torch and isinstance(owner, ast.Name | ast.Call | ast.BinOp) and hasattr(Tensor, name)
    if name in KEEPS_NOTHING and not of_torch:
        return ""
    return f"`{_short(value.func)}(…)` is" if (of_torch and known) or of_tensor else ""


def _short(node: ast.AST) -> str:
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 40 else f"{text[:39]}…"


def _loads(function: ast.FunctionDef) -> set[str]:
    found = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    changed = {
        n.target.id for n in ast.walk(function) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    return found | changed


def _is_unwritten(function: ast.FunctionDef) -> bool:
    return isinstance(function.body[-1], ast.Raise | ast.Pass)
