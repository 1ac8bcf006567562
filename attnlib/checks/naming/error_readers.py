"""Explain what an exception says of a name, an attribute or a tensor, in the learner's terms."""

import difflib
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch

from attnlib.checks.exercise import Misconception
from attnlib.checks.naming.symptom_names import SYMPTOMS

IMPORTS = {
    "Counter": "from collections import Counter",
    "F": "import torch.nn.functional as F",
    "attnlib": "import attnlib",
    "copy": "import copy",
    "deepcopy": "from copy import deepcopy",
    "defaultdict": "from collections import defaultdict",
    "einops": "import einops",
    "einsum": "from einops import einsum",
    "functools": "import functools",
    "itertools": "import itertools",
    "math": "import math",
    "nn": "from torch import nn",
    "np": "import numpy as np",
    "partial": "from functools import partial",
    "plt": "import matplotlib.pyplot as plt",
    "random": "import random",
    "rearrange": "from einops import rearrange",
    "reduce": "from einops import reduce",
    "repeat": "from einops import repeat",
    "Tensor": "from torch import Tensor",
    "torch": "import torch",
}
"""The names that everybody writes in the same way, and the line that defines them."""

MEANING = "What the error means"
NO_TENSORS = {kind: f"a Python {kind}" for kind in ("int", "float", "list", "tuple")}
NO_TENSORS |= {"str": "a Python string", "NoneType": "None"}


@dataclass(frozen=True)
class Names:
    """The names that a learner may have meant: arguments of the contract, layers, and what the code itself assigns."""

    arguments: tuple[str, ...]
    attributes: tuple[str, ...]
    local: tuple[str, ...] = ()


Reader = Callable[[re.Match[str], Names], Misconception | None]


def finding(id: str, title: str, explanation: str) -> Misconception:
    """Return what an exception means, under the heading of such findings."""
    return Misconception(id=id, title=title, explanation=explanation, implementation=None, heading=MEANING)


def undefined(found: re.Match[str], names: Names) -> Misconception:
    """Explain a name that is not defined: an import, a layer without `self.`, an argument of another function."""
    name = found["name"]
    if name in IMPORTS:
        return finding(
            "import_missing",
            f"`{name}` is not imported",
            f"Write `{IMPORTS[name]}` in a cell above, or at the top of this one, and run it.",
        )
    if name in names.attributes:
        return finding(
            "self_missing",
            f"`{name}` needs `self.` before it",
            f"What `__init__` stores on the object is read through the object: `self.{name}`. Without `self.`, "
            "Python looks for a variable of that name.",
        )
    if name in names.arguments:
        return finding(
            "argument_of_another_function",
            f"`{name}` is not defined in this function",
            f"The contract has an argument of that name, and the function that this line is in has none. If "
            f"`__init__` receives it, store it there, `self.{name} = {name}`, and read `self.{name}`; otherwise use "
            "the name that your function gives this argument.",
        )
    return _misspelt(name, (*names.local, *names.arguments)) or replaced("name_not_defined", f"`{name}` is not defined")


def _misspelt(name: str, known: Iterable[str], owner: str = "") -> Misconception | None:
    near = difflib.get_close_matches(name, sorted(set(known) - {name}), n=1, cutoff=0.72)
    if not near:
        return None
    return finding(
        "misspelt",
        f"There is no `{owner}{name}`; perhaps you meant `{owner}{near[0]}`",
        "Python compares names letter by letter, capitals included.",
    )


def replaced(id: str, title: str) -> Misconception:
    """Return a symptom under a title that names where it was found."""
    return replace(SYMPTOMS[id], title=title)


def no_attribute(found: re.Match[str], names: Names) -> Misconception:
    """Explain an attribute that a tensor, a number or the object itself does not have."""
    kind, name = found["kind"], found["name"]
    if kind == "Tensor":
        return _misspelt(name, dir(torch.Tensor), "Tensor.") or replaced(
            "no_such_attribute", f"A tensor has no `{name}`"
        )
    if kind in NO_TENSORS:
        return replaced("no_such_attribute", f"{NO_TENSORS[kind][:1].upper()}{NO_TENSORS[kind][1:]} has no `{name}`")
    if name in names.arguments or name in names.local:
        return finding(
            "not_kept",
            f"`self.{name}` is used, but nothing sets it",
            f"`__init__` receives `{name}` and forgets it when it returns. Store it there: `self.{name} = {name}`.",
        )
    return _misspelt(name, names.attributes, "self.") or replaced("no_such_attribute", f"A {kind} has no `{name}`")


def no_member(found: re.Match[str], names: Names) -> Misconception:
    """Explain a function that a module does not have, perhaps misspelt."""
    module, name = found["kind"], found["name"]
    known = dir(sys.modules[module]) if module in sys.modules else []
    lower = next((other for other in known if other.lower() == name.lower()), None)
    found_near = _misspelt(name, [lower] if lower else known, f"{module}.")
    return found_near or replaced("no_such_attribute", f"There is no `{module}.{name}`")


def no_module(found: re.Match[str], names: Names) -> Misconception:
    """Explain an import of what is not installed, or of the learner's own file that is not beside the notebook."""
    return finding(
        "module_missing",
        f"`{found['name']}` cannot be imported where this is checked",
        "A library has to be installed there. A file of your own, or the folder `my_attention`, has to be beside the "
        "notebook, and is handed in with it. Otherwise copy what you need of it into your cell.",
    )


def always(id: str, title: str, explanation: str) -> Reader:
    """Return a reader that gives this explanation whatever the message says."""
    return lambda found, names: finding(id, title, explanation)


def symptom(id: str) -> Reader:
    """Return a reader that gives a known symptom."""
    return lambda found, names: SYMPTOMS[id]


SUPER = always(
    "super_not_called",
    "super().__init__() is missing",
    "nn.Module records its layers and parameters in tables that its own `__init__` creates. Call "
    "super().__init__() first, before you assign anything to `self`.",
)
OF_ONE_CALL: tuple[tuple[str, Reader], ...] = (
    (r"AttributeError: cannot assign \w+ before Module\.__init__\(\) call", SUPER),
    (r"AttributeError: '\w+' object has no attribute '_(modules|parameters|buffers|backward_hooks)'", SUPER),
    (
        r"ValueError: can't optimize a non-leaf Tensor",
        always(
            "computed_from_another",
            "The optimiser gets a tensor that was computed from another",
            "An optimiser moves tensors that aren't computed from anything. A clone of a weight that requires a "
            "gradient is computed from it: cut it off with `.detach()`, as in `w.detach().clone().requires_grad_()`.",
        ),
    ),
    (
        r"EinopsError: .*Could not infer sizes",
        always(
            "length_not_given",
            "einops can't work out how long an axis is",
            "Of the axes in one pair of parentheses it can work out a single length. Say how long the others are, as "
            "in `h=num_heads`.",
        ),
    ),
    (
        r"EinopsError: .*anonymous axes",
        always(
            "number_for_a_name",
            "A number in the pattern is not a name",
            "Every axis of an einops pattern that's longer than 1 needs a name, and a name can't begin with a digit. "
            "Write a word, such as `three`, and say how long it is: `three=3`.",
        ),
    ),
)
"""Patterns of exceptions that one kind of call raises, each with its explanation."""
