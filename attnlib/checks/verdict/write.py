"""Writing the report: which parts count, what was wrong, and what the student reads about it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.given import seen
from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.asking.observation import Observation
from attnlib.checks.asking.observe import argument_names, input_names
from attnlib.checks.asking.ready_made import instead
from attnlib.checks.exercise import AS_GIVEN, Case, Exercise, Misconception
from attnlib.checks.naming.isolate import Isolated, isolate
from attnlib.checks.naming.one_change.kinds import CHANGES
from attnlib.checks.trial.compare import ASPECTS
from attnlib.checks.trial.trial import Trial, visibly_wrong
from attnlib.checks.verdict import words
from attnlib.checks.verdict.gallery import pages_of
from attnlib.checks.verdict.report import Report, Section
from attnlib.checks.verdict.scoring import earned, still_open

ALL_CHANGES = {change.id for change in CHANGES.values()}
"""Ids of one-change findings: each change would put everything right, so there is nothing more to say."""


def write_report(
    exercise: Exercise,
    trials: Sequence[Trial],
    *,
    cases: Sequence[Case],
    findings: Sequence[Misconception] = (),
    failure: Failure | None = None,
    example: tuple[Observation, Observation] | None = None,
) -> Report:
    """Turn the trials into a verdict; a `failure` without trials is an attempt that could not be tried at all.

    `cases` are all visible ones that were to be tried: a part counts unless one of its cases is wrong or missing.
    `findings` are what is known of the mistake: the first is the diagnosis.
    """
    cases = [*{case.name: case for case in (*cases, *(t.case for t in trials))}.values()]  # of the part it counts for
    parts = earned(exercise.parts, cases, {t.case.name for t in trials if t.difference is None})
    if failure is not None:
        parts = dict.fromkeys(parts, False)
    passed = all(parts.values())
    sections: list[Section] = []
    chosen = None if passed or failure is not None else _chosen(exercise, trials, findings)
    if passed:
        headline = "all right"
        if exercise.explanation:
            sections.append(Section("Why", exercise.explanation))
    elif failure is not None:
        headline = words.of_failure(failure)
        if failure.kind == "forbidden":
            sections.append(_instead(exercise, failure))
    else:
        headline, sections = _explain_failure(exercise, trials, chosen, findings, example)
    for finding in reversed(findings):
        heading = "" if exercise.kind == "choice" else f"{finding.heading}: "
        pages = pages_of(exercise, finding)
        told = Section(heading + finding.title, finding.explanation, link=finding.thread, pages=pages)
        sections.insert(min(1, len(sections)), told)  # after the difference, if one is shown
    if printed := next((t.got.printed.rstrip() for t in trials if t.got.printed), ""):
        begins = printed if len(printed) <= 600 else f"{printed[:600].rstrip()} …"
        sections.append(Section("Your code printed (in the first case)", begins, fixed=True))
    shown = chosen.failure if chosen is not None else failure
    return Report(
        exercise=exercise.name,
        **_counted(exercise, parts),
        max_points=exercise.points,
        diagnosis=findings[0].id if findings and not passed else None,
        untried=_untried(trials, cases),
        unwritten=any(f.kind == "unwritten" for f in (failure, *(t.got.failure for t in visibly_wrong(trials))) if f),
        failure=shown,
        headline=headline,
        in_short=words.in_short(shown) if shown is not None else headline,
        sections=tuple(sections),
    )


def _counted(exercise: Exercise, parts: dict[str, bool]) -> dict[str, Any]:
    """The fields of a report that follow from the parts."""
    score = sum(exercise.parts[part] for part, passed in parts.items() if passed) / exercise.worth
    points = float(round(score * exercise.points))
    return {"passed": all(parts.values()), "score": score, "points": points, "parts": parts}


def after_hidden_cases(exercise: Exercise, report: Report, left: dict[str, bool]) -> Report:
    """Report on the visible cases once more, with the parts that the grader's own cases have left.

    It says which of the parts failed there, and nothing that the attempt could have chosen. A shape, a dtype, the
    name of an exception, whether it raised at all, how long it took: an answer could make each of hidden inputs.
    """
    lost = [part for part, counted in report.parts.items() if counted and not left[part]]
    if not lost:
        return report
    said = (
        "The grader also calls your answer with other sizes and other numbers, and at least one of those calls did not "
        "return what it should, or took too long. Try inputs of your own: other lengths, a batch of one, larger and "
        "smaller numbers."
    )
    named = lost if still_open(exercise.parts, lost[:1]) else lost[:1]
    section = Section(f"In a case of the grader's own ({', '.join(named)})", said)
    if report.passed:
        headline = "fails one of the grader's own cases"
        report = replace(report, headline=headline, in_short=headline)
    return replace(report, **_counted(exercise, left), sections=(*report.sections, section))


def _instead(exercise: Exercise, failure: Failure) -> Section:
    return Section("What to use instead", instead(exercise.forbidden, failure.text))


def _untried(trials: Sequence[Trial], cases: Sequence[Case]) -> tuple[str, ...]:
    """The parts that only lack a trial."""
    lacking = {c.part for c in cases} - {t.case.part for t in trials if t.difference is not None}
    tried = {t.case.name for t in trials}
    return tuple(dict.fromkeys(c.part for c in cases if c.part in lacking and c.name not in tried))


def _chosen(exercise: Exercise, trials: Sequence[Trial], findings: Sequence[Misconception]) -> Trial | None:
    """Choose the wrong case that is shown."""
    order, given = list(exercise.parts), _is_given(findings)
    visible = sorted(visibly_wrong(trials), key=lambda t: (t.is_apart, order.index(t.case.part), _rank(t)))
    return min(visible, key=lambda t: given and not _shows_numbers(t), default=None)


def _is_given(findings: Sequence[Misconception]) -> bool:
    return any(finding.id == AS_GIVEN for finding in findings)


def _explain_failure(
    exercise: Exercise,
    trials: Sequence[Trial],
    chosen: Trial | None,
    findings: Sequence[Misconception],
    example: tuple[Observation, Observation] | None,
) -> tuple[str, list[Section]]:
    order = list(exercise.parts)
    assert chosen is not None
    assert chosen.difference is not None
    aspect, failure = chosen.difference.aspect, chosen.failure
    if failure is not None and failure.kind == "unwritten" and exercise.kind == "function":
        return words.of_failure(failure), []  # nothing more can be said yet; a module may be half written
    if failure is not None and failure.kind == "forbidden":
        return words.of_failure(failure), [_instead(exercise, failure)]
    if aspect == "failure":
        headline, body = words.of_difference(chosen.difference), ""
        if failure is not None:
            headline, details = words.headline(failure)
            body = "\n".join(line for line in (details, failure.place and f"At {failure.place}") if line)
    elif chosen.case.part == "error":  # the numbers only say what the message was searched for
        headline, body = "the error does not say what it should", ""
    else:
        how = chosen.difference.how
        told = aspect in ("values", "gradient") and chosen.case.part not in (order[0], aspect)
        under = f" under “{chosen.case.part}”" if told else ""
        headline = words.HEADLINES.get(how, words.HEADLINES[aspect]) + under
        body = words.of_difference(chosen.difference)
    if _is_given(findings):
        headline = "the bug is still there"
    where = f"In the case “{chosen.case.name}”, called with {_described_inputs(exercise, chosen)}"
    sections = [Section(where, body.rstrip())]
    known = any(finding in exercise.misconceptions for finding in findings)
    isolated = Isolated() if known else isolate(exercise, trials)
    if not known and (looks_like := _unrecognised(isolated, trials, chosen, findings)):
        sections.append(looks_like)
    explained = known or isolated.traits or any(finding.id in ALL_CHANGES for finding in findings)
    if not explained and (others := _other_parts(order, trials, chosen)):
        sections.append(Section("Wrong as well", others))
    if example is not None and (side := _side_by_side(exercise, example)):
        sections.append(side)
    return headline, sections


def _other_parts(order: Sequence[str], trials: Sequence[Trial], chosen: Trial) -> str:
    """The first wrong case of every other part that is lost by its own cases: each ✗ gets a sentence."""
    firsts = {t.case.part: t for t in reversed(visibly_wrong(trials))}
    if order[0] in firsts:
        return ""
    left = [t for part in order if part != chosen.case.part and (t := firsts.get(part)) and t.difference]
    return "\n".join(
        f"{t.case.part}, in the case “{t.case.name}”: {words.of_difference(t.difference)}."
        for t in left
        if t.difference
    )


def _shows_numbers(trial: Trial) -> bool:
    return trial.difference is not None and trial.difference.aspect == "values"


def _rank(trial: Trial) -> int:
    return ASPECTS.index(trial.difference.aspect) if trial.difference else len(ASPECTS)


def _described_inputs(exercise: Exercise, trial: Trial) -> str:
    described = []
    for name, value in zip(input_names(exercise), map(seen, trial.expected.inputs), strict=False):
        if isinstance(value, Tensor):
            dtype = trial.case.dtype if value.is_floating_point() else value.dtype
            described.append(f"{name} {tuple(value.shape)} {str(dtype).removeprefix('torch.')}")
        elif tensors := tensors_in(value):
            numbers = value.items() if isinstance(value, dict) else ()
            told = [f"{key} = {number}" for key, number in numbers if isinstance(number, int)]
            count = f"{len(tensors)} tensor{'s' if len(tensors) > 1 else ''}"
            first = " " if len({each.shape for each in tensors}) == 1 else ", the first "
            described.append(", ".join([f"{name}, {count}{first}{tuple(tensors[0].shape)}", *told]))
        elif value is not None:
            described.append(f"{name} = {value}")
    if exercise.kind == "module":
        named = zip(argument_names(exercise.reference), trial.expected.sizes, strict=False)
        built = f"{exercise.name}({', '.join(f'{name}={value}' for name, value in named)})"
        return f"{built} and {', '.join(described)}" if described else built
    return ", ".join(described)


def _unrecognised(
    isolated: Isolated, trials: Sequence[Trial], chosen: Trial, findings: Sequence[Misconception]
) -> Section | None:
    """The section for a mistake that no misconception fits: which properties hold, unless a finding has said it."""
    assert chosen.difference is not None
    named = {finding.id for finding in findings} - {"not_refused"}  # its trait says more: that all else is right
    if len(isolated.traits) == 1 and isolated.traits[0].id in named:
        return None
    off = words.of_isolated(isolated) if not isolated.part else _of_part(isolated.part, trials)
    failed = chosen.difference.aspect == "failure"  # the exception speaks for itself
    if not off and not failed:
        off = _right_but_with(trials) or _right_or_wrong(trials)
    return Section("What this looks like", off) if off else None


def _of_part(part: str, trials: Sequence[Trial]) -> str:
    """Say that only one part is wrong, and in which of its cases, if others of its cases are right."""
    seen = [t for t in trials if t.case.part == part]
    wrong = [t.case.name for t in seen if t.difference is not None]
    if len(wrong) == len(seen):
        return words.of_isolated(Isolated(part=part))
    return f"Wrong in: {_listed(wrong)}. All the other parts are right."


def _right_or_wrong(trials: Sequence[Trial]) -> str:
    """The cases that are wrong, or those that are right, whichever are fewer; empty where none is right."""
    wrong = [t.case.name for t in trials if t.difference is not None]
    fine = [t.case.name for t in trials if t.difference is None and _compares_values(t.case)]
    if len(wrong) < len(fine):
        return f"Wrong in: {_listed(wrong)}. Everything else that was tried is right."
    return f"Right in: {_listed(fine)}." if fine else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)


def _right_but_with(trials: Sequence[Trial]) -> str:
    """Say that everything without one input is right, if all wrong cases and no right one are given it."""
    seen = [t for t in trials if _compares_values(t.case)]
    wrong, right = ({t.case.given for t in seen if (t.difference is None) == fine} for fine in (False, True))
    return f"Everything without {wrong.pop()} is right." if len(wrong) == 1 and wrong.isdisjoint({"", *right}) else ""


def _compares_values(case: Case) -> bool:
    return not (case.other_device or case.raises)


def _side_by_side(exercise: Exercise, example: tuple[Observation, Observation]) -> Section | None:
    """The shown output on the tiny example, theirs beside the right one, if there is a difference to see."""
    right, yours = example
    if right.outputs is None or yours.outputs is None:
        return None
    index = exercise.outputs.index(exercise.shown) if exercise.shown else 0
    want, have = _flat(right.outputs[index]), _flat(yours.outputs[index])
    if have.is_meta or want.dim() > 2 or have.dim() > 2 or not all(0 < t.numel() <= 30 for t in (want, have)):
        return None
    if want.shape == have.shape and torch.allclose(want.double(), have.double(), atol=5e-3, equal_nan=True):
        return None
    left, other = words.rows_of(have), words.rows_of(want)
    width = max(len("yours"), *(len(line) for line in left))
    rows = max(len(left), len(other))
    left, other = left + [""] * (rows - len(left)), other + [""] * (rows - len(other))
    inputs = zip(input_names(exercise), right.inputs, strict=False)
    given = "\n".join(words.given(name, value) for name, value in inputs if value is not None)
    table = "\n".join(
        f"{a:<{width}}     {b}".rstrip() for a, b in zip(["yours", *left], ["right", *other], strict=True)
    )
    name = f" ({exercise.outputs[index]})" if len(exercise.outputs) > 1 else ""
    return Section(f"On a small example{name}", f"{given}\n\n{table}".strip(), fixed=True)


def _flat(tensor: Tensor) -> Tensor:
    """Drop axes of length 1, as long as there are more than two axes."""
    while tensor.dim() > 2 and 1 in tensor.shape:
        tensor = tensor.squeeze(tensor.shape.index(1))
    return tensor
