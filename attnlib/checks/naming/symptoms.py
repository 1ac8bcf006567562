"""Symptoms of a wrong result that no misconception fits: names that are true of it however it came about.

A misconception computes what the attempt computes; a symptom is a plain relation between what came and what is right,
which has to hold in every visible case that is wrong.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attnlib.checks.asking.failure import RETURNED, Reason
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.diagnose import not_explained
from attnlib.checks.naming.isolate import isolate
from attnlib.checks.naming.relations import RELATIONS, are_shapes_of_others, digits
from attnlib.checks.naming.symptom_names import SYMPTOMS
from attnlib.checks.trial.compare import agreeing_outputs
from attnlib.checks.trial.trial import Trial, visibly_wrong

Found = tuple[str, tuple[str, ...]]
"""A symptom's id, and the words that fill in its title."""
PARAMETERS: dict[Reason, str] = {
    "missing": "parameter_missing",
    "in_a_list": "layers_in_a_list",
    "not_a_parameter": "tensor_for_parameter",
    "shared": "parameter_shared",
    "unasked": "one_parameter_more",
    "two_names": "layer_under_two_names",
    "frozen": "parameter_frozen",
    "another_shape": "parameter_of_another_shape",
}
"""The symptom for each broken promise about parameters; a report on other names says enough itself."""

CUT_OFF = ("cut_off", "unreached")  # of a gradient: see `Difference.how`
FEWEST = 6  # numbers: fewer may be related by chance


def broken_contract(trials: Sequence[Trial]) -> Misconception | None:
    """Name a broken contract: in what the attempt is or returns, which inputs it refuses, or in its gradients."""
    wrong = visibly_wrong(trials)
    return _named(_of_kind(wrong) or _of_errors(wrong) or _of_gradients(wrong, all_of_them=True)) if wrong else None


def never_ends(trials: Sequence[Trial]) -> list[Misconception]:
    """Name the loop in which an attempt ran out of time, if the source shows why it goes on."""
    failures = [t.got.failure for t in visibly_wrong(trials) if t.got.failure is not None]
    told = [f.details for f in failures if f.reason == "endless"]
    return [replace(SYMPTOMS["never_ends"], explanation=told[0])] if told else []


def beside_parameters(exercise: Exercise, trials: Sequence[Trial]) -> list[Misconception]:
    """Report cases that are wrong although their parameters are right, which no finding on parameters explains."""
    wrong = visibly_wrong(trials)
    found = _of_kind(wrong)
    others = [t for t in wrong if t.got.failure is None]
    return not_explained(exercise, others, wrong) if found and found[0] in PARAMETERS.values() else []


def gradient_cut_off(trials: Sequence[Trial]) -> Misconception | None:
    """Name a gradient that doesn't come through, regardless of what else is wrong."""
    return _named(_of_gradients(visibly_wrong(trials)))


def changed_on_the_way(trials: Sequence[Trial]) -> Misconception | None:
    """Name inputs that are changed and should not be, where the numbers are wrong, perhaps because of that."""
    wrong = [t for t in visibly_wrong(trials) if t.difference and t.difference.aspect in ("shape", "values")]
    changed = [{*t.got.mutated} - {*t.expected.mutated} for t in wrong]
    names = sorted(set.intersection(*changed)) if changed else []
    return _named(("changed_on_the_way", (" and ".join(f"`{name}`" for name in names),))) if names else None


def one_property(exercise: Exercise, trials: Sequence[Trial]) -> Misconception | None:
    """Name the property that all wrong cases have, and no right one (see `isolate`)."""
    found = isolate(exercise, trials)
    if len(found.traits) != 1 or found.traits[0].id == "not_refused":
        return None  # inputs that have to be refused have a name of their own
    return _named((found.traits[0].id, found.traits[0].axes))


def relation_of_numbers(exercise: Exercise, trials: Sequence[Trial]) -> Misconception | None:
    """Name the relation of the numbers that came to the right ones."""
    wrong = visibly_wrong(trials)
    # what a probe makes of the numbers, or rounding, may hide the relation; in float64 it hides no dtype
    exact = [t for t in wrong if not t.case.magnitude or (t.case.dtype == torch.float64 and _is_of_dtype(t))]
    plain = [t for t in exact if t.case.probe is None and t.case.dtype != torch.float16]
    if 2 * sum(t.got.failure is not None for t in wrong) > len(wrong):
        return None  # the exception says more than the few numbers that came
    pairs = [pair for t in plain or wrong if not t.case.measures and (pair := _compared(t)) is not None]
    agreeing = [digits(want, have) for want, have, _ in pairs]
    dtype = any(_is_of_dtype(t) for _, _, t in pairs)
    if dtype and min(agreeing) >= 4:
        return _named(("another_dtype", ()))
    if not pairs or max(want.numel() for want, _, _ in pairs) < FEWEST:
        return None
    if max(agreeing) >= 4:  # any other relation would hold there as well
        return None if dtype else _less_exact(min(agreeing), wrong)
    # a row of a single number is a multiple of any other, and no evidence of what a row is to another
    pairs = [pair for pair in pairs if pair[0].dim() == 0 or pair[0].shape[-1] > 1] or pairs
    for name, relation in RELATIONS.items():
        if all(found := [relation(*pair) for pair in pairs]):
            return _named((name, (str(found[0]),)), *_of_output(exercise, wrong))
    shaped = [trial for want, have, trial in pairs if want.shape != have.shape]
    if shaped and all(are_shapes_of_others(trial) for trial in shaped):
        return _named(("shapes_in_another_order", ()))
    return _less_exact(min(agreeing), wrong)


