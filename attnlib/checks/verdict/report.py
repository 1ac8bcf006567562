"""The verdict on an attempt, and what the student reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnlib.checks.asking.attempt import Failure
from attnlib.checks.asking.observe import Observation, argument_names, input_names
from attnlib.checks.asking.ready_made import instead
from attnlib.checks.exercise import AS_GIVEN, Case, Exercise, Misconception
from attnlib.checks.naming.diagnose import Trial
from attnlib.checks.naming.isolate import isolate
from attnlib.checks.trial.compare import ASPECTS
from attnlib.checks.verdict.render import as_html, as_text
from attnlib.checks.verdict.scoring import earned

MIME = "application/vnd.attnlib.report+json"
LONGEST_HEADLINE = 80  # characters: what fits on a line of a notebook, beside the exercise's name


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `fixed` text keeps its columns."""

    heading: str
    body: str
    fixed: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """The verdict: whether all is right, the share of the points, the misconception's id, and the message.

    Shown as rich text in a notebook and as plain text in a terminal.
    """

    exercise: str
    passed: bool
    score: float
    points: float
    max_points: int
    diagnosis: str | None
    parts: dict[str, bool] = field(default_factory=dict)
    untried: tuple[str, ...] = ()
    """The parts in which nothing was found wrong, and that do not count because a failure elsewhere ended the check."""
    headline: str = ""
    sections: tuple[Section, ...] = ()

    @property
    def message(self) -> str:
        """What the student reads, as plain text."""
        return as_text(self)

    def __str__(self) -> str:
        return self.message

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.message, "text/html": as_html(self), MIME: self.as_record()}

    def as_record(self) -> dict[str, Any]:
        """The verdict in JSON's types, for the grader's table."""
        return {
            "exercise": self.exercise,
            "passed": self.passed,
            "score": self.score,
            "points": self.points,
            "max_points": self.max_points,
            "diagnosis": self.diagnosis,
            "parts": dict(self.parts),
            "headline": self.headline,
            "message": self.message,
        }


def write_report(
    exercise: Exercise,
    trials: Sequence[Trial],
    *,
    cases: Sequence[Case] = (),
    findings: Sequence[Misconception] = (),
    failure: Failure | None = None,
    example: tuple[Observation, Observation] | None = None,
) -> Report:
    """Turn the trials into a verdict; a `failure` without trials is an attempt that could not be tried at all.

    `cases` are all that were to be tried. `findings` are what is known of the mistake: the first is the diagnosis.
    """
    parts = earned(exercise.parts, cases, {t.case.name for t in trials if t.difference is None})
    if failure is not None:
        parts = dict.fromkeys(parts, False)
    points = sum(exercise.parts[part] for part, passed in parts.items() if passed)
    passed = all(parts.values())
    sections: list[Section] = []
    if passed:
        headline = "all right"
        if exercise.explanation:
            sections.append(Section("Why", exercise.explanation))
    elif failure is not None:
        headline = failure.text
        if failure.kind == "forbidden":
            sections.append(_instead(exercise))
    else:
        headline, sections = _explain_failure(exercise, trials, findings, example)
    for finding in reversed(findings):
        heading = "" if exercise.kind == "choice" else f"{finding.heading}: "
        sections.insert(_after_difference(sections), Section(heading + finding.title, finding.explanation))
    printed = next((t.got.printed for t in trials if t.got.printed and not t.case.hidden), "")
    if printed:
        sections.append(Section("Your code printed (in the first case)", printed.rstrip()[:600], fixed=True))
    return Report(
        exercise=exercise.name,
        passed=passed,
        score=points / exercise.points,
        points=float(points),
        max_points=exercise.points,
        diagnosis=findings[0].id if findings and not passed else None,
        parts=parts,
        untried=_untried(trials, cases),
        headline=headline,
        sections=tuple(sections),
    )


def _instead(exercise: Exercise) -> Section:
    return Section("What to use instead", instead(exercise.forbidden))


