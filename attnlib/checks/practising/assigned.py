"""Bugs that an instructor hands out: two questions about each, and a first look at the answers in the notebook."""

import re
from collections.abc import Mapping
from typing import Any

from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.practising.quiz import LETTERS

LINE, REASON = "line", "reason"
POINTS = {LINE: 2, REASON: 1}
WANTED = {LINE: "the number of a line, such as 7", REASON: f"one of the letters {', '.join(LETTERS)}"}


def check(question: str, answer: Any) -> None:
    """Print whether an answer has the form that the grader wants; whether it is right, the grader says later.

    >>> check("bug_1_line", "7")
    bug_1_line: 7. The grader will say whether that's right.
    >>> check("bug_1_reason", "seven")
    bug_1_reason: required is one of the letters A, B, C, D, got 'seven'
    """
    kind = question.rpartition("_")[2]
    text = answer.strip().upper() if isinstance(answer, str) else answer
    if text is None or text == "NONE":
        print(f"{question}: not answered yet")
    elif isinstance(text, str) and re.fullmatch(r"[1-9]\d?" if kind == LINE else f"[{LETTERS}]", text):
        print(f"{question}: {text}. The grader will say whether that's right.")
    else:
        print(f"{question}: required is {WANTED[kind]}, got {answer!r:.60}")


def questions(number: int, bug: Mapping[str, Any]) -> list[Exercise]:
    """Ask which line is wrong and which explanation is true, as exercises with one right choice each.

    `bug` is a record with its title and its diff added, and `number` is its place in the assignment, from 1.
    """
    code, why = bug["code"].split("\n"), f"{bug['diff']}\n{bug['title']}. {bug['explanation']}"
    lines = {str(n): f"Line {n} does what it should: `{row.strip()}`" for n, row in enumerate(code, 1) if row.strip()}
    letters = {letter: f"{letter} is not true of this code: {title}" for letter, title in bug["options"].items()}
    return [
        _choice(f"bug_{number}_{LINE}", bug, str(bug["lines"][0]), lines, why),
        _choice(f"bug_{number}_{REASON}", bug, bug["letter"], letters, why),
    ]


def _choice(name: str, bug: Mapping[str, Any], right: str, choices: Mapping[str, str], why: str) -> Exercise:
    kind = name.rpartition("_")[2]
    return Exercise(
        name=name,
        lesson=bug["lesson"],
        contract=f"Find the bug in {bug['exercise']}.",
        parts={kind: POINTS[kind]},
        reference=right,
        kind="choice",
        explanation=why,
        wrong=tuple(
            Misconception(id=f"{kind} {choice}", title=title, explanation="", implementation=choice)
            for choice, title in choices.items()
            if choice != right
        ),
    )
