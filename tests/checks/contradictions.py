"""What no report may say: two things that can't both be true of one answer."""

import re
from collections.abc import Collection, Iterator

from attnlib.checks import Report
from attnlib.checks.verdict.report import Section

CAUSES = ("A common misunderstanding", "One change away")
VALUES_ARE_RIGHT = re.compile(r"values are right|numbers are right|result is right, but an input")
SECOND = re.compile(r"(?<!, or )(there is|look for) a second mistake")


def contradictions(report: Report, lines: Collection[int] = ()) -> list[str]:
    """Return each pair of sentences that exclude one another, or that name a line other than the one wrong one.

    `lines` are those of an answer's only mistake, if they are known.
    """
    return [*_of_causes(report, lines), *_of_names(report.sections), *_of_values(report), *_of_cases(report)]


def _of_causes(report: Report, lines: Collection[int]) -> Iterator[str]:
    causes = [s.heading for s in report.sections if s.heading.startswith(CAUSES)]
    second = [s.heading for s in report.sections if SECOND.search(s.body)]
    if len(causes) > 1:
        yield f"two sections are the one cause: {causes}"
    if second and any(cause.startswith("One change away") for cause in causes):
        yield f"one change would do, and there is a second mistake: {second}"
    if second and lines:
        yield f"there is one mistake, and a second one is told: {second}"
    for section in report.sections:
        blamed = {int(number) for number in re.findall(r"\bline (\d+) \(", section.body)}
        near = {number + step for number in lines for step in (-1, 0, 1)}  # a neighbour may change places with it
        if lines and blamed and blamed.isdisjoint(near):
            yield f"line {blamed} is blamed for line {lines}: {section.heading}"


def _of_names(sections: Collection[Section]) -> Iterator[str]:
    """What one section says is never used is in no line that another one quotes."""
    for section in sections:
        unused = re.findall(r"`([\w.]+)`", section.heading) if "never used" in section.heading else []
        for name in unused:
            used = re.compile(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=[^=])")
            for other in sections:
                quoted = " ".join(re.findall(r"line \d+ \(`(.*?)`\)", other.body))
                if other is not section and used.search(quoted):
                    yield f"`{name}` is never used, and is in a line of {other.heading}"


def _of_values(report: Report) -> Iterator[str]:
    right = [s.heading for s in report.sections if VALUES_ARE_RIGHT.search(s.heading)]
    if right and report.headline == "the values are not right":
        yield f"the values are right, and not: {right}"


def _of_cases(report: Report) -> Iterator[str]:
    """The case that is shown is wrong, and parts that are called right are not lost by cases of their own."""
    headings = [section.heading for section in report.sections]
    shown = next((re.findall("“.*?”", heading)[0] for heading in headings if heading.startswith("In the case")), "")
    for section in report.sections:
        if section.heading == "What this looks like":
            for said, is_right in (("Right in: ", True), ("Wrong in: ", False)):
                if section.body.startswith(said) and (shown in section.body) is is_right:
                    yield f"{shown} is wrong, and: {section.body}"
            if "All the other parts are right" in section.body and "Wrong as well" in headings:
                yield f"all the other parts are right, and wrong as well: {section.body}"
