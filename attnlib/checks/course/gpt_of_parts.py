"""A language model of my own parts: it trains, it writes, and it says which of its parts are mine.

python my_gpt.py                   lines of colours and their names
python my_gpt.py poems.txt         another text, learnt line by line
python my_gpt.py poems.txt 2000    and for how many steps
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib import generate
from attnlib.checks.course.lesson_08.exercises import LanguageModel
from attnlib.checks.course.right.plain.lesson_08 import train_language_model
from attnlib.checks.course.right.plain.lesson_09 import write_with_cache
from attnlib.colours import colour_lines

PARTS = ("LanguageModel", "train_language_model", "generate", "write_with_cache")
"""The parts the learner wrote, which replace the imports above in the learner's own file."""
WHOSE: dict[str, str] = {}
WIDTH, HEADS, DEPTH, LONGEST = 64, 4, 2, 62


class Letters:
    """The characters of some lines, each with its number; the line break, number 0, begins and ends a line."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.all = ["\n", *sorted(set("".join(lines)) - {"\n"})]
        self.number = {letter: i for i, letter in enumerate(self.all)}

    def encode(self, text: str) -> Tensor:
        """Characters -> ids (n)."""
        return torch.tensor([self.number[letter] for letter in text])

    def decode(self, ids: Tensor) -> str:
        """Ids (n) -> characters."""
        return "".join(self.all[i] for i in ids.tolist()).strip("\n")

    def table(self, lines: Sequence[str]) -> Tensor:
        """Ids and targets (2, lines, n), filled up with 0 and with -100."""
        ids = [self.encode(f"\n{line}\n") for line in lines]
        rows = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=-100)
        return torch.stack([rows.clamp(min=0), rows])


def lines_of(file: str | None) -> list[str]:
    """The lines of a text file in an order drawn once, or else colours and their names."""
    if file is None:
        return colour_lines()
    text = Path(file).read_text(encoding="utf-8")
    lines = [line.strip()[:LONGEST] for line in text.splitlines() if line.strip()]
    if len(lines) < 10:
        raise SystemExit(f"at least 10 lines of text are needed, got {len(lines)} in {file}")
    random.Random(0).shuffle(lines)
    return lines


def new_model(vocab: int) -> Any:
    """A small GPT: two layers of four heads of 16, before it has learned anything."""
    torch.manual_seed(0)
    model: Any = LanguageModel(vocab, WIDTH, HEADS, DEPTH, LONGEST + 2)
    for table in (model.embed, model.positions):
        nn.init.normal_(table.weight, std=0.05)
    for block in model.blocks:
        block.attn.num_heads = HEADS  # the writer with a cache asks for it
    return model


def train(model: nn.Module, lines: Sequence[str], letters: Letters, steps: int, every: int) -> Tensor:
    """The losses on a tenth of the lines, which the model never learns from."""
    table = letters.table(lines)
    known = len(lines) * 9 // 10
    torch.manual_seed(0)
    batches = table[:, torch.randint(0, known, (steps, 32))].transpose(0, 1)
    losses: Tensor = train_language_model(model, batches, table[:, known:], 6e-3, min(20, steps), every)
    return losses


def write(model: nn.Module, letters: Letters, count: int) -> list[str]:
    """Lines that the model makes up."""
    dice = torch.Generator().manual_seed(0)
    begin = torch.zeros(count, 1, dtype=torch.long)
    return [letters.decode(ids) for ids in generate(model, begin, LONGEST, 0.7, stop_id=0, generator=dice)]


def main() -> None:
    """Train, write, and say whose parts were at work."""
    file = sys.argv[1] if len(sys.argv) > 1 else None
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    lines = lines_of(file)
    letters = Letters(lines)
    model = new_model(len(letters.all))
    losses = train(model, lines, letters, steps, max(1, steps // 4))
    print("loss on lines it never saw:", ", ".join(f"{loss:.2f}" for loss in losses.tolist()))
    print("\nit makes up:")
    for line in write(model, letters, 8):
        print("   ", line)
    likeliest = write_with_cache(model, torch.zeros(1, 1, dtype=torch.long), LONGEST)[0]
    print("\nand takes for the likeliest:", letters.decode(likeliest).split("\n")[0])
    print("\nwhose parts these are:")
    for part, whose in WHOSE.items():
        print(f"    {part:24} {whose}")


if __name__ == "__main__":
    main()
