"""Lesson 00 says once what holds for every exercise."""

import re
from pathlib import Path


def test_lesson_00_says_once_what_holds_everywhere() -> None:
    source = (Path(__file__).parents[2] / "solutions" / "00_start_here.py").read_text(encoding="utf-8")
    rules = source[source.index("The rules in full") :].partition("</details>")[0]
    said = " ".join(source.replace("\n# ", " ").split())
    assert "they hold for everything you write in this course" in said
    assert re.findall(r"^# - \*\*([\w ]+?)\.?\*\*", rules, re.MULTILINE) == [
        *("dtype and device", "Gradients", "Inputs", "Memory", "Another call", "Training mode", "Large scores", "Axes")
    ]
    assert "There's no dropout unless the exercise asks for it" in rules
