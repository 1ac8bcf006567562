"""An answer that never ends is told which line of it loops, and why, as far as that can be read there."""

import itertools
from typing import Any

import pytest
from one_change_tried import of_a_cell

from attnlib.checks import run
from attnlib.checks.asking.time_limits import TimeLimits
from attnlib.checks.naming.names import IN_ANY_EXERCISE

pytestmark = pytest.mark.slow
SOON = TimeLimits(case_cpu=0.3)

LOOPS = {
    "a counter that stays": (
        "    i = 0\n    while i < x.shape[1]:\n        row = x[:, i] * 2\n",
        "Line 3 (`while i < x.shape[1]:`): nothing in the loop changes `i` or `x`, so `i < x.shape[1]` stays true.",
    ),
    "a counter that goes the wrong way": (
        "    i = 0\n    while i < len(x):\n        i -= 1\n",
        "`i` becomes smaller in each round, and `i < len(x)` ends only once it is larger",
    ),
    "the same from behind": (
        "    i = 9\n    while 0 < i:\n        i = i + 1\n",
        "`i` becomes larger in each round, and `0 < i` ends only once it is smaller",
    ),
    "a step of nothing": ("    i = 0\n    while i < 5:\n        i += 0\n", "`i` never changes, and `i < 5` ends only"),
    "a step over the end": (
        "    i = 0\n    while i != 7:\n        i += 2\n",
        "`i` changes by 2 in each round, and may step over the number that ends `i != 7`",
    ),
    "a number that is set back": (
        "    i = 0\n    while i < 5:\n        i = 0\n        i += 1\n",
        "each round sets `i` to 0 again in line 4",
    ),
    "a step that is skipped": (
        "    i = 0\n    while i < 5:\n        if i == 3:\n            continue\n        i += 1\n",
        "`continue` in line 5 begins the next round before `i` is changed",
    ),
    "zero that is doubled": ("    i = 0\n    while i < 5:\n        i *= 2\n", "`i` starts at 0, and 0 times"),
    "a half of nothing": ("    i = 9\n    while i >= 0:\n        i //= 2\n", "`i` reaches 0 and stays there"),
    "no way out": ("    while True:\n        x = x * 1\n", "there is no `break` or `return` in it"),
    "a break out of another loop": (
        "    while True:\n        for i in range(3):\n            break\n",
        "Line 2 (`while True:`): there is no `break` or `return` in it",
    ),
    "a way out that never opens": (
        "    i = done = 0\n    while 1:\n        i += 1\n        if done > 3:\n            break\n",
        "nothing in the loop changes `done`, so the condition for leaving it, `done > 3`, never changes",
    ),
    "a list that grows": (
        "    rows = [0]\n    for row in rows:\n        rows.append(row)\n        del rows[:0]\n",
        "Line 3 (`for row in rows:`): the loop goes through `rows`, and each round makes it longer",
    ),
    "a count without an end": (
        "    for i in itertools.count():\n        row = i\n",
        "`itertools.count()` has no end, and there is no `break` or `return` in it",
    ),
    "a tensor that never grows": (
        "    def model(t):\n        return t * 1\n    while x.shape[1] < 99:\n        y = model(x)\n",
        "Line 4 (`while x.shape[1] < 99:`): nothing in the loop changes `x`, so `x.shape[1] < 99` stays true",
    ),
    "a flag that nobody changes": (
        "    going = True\n    while going:\n        stop = True\n",
        "nothing in the loop changes `going`, so `going` stays true",
    ),
    "a loop inside of another": (
        "    for b in range(3):\n        k = 0\n        while k < 3:\n            for j in range(9):\n"
        "                y = y + 0\n",
        "Line 4 (`while k < 3:`): nothing in the loop changes `k`",
    ),
    "a loop in whoever calls": (
        "    def doubled(t):\n        for _ in range(20_000):\n            t = t + 0\n        return t\n"
        "    i = 0\n    while i < 5:\n        x = doubled(x)\n",
        "Line 7 (`while i < 5:`): nothing in the loop changes `i`",
    ),
    "a loop of which nothing is sure": (
        "    i = 0.5\n    while i != 0:\n        i = (i * 4) % 1.0 + 0.25\n",
        "Line 3 (`while i != 0:`) was still running. Follow its condition by hand",
    ),
}


def told(body: str) -> Any:
    source = f"def pairwise_dot(x, y):\n{body}    return x @ y.mT\n"
    return run("pairwise_dot", of_a_cell(source, "pairwise_dot", itertools=itertools), limits=SOON)


@pytest.mark.parametrize("name", LOOPS)
def test_the_line_that_loops_is_told_and_why(name: str) -> None:
    body, why = LOOPS[name]
    report = told(body)
    message = " ".join(report.message.split())
    assert report.diagnosis == "never_ends"
    assert "What your result shows: A loop that does not end" in message
    assert why in message
    assert "did not end within 0 seconds of computing" in report.headline


CHANGED_BY_OTHERS = {
    "a list that a function fills": "    rows = []\n    while len(rows) < 0 or slow(rows):\n        fill(rows)\n",
    "a shape that is changed in place": "    x = x[0]\n    while x.shape[0] < 10**9:\n        x.unsqueeze_(0)\n"
    "        x.squeeze_(0)\n",
    "an iterator": "    it = iter(range(10**9))\n    while next(it) >= 0:\n        pass\n",
    "an object": "    class Box: left = 1\n    box = Box()\n    def work(b): b.left += 1\n"
    "    while box.left:\n        work(box)\n",
}


@pytest.mark.parametrize("name", CHANGED_BY_OTHERS)
def test_no_reason_is_made_up_where_others_change_what_is_asked(name: str) -> None:
    names = {"slow": lambda rows: True, "fill": lambda rows: None, "itertools": itertools}
    source = f"def pairwise_dot(x, y):\n{CHANGED_BY_OTHERS[name]}    return x @ y.mT\n"
    message = " ".join(run("pairwise_dot", of_a_cell(source, "pairwise_dot", **names), limits=SOON).message.split())
    assert "was still running" in message
    assert "nothing in the loop changes" not in message


@pytest.mark.parametrize(
    "body",
    [
        "    for i in range(10**9):\n        y = y + 0\n",
        "    total = sum(i for i in range(10**10))\n",
        "    def again(n):\n        return again(n - 1) + again(n - 1) if n else 0\n    again(60)\n",
    ],
)
def test_what_is_only_long_is_not_called_endless(body: str) -> None:
    report = told(body)
    assert report.diagnosis is None
    assert "does not end" not in report.message
    assert "At line " in report.message


def test_an_endless_loop_has_a_name_in_the_class_report() -> None:
    assert IN_ANY_EXERCISE["never_ends"].title == "A loop that does not end"
