"""Explain an exception in the attempt in the learner's terms, by its message and by the names around it."""

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from attnlib.checks.asking.observe import argument_names, input_names
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.arguments import layers_in
from attnlib.checks.naming.symptom_names import SYMPTOMS
from attnlib.checks.trial.trial import Trial, visibly_wrong

IMPORTS = {
    "F": "import torch.nn.functional as F",
    "attnlib": "import attnlib",
    "einsum": "from einops import einsum",
    "math": "import math",
    "nn": "from torch import nn",
    "np": "import numpy as np",
    "plt": "import matplotlib.pyplot as plt",
    "rearrange": "from einops import rearrange",
    "reduce": "from einops import reduce",
    "repeat": "from einops import repeat",
    "Tensor": "from torch import Tensor",
    "torch": "import torch",
}
"""The names that everybody writes in the same way, and the line that defines them."""

NO_TENSORS = {kind: f"a Python {kind}" for kind in ("int", "float", "list", "tuple")}
NO_TENSORS |= {"str": "a Python string", "NoneType": "None"}


@dataclass(frozen=True)
class Names:
    """The names that a learner may have meant: arguments of the contract, layers, and what the code itself assigns."""

    arguments: tuple[str, ...]
    attributes: tuple[str, ...]
    local: tuple[str, ...] = ()


def names_of(exercise: Exercise, attributes: Iterable[str] = (), local: Iterable[str] = ()) -> Names:
    """The names of the contract, with those of the attempt's own source where it can be read."""
    arguments, layers = set(input_names(exercise)), set[str]()
    if exercise.kind == "module":
        arguments |= set(argument_names(exercise.reference))
        layers = _layers(exercise)
    return Names(tuple(sorted(arguments)), tuple(sorted({*layers, *attributes})), tuple(sorted(local)))


def _layers(exercise: Exercise) -> set[str]:
    """The attributes that hold the reference's parameters, built for the first case that builds it."""
    case = next((c for c in exercise.cases if not c.raises), None)
    return set() if case is None else layers_in(exercise, case)


Reader = Callable[[re.Match[str], Names], Misconception | None]


def _finding(id: str, title: str, explanation: str) -> Misconception:
    return Misconception(
        id=id, title=title, explanation=explanation, implementation=None, heading="What the error means"
    )


def _undefined(found: re.Match[str], names: Names) -> Misconception:
    name = found["name"]
    if name in IMPORTS:
        return _finding(
            "import_missing",
            f"`{name}` is not imported",
            f"Write `{IMPORTS[name]}` in a cell above, or at the top of this one, and run it.",
        )
    if name in names.attributes:
        return _finding(
            "self_missing",
            f"`{name}` needs `self.` before it",
            f"What `__init__` stores on the object is read through the object: `self.{name}`. Without `self.`, "
            "Python looks for a variable of that name.",
        )
    if name in names.arguments:
        return _finding(
            "argument_of_another_function",
            f"`{name}` is not defined in this function",
            f"It is an argument of another function. What `__init__` receives is stored on the object, "
            f"`self.{name} = {name}`, and read there: `self.{name}`.",
        )
    return _misspelt(name, (*names.local, *names.arguments)) or replaced("name_not_defined", f"`{name}` is not defined")


def _misspelt(name: str, known: Iterable[str], owner: str = "") -> Misconception | None:
    near = difflib.get_close_matches(name, sorted(set(known) - {name}), n=1, cutoff=0.72)
    if not near:
        return None
    return _finding(
        "misspelt",
        f"There is no `{owner}{name}`; perhaps you meant `{owner}{near[0]}`",
        "Python compares names letter by letter, capitals included.",
    )


def replaced(id: str, title: str) -> Misconception:
    """Return a symptom under a title that names where it was found."""
    return replace(SYMPTOMS[id], title=title)


def _no_attribute(found: re.Match[str], names: Names) -> Misconception:
    kind, name = found["kind"], found["name"]
    if kind == "Tensor":
        return _misspelt(name, dir(torch.Tensor), "Tensor.") or replaced(
            "no_such_attribute", f"A tensor has no `{name}`"
        )
    if kind in NO_TENSORS:
        return replaced("no_such_attribute", f"{NO_TENSORS[kind][:1].upper()}{NO_TENSORS[kind][1:]} has no `{name}`")
    if name in names.arguments or name in names.local:
        return _finding(
            "not_kept",
            f"`self.{name}` is used, but nothing sets it",
            f"`__init__` receives `{name}` and forgets it when it returns. Store it there: `self.{name} = {name}`.",
        )
    return _misspelt(name, names.attributes, "self.") or replaced("no_such_attribute", f"A {kind} has no `{name}`")