def _untried(trials: Sequence[Trial], cases: Sequence[Case]) -> tuple[str, ...]:
    """The parts that lack only a trial; none where a hidden case is wrong, for how that ended is not shown."""
    wrong = [t.case for t in trials if t.difference is not None]
    if any(case.hidden for case in wrong):
        return ()
    lacking = {c.part for c in cases} - {c.part for c in wrong}
    tried = {t.case.name for t in trials}
    return tuple(dict.fromkeys(c.part for c in cases if c.part in lacking and c.name not in tried))


def _after_difference(sections: list[Section]) -> int:
    return min(1, len(sections))


def _explain_failure(
    exercise: Exercise,
    trials: Sequence[Trial],
    findings: Sequence[Misconception],
    example: tuple[Observation, Observation] | None,
) -> tuple[str, list[Section]]:
    order = list(exercise.parts)
    failed = [t for t in trials if t.difference is not None]
    visible = [t for t in failed if not t.case.hidden]
    only_hidden = {t.case.part for t in failed} - {t.case.part for t in visible}
    unseen = [_explain_hidden(part) for part in order if part in only_hidden]
    if not visible:
        return "fails one of the grader's own cases", unseen[:1]
    given = any(finding.id == AS_GIVEN for finding in findings)
    chosen = min(visible, key=lambda t: (given and not _shows_numbers(t), order.index(t.case.part), _rank(t)))
    assert chosen.difference is not None
    aspect, text, got = chosen.difference.aspect, chosen.difference.text, chosen.got
    if got.failure is not None and got.failure.kind == "unwritten" and exercise.kind == "function":
        return text, []  # there is nothing yet to say more about; a module may be half written
    if got.failure is not None and got.failure.kind == "forbidden":
        return text, [_instead(exercise)]
    if aspect == "failure":
        headline, details = _cut(text)
        place = got.failure.place if got.failure else ""
        body = f"{details}\n" if details else ""
        body += f"At {place}\n" if place else ""
    elif chosen.case.part == "error":  # the numbers only say what the message was searched for
        headline, body = "the error does not say what it should", ""
    else:
        headline = {
            "shape": "the shape is not right",
            "dtype": "the dtype is not right",
            "device": "the device is not right",
            "values": "the values are not right",
            "mutation": "changes its input",
            "gradient": "the gradient is not right",
        }[aspect]
        body = f"{text}\n"
    if given:
        headline = "the bug is still there"
    where = f"In the case “{chosen.case.name}”, called with {_described_inputs(exercise, chosen)}"
    sections = [Section(where, body.rstrip())]
    known = any(finding in exercise.misconceptions for finding in findings)
    if not known and (looks_like := _unrecognised(exercise, trials, chosen, findings)):
        sections.append(looks_like)
    if example is not None and (side := _side_by_side(exercise, example)):
        sections.append(side)
    return headline, sections + unseen[:1]


def _cut(text: str) -> tuple[str, str]:
    """A long failure is no headline: what happened, and apart from it the details."""
    own_words = not text.startswith("raised")  # what an exception says stays as it is, to be searched for
    short, mark, details = text.partition("; ") if text.startswith("has no parameter") else text.partition(": ")
    if not mark or len(text) <= LONGEST_HEADLINE or len(short) > LONGEST_HEADLINE:
        return text, ""
    is_a_name = "_" in details.split(" ")[0]  # an argument's, which has no capital at the start of a sentence either
    return short, f"{details[:1].upper()}{details[1:]}" if own_words and not is_a_name else details


def _explain_hidden(part: str) -> Section:
    """What may be said of hidden cases: the part that fails there, and nothing that the attempt could have chosen.

    A shape, a dtype, the name of an exception, whether it raised at all: an answer could make each of hidden inputs.
    """
    said = (
        "The grader also calls your answer with other sizes and other numbers, and at least one of those calls did not "
        "give what it should. Try inputs of your own: other lengths, a batch of one, larger and smaller numbers."
    )
    return Section(f"In a case of the grader's own ({part})", said)


def _shows_numbers(trial: Trial) -> bool:
    return trial.difference is not None and trial.difference.aspect == "values"


def _rank(trial: Trial) -> int:
    return ASPECTS.index(trial.difference.aspect) if trial.difference else len(ASPECTS)


