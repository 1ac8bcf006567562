"""Bugs as data, in JSON's types: for a page that needs no installation, and for the benchmark."""

import random
from typing import Any

from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.quiz import explanations
from attnlib.checks.practising.review import slip_of
from attnlib.checks.practising.symptom import symptom_of
from attnlib.checks.practising.table import Row, rows

SHORT = 24
"""Lines of code that a phone shows with little scrolling."""
WELL_KNOWN = (
    *("softmax", "masked_softmax", "scaled_dot_product_attention", "causal_mask", "split_heads", "cross_attention"),
    *("SelfAttention", "CausalSelfAttention", "EncoderBlock", "DecoderBlock", "layer_norm", "sinusoidal_positions"),
    *("rotate", "alibi_bias", "next_token_loss", "generate", "sample_next", "grouped_query_attention"),
    *("append_to_cache", "online_softmax"),
)
"""Exercises whose bugs can be found by somebody who has not read the lesson."""


def record(row: Row) -> dict[str, Any]:
    """Return a bug as a dict: all that is shown of it, and all that is said once it's found.

    >>> from attnlib.checks.practising.table import rows
    >>> found = record(rows()[0])
    >>> [found[key] for key in ("exercise", "level", "silent")]
    ['pairwise_dot', 3, True]
    """
    bug, options = row.bug, explanations(row.bug)
    return {
        "id": row.key,
        "lesson": bug.declared.lesson,
        "exercise": row.exercise,
        "level": row.level,
        "silent": row.silent,
        "contract": bug.contract,
        "symptom": symptom_of(bug, row.case),
        "code": bug.code,
        "options": options,
        "lines": list(bug.lines),
        "repair": bug.repair,
        "letter": next(letter for letter, title in options.items() if title == bug.title),
        "explanation": bug.explanation,
    }


def ten_bugs(seed: int = 0) -> list[dict[str, Any]]:
    """Choose up to ten short bugs of different well-known exercises, the easiest first; the same for a seed.

    >>> [bug["level"] for bug in ten_bugs()]
    [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    """
    chance = random.Random(f"a page of bugs {seed}")
    single = [level for level in LEVELS if level < max(LEVELS)]
    mixed = [row for row in rows() if row.exercise in WELL_KNOWN]
    chance.shuffle(mixed)
    chosen: list[Row] = []
    places = [single[place * len(single) // 10] for place in range(10)]
    for level in sorted(places, key=lambda level: sum(row.level == level for row in mixed)):  # the rarest first
        taken = {name for row in chosen for name in (row.exercise, slip_of(row.slip))}
        of_level = (row for row in mixed if row.level == level and taken.isdisjoint((row.exercise, slip_of(row.slip))))
        if (row := next((row for row in of_level if _is_short(row)), None)) is not None:
            chosen.append(row)
    return [
        record(row) | {"title": row.bug.title, "diff": row.bug.diff()} for row in sorted(chosen, key=lambda r: r.level)
    ]


def _is_short(row: Row) -> bool:
    """True if a single line is wrong, of `SHORT` at most."""
    bug = row.bug
    return len(bug.lines) == 1 and bug.code.count("\n") < SHORT
