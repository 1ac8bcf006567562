"""Find slips in the source of an attempt: code that is a mistake wherever it occurs."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnlib.checks.asking.observe import argument_names
from attnlib.checks.exercise import Case, Exercise, Misconception
from attnlib.checks.naming.arguments import arguments_of, fault_of_mode, made_elsewhere, not_given, unread_arguments
from attnlib.checks.naming.error_readers import Names
from attnlib.checks.naming.errors import names_of
from attnlib.checks.naming.one_change.written import Written
from attnlib.checks.naming.syntax import (
    attributes_set,
    drops_numbers,
    forgotten_layers,
    idle_calls,
    is_of_the_notebook,
    layers_of,
    listed,
    loops_over,
    lost_by,
    names_called,
    names_filled,
    names_read,
    position_of,
    repeats_an_object,
    zero_by_default,
)

HEADING = "What your code shows"


@dataclass(frozen=True)
class Read:
    """An attempt's source: `certain` findings explain a wrong result by themselves, `hints` may or may not."""

    certain: tuple[Misconception, ...]
    hints: tuple[Misconception, ...]
    names: Names
    unread: frozenset[str] = frozenset()
    """The arguments that a hint calls unused."""

    def beside(self, known: Misconception) -> tuple[Misconception, ...]:
        """Return the hints at unused arguments that the known mistake doesn't mention."""
        said = set(re.findall(r"\w+", f"{known.title} {known.explanation}"))
        unsaid = any(not {name, *name.split("_")} & said for name in self.unread)
        return tuple(h for h in self.hints if h.id == "argument_not_used") if unsaid else ()


