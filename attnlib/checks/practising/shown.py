"""The output of practice: a headline, paragraphs and code, as text in a terminal and as HTML in a notebook."""

import re
from dataclasses import dataclass
from html import escape
from textwrap import fill, indent
from typing import Any

from attnlib.checks.verdict.report import Section, marked_up

WIDTH = 78


@dataclass(frozen=True)
class Shown:
    """A headline and sections, like a report's."""

    headline: str
    sections: tuple[Section, ...] = ()
    width: int = WIDTH

    def __repr__(self) -> str:
        blocks = [fill(self.headline, self.width)]
        for section in self.sections:
            body = (_continued if section.fixed else _filled)(section.body, self.width - 2)
            head = fill(section.heading + ":" * (section.heading[-1:] not in "?:"), self.width)
            blocks.append("\n".join(part for part in (head, indent(body, "  ")) if part))
        return "\n\n".join(blocks)

    def _repr_mimebundle_(self, **_of_ipython: Any) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._as_html()}

    def _as_html(self) -> str:
        frame = "border-left: 6px solid #757575; padding: 0.2em 0 0.2em 0.9em; max-width: 60em"
        lines = [
            f'<div role="status" style="{frame}">',
            f'<div style="font-weight: bold">{escape(self.headline)}</div>',
        ]
        for section in self.sections:
            if section.heading:
                lines.append(f'<div style="margin-top: 0.6em"><b>{escape(section.heading)}</b></div>')
            if section.fixed:
                style = "margin: 0.2em 0; line-height: 1.3; white-space: pre-wrap"
                lines.append(f'<pre style="{style}">{escape(section.body)}</pre>')
            else:
                lines += [f"<div>{_with_letter(marked_up(line))}</div>" for line in section.body.split("\n")]
        return "\n".join([*lines, "</div>"])


def _with_letter(line: str) -> str:
    """Set an option's letter off in bold, in place of a terminal's two spaces."""
    return re.sub(r"^([A-D])  ", r"<b>\1</b>&emsp;", line)


def _continued(text: str, width: int) -> str:
    """Keep the lines' columns; continue lines that are too long below, further in."""
    indents = [" " * (len(line) - len(line.lstrip()) + 4) for line in text.split("\n")]
    rows = zip(text.split("\n"), indents, strict=True)
    return "\n".join(fill(row, width, subsequent_indent=more) if len(row) > width else row for row, more in rows)


def _filled(text: str, width: int) -> str:
    return "\n".join(
        fill(line, width, subsequent_indent="   " if line[1:3] == "  " else "") for line in text.split("\n")
    )
