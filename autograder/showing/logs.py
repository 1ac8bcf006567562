"""The log that nbgrader's commands print: names of folders and files, and errors, as students may have chosen them."""

from logging import LogRecord

from traitlets.config.application import LevelFormatter

from autograder.showing.text import printable


class PrintableFormatter(LevelFormatter):
    """The application's own format, without what would move a cursor."""

    def format(self, record: LogRecord) -> str:
        return printable(super().format(record), keep="\n\t")