def read(exercise: Exercise, written: Written, wrong: Sequence[Case] = ()) -> Read:
    """Everything that can be said by reading it of an attempt that is wrong in these cases."""
    slips = _Slips(exercise, written, wrong)
    certain = (*slips.methods(), *slips.notebook_variables(), *slips.lost_results(), *slips.dropout())
    certain += (*slips.kept_in_a_default(), *slips.classes_not_counted())
    hints = (*slips.one_object_repeated(), *slips.unused_arguments(), *slips.unused_layers(), *slips.unused_variables())
    local = {n.id for n in ast.walk(written.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {n.arg for n in ast.walk(written.tree) if isinstance(n, ast.arg)}
    unread = frozenset(name for _, names in slips.unread_arguments() for name in names)
    return Read(certain, hints, names_of(exercise, slips.attributes, local), unread)


def _finding(id: str, title: str, explanation: str) -> Misconception:
    return Misconception(id=id, title=title, explanation=explanation, implementation=None, heading=HEADING)


class _Slips:
    """Reads the answer's own functions and classes, with the values of its names."""

    def __init__(self, exercise: Exercise, written: Written, wrong: Sequence[Case] = ()) -> None:
        self.exercise, self.written, self.wrong = exercise, written, wrong
        self.classes = [n for n in written.tree.body if isinstance(n, ast.ClassDef)]
        self.functions = [n for n in ast.walk(written.tree) if isinstance(n, ast.FunctionDef)]
        self.attributes = attributes_set(written.tree)

    def _line(self, node: ast.AST) -> str:
        number = getattr(node, "lineno", 1)
        text = self.written.lines[number - 1].strip() if number <= len(self.written.lines) else ""
        return f"line {number} (`{text}`)"

    def methods(self) -> Iterator[Misconception]:
        """A method without `self`, one whose name nobody calls, and a layer that `__init__` forgets."""
        attributes = {ast.unparse(n) for n in ast.walk(self.written.tree) if isinstance(n, ast.Attribute)}
        for node in self.classes:
            own = [n for n in node.body if isinstance(n, ast.FunctionDef)]
            yield from (self._forgotten(*found) for method in own for found in forgotten_layers(method))
            for method in own:
                first = method.args.args[0].arg if method.args.args else None
                by_class = f"{node.name}.{method.name}" in attributes  # then it gets no object
                if not (method.decorator_list or by_class) and first in (None, *names_of(self.exercise).arguments):
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

    def _forgotten(self, name: str, node: ast.Assign) -> Misconception:
        return _finding(
            "self_missing",
            f"`{name}` needs `self.` before it",
            f"In {self._line(node)} a layer is made, and only a variable of `__init__` holds it: it is gone when "
            f"`__init__` returns. What the object should keep is stored on it: `self.{name} = …`.",
        )

    def notebook_variables(self) -> Iterator[Misconception]:
        """Tensors, layers and numbers that other cells of the notebook have bound, and that the answer reads."""
        own = {n.id for n in ast.walk(self.written.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {n.arg for n in ast.walk(self.written.tree) if isinstance(n, ast.arg)} | self.written.beside
        own |= {function.name for function in self.functions}
        constants = any(True for _ in self.unread_arguments())  # one of the lesson's may have replaced it
        read: dict[str, ast.Name] = {}
        for function in self.functions:
            for node in (n for statement in function.body for n in ast.walk(statement)):
                if not isinstance(node, ast.Name) or node.id in own or hasattr(builtins, node.id):
                    continue
                if is_of_the_notebook(node.id, self.written.namespace.get(node.id), constants):
                    first = read.setdefault(node.id, node)
                    read[node.id] = min(first, node, key=position_of)
        if read:
            yield self._notebook_variables(sorted(read.values(), key=position_of))

    def _notebook_variables(self, nodes: Sequence[ast.Name]) -> Misconception:
        names, value = [node.id for node in nodes], self.written.namespace[nodes[0].id]
        if names[0] in self.attributes:
            meant = f"The object's own is `self.{names[0]}`."
        elif isinstance(value, int | float):
            meant = (
                f"There, `{names[0]}` is {value}. If a number is needed in its place, take it from the arguments, from "
                "the shape of a tensor, or from `self`, if `__init__` kept it."
            )
        else:
            arguments = " and ".join(f"`{a.arg}`" for a in self._arguments()) or "the arguments"
            meant = f"Your code has to work with what it is given: {arguments}."
        return _finding(
            "notebook_variable",
            f"{listed(names)} {'are variables' if len(names) > 1 else 'is a variable'} of the notebook",
            f"In {self._line(nodes[0])} your code reads what another cell has made, and that does not change with the "
            f"arguments. {meant}",
        )

    def _arguments(self) -> list[ast.arg]:
        """The arguments of the judged call, as the attempt names them."""
        wanted = "forward" if self.exercise.kind == "module" else self.written.name
        found = [f for f in self.functions if f.name == wanted]
        return [a for a in found[-1].args.args if a.arg != "self"] if found else []

    def lost_results(self) -> Iterator[Misconception]:
        """Statements that compute a new tensor, and that nobody keeps."""
        layers, no_tensors = layers_of(self.written.tree), names_called(self.written.tree)
        for function in self.functions:
            called = loops_over(function, layers)
            for node in ast.walk(function):
                if isinstance(node, ast.Expr) and (what := lost_by(node.value, layers, called, no_tensors)):
                    yield _finding(
                        "result_not_kept",
                        f"The result of line {node.lineno} is not kept",
                        f"In {self._line(node)} {what} computed and dropped: every tensor is the same after this line "
                        "as before it. If the result should count, give it a name and continue with that; if not, "
                        "leave the line out.",
                    )

    def dropout(self) -> Iterator[Misconception]:
        """Dropout that nobody asked for, or that does not know of evaluation mode."""
        wanted = self.exercise.kind == "module" and "dropout" in argument_names(self.exercise.reference)
        idle, zeros = idle_calls(self.written.tree), set().union(*map(zero_by_default, self.functions))
        for node in (n for n in ast.walk(self.written.tree) if isinstance(n, ast.Call)):
            if not wanted and drops_numbers(node, zeros) and id(node) not in idle:
                mode = ", at least in training, where gradients are checked" * (self.exercise.kind == "module")
                yield _finding(
                    "dropout_not_asked_for",
                    "No dropout is asked for",
                    f"In {self._line(node)} numbers are dropped at random{mode}. The contract has none: leave it out.",
                )
                return
            if wanted and isinstance(node.func, ast.Call) and ast.unparse(node.func.func).endswith("nn.Dropout"):
                yield _finding(
                    "dropout_made_anew",
                    "A new dropout layer is made at each call",
                    f"In {self._line(node)} the layer is made and called at once. A new layer is in training mode, so "
                    "it drops at evaluation, too. Make it in `__init__`, where `model.eval()` finds it.",
                )
            if wanted and (fault := fault_of_mode(node)):
                name, title, why = fault
                yield _finding(name, title, f"In {self._line(node)} {why}")

    def kept_in_a_default(self) -> Iterator[Misconception]:
        """Find a list or dictionary that is an argument's default and gets filled."""
        for function in self.functions:
            arguments = [*function.args.posonlyargs, *function.args.args]
            with_default = zip(reversed(arguments), reversed(function.args.defaults), strict=False)
            for argument, default in with_default:
                if isinstance(default, ast.List | ast.Dict | ast.Set) and argument.arg in names_filled(function):
                    yield _finding(
                        "kept_in_a_default",
                        f"`{argument.arg}` still holds what earlier calls put into it",
                        f"In {self._line(function)} the default is made once, when the function is defined, and every "
                        "call that leaves the argument out gets the same object. Make a new one inside the function.",
                    )

    def classes_not_counted(self) -> Iterator[Misconception]:
        """Find a one_hot without the number of classes."""
        for node in (n for n in ast.walk(self.written.tree) if isinstance(n, ast.Call)):
            if ast.unparse(node.func).split(".")[-1] == "one_hot" and len(node.args) == 1 and not node.keywords:
                yield _finding(
                    "classes_not_counted",
                    "`one_hot` is not told how many classes there are",
                    f"In {self._line(node)} it counts up to the largest id that happens to occur, so the width of "
                    "the result depends on the input. Pass the number of classes: `F.one_hot(ids, num_classes)`.",
                )

    def one_object_repeated(self) -> Iterator[Misconception]:
        """Find a list that is multiplied, and holds one object many times."""
        for node in filter(repeats_an_object, ast.walk(self.written.tree)):
            yield _finding(
                "one_object_repeated",
                "A list holds the same object several times",
                f"In {self._line(node)} `[…] * n` copies nothing: what is written into one entry is in all of them. "
                "Make each one separately, `[… for _ in range(n)]`.",
            )

    def unread_arguments(self) -> Iterator[tuple[ast.FunctionDef, list[str]]]:
        """The names of arguments on which the result cannot depend."""
        judged = ("forward", "__init__") if self.exercise.kind == "module" else (self.written.name,)
        for function in self.functions:
            if function.name in judged and (unused := unread_arguments(self.exercise, function)):
                yield function, unused

    def unused_arguments(self) -> Iterator[Misconception]:
        """Arguments on which the result cannot depend; if they are not given where it is wrong, that is said."""
        for function, unused in self.unread_arguments():
            it, its = ("them", "their") if len(unused) > 1 else ("it", "its")
            more = not_given(
                self.exercise, self.wrong, min(arguments_of(function).index(name) for name in unused), it, its
            )
            yield _finding(
                "argument_not_used",
                f"{listed(unused)} {'are' if len(unused) > 1 else 'is'} never used",
                f"`{function.name}` takes {it} and never reads {it}, so the result cannot depend on {it}. Is there "
                f"a number or another variable in {its} place, or is a step missing?{more}",
            )

    def unused_layers(self) -> Iterator[Misconception]:
        """Layers that are made and never called, by their class or by one that extends it."""
        used = {
            n.attr for n in ast.walk(self.written.tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)
        }
        for node in self.classes:
            text = ast.unparse(node)
            if {ast.unparse(base) for base in node.bases} - {"nn.Module", "Module", "torch.nn.Module"}:
                continue
            if re.search(r"getattr|children\(|modules\(|super\(\)\.forward|vars\(|__dict__", text):
                continue
            unused: dict[str, list[str]] = {}
            for name in sorted(layers_of(node) - used):
                if (more := made_elsewhere(self.exercise, self.wrong, name)) is not None:
                    unused.setdefault(more, []).append(f"self.{name}")
            for more, names in unused.items():
                are, it, does = ("are", "them", "do they") if len(names) > 1 else ("is", "it", "does it")
                yield _finding(
                    "layer_not_used",
                    f"{listed(names)} {are} made and never used",
                    f"`__init__` makes {it}, and `forward` does not call {it}. Where {does} belong?{more}",
                )

    def unused_variables(self) -> Iterator[Misconception]:
        """Results under a name that nobody reads."""
        for function in self.functions:
            read = names_read(function)
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
