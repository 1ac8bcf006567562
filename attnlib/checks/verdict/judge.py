"""Judging an attempt: every case, part by part, then the diagnosis, then the report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from attnlib.checks.asking.attempt import Attempt, Local
from attnlib.checks.asking.contract import described
from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.observation import AS_IN_A_NOTEBOOK, Asking, Memory, Observation
from attnlib.checks.asking.observe import observe
from attnlib.checks.asking.sources import shortcuts_of
from attnlib.checks.asking.time_limits import TimeLimits
from attnlib.checks.exercise import AS_GIVEN, Case, Exercise, Misconception
from attnlib.checks.naming.diagnose import diagnose
from attnlib.checks.naming.errors import exception
from attnlib.checks.naming.from_source import FromSource, from_record, from_source, read_source, text_of
from attnlib.checks.naming.symptoms import (
    beside_parameters,
    broken_contract,
    changed_on_the_way,
    gradient_cut_off,
    never_ends,
    one_property,
    relation_of_numbers,
)
from attnlib.checks.trial.trial import Trial, judged, visibly_wrong
from attnlib.checks.verdict.report import Report
from attnlib.checks.verdict.scoring import earned, still_open
from attnlib.checks.verdict.write import after_hidden_cases, write_report

GIVEN_UP = ("time", "unwritten", "forbidden", "died")
"""Failures after which the other cases of the same part are not tried: they would fail alike."""

OF_NAMES = ("self_missing", "import_missing", "misspelt", "name_not_defined", "argument_of_another_function")
"""Findings on a NameError, which is the first thing to mend."""
MOST_FINDINGS = 3  # nobody would read more


def run_exercise(
    exercise: Exercise,
    attempt: Any,
    asking: Asking = AS_IN_A_NOTEBOOK,
    *,
    hidden: bool = False,
    to_the_end: bool = False,
    dtype: torch.dtype | None = None,
    known: Mapping[str, Observation] | None = None,
) -> Report:
    """Judge an attempt at an exercise, an object of this process or one in another; never raises because of it.

    `hidden` adds the grader's cases, which run after everything shown is decided, and only take parts away.
    `to_the_end`, as with these, goes on with the other parts when a case took too long. `dtype` replaces that of every
    case. `known` is what the attempt did on the cases, by their names, if it has been asked before.
    """
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating dtype such as torch.float64, got {dtype}")
    if exercise.kind == "choice":
        return _judge_choice(exercise, attempt)
    asked = attempt if isinstance(attempt, Attempt) else Local(attempt, asking.limits)  # its patience is for all cases
    if (unfit := asked.unfit_reason(exercise.kind)) is not None:
        return write_report(exercise, [], cases=(), failure=Failure("type", unfit))
    if not isinstance(attempt, Attempt) and (uses := shortcuts_of(attempt, exercise.forbidden, exercise.reference)):
        told = f"calls {uses[0].name}, which this exercise asks you to do without"
        where = f" (line {uses[0].line}: {uses[0].text})"
        return write_report(exercise, [], cases=(), failure=Failure("forbidden", told + where))
    cases = cases_of(exercise, hidden=False, dtype=dtype)
    trials, given_up = _tried(exercise, asked, cases, known, asking, to_the_end=hidden or to_the_end)
    if given_up:  # there is not enough yet to say what the mistake is
        report = write_report(exercise, trials, cases=cases, findings=never_ends(trials))
    else:
        example = on_example(exercise, asked) if any(t.difference for t in trials) else None
        found = findings(exercise, attempt, trials, asking) if asking.device == "cpu" else []
        report = write_report(exercise, trials, cases=cases, findings=found, example=example)
    if not hidden:
        return report
    left = parts_left(exercise, asked, report.parts, asking, dtype=dtype, known=known)
    return after_hidden_cases(exercise, report, left)


def _tried(
    exercise: Exercise,
    attempt: Attempt,
    cases: Sequence[Case],
    known: Mapping[str, Observation] | None,
    asking: Asking,
    *,
    to_the_end: bool,
) -> tuple[list[Trial], list[str]]:
    """The trials, and the parts that were given up before their end."""
    trials: list[Trial] = []
    given_up: list[str] = []
    for case in cases:
        if case.part in given_up:
            continue
        got = None if known is None else known[case.name]
        trials.append(try_case(exercise, attempt, case, asking, got=got))
        failure = trials[-1].got.failure if trials[-1].difference is not None else None
        if failure is not None and failure.kind in GIVEN_UP:
            given_up.append(case.part)
            too_long = failure.kind == "time" and not to_the_end  # a student has waited long enough
            if not still_open(exercise.parts, [case.part]) or failure.kind == "died" or too_long:
                break  # or no part can still be earned, or the attempt is gone
    return trials, given_up


def passing(exercise: Exercise, attempt: Attempt, asking: Asking) -> Report | None:
    """Report on an attempt that passes all cases that are shown; None at the first that it doesn't."""
    if attempt.unfit_reason(exercise.kind) is not None:
        return None
    cases = cases_of(exercise, hidden=False)
    trials: list[Trial] = []
    for case in cases:
        trials.append(try_case(exercise, attempt, case, asking))
        if trials[-1].difference is not None:
            return None
    return write_report(exercise, trials, cases=cases)


