"""The terminal: only our own colours, and no text that moves the cursor."""

from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from autograder.showing.text import printable


class Terminal(Console):
    """A console that prints brackets as brackets and escapes invisible characters in everything it shows."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text, keep="\n"), **options)  # before its width is measured

    def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
        for segment in super().render(*args, **options):  # everything shown passes through here
            text, style, control = segment
            yield segment if control else Segment(printable(text, keep="\n"), style)


def say(text: object, *, err: bool = False) -> None:
    """A line, or several, on the terminal."""
    click.echo(printable(text, keep="\n"), err=err)


def rated_progress(console: Console) -> Progress:
    """Show a long command's progress, its rate (a task's field `rate`) and its work; nothing if nobody watches."""
    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    )
    return Progress(*columns, console=console, transient=True, expand=True, disable=not console.is_terminal)