def _described_inputs(exercise: Exercise, trial: Trial) -> str:
    described = []
    for name, value in zip(input_names(exercise), trial.expected.inputs, strict=False):
        if isinstance(value, Tensor):
            dtype = trial.case.dtype if value.is_floating_point() else value.dtype
            described.append(f"{name} {tuple(value.shape)} {str(dtype).removeprefix('torch.')}")
        elif tensors := [t for t in tree_leaves(value) if isinstance(t, Tensor)]:
            described.append(f"{name}, {len(tensors)} tensors {tuple(tensors[0].shape)}")
        elif value is not None:
            described.append(f"{name} = {value}")
    if exercise.kind == "module":
        named = zip(argument_names(exercise.reference), trial.expected.sizes, strict=False)
        built = f"{exercise.name}({', '.join(f'{name}={value}' for name, value in named)})"
        return f"{built} and {', '.join(described)}" if described else built
    return ", ".join(described)


def _unrecognised(
    exercise: Exercise, trials: Sequence[Trial], chosen: Trial, findings: Sequence[Misconception]
) -> Section | None:
    """What can be said where no misconception fits: which properties hold, if a finding has not said it yet."""
    assert chosen.difference is not None
    off = isolate(exercise, trials).sentence()
    fine = [t.case.name for t in trials if t.difference is None and not t.case.hidden and _compares_values(t.case)]
    failed = chosen.difference.aspect == "failure"  # the exception speaks for itself
    if fine and not off and not failed:
        off = f"All is right in: {'; '.join(fine)}."
    if not off or off.rstrip(".") in {finding.title for finding in findings}:
        return None
    return Section("What this looks like", off)


def _compares_values(case: Case) -> bool:
    return not (case.other_device or case.raises)


def _side_by_side(exercise: Exercise, example: tuple[Observation, Observation]) -> Section | None:
    """The shown output on the tiny example, theirs beside the right one, if there is a difference to see."""
    right, yours = example
    if right.outputs is None or yours.outputs is None:
        return None
    index = exercise.outputs.index(exercise.shown) if exercise.shown else 0
    want, have = right.outputs[index].squeeze(), yours.outputs[index].squeeze()
    if have.is_meta or want.dim() > 2 or have.dim() > 2 or max(want.numel(), have.numel()) > 30:
        return None
    if want.shape == have.shape and torch.allclose(want.double(), have.double(), atol=5e-3, equal_nan=True):
        return None
    left, other = _numbers(have), _numbers(want)
    width = max(len("yours"), *(len(line) for line in left))
    rows = max(len(left), len(other))
    left, other = left + [""] * (rows - len(left)), other + [""] * (rows - len(other))
    given = [
        f"{name} = {_rounded(value.tolist())}" if isinstance(value, Tensor) else f"{name} = {value}"
        for name, value in zip(input_names(exercise), right.inputs, strict=False)
        if value is not None
    ]
    listed = "\n".join(line for line in given if len(line) <= 100)
    table = "\n".join(
        f"{a:<{width}}     {b}".rstrip() for a, b in zip(["yours", *left], ["right", *other], strict=True)
    )
    name = f" ({exercise.outputs[index]})" if len(exercise.outputs) > 1 else ""
    return Section(f"On a small example{name}", f"{listed}\n\n{table}".strip(), fixed=True)


def _rounded(numbers: Any) -> Any:
    """Nested lists with four digits behind the point at most, as a person would write them."""
    if isinstance(numbers, list):
        return [_rounded(number) for number in numbers]
    return round(numbers, 4) if isinstance(numbers, float) else numbers


def _numbers(matrix: Tensor) -> list[str]:
    rows = matrix.reshape(1, -1) if matrix.dim() < 2 else matrix
    cells = [[f"{v:.2f}" if isinstance(v, float) else str(v) for v in row] for row in rows.tolist()]
    widths = max((len(cell) for row in cells for cell in row), default=1)
    return ["[" + "  ".join(f"{cell:>{widths}}" for cell in row) + "]" for row in cells]
