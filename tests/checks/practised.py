"""What the tests of practice share."""

import json
from datetime import UTC, datetime

START = datetime(2026, 5, 13, 9, tzinfo=UTC)
PASSED = ["attention_scores", "softmax", "scaled_dot_product_attention"]


def text(shown):
    return " ".join(repr(shown).split())


def opened(practice):
    return practice.opened.bug


def letter(practice, right=True):
    return next(a for a, title in practice.opened.options.items() if (title == opened(practice).title) is right)


def cards(file):
    return json.loads(file.read_text())["practice"]["cards"]
