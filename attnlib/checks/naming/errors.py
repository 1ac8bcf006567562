"""Explain an exception in the attempt in the learner's terms, by its message and by the names around it."""

import re
from collections.abc import Iterable, Sequence

from torch import nn

from attnlib.checks.asking.observe import argument_names, input_names
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.arguments import layers_in
from attnlib.checks.naming.error_readers import (
    NO_TENSORS,
    OF_ONE_CALL,
    Names,
    Reader,
    always,
    finding,
    no_attribute,
    no_member,
    no_module,
    replaced,
    symptom,
    undefined,
)
from attnlib.checks.trial.trial import Trial, visibly_wrong


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


PARTS: tuple[tuple[str, Reader], ...] = (
    (r"NameError: name '(?P<name>\w+)' is not defined", undefined),
    (r"ModuleNotFoundError: No module named '(?P<name>\w+)", no_module),
    (
        r"UnboundLocalError: cannot access local variable '(?P<name>\w+)'",
        lambda found, names: replaced("name_not_defined", f"`{found['name']}` is used before it has a value"),
    ),
    *OF_ONE_CALL,
    (r"AttributeError: module '(?P<kind>[\w.]+)' has no attribute '(?P<name>\w+)'", no_member),
    (r"AttributeError: '(?P<kind>\w+)' object has no attribute '(?P<name>\w+)'", no_attribute),
    (r"AttributeError", symptom("no_such_attribute")),
    (
        r'NotImplementedError: Module \[\w+\] is missing the required "forward" function',
        always(
            "no_forward",
            "The class has no `forward`",
            "Calling a module calls its `forward` method, and this class has none. Is the name misspelt, or is the "
            "method indented too far, inside another one?",
        ),
    ),
    (
        r"TypeError: '(Tensor|Parameter)' object is not callable",
        always(
            "tensor_called",
            "A tensor is called as if it were a function",
            "Parentheses after a name call it, and this name is a tensor. You call a layer, `self.w_q(x)`; you "
            "multiply by a matrix, `x @ w_q`.",
        ),
    ),
    (
        r"TypeError: (unsupported .*'Tensor' and 'tuple'|can only concatenate tuple|.*must be Tensor, not tuple\b"
        r"|tuple indices must be integers)",
        always(
            "results_not_taken_apart",
            "Several results are used as if they were one tensor",
            "A tuple holds several results, such as an output and its weights, and this line needs one tensor. Take it "
            "apart first: `output, weights = attn(x)`, or `output, _ = attn(x)`. (torch.stack and torch.cat make one "
            "tensor of several.)",
        ),
    ),
    (
        r"TypeError: '(builtin_function_or_method|torch.Size)' object is not (subscriptable|callable)",
        always(
            "method_without_a_call",
            "`shape` takes square brackets, and a method parentheses",
            "Lengths are in a tuple, `x.shape[0]`, and `x.size(0)` asks a method for one. Other methods need their "
            "parentheses, too, before you can take an entry of what they return: `x.tolist()[0]`.",
        ),
    ),
    (
        r"TypeError: unsupported operand .*'Linear'",
        always(
            "layer_for_a_matrix",
            "A layer is used as if it were a matrix",
            "A layer holds its matrix, and calling the layer multiplies by it: `self.w_q(x)`, not `x @ self.w_q`.",
        ),
    ),
    (
        r"TypeError: cannot assign .* as parameter",
        always(
            "tensor_over_parameter",
            "A plain tensor is assigned where a parameter is",
            "A name that holds an nn.Parameter takes another nn.Parameter, and nothing else. `.clone()`, `.T`, `.data` "
            "and any arithmetic give a plain tensor. To share a parameter, assign it as it is; to give it other "
            "numbers, write `parameter.copy_(…)` in torch.no_grad().",
        ),
    ),
    (
        r"TypeError: .*must be Tensor, not (?P<name>int|float|list|NoneType|str)\b",
        lambda found, names: finding(
            "number_for_a_tensor",
            f"A torch function gets {NO_TENSORS[found['name']]}",
            "This function needs a tensor. For plain numbers, use plain Python: `d ** 0.5`, `math.sqrt(d)`, "
            "`max(a, b)`. torch.stack or torch.cat makes one tensor of a list of tensors.",
        ),
    ),
    (
        r"TypeError: .*must be Tensor, not (?P<name>[A-Z]\w+)",
        lambda found, names: finding(
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
        always(
            "float_for_a_size",
            "A size is a float",
            "A size is a whole number. `/`, a ratio or a negative power makes a float: write `//`, or `int(…)`.",
        ),
    ),
    (
        r"\w+: (only one element tensors|only integer tensors|a Tensor with \d+ elements)",
        always(
            "tensor_for_a_number",
            "A whole tensor is converted to one Python number",
            "`math.sqrt`, `math.exp`, `float`, `int` and `.item()` take one number. For all the numbers of a tensor at "
            "once, use torch.sqrt, torch.exp and so on.",
        ),
    ),
    (
        r"RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
        always(
            "tensor_for_a_condition",
            "Python asks a whole tensor whether it is true",
            "`if`, `not`, `and` and `or` need a single True or False. To work entry by entry, write `~mask`, `a & b`, "
            "`a | b`, or torch.where.",
        ),
    ),
    (
        r"\w+: (.*only supports boolean masks|~ .operator.invert|.bitwise_\w+. not implemented)",
        always(
            "numbers_for_a_mask",
            "A mask holds numbers instead of True and False",
            "`&`, `|`, `~` and masked_fill need dtype bool, and torch.ones and torch.zeros make float32 unless you say "
            "otherwise. Pass dtype=torch.bool where the mask is made, or compare: `mask == 0`.",
        ),
    ),
    (
        r"\w+: (The last argument passed to `einops\.\w+` must be a string|Tensor type unknown to einops .*'str')",
        always(
            "pattern_first",
            "In einops the pattern comes last",
            "torch.einsum begins with the pattern; the functions of einops end with it: "
            '`einsum(x, y, "b q d, b k d -> b q k")`',
        ),
    ),
    (
        r"RuntimeError: .*leaf Variable that requires grad",
        always(
            "leaf_changed_in_place",
            "A tensor that requires a gradient is changed in place",
            "An operation with a trailing underscore, `+=` or an assignment to a slice writes into it, and autograd "
            "can't follow that. A step of training changes weights in `with torch.no_grad():`. For anything else, such "
            "as an input, make a new tensor.",
        ),
    ),
    (
        r"RuntimeError: element 0 of tensors does not require grad",
        always(
            "no_gradient_required",
            "No tensor behind the loss requires a gradient",
            "`backward()` goes back to tensors with requires_grad=True, and found none. Say `.requires_grad_()` of the "
            "weights before you use them, of copies if they are inputs. `.detach()`, `.item()`, torch.tensor(...) and "
            "torch.no_grad() on the way to the loss cut it off, too.",
        ),
    ),
    (
        r"RuntimeError: Trying to backward through the graph a second time",
        always(
            "graph_used_twice",
            "`backward()` goes through the same computation twice",
            "The first time frees what it needs. Compute the loss anew in each step, from the weights, and `.detach()` "
            "whatever you carry over from the step before. `retain_graph=True` would only hide the mistake.",
        ),
    ),
    (
        r"RuntimeError: Can't call numpy\(\) on Tensor that requires grad",
        always(
            "numpy_has_no_gradient",
            "NumPy knows no gradients",
            "`.detach()` would only silence this error: no gradient comes back through NumPy. Compute with torch's own "
            "functions, which nearly always have the same names.",
        ),
    ),
    (
        r"RuntimeError: .*modified by an inplace operation",
        always(
            "changed_in_place",
            "A tensor is changed in place",
            "An operation with a trailing underscore, `+=` or an assignment to a slice writes into a tensor whose "
            "numbers are still needed: an input, or what the gradient is computed from. Make a new tensor.",
        ),
    ),
    (
        r"TypeError: ('NoneType' object is not|bad operand type for .*'NoneType'|unsupported operand .*'NoneType')",
        always(
            "none_for_a_tensor",
            "None is used as if it were a tensor",
            "An argument that may be left out is None then: ask `if mask is not None:` before you use it. A function "
            "without a `return` gives None, too, and so does `.grad` before backward(), or of a tensor that was "
            "computed from others: a new weight needs `.detach().requires_grad_()`.",
        ),
    ),
    (r"TypeError: .*(missing \d+ |takes .* arg|unexpected keyword|combination of)", symptom("arguments_do_not_fit")),
    (
        r"IndexError: index -?\d+ is out of bounds for dimension \d+ with size 0",
        always(
            "empty_axis",
            "This axis is empty, so it has no entry to take",
            "A slice took nothing. It ends where it begins, as `x[:, :t]` does for t = 0, or it begins at a negative "
            "number, which Python counts from the end: `max(0, …)` keeps it inside. Print its shape.",
        ),
    ),
    (r"IndexError: (Dimension out of range|too many indices)", symptom("axes_do_not_fit")),
    (r"(RuntimeError|IndexError): .*(out of bounds|out of range)", symptom("index_out_of_range")),
    (
        r"\w+: (tensors used as indices must be long|.*only integers|Expected .*argument #1 'indices')",
        always(
            "index_of_floats",
            "An index is not a whole number",
            "Square brackets take integers (or True and False), and so does nn.Embedding. Ids are integers already: "
            "index the table with them as they are, `table[ids]`. If a division gives the index, write `//`.",
        ),
    ),
    (
        r"RuntimeError: (view size is not compatible|Tensor must have a (last dim.* )?(stride|storage_offset))",
        symptom("memory_lies_otherwise"),
    ),
    (
        r"RuntimeError: .*(xpected .*dtype|same dtype|same datatype|scalar type|floating point type|for the source"
        r"|can't be cast)",
        symptom("dtypes_do_not_fit"),
    ),
    (r"(EinopsError|RuntimeError: .*einsum)", symptom("pattern_does_not_fit")),
    (r"RuntimeError: (permute|unflatten|shape '[^']*' is invalid)", symptom("axes_do_not_fit")),
    (r"ValueError: (not enough|too many) values to unpack", symptom("unpacked_otherwise")),
    (
        r"RuntimeError: (stack expects|Sizes of tensors must match|Tensors must have same number of dim)",
        symptom("pieces_do_not_fit"),
    ),
    (r"RuntimeError: Expected target size \[", symptom("classes_on_the_last_axis")),
    (
        r"IndexError: The shape of the mask|(Runtime|Value)Error: .*(size|shape|dim|expand|broadcast|1D)",
        symptom("shapes_do_not_fit"),
    ),
    (r"IndexError", symptom("index_out_of_range")),
)
"""Patterns of exceptions, each with its explanation; the first that fits counts."""


TRANSPOSED = finding(
    "linear_transposes",
    "F.linear multiplies by the transpose",
    "`F.linear(x, w)` is `x @ w.T`: like nn.Linear, it wants w as (out, in). For a matrix (in, out), write `x @ w`.",
)


def exception(exercise: Exercise, trials: Sequence[Trial], names: Names | None = None) -> Misconception | None:
    """Explain the exception that the first wrong case raises, if all others raised have the same explanation."""
    # where an input is changed, for example, an exception may be required
    wrong = [t for t in visibly_wrong(trials) if t.difference is not None and t.difference.aspect != "mutation"]
    raised = [t.got.failure for t in wrong if t.got.failure is not None and t.got.failure.kind == "raised"]
    if not raised or wrong[0].got.failure is not raised[0] or any(f.own and not f.lacks_module for f in raised):
        return None
    if all(re.match("RuntimeError: .*(mat1|shape|size|dim)", f.error) and "F.linear(" in f.source for f in raised):
        return TRANSPOSED
    for words, reader in PARTS:
        found = [re.match(words, failure.error, re.DOTALL) for failure in raised]
        if found[0] is not None:
            return reader(found[0], names or names_of(exercise)) if all(found) else None
    return None
