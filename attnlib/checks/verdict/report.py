"""The verdict on an attempt as data, and how it is shown: as plain text, and as HTML.

The HTML needs no style sheet. Its text has the notebook's own colour: no other one has a contrast of 4.5 to 1 both on
white and on the black of a dark theme.
"""

import re
from dataclasses import dataclass, field
from html import escape
from textwrap import fill, indent
from typing import Any

from attnlib.checks.asking.failure import Failure
from attnlib.checks.exercise import AS_GIVEN
from attnlib.checks.verdict.scoring import still_open

MIME = "application/vnd.attnlib.report+json"
WIDTH = 96
COLUMNS = "margin: 0.2em 0; line-height: 1.3; white-space: pre; word-break: normal; overflow-x: auto"
"""JupyterLab breaks the lines of an output anywhere, even inside a number."""
HEADING = 'role="heading" aria-level="{}"'
"""No <h4>: JupyterLab would list it in the notebook's table of contents."""
CALLED = ", called with "
LONGEST_HEADING = 120  # characters: with longer inputs, a heading in bold would be a paragraph
ELSEWHERE = "Someone else's case"
MORE = "More on this mistake"


@dataclass(frozen=True)
class Section:
    """A heading and the text under it; `fixed` text keeps its columns.

    A `link` leads to somebody else's case, `pages` to the site's own on the mistake.
    """

    heading: str
    body: str
    fixed: bool = False
    link: str = ""
    pages: tuple[str, ...] = ()

    @property
    def links(self) -> list[tuple[str, str]]:
        """The links for further reading, as pairs of a label and an address."""
        elsewhere = [(ELSEWHERE, self.link)] if self.link else []
        return [*((MORE, page) for page in self.pages), *elsewhere]


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
    """The parts in which nothing was wrong, but that don't count because a failure elsewhere ended the check."""
    unwritten: bool = False
    """True if there is no answer yet that could be right or wrong."""
    failure: Failure | None = None
    """The reason for having no result, if the report is about that."""
    headline: str = ""
    in_short: str = ""
    """The headline without an exception's words, the same for answers that failed alike."""
    sections: tuple[Section, ...] = ()

    @property
    def unanswered(self) -> bool:
        """True if the answer is as it was handed out: not written yet, or with its bug still in it."""
        return self.unwritten or self.diagnosis == AS_GIVEN

    @property
    def message(self) -> str:
        """The report as the student reads it, in plain text."""
        return as_text(self)

    def __str__(self) -> str:
        return self.message

    def _repr_mimebundle_(self, **_of_ipython: Any) -> dict[str, Any]:
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
            "in_short": self.in_short,
            "message": self.message,
            **({"error_of_cell": self.failure.error} if self.failure and self.failure.kind == "cell" else {}),
        }


def headline(report: Report) -> str:
    """Return the first line: mark, exercise, what is wrong, points."""
    mark = "✓" if report.passed else "○" if report.unwritten else "✗"
    points = f"{report.points:g} of {report.max_points} point{'s' * (report.max_points != 1)}"
    return f"{mark} {report.exercise}: {report.headline} ({points if report.max_points else 'no points: an extra'})"


def parts_line(report: Report) -> str:
    """List the properties and which of them hold; empty for a single property, or before anything is written."""
    if len(report.parts) < 2 or report.passed or report.unwritten:
        return ""
    for base, counted in report.parts.items():
        if not counted and base not in report.untried and not still_open(report.parts, [base]):
            rest = ", ".join(part for part in report.parts if part != base)
            return f"Checked: ✗ {base} · {rest}: counted once the {base} are right"
    marks = {part: "✓" if passed else "–" if part in report.untried else "✗" for part, passed in report.parts.items()}
    meaning = " (–: not tried to the end, and so not counted)" if "–" in marks.values() else ""
    return "Checked: " + " · ".join(f"{mark} {part}" for part, mark in marks.items()) + meaning


def as_text(report: Report) -> str:
    """The report for a terminal."""
    blocks = [fill(headline(report), WIDTH)]
    for section in report.sections:
        body = section.body if section.fixed else "\n".join(fill(line, WIDTH - 2) for line in section.body.split("\n"))
        head = fill(section.heading + (":" if section.body else "."), WIDTH - 2)
        blocks.append(indent(f"{head}\n{indent(body, '  ') if section.fixed else body}".rstrip(), "  "))
        blocks[-1] += "".join(f"\n  {what}: {address}" for what, address in section.links)
    if line := parts_line(report):
        blocks.append(indent(line, "  "))
    return "\n\n".join(blocks)


def marked_up(line: str) -> str:
    """Escaped, with `code` and *stress* as HTML has them."""
    line = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(line, quote=False))
    return re.sub(r"(?<!\w)\*(\w[^*<>]*)\*(?!\w)", r"<em>\1</em>", line)


def as_html(report: Report) -> str:
    """The report for a notebook: its headline is read out once the check has run, and its sections have headings.

    An alert and not a status, because browsers don't announce a status that comes into the page with its text.
    """
    colour = "#1a7f37" if report.passed else "#757575" if report.unwritten else "#b35900"
    frame = f"border-left: 6px solid {colour}; padding: 0.2em 0 0.2em 0.9em; max-width: 60em"
    lines = [f'<div role="group" aria-label="Verdict on {escape(report.exercise)}" style="{frame}">']
    lines.append(f'<div role="alert"><div {HEADING.format(4)}><b>{marked_up(headline(report))}</b></div></div>')
    for section in report.sections:
        head, inputs = section.heading, ""
        if len(head) > LONGEST_HEADING:
            head, _, inputs = head.partition(CALLED)
        lines.append(f'<div {HEADING.format(5)} style="margin-top: 0.6em"><b>{marked_up(head)}</b></div>')
        if inputs:
            lines.append(f"<div>{marked_up(f'Called with {inputs}')}</div>")
        if section.fixed:
            lines.append(f'<pre style="{COLUMNS}">{escape(section.body)}</pre>')
        elif section.body:
            lines.append("".join(f"<div>{marked_up(line)}</div>" for line in section.body.split("\n")))
        for what, address in section.links:
            lines.append(f'<div>{what}: <a href="{escape(address)}">{escape(address)}</a></div>')
    if line := parts_line(report):
        lines.append(f'<div style="margin-top: 0.6em">{escape(line)}</div>')
    return "\n".join([*lines, "</div>"])