def parts_left(
    exercise: Exercise,
    attempt: Attempt,
    parts: Mapping[str, bool],
    asking: Asking,
    *,
    dtype: torch.dtype | None = None,
    known: Mapping[str, Observation] | None = None,
) -> dict[str, bool]:
    """Return the parts that still count after the grader's hidden cases; nothing else about these cases is kept.

    Stop trying a part as soon as it is lost.
    """
    hidden = [case for case in cases_of(exercise, hidden=True, dtype=dtype) if case.hidden]
    left, wrong = dict(parts), set[str]()
    for case in hidden:
        if not left[case.part]:
            continue
        got = None if known is None else known[case.name]
        trial = try_case(exercise, attempt, case, asking, got=got)
        if trial.difference is not None:
            wrong.add(trial.case.part)
            rest = earned(exercise.parts, hidden, {other.name for other in hidden if other.part not in wrong})
            left = {part: counts and rest[part] for part, counts in left.items()}
    return left


def findings(exercise: Exercise, attempt: Any, trials: Sequence[Trial], asking: Asking) -> list[Misconception]:
    """Name the mistake: a misconception if one fits, else what the result shows and the one change that fixes it."""
    if all(t.difference is None for t in trials):
        return []
    source = "" if _is_of_the_course(attempt) else text_of(attempt)
    known = diagnose(exercise, trials, asking, source=source)
    if known and (known[0].id == AS_GIVEN or _is_of_the_course(attempt)):
        return known
    elsewhere = isinstance(attempt, Attempt)
    found = None if elsewhere else read_source(exercise, attempt, () if known else trials)
    if known:
        return [*found.certain[:1], *known, *found.beside(known[0])] if found else known
    if elsewhere:
        told = from_record(attempt.explained()) if visibly_wrong(trials) else FromSource()
    else:
        told = from_source(exercise, attempt, trials, found, asking)
    broken = broken_contract(trials)
    proven = (
        *told.certain,
        broken,
        *beside_parameters(exercise, trials),
        told.change,
        one_property(exercise, trials) if broken is None else None,  # it would say the same in fewer words
    )
    error = exception(exercise, trials, told.names) if broken is None else None
    of_a_name = error if error is not None and error.id in OF_NAMES else None
    needs_self = of_a_name is not None and of_a_name.id == "self_missing"  # a layer read without it only seems unused
    guesses = (
        of_a_name,  # nothing behind that line has run
        changed_on_the_way(trials),
        *(hint for hint in told.hints if not (needs_self and hint.id == "layer_not_used")),
        relation_of_numbers(exercise, trials),
        error,
        gradient_cut_off(trials),
    )
    named = (*proven, *(guesses if told.change is None else ()))
    return list({finding.id: finding for finding in named if finding is not None}.values())[:MOST_FINDINGS]


