"""What a wrong result shows by itself, where no misconception fits: a name that is true of it however it came about.

A misconception computes what the attempt computes; a symptom is a plain relation between what came and what is right,
which has to hold in every visible case that is wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnlib.checks.diagnose import Trial
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.isolate import isolate

Named = tuple[str, str, str]
Relation = Callable[[Tensor, Tensor, Trial], bool | str]
"""Of what is right and what came: whether it holds, or by which number."""

HEADING = "What your result shows"
TRAITS = {
    "Right on the CPU; wrong as soon as the input is on another device.": (
        "on_the_cpu_only",
        "A tensor is made on the CPU whatever the input is on, or the numbers are fetched from there. Make new tensors "
        "from an input (`x.new_zeros(...)`, `torch.ones_like(x)`), or pass device=x.device.",
    ),
    "What is returned is right; but an input is changed on the way.": (
        "input_changed",
        "An operation with a trailing underscore, `+=` or an assignment to a slice wrote into a tensor that you were "
        "given, or into a view of it. The caller still needs it: make a new tensor.",
    ),
    "The values are right; the gradient is not.": (
        "gradient_of_something_else",
        "A part of the computation is copied without its history (`.detach()`, `.data`, `.item()`, `torch.no_grad()`), "
        "or done in place: the numbers are right, and what is learned from them is not.",
    ),
    "Right as long as the memory is contiguous; wrong for a transposed input.": (
        "in_contiguous_memory_only",
        "`view` and `as_strided` re-read memory as it lies, and a transposed tensor lies otherwise. `reshape` and "
        "einops copy where they must.",
    ),
    "Right at the first call; wrong at the second.": (
        "at_the_first_call_only",
        "Something is kept from one call to the next: in a global, a default argument, an attribute or a cache. "
        "Compute everything from the arguments.",
    ),
    "Right in float32; wrong in float64.": (
        "in_float32_only",
        "A tensor made with torch.zeros, torch.tensor or `.float()` is float32 whatever the input is. Make new tensors "
        "from an input, or pass dtype=x.dtype.",
    ),
    "Right for larger batches; wrong for a batch of one.": (
        "not_for_a_batch_of_one",
        "`squeeze()` removes every axis of length 1, and an average or a division over the batch may have nothing "
        "left. Name the axis that you mean.",
    ),
    "Right for a batch of one; wrong for a larger batch.": (
        "for_a_batch_of_one_only",
        "The entries of the batch are mixed, or the batch is removed as if it held one entry. Keep it as an axis of "
        "its own: begin your patterns with `b`, or count axes from behind.",
    ),
    **{
        f"Right for {axes} axes; wrong for fewer or more.": (
            "for_one_number_of_axes",
            "The leading axes may be none, one or several. Count from behind (`dim=-1`, `x.shape[-2]`, `.mT`) and "
            "write `...` in patterns; do not unpack the shape into a fixed number of names.",
        )
        for axes in (2, 3, 4, 5)
    },
}
"""What `isolate` says of one property, with a name and what may have brought it about."""
FUNCTIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    Tensor.exp,
    Tensor.log,
    Tensor.square,
    Tensor.sqrt,
    Tensor.abs,
    Tensor.relu,
    Tensor.round,
    Tensor.reciprocal,
    Tensor.tanh,
    Tensor.sigmoid,
    Tensor.sin,
    Tensor.cos,
)
FEWEST = 6  # numbers: fewer may stand in a relation by chance


def broken_contract(trials: Sequence[Trial]) -> Misconception | None:
    """What the attempt is or returns, which inputs it refuses, and whether gradients come through."""
    return _first((_of_kind, _of_errors, _of_gradients), trials)


def one_property(exercise: Exercise, trials: Sequence[Trial]) -> Misconception | None:
    """The property that all wrong cases have, and no right one (see `isolate`)."""
    found = isolate(exercise, [t for t in trials if not t.case.hidden])
    named = TRAITS.get(found[0]) if found else None
    if named is None:
        return None
    return Misconception(
        id=named[0], title=found[0].rstrip("."), explanation=named[1], implementation=None, heading=HEADING
    )


def relation_of_numbers(trials: Sequence[Trial]) -> Misconception | None:
    """What the numbers that came are to the right ones."""
    return _first((_of_numbers,), trials)


def _first(
    finders: Sequence[Callable[[Sequence[Trial]], Named | None]], trials: Sequence[Trial]
) -> Misconception | None:
    wrong = [t for t in trials if t.difference is not None and not t.case.hidden]
    found = next((named for find in finders if wrong and (named := find(wrong)) is not None), None)
    if found is None:
        return None
    name, title, explanation = found
    return Misconception(id=name, title=title, explanation=explanation, implementation=None, heading=HEADING)


def _of_kind(wrong: Sequence[Trial]) -> Named | None:
    """The wrong parameters, or the wrong kind of result."""
    failures = [t.got.failure for t in wrong if t.got.failure is not None]
    if not failures or len({f.kind for f in failures}) > 1:
        return None
    text = failures[0].text
    if failures[0].kind == "parameters":
        for begins, name, title, explanation in (
            (
                "has no parameter",
                "parameter_missing",
                "A parameter of the contract is missing",
                "The check, and whoever loads saved weights, finds the parameters by the names and in the form that "
                "the contract gives them. Make each of them, and no other in its place.",
            ),
            (
                "has a parameter",
                "parameter_too_much",
                "A parameter too much",
                "What is an nn.Parameter or an nn.Module of the object is learned and saved with it, and the contract "
                "does not ask for this one. Leave it out; a constant is no parameter (`register_buffer`, or make it "
                "when it is needed).",
            ),
            (
                "has frozen parameters",
                "parameter_frozen",
                "A parameter is frozen",
                "`requires_grad_(False)`, or requires_grad=False where a parameter is made, keeps the optimiser from "
                "ever changing it. All parameters of this module learn.",
            ),
            (
                "parameter ",
                "parameter_of_another_shape",
                "A parameter has another shape",
                "A layer maps other widths than the contract says: compare what goes in and what comes out, of the "
                "sizes that the constructor is given. nn.Linear(a, b) has a weight of shape (b, a).",
            ),
        ):
            if text.startswith(begins):
                return name, title, explanation
    if failures[0].kind == "type" and text.startswith("must return"):
        return (
            "returns_something_else",
            "Something else is returned than what is asked for",
            f"Your code {text.split(', but ')[-1]}, and it {text.split(', but ')[0]}: whoever calls it goes on with "
            "what the contract names, in that order.",
        )
    return None


def _of_errors(wrong: Sequence[Trial]) -> Named | None:
    """Inputs that have to be refused."""
    if not all(t.case.raises or t.case.part == "error" for t in wrong):
        return None
    if all(t.got.failure is None for t in wrong):
        return (
            "not_refused",
            "What cannot work is not refused",
            "All else is right; but inputs that the contract rules out are taken as if nothing were wrong with them. "
            "Test them first, and raise the exception that the contract names.",
        )
    return (
        "refused_otherwise",
        "Not the exception that is asked for",
        "All else is right, and these inputs end in an error; but not in the one that the contract names, for which "
        "whoever calls you will look. Test the inputs first, and `raise` that exception; an `assert` raises "
        "AssertionError, and vanishes under `python -O`.",
    )


def _of_gradients(wrong: Sequence[Trial]) -> Named | None:
    """A gradient of zero where there should be one, behind values that are right."""
    told = [t.difference.text for t in wrong if t.difference is not None and t.difference.aspect == "gradient"]
    if len(told) < len(wrong) or not all(text.startswith("no gradient") for text in told):
        return None
    where = told[0].removeprefix("no gradient reaches ") if "reaches" in told[0] else "the inputs"
    return (
        "gradient_cut_off",
        f"The gradient is cut off on its way to {where}",
        "The numbers are right; but on the way from there they were copied without their history: `.detach()`, "
        "`.data`, `.item()`, `.numpy()`, `torch.no_grad()`, `torch.tensor(...)` or a new nn.Parameter do that. Nothing "
        "before that point could learn.",
    )


def _of_numbers(wrong: Sequence[Trial]) -> Named | None:
    pairs = [pair for t in wrong if (pair := _compared(t)) is not None]
    if not pairs or max(want.numel() for want, _, _ in pairs) < FEWEST:
        return None
    if all(_alike(want, have) for want, have, _ in pairs):
        return (
            ANOTHER_DTYPE if any(t.difference and t.difference.aspect == "dtype" for _, _, t in pairs) else LESS_EXACT
        )
    if any(_alike(want, have) for want, have, _ in pairs):
        return None  # any other relation would hold there, too
    for relation, (name, title, explanation) in RELATIONS:
        if all(found := [relation(*pair) for pair in pairs]):
            return name, title.format(found[0]), explanation
    return None


def _compared(trial: Trial) -> tuple[Tensor, Tensor, Trial] | None:
    """The first output that is wrong: what is right, and what came."""
    difference = trial.difference
    if difference is None or difference.aspect not in ("shape", "dtype", "values") or trial.case.probe is not None:
        return None
    if trial.expected.outputs is None or trial.got.outputs is None:
        return None
    return trial.expected.outputs[difference.output], trial.got.outputs[difference.output], trial


def _alike(want: Tensor, have: Tensor) -> bool:
    if want.shape != have.shape:
        return False
    one, other = want.double(), have.double()
    if not bool(one.isfinite().all()) or not bool(other.isfinite().all()):
        return torch.equal(one, other)
    return bool(((one - other).abs() <= 1e-4 * one.abs().max() + 1e-6).all()) if one.numel() else True


def _not_a_number(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return have.is_floating_point() and bool(have.isnan().any()) and not bool(want.isnan().any())


def _negated(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.dtype == torch.bool and want.shape == have.shape and torch.equal(~want, have.bool())


def _axes_in_another_order(want: Tensor, have: Tensor, trial: Trial) -> bool:
    orders = list(permutations(range(want.dim())))[1:] if want.dim() == have.dim() <= 5 else []
    return any(_alike(want.permute(order), have) for order in orders)


def _one_entry_of_an_axis(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return any(_alike(part, have) for part in _parts(want))


def _one_entry_for_all(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.shape == have.shape and any(
        _alike(want.select(axis, place).unsqueeze(axis).expand_as(want), have)
        for axis in range(want.dim())
        for place in (0, -1)
        if want.shape[axis]
    )


def _parts(want: Tensor) -> Iterator[Tensor]:
    for axis in range(want.dim()):
        for place in (0, -1):
            if want.shape[axis]:
                yield want.select(axis, place)
                yield want.select(axis, place).unsqueeze(axis)


def _summed(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if not want.is_floating_point():
        return False
    return any(
        _alike(total, have)
        for axis in range(want.dim())
        for keep in (False, True)
        for total in (want.sum(axis, keepdim=keep), want.mean(axis, keepdim=keep))
    )


def _in_another_shape(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.shape != have.shape and want.numel() == have.numel() and _alike(want.flatten(), have.flatten())


def _in_other_places(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if not (want.is_floating_point() and have.is_floating_point()) or want.numel() != have.numel():
        return False
    return _alike(want.double().flatten().sort().values, have.double().flatten().sort().values)


def _with_a_factor(want: Tensor, have: Tensor, trial: Trial) -> str:
    if want.shape != have.shape or not (want.is_floating_point() and have.is_floating_point()):
        return ""
    factor = float((want * have).sum() / (want * want).sum().clamp_min(1e-30))
    return f"{factor:.4g}" if abs(factor) > 1e-3 and _alike(want * factor, have) else ""


def _with_a_term(want: Tensor, have: Tensor, trial: Trial) -> str:
    if want.shape != have.shape or not (want.is_floating_point() and have.is_floating_point()):
        return ""
    shift = float((have - want).mean())
    return f"{shift:.4g}" if _alike(want + shift, have) else ""


def _rows_with_a_factor(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """Every row is the right one times a number of its own."""
    if want.shape != have.shape or want.dim() < 2 or want.shape[-1] < 2 or not have.is_floating_point():
        return False
    factor = (want * have).sum(-1, keepdim=True) / (want * want).sum(-1, keepdim=True).clamp_min(1e-30)
    return bool(have.isfinite().all()) and bool((factor.abs() > 1e-3).any()) and _alike(want * factor, have)


def _rows_with_a_term(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if want.shape != have.shape or want.dim() < 2 or want.shape[-1] < 2 or not have.is_floating_point():
        return False
    return bool(have.isfinite().all()) and _alike(want + (have - want).mean(-1, keepdim=True), have)


def _inputs(want: Tensor, trial: Trial) -> list[Tensor]:
    tensors = [t for t in tree_leaves(trial.expected.inputs) if isinstance(t, Tensor) and t.is_floating_point()]
    return [t.double() for t in tensors if t.shape == want.shape]


def _plus_an_input(want: Tensor, have: Tensor, trial: Trial) -> bool:
    found = want.is_floating_point() and want.shape == have.shape
    return found and any(_alike(want + sign * t, have) for t in _inputs(want, trial) for sign in (1, -1))


def _an_input(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.is_floating_point() and any(_alike(t, have) for t in _inputs(have, trial))


def _after_a_function(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if want.shape != have.shape or not (want.is_floating_point() and have.is_floating_point()):
        return False
    right = want.double()
    softmaxes = (right.softmax(axis) for axis in range(right.dim()))
    return any(_alike(after, have) for after in (*(function(right) for function in FUNCTIONS), *softmaxes))


def _of_another_output(want: Tensor, have: Tensor, trial: Trial) -> bool:
    others = [
        t for i, t in enumerate(trial.expected.outputs or ()) if trial.difference and i != trial.difference.output
    ]
    return any(_alike(other, have) for other in others)


ANOTHER_DTYPE = (
    "another_dtype",
    "The numbers are right, their dtype is not",
    "A mask is a mask only as torch.bool, and the result of a computation has the dtype of what went in. Look for the "
    "place where a new tensor is made, or where `.float()` or `.int()` changes the dtype.",
)
LESS_EXACT = (
    "less_exact",
    "The numbers agree to four digits or so",
    "Something on the way is less exact than it could be, or very small and left out: float32 or half precision in "
    "between, a difference of large numbers, an eps that is missing or has another size.",
)

RELATIONS: tuple[tuple[Relation, Named], ...] = (
    (
        _not_a_number,
        (
            "not_a_number",
            "NaN comes out",
            "0/0, ∞ − ∞ or 0 · ∞ was computed on the way: a row that is -inf throughout in a softmax, a sum of "
            "nothing to divide by, the root of a negative number, or an exp that overflows.",
        ),
    ),
    (
        _negated,
        (
            "upside_down",
            "True and False have changed places",
            "Every True is a False and every False a True. Read the contract again: which of the two means “may be "
            "seen”?",
        ),
    ),
    (
        _of_another_output,
        (
            "outputs_in_another_order",
            "The outputs stand in another order",
            "What is right as another output stands in this place. Return them in the order of the contract.",
        ),
    ),
    (
        _axes_in_another_order,
        (
            "axes_in_another_order",
            "The axes are in another order",
            "All numbers are right and along the right axes, but the axes stand in another order than the contract "
            "asks for. Exchange them: `transpose`, `permute` or einops.rearrange; no `reshape`.",
        ),
    ),
    (
        _in_another_shape,
        (
            "in_another_shape",
            "The right numbers in another shape",
            "Read one after the other, the numbers are right; but an axis is too much, is missing, or is cut up or "
            "joined otherwise than the contract says.",
        ),
    ),
    (
        _one_entry_of_an_axis,
        (
            "one_entry_only",
            "Only one entry of an axis comes back",
            "What came is the right result for the first or the last entry of an axis; the others are left out. A "
            "`return` inside a loop, an index or a variable that each round overwrites does that.",
        ),
    ),
    (
        _one_entry_for_all,
        (
            "one_entry_for_all",
            "One entry stands for all others of its axis",
            "Along one axis, all results are those of the first or the last entry. A variable that each round of a "
            "loop overwrites does that, or an index where a whole axis is meant.",
        ),
    ),
    (
        _summed,
        (
            "summed_away",
            "An axis is added up or averaged away",
            "The result is the right one, added up or averaged over one of its axes. Each entry of it is asked for by "
            "itself.",
        ),
    ),
    (
        _with_a_factor,
        (
            "a_factor_too_much",
            "Every number is {} times the right one",
            "Somewhere a scale stands that does not belong there, has another size, or is missing. (The number is that "
            "of the first case.)",
        ),
    ),
    (
        _with_a_term,
        (
            "a_term_too_much",
            "Every number is the right one plus {}",
            "Look for a constant that does not belong there, or for one that is missing. (The number is that of the "
            "first case.)",
        ),
    ),
    (
        _rows_with_a_factor,
        (
            "rows_with_a_factor",
            "Each row is right but for a factor of its own",
            "Within a row, the proportions are right, but not the size: what the row is divided by, or multiplied "
            "with, is another number than it should be (another sum, a sum along another axis, none at all).",
        ),
    ),
    (
        _rows_with_a_term,
        (
            "rows_with_a_term",
            "To each row, a number of its own is added",
            "Within a row, the differences are right: the same number is added to all of them. Something is subtracted "
            "or added for each row that should not be, or is missing.",
        ),
    ),
    (
        _plus_an_input,
        (
            "input_added",
            "An input is added to the result",
            "The result is the right one plus (or minus) an input: a residual connection that nobody asked for, or one "
            "too many.",
        ),
    ),
    (
        _an_input,
        (
            "input_comes_back",
            "An input comes back as it was",
            "What is returned is one of the inputs, without the computation. Look for a result that is computed and "
            "then not used: `x.softmax(-1)` changes nothing by itself, `x = x.softmax(-1)` does.",
        ),
    ),
    (
        _after_a_function,
        (
            "one_function_more",
            "One more function at the end",
            "The result is right, and then a function of each number, or a softmax, is taken that the contract does "
            "not ask for.",
        ),
    ),
    (
        _in_other_places,
        (
            "in_other_places",
            "The right numbers, in the wrong places",
            "All numbers are there, but not where they belong: entries stand in another order along an axis, or a "
            "`reshape` was taken where axes have to be exchanged.",
        ),
    ),
)