def _is_of_dtype(trial: Trial) -> bool:
    return trial.difference is not None and trial.difference.aspect == "dtype"


def _less_exact(agreeing: int, wrong: Sequence[Trial]) -> Misconception | None:
    """Say to how many digits the numbers agree, and in which cases they don't: a large input may ask for more."""
    if agreeing < 2:
        return None
    compared = [pair for t in wrong if t.case.probe is None and (pair := _compared(t)) is not None]
    not_there = [f"“{t.case.name}”" for want, have, t in compared if digits(want, have) < 2]
    return _named(("less_exact", (str(agreeing),)), f", but not in {', '.join(not_there)}" if not_there else "")


def _of_output(exercise: Exercise, wrong: Sequence[Trial]) -> tuple[str, str]:
    """Return, if one of several outputs was compared, its name, and a sentence naming the others that are wrong."""
    names = {t.difference.names for t in wrong if t.difference and t.difference.aspect in ("shape", "values")}
    if len(names) != 1 or () in names:
        return "", ""
    seen = [t for t in wrong if _compared(t) is not None]
    right = set.intersection(*(agreeing_outputs(exercise, t.case, t.expected, t.got) for t in seen))
    others = [name for name in exercise.outputs if name not in (right | {*next(iter(names))})]
    return f" ({', '.join(*names)})", f" Wrong as well: {', '.join(others)}." if others else ""


def _named(found: Found | None, of: str = "", more: str = "") -> Misconception | None:
    if found is None:
        return None
    name, filled = found
    known = SYMPTOMS[name]
    return replace(known, title=known.title.format(*filled) + of, explanation=known.explanation + more)


def _of_kind(wrong: Sequence[Trial]) -> Found | None:
    """The wrong parameters, or the wrong kind of result."""
    failures = [t.got.failure for t in wrong if t.got.failure is not None and not _is_taken(t)]
    if not failures or len({f.kind for f in failures}) > 1:
        return None
    reason = failures[0].reason
    if reason in PARAMETERS:
        return PARAMETERS[reason], ()
    if reason == "nothing":
        return ("printed_instead" if any(t.got.printed for t in wrong) else "nothing_returned"), ()
    return ("returns_something_else", ()) if reason == "something_else" else None


def _of_errors(wrong: Sequence[Trial]) -> Found | None:
    """Inputs that have to be refused."""
    if not all(map(_must_be_refused, wrong)):
        return None
    if any(t.difference is not None and t.difference.aspect == "mutation" for t in wrong):
        return None  # they are refused, but something is left behind
    return ("not_refused" if all(map(_is_taken, wrong)) else "refused_otherwise", ())


def _must_be_refused(trial: Trial) -> bool:
    return trial.case.raises or trial.case.part == "error"


def _is_taken(trial: Trial) -> bool:
    """True if no error was raised where one was asked for, whatever was returned instead."""
    failure = trial.got.failure
    return _must_be_refused(trial) and (failure is None or failure.reason in RETURNED)


def _of_gradients(wrong: Sequence[Trial], all_of_them: bool = False) -> Found | None:
    """A gradient of zero where there should be one, behind values that are right."""
    found = [t.difference for t in wrong if t.difference is not None and t.difference.aspect == "gradient"]
    if not found or (all_of_them and len(found) < len(wrong)):
        return None
    return ("gradient_cut_off", (found[0].named or "the inputs",)) if all(d.how in CUT_OFF for d in found) else None


def _compared(trial: Trial) -> tuple[Tensor, Tensor, Trial] | None:
    """The first output that is wrong: what is right, and what came."""
    difference = trial.difference
    if difference is None or difference.aspect not in ("shape", "dtype", "values"):
        return None
    if trial.expected.outputs is None or trial.got.outputs is None:
        return None
    want, have = trial.expected.outputs[difference.output], trial.got.outputs[difference.output]
    return _in_double(want), _in_double(have), trial


def _in_double(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor
