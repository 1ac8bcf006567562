"""The one place where failures, differences and isolated traits become sentences; no other module reads them."""

from typing import Any

from torch import Tensor

from attnlib.checks.asking.failure import Failure
from attnlib.checks.naming.isolate import Isolated
from attnlib.checks.naming.symptom_names import alone
from attnlib.checks.naming.trait_names import AMONG
from attnlib.checks.trial.compare import Aspect, Difference, How, Numbers

LONGEST_HEADLINE = 80  # characters: what fits on a line of a notebook, beside the exercise's name
HEADLINES: dict[Aspect | How, str] = {
    "shape": "the shape is not right",
    "dtype": "the dtype is not right",
    "device": "the device is not right",
    "values": "the values are not right",
    "mutation": "changes its input",
    "untouched": "leaves its input unchanged, but should change it",
    "counted_otherwise": "leaves a wrong number in its input",
    "gradient": "the gradient is not right",
}
NEW_TENSORS = "make new tensors with device=x.device, or from an input (x.new_zeros, torch.zeros_like)"
IN_WORDS: dict[tuple[Aspect, str], str] = {
    ("failure", "accepted"): "accepts these inputs, but must refuse them with an error like this: {expected}",
    ("shape", ""): "{label}expected shape {expected}, got {got}",
    ("dtype", ""): "{label}expected dtype {expected}, got {got}",
    ("device", ""): "{label}expected a tensor on {expected}, got one on {got}",
    ("device", "mixed"): f"mixes tensors of two devices: {NEW_TENSORS}",
    ("device", "made_on_cpu"): f"returns a tensor on the CPU whatever device the input is on: {NEW_TENSORS}",
    ("device", "moved"): "follows its inputs to another device",
    ("values", ""): "{label}{numbers}",
    ("mutation", ""): "changes its input {names} in place",
    ("mutation", "untouched"): "leaves its input {names} unchanged, but should change it",
    ("mutation", "counted_otherwise"): "leaves its input {names} with the number {got} in it, expected {expected}",
    ("gradient", "cut_off"): "no gradient flows back: the output is cut off from the inputs",
    ("gradient", "not_cut_off"): "a gradient flows where none should",
    ("gradient", "unreached"): "no gradient reaches {names}",
    ("gradient", ""): "the gradient with respect to {names} is wrong; {numbers}",
}


def of_difference(difference: Difference) -> str:
    """Describe the difference in one sentence."""
    if difference.aspect == "failure" and isinstance(difference.got, Failure):
        return of_failure(difference.got)
    names = difference.named
    return IN_WORDS[difference.aspect, difference.how].format(
        label=f"{names}: " if names else "",
        names=names,
        expected=_short(difference.expected),
        got=_short(difference.got),
        numbers="" if difference.numbers is None else _of_numbers(difference.numbers),
    )


def of_failure(failure: Failure) -> str:
    """Describe in a clause what happened instead of a result."""
    return ": ".join(part for part in (in_short(failure), _details(failure)) if part)


def headline(failure: Failure) -> tuple[str, str]:
    """Return the failure as a clause, with its details apart where the two together are too long for a headline."""
    text, clause, details = of_failure(failure), in_short(failure), _details(failure)
    if not details or len(text) <= LONGEST_HEADLINE or len(clause) > LONGEST_HEADLINE:
        return text, ""
    if failure.exception or failure.reason == "frozen":  # exact words, as for a web search; parameters' names
        return clause, details
    return clause, f"{details[:1].upper()}{details[1:]}"


def in_short(failure: Failure) -> str:
    """Describe the failure without an exception's message."""
    if failure.kind == "cell":
        return f"its cell ended with {failure.exception}"
    return f"raised {failure.exception}" if failure.exception else failure.text


def _details(failure: Failure) -> str:
    if failure.reason == "endless":
        return ""  # a finding of its own says it
    return failure.text if failure.exception else failure.details


def of_isolated(found: Isolated) -> str:
    """Describe what is isolated in a sentence that is true of every case tried; empty if nothing is isolated."""
    if len(found.traits) == 1:
        return f"{alone(found.traits[0].id, found.traits[0].axes)}."
    if found.traits:
        clauses = "; and ".join(AMONG[trait.id].format(*trait.axes) for trait in found.traits)
        return f"Wrong: {clauses}. Everything else that was tried is right."
    if found.part:
        return f"Only “{found.part}” is wrong; everything else that was tried is right."
    return f"Right: {', '.join(found.right)}. Wrong: {', '.join(found.wrong)}." if found.wrong else ""


def _of_numbers(numbers: Numbers) -> str:
    want, have, wrong = numbers.want, numbers.have, numbers.wrong
    place = tuple(int(i) for i in wrong.nonzero()[0])
    expected, found = _both(want[place], have[place])
    allowed = f"allowed for rounding: {numbers.allowed:.1e}" if numbers.size < float("inf") else ""
    if wrong.numel() == 1:
        return f"expected {expected}, got {found}{f' ({allowed})' if allowed else ''}"
    bad = have[~have.isfinite()] if have.is_floating_point() and bool(want.isfinite().all()) else have[:0]
    what = f"{int(wrong.sum())} of {wrong.numel()} numbers differ"
    if bad.numel():
        what = f"{bad.numel()} of {have.numel()} numbers are {'NaN' if bool(bad.isnan().any()) else 'infinite'}"
    elif allowed:
        what += f", by up to {numbers.size:.3g} ({allowed})"
    index = f"[{', '.join(map(str, place))}]"
    return f"first difference at {index}: expected {expected}, got {found}; {what}"


def _both(want: Tensor, have: Tensor) -> tuple[str, str]:
    """Both with four digits, or with as many as it takes to see a difference."""
    if not want.is_floating_point():
        return str(want.item()), str(have.item())
    shown = [(f"{want.item():.{digits}g}", f"{have.item():.{digits}g}") for digits in (4, 8, 12, 17)]
    return next((pair for pair in shown if pair[0] != pair[1]), shown[-1])


def _short(value: object) -> str:
    """A shape, a dtype, a device, or the error that is wanted."""
    return value.error if isinstance(value, Failure) else str(value).removeprefix("torch.")


def rounded(numbers: Any) -> Any:
    """Nested lists with four digits behind the point at most, as a person would write them."""
    if isinstance(numbers, list):
        return [rounded(number) for number in numbers]
    return round(numbers, 4) if isinstance(numbers, float) else numbers


def given(name: str, value: object) -> str:
    """An input of an example as a caller writes it: a table too wide for one line in a line for each row."""
    line = f"{name} = {rounded(value.tolist()) if isinstance(value, Tensor) else value}"
    return line if len(line) <= 100 else line.replace("], [", f"],\n{' ' * len(name)}    [")


def rows_of(matrix: Tensor) -> list[str]:
    """A matrix with two digits behind the point, a line for each row."""
    rows = matrix.reshape(1, -1) if matrix.dim() < 2 else matrix
    cells = [[f"{round(v, 2) + 0.0:.2f}" if isinstance(v, float) else str(v) for v in row] for row in rows.tolist()]
    widths = max((len(cell) for row in cells for cell in row), default=1)
    return ["[" + "  ".join(f"{cell:>{widths}}" for cell in row) + "]" for row in cells]