def _no_member(found: re.Match[str], names: Names) -> Misconception:
    module, name = found["kind"], found["name"]
    known = dir(sys.modules[module]) if module in sys.modules else []
    lower = next((other for other in known if other.lower() == name.lower()), None)
    found_near = _misspelt(name, [lower] if lower else known, f"{module}.")
    return found_near or replaced("no_such_attribute", f"There is no `{module}.{name}`")


def _always(id: str, title: str, explanation: str) -> Reader:
    return lambda found, names: _finding(id, title, explanation)


def _symptom(id: str) -> Reader:
    return lambda found, names: SYMPTOMS[id]


SUPER = _always(
    "super_not_called",
    "super().__init__() is missing",
    "nn.Module records its layers and parameters in tables that its own `__init__` creates. Call "
    "super().__init__() first, before you assign anything to `self`.",
)
PARTS: tuple[tuple[str, Reader], ...] = (
    (r"NameError: name '(?P<name>\w+)' is not defined", _undefined),
    (
        r"UnboundLocalError: cannot access local variable '(?P<name>\w+)'",
        lambda found, names: replaced("name_not_defined", f"`{found['name']}` is used before it has a value"),
    ),
    (r"AttributeError: cannot assign \w+ before Module\.__init__\(\) call", SUPER),
    (r"AttributeError: '\w+' object has no attribute '_(modules|parameters|buffers|backward_hooks)'", SUPER),
    (r"AttributeError: module '(?P<kind>[\w.]+)' has no attribute '(?P<name>\w+)'", _no_member),
    (r"AttributeError: '(?P<kind>\w+)' object has no attribute '(?P<name>\w+)'", _no_attribute),
    (r"AttributeError", _symptom("no_such_attribute")),
    (
        r'NotImplementedError: Module \[\w+\] is missing the required "forward" function',
        _always(
            "no_forward",
            "The class has no `forward`",
            "Calling a module calls its `forward` method, and this class has none. Is the name misspelt, or is the "
            "method indented too far, inside another one?",
        ),
    ),
    (
        r"TypeError: '(Tensor|Parameter)' object is not callable",
        _always(
            "tensor_called",
            "A tensor is called as if it were a function",
            "Parentheses after a name call it, and this name is a tensor. You call a layer, `self.w_q(x)`; you "
            "multiply by a matrix, `x @ w_q`.",
        ),
    ),
    (
        r"TypeError: .*must be Tensor, not (?P<name>int|float|list|tuple|NoneType|str)\b",
        lambda found, names: _finding(
            "number_for_a_tensor",
            f"A torch function gets {NO_TENSORS[found['name']]}",
            "This function needs a tensor. For plain numbers, use plain Python: `d ** 0.5`, `math.sqrt(d)`, "
            "`max(a, b)`. torch.stack or torch.cat makes one tensor of a list of tensors.",
        ),
    ),
    (
        r"TypeError: .*must be Tensor, not (?P<name>[A-Z]\w+)",
        lambda found, names: _finding(
            "layer_for_a_tensor",
            f"A {found['name']} is passed where a tensor is needed",
            f"`nn.{found['name']}(…)` creates a layer and computes nothing. Create it once and call it on the tensor, "
            f"`nn.{found['name']}()(x)`, or use the function from torch.nn.functional."
            if hasattr(nn, found["name"])
            else "Call it, or pass the tensor that it holds.",
        ),
    ),
    (
        r"TypeError: .*(found element of type float|must be .*ints?\b.*float|'float' object cannot be interpreted)",
        _always(
            "float_for_a_size",
            "A size is a float",
            "A size is a whole number. `/`, a ratio or a negative power makes a float: write `//`, or `int(…)`.",
        ),
    ),
    (
        r"\w+: (only one element tensors|only integer tensors|a Tensor with \d+ elements)",
        _always(
            "tensor_for_a_number",
            "A whole tensor is converted to one Python number",
            "`math.sqrt`, `math.exp`, `float`, `int` and `.item()` take one number. For all the numbers of a tensor at "
            "once, use torch.sqrt, torch.exp and so on.",
        ),
    ),
    (
        r"RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
        _always(
            "tensor_for_a_condition",
            "Python asks a whole tensor whether it is true",
            "`if`, `not`, `and` and `or` need a single True or False. To work entry by entry, write `~mask`, `a & b`, "
            "`a | b`, or torch.where.",
        ),
    ),
    (
        r"\w+: (The last argument passed to `einops\.\w+` must be a string|Tensor type unknown to einops .*'str')",
        _always(
            "pattern_first",
            "In einops the pattern comes last",
            "torch.einsum begins with the pattern; the functions of einops end with it: "
            '`einsum(x, y, "b q d, b k d -> b q k")`',
        ),
    ),
    (
        r"RuntimeError: .*(leaf Variable that requires grad|modified by an inplace operation)",
        _always(
            "changed_in_place",
            "A tensor is changed in place",
            "An operation with a trailing underscore, `+=` or an assignment to a slice writes into a tensor whose "
            "numbers are still needed: an input, or what the gradient is computed from. Make a new tensor.",
        ),
    ),
    (
        r"TypeError: ('NoneType' object is not|bad operand type for .*'NoneType'|unsupported operand .*'NoneType')",
        _always(
            "none_for_a_tensor",
            "None is used as if it were a tensor",
            "An argument that may be left out is None then: ask `if mask is not None:` before you use it. A function "
            "without a `return` gives None, too.",
        ),
    ),
    (r"TypeError: .*(missing \d+ |takes .* arg|unexpected keyword|combination of)", _symptom("arguments_do_not_fit")),
    (r"(RuntimeError|IndexError): .*(out of bounds|out of range)", _symptom("index_out_of_range")),
    (
        r"IndexError: (tensors used as indices must be long|.*only integer)",
        _always(
            "index_of_floats",
            "An index is not a whole number",
            "Square brackets take integers (or True and False). Leave the ids as they are, and index the table with "
            "them: `table[ids]`.",
        ),
    ),
    (
        r"RuntimeError: (view size is not compatible|Tensor must have a (last dim.* )?(stride|storage_offset))",
        _symptom("memory_lies_otherwise"),
    ),
    (
        r"RuntimeError: .*(xpected .*dtype|same dtype|same datatype|scalar type|floating point type|for the source)",
        _symptom("dtypes_do_not_fit"),
    ),
    (r"(EinopsError|RuntimeError: .*einsum)", _symptom("pattern_does_not_fit")),
    (r"RuntimeError: (permute|unflatten|shape '[^']*' is invalid)", _symptom("axes_do_not_fit")),
    (r"ValueError: (not enough|too many) values to unpack", _symptom("unpacked_otherwise")),
    (
        r"RuntimeError: (stack expects|Sizes of tensors must match|Tensors must have same number of dim)",
        _symptom("pieces_do_not_fit"),
    ),
    (r"RuntimeError: Expected target size \[", _symptom("classes_on_the_last_axis")),
    (
        r"IndexError: The shape of the mask|(Runtime|Value)Error: .*(size|shape|dim|expand|broadcast|1D)",
        _symptom("shapes_do_not_fit"),
    ),
    (r"IndexError", _symptom("index_out_of_range")),
)
"""Patterns of exceptions, each with its explanation; the first that fits counts."""


def exception(exercise: Exercise, trials: Sequence[Trial], names: Names | None = None) -> Misconception | None:
    """Explain the exception that the first wrong case raises, if all others raised have the same explanation."""
    # where an input is changed, for example, an exception may be required
    wrong = [t for t in visibly_wrong(trials) if t.difference is not None and t.difference.aspect != "mutation"]
    raised = [t.got.failure for t in wrong if t.got.failure is not None and t.got.failure.kind == "raised"]
    if not raised or wrong[0].got.failure is not raised[0] or any(f.own for f in raised):
        return None
    for words, reader in PARTS:
        found = [re.match(words, failure.error, re.DOTALL) for failure in raised]
        if found[0] is not None:
            return reader(found[0], names or names_of(exercise)) if all(found) else None
    return None