def explain(
    exercise: Exercise, attempt: Any, *, limits: TimeLimits, confined: bool, memory: Memory | None = None
) -> FromSource:
    """Explain a wrong answer from its source, using only the notebook's own cases and numbers.

    `confined` means that this process is locked down already. The grader sets it; no answer has a say in it.
    """
    asking = Asking(limits=limits, memory=memory)
    trials: list[Trial] = []
    for case in cases_of(exercise, hidden=False):
        trials.append(try_case(exercise, Local(attempt, limits), case, asking))
        failure = trials[-1].got.failure if trials[-1].difference is not None else None
        if failure is not None and failure.kind in GIVEN_UP:
            return FromSource()
    if all(trial.difference is None for trial in trials):
        return FromSource()
    found = read_source(exercise, attempt, trials)
    return from_source(exercise, attempt, trials, found, asking, confined=confined)


def expect(exercise: Exercise, memory: Memory) -> None:
    """Note what the reference does wherever an explanation asks for it."""
    from attnlib.checks.naming.one_change.elsewhere import other_cases  # imported late, as the search is

    cases, asking = cases_of(exercise, hidden=False), Asking(memory=memory)
    for case in cases:
        observe(exercise, exercise.reference, case, asking, exact=True)
    for _ in other_cases(exercise, cases, asking):
        pass


def _is_of_the_course(attempt: Any) -> bool:
    return not isinstance(attempt, Attempt) and str(getattr(attempt, "__module__", "")).startswith("attnlib.")


def cases_of(exercise: Exercise, *, hidden: bool, dtype: torch.dtype | None = None) -> list[Case]:
    """Return the exercise's cases in the order in which they are judged: visible ones first, part by part.

    What an answer does on visible cases is shown, so it must not depend on hidden inputs that it has kept.
    """
    chosen = [c for c in exercise.cases if hidden or not c.hidden]
    chosen.sort(key=lambda c: (c.hidden, list(exercise.parts).index(c.part)))
    return chosen if dtype is None else [replace(c, dtype=dtype) for c in chosen]


def try_case(
    exercise: Exercise,
    attempt: Any,
    case: Case,
    asking: Asking = AS_IN_A_NOTEBOOK,
    *,
    got: Observation | None = None,
) -> Trial:
    """Compare the attempt with the reference on one case; `got` is what it did there, if that is known already."""
    expected = observe(exercise, exercise.reference, case, asking, exact=True)
    if (expected.failure is not None) != case.raises:
        raise AssertionError(
            f"the reference of {exercise.name} does not do what {case.name!r} says: {expected.failure}"
        )
    if got is None:
        got = observe(exercise, attempt, case, asking.anew, watched=True)
    return judged(exercise, case, expected, got)


def require_device(device: str) -> None:
    """Raise ValueError unless torch can use it here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used here: {str(error).splitlines()[0]}") from None


def on_example(exercise: Exercise, attempt: Any) -> tuple[Observation, Observation] | None:
    """The reference and the attempt on the exercise's tiny example."""
    if exercise.example is None:
        return None
    inputs = exercise.example
    case = Case(name="the small example", inputs=lambda _draw: inputs())
    return (
        observe(exercise, exercise.reference, case, exact=True),
        observe(exercise, attempt, case),
    )


def _judge_choice(exercise: Exercise, attempt: Any) -> Report:
    """A prediction: a letter, compared with the right one; every wrong one is a misconception with its explanation."""
    choices = [exercise.reference, *(m.implementation for m in exercise.misconceptions)]
    letters = sorted(choices, key=lambda choice: (len(choice), choice))  # numbers, too, in their order
    listed = f"{', '.join(map(repr, letters[:-1]))} or {letters[-1]!r}"
    if attempt is None or attempt is Ellipsis:
        return write_report(
            exercise, [], cases=(), failure=Failure("unwritten", f"is not answered yet: choose {listed}")
        )
    if type(attempt) is not str:
        return write_report(
            exercise, [], cases=(), failure=Failure("type", f"must be {listed}, but you passed {described(attempt)}")
        )
    letter = attempt.strip().upper()
    if letter == exercise.reference:
        return write_report(exercise, [], cases=())
    for misconception in exercise.misconceptions:
        if letter == misconception.implementation:
            return write_report(
                exercise, [], cases=(), findings=[misconception], failure=Failure("choice", f"is not {letter!r}")
            )
    return write_report(exercise, [], cases=(), failure=Failure("type", f"must be {listed}, got {attempt!r:.40}"))
