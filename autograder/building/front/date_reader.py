"""The reader of dates of lesson 04, trained for the site, and its weights as JSON that a browser can run.

It is the lesson's four-headed reader with one more language: a quarter of its dates are the English ones from the
lesson's first part, because that is what a visitor tries first.
"""

import base64
import os
import random
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.course import find
from autograder.building.front.lesson_parts import run_parts

LESSON = "04_cross_attention"
NEEDED = ("DateReader", "train", "texts", "world", "days", "digits", "languages", "format_date")
STEPS, LEARNED, ENGLISH = 800, 20_000, 0.25
SHOWN = date(1969, 7, 20)
LANGUAGES = {
    "en": "English", "de": "Deutsch", "el": "Ελληνικά", "es": "Español", "fi": "Suomi", "fr": "Français",
    "hr": "Hrvatski", "hu": "Magyar", "ja": "日本語", "pl": "Polski",
}  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """A trained reader, and dates that it has never seen: as people write them, and in standard form."""

    reader: Any
    digits: str
    texts: list[str]
    days: list[str]
    longest: int
    samples: dict[str, str]
    """One day in each language, by the language's code."""

    @torch.no_grad()
    def read(self) -> list[str]:
        """Read the texts and return what the model writes for each."""
        logits, _ = self.reader(self.reader.encode(self.texts))
        return ["".join(self.digits[i] for i in row) for row in logits.argmax(dim=-1).tolist()]

    def missed(self) -> int:
        """The number of dates with an error in any of the ten characters."""
        return sum(got != day for got, day in zip(self.read(), self.days, strict=True))


def dates(solutions: Path) -> tuple[dict[str, Any], list[str]]:
    """The lesson's names, and a text for each of its days: those to learn from first."""
    given = {"Attention": find("MultiHeadCrossAttention").reference, "train_by": find("train_reader").reference}
    lesson = run_parts(solutions / f"{LESSON}.py", NEEDED, given)
    chance, pairs = random.Random(0), zip(lesson["texts"], lesson["world"], strict=True)
    return lesson, [english if chance.random() < ENGLISH else other for english, other in pairs]


def train_reader(solutions: Path, steps: int = STEPS) -> Trained:
    """Train the lesson's reader with the lesson's own code and dates, always from the same start."""
    lesson, texts = dates(solutions)
    threads, progress = torch.get_num_threads(), os.environ.get("ATTNLIB_PROGRESS")
    try:
        torch.set_num_threads(1)  # as in the lesson, with matrices this small
        os.environ["ATTNLIB_PROGRESS"] = ""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            reader = lesson["DateReader"](texts, num_heads=4)
            lesson["train"](reader, texts, steps=steps)
    finally:
        torch.set_num_threads(threads)
        os.environ.pop("ATTNLIB_PROGRESS")
        os.environ.update({} if progress is None else {"ATTNLIB_PROGRESS": progress})
    spelled = {code: lesson["format_date"](SHOWN, "full", code) for code in lesson["languages"]}
    return Trained(
        reader=round_weights(reader),
        digits=lesson["digits"],
        texts=texts[LEARNED:],
        days=[day.isoformat() for day in lesson["days"][LEARNED:]],
        longest=max(map(len, texts)),
        samples={"en": f"{SHOWN:%A}, {SHOWN.day} {SHOWN:%B %Y}", **spelled},
    )


def in_16_bits(numbers: Tensor) -> tuple[float, Tensor]:
    """A scale and whole numbers from -32767 to 32767, whose products are near the numbers given.

    >>> scale, whole = in_16_bits(torch.tensor([1.0, -2.0]))
    >>> whole.tolist(), round(scale * 32767, 3)
    ([16384, -32767], 2.0)
    """
    scale = numbers.abs().max().item() / 32767 or 1.0
    return scale, (numbers.double() / scale).round().to(torch.int16)


def round_weights(reader: nn.Module) -> nn.Module:
    """Round the reader's weights to what 16 bits hold: the browser and PyTorch then compute with the same numbers."""
    state = {name: in_16_bits(numbers) for name, numbers in reader.state_dict().items()}
    reader.load_state_dict({name: whole * scale for name, (scale, whole) in state.items()})
    return reader


def exported(trained: Trained) -> dict[str, Any]:
    """Return what `reader.js` needs in JSON's types: the characters in the order of their numbers, the weights."""
    weights = {}
    for name, numbers in trained.reader.state_dict().items():
        scale, whole = in_16_bits(numbers)
        data = base64.b64encode(whole.numpy().astype("<i2").tobytes()).decode("ascii")
        weights[name] = {"rows": len(numbers), "scale": scale, "data": data}
    return {
        "characters": "".join(trained.reader.number_of),
        "digits": trained.digits,
        "heads": 4,
        "longest": trained.longest,
        "weights": weights,
    }
