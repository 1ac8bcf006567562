"""Arguments that an answer never reads: whether it may do so, and what that explains."""

import ast
import contextlib
import dis
import inspect
from collections.abc import Sequence

from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


def arguments_of(function: ast.FunctionDef) -> list[str]:
    """The names of a function's arguments, in their order."""
    return [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]


def may_be_left_out(exercise: Exercise, place: int) -> bool:
    """Whether a right function can do without the argument.

    The contract has none in this place, or the reference does not read it, or the others leave it no choice.
    """
    code = getattr(inspect.unwrap(exercise.reference), "__code__", None)
    if code is None or exercise.kind != "function":
        return False
    if place >= code.co_argcount + code.co_kwonlyargcount:
        return True
    read = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD")}
    return code.co_varnames[place] not in read or _follows_from_the_others(exercise, place)


def _follows_from_the_others(exercise: Exercise, place: int) -> bool:
    """Whether the reference refuses any other number for it."""
    for case in (c for c in exercise.cases if not c.raises):
        inputs = case.inputs(Draw(exercise.name, dtype=case.dtype))
        if place >= len(inputs) or type(inputs[place]) is not int:
            return False
        for other in {*range(1, 2 * inputs[place] + 2)} - {inputs[place]}:
            with contextlib.suppress(Exception):
                exercise.reference(*inputs[:place], other, *inputs[place + 1 :])
                return False
    return True


def not_given(exercise: Exercise, wrong: Sequence[Case], place: int, it: str, its: str) -> str:
    """That the first of the wrong cases leaves out the argument of this place, so that there is more to say."""
    case = next((c for c in wrong if not c.raises), None)
    if case is None or exercise.kind != "function":
        return ""
    if len(case.inputs(Draw(exercise.name, dtype=case.dtype))) > place:
        return ""
    return (
        f" The case “{case.name}” does not give {it}: either what you use in {its} place differs from {its} "
        "default, or there is a second mistake."
    )
