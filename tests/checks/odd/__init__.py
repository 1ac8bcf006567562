"""Answers that nobody would think of first: right ones that a check might reject, wrong ones that it might miss."""

from odd import (
    right_as_told,
    right_functions,
    right_modules,
    wrong_by_numbers,
    wrong_by_promise,
    wrong_by_what_is_kept,
    wrong_by_what_was_told,
    wrong_by_words_and_widths,
)
from odd.collected import RIGHT, WRONG

__all__ = [
    "RIGHT",
    "WRONG",
    "right_as_told",
    "right_functions",
    "right_modules",
    "wrong_by_numbers",
    "wrong_by_promise",
    "wrong_by_what_is_kept",
    "wrong_by_what_was_told",
    "wrong_by_words_and_widths",
]
