"""The log of nbgrader's commands, whose names of files and errors may have been chosen by students."""

from copy import copy
from logging import LogRecord
from typing import Any

from tornado.log import LogFormatter

from autograder.showing.text import printable


class PrintableFormatter(LogFormatter):
    """nbgrader's own format with its colours, but without anything in a message that would move a cursor."""

    def format(self, record: LogRecord) -> str:
        shown = copy(record)
        shown.msg, shown.args, shown.exc_text = printable(record.getMessage(), keep="\n\t"), None, None
        return super().format(shown)

    def formatException(self, ei: Any) -> str:
        return printable(super().formatException(ei), keep="\n\t")
