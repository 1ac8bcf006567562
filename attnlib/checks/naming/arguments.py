"""Arguments and layers that an answer never uses, and those of F.dropout: what they explain."""

import ast
import contextlib
import dis
import inspect
from collections.abc import Sequence

import torch

from attnlib.checks.asking.given import made
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.naming.syntax import is_functional_dropout, is_unwritten, names_read


def arguments_of(function: ast.FunctionDef) -> list[str]:
    """The names of a function's arguments, in their order."""
    return [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]


def unread_arguments(exercise: Exercise, function: ast.FunctionDef) -> list[str]:
    """Return the arguments it never reads, though a right answer has to; none for a function that isn't written yet."""
    read = names_read(function) | {"self"}
    if is_unwritten(function) or read & {"locals", "vars", "eval"}:
        return []
    unread = [(p, name) for p, name in enumerate(arguments_of(function)) if name not in read and name[:1] != "_"]
    return [name for place, name in unread if not may_be_left_out(exercise, place)]


def may_be_left_out(exercise: Exercise, place: int) -> bool:
    """True if a right function can do without the argument.

    The contract has no argument here, or the reference doesn't read it, or the other arguments determine it.
    """
    code = getattr(inspect.unwrap(exercise.reference), "__code__", None)
    if code is None or exercise.kind != "function":
        return False
    if place >= code.co_argcount + code.co_kwonlyargcount:
        return True
    read = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD")}
    return code.co_varnames[place] not in read or _follows_from_the_others(exercise, place)


def _follows_from_the_others(exercise: Exercise, place: int) -> bool:
    """True if the reference refuses every other number for it."""
    for case in (c for c in exercise.cases if not c.raises):
        inputs = made(case.inputs(Draw(exercise.name, dtype=case.dtype)))
        if place >= len(inputs) or type(inputs[place]) is not int:
            return False
        for other in {*range(1, 2 * inputs[place] + 2)} - {inputs[place]}:
            with contextlib.suppress(Exception):
                exercise.reference(*inputs[:place], other, *inputs[place + 1 :])
                return False
    return True


def not_given(exercise: Exercise, wrong: Sequence[Case], place: int, it: str, its: str) -> str:
    """Say that the first wrong case doesn't pass this argument, so that there is more to explain; else empty."""
    case = next((c for c in wrong if not c.raises), None)
    if case is None or exercise.kind != "function":
        return ""
    if len(case.inputs(Draw(exercise.name, dtype=case.dtype))) > place:
        return ""
    return (
        f" The case “{case.name}” does not give {it}: either what you use in {its} place differs from {its} "
        "default, or there is a second mistake."
    )


def layers_in(exercise: Exercise, case: Case) -> set[str]:
    """The attributes that hold the reference's parameters, built for this case."""
    sizes, _ = case.inputs(Draw(exercise.name, dtype=case.dtype))
    with torch.random.fork_rng(devices=[]):
        return {name.split(".")[0] for name, _ in exercise.reference(*sizes).named_parameters()}


def made_elsewhere(exercise: Exercise, wrong: Sequence[Case], name: str) -> str | None:
    """Say that the first wrong case lacks this layer; empty if it has it, None if all wrong cases lack it."""
    built = [layers_in(exercise, case) for case in exercise.cases if not case.raises]
    lacking = [name not in layers_in(exercise, case) for case in wrong if not case.raises]
    if not any(name in layers for layers in built) or True not in lacking[:1]:
        return ""
    if all(lacking):
        return None
    return f" But the case “{wrong[0].name}” is wrong as well, and has no `{name}`: there is a second mistake."


def fault_of_mode(node: ast.Call) -> tuple[str, str, str] | None:
    """Return what is wrong with F.dropout's arguments, if anything is: an id, a title, and why."""
    if not is_functional_dropout(node):
        return None
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    share = [*node.args[1:2], *([given["p"]] if "p" in given else [])]
    if any(ast.unparse(value).endswith(".training") for value in share):
        return (
            "mode_for_share",
            "The mode is given where the probability belongs",
            "`self.training` is taken for p, the probability that an entry is dropped: True counts as 1, so everything "
            "is dropped in training. Pass both: `F.dropout(x, p, self.training)`.",
        )
    if given.keys() & {"training", None} or len(node.args) > 2:
        return None
    return (
        "dropout_always_on",
        "F.dropout does not know about evaluation mode",
        "`training=self.training` is missing, and without it F.dropout drops at evaluation as well. An nn.Dropout "
        "created in `__init__` knows the mode by itself.",
    )
