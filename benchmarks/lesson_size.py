"""The share of a lesson left to the learner: lines in solutions, and the length of the cells that everybody reads."""

import argparse
import statistics
from collections.abc import Sequence

from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import FOLDED, read_lesson
from autograder.lesson_text.regions import split_regions


def lines(source: str | Sequence[str]) -> int:
    """Lines with code on them: neither blank nor comments."""
    found = source.split("\n") if isinstance(source, str) else source
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in found)


def size_of(lesson: str) -> tuple[int, int, float, int]:
    """Lines in solution regions, lines of all code cells, their median in cells that are open, lines folded away."""
    cells = [c for c in read_lesson(Layout().solutions / f"{lesson}.py").cells if c.cell_type == "code"]
    folded = [c for c in cells if c.metadata.items() >= FOLDED.items()]
    written = sum(lines(split_regions(c.source).solution) for c in cells)
    opened = [lines(c.source) for c in cells if c not in folded]
    return written, sum(lines(c.source) for c in cells), statistics.median(opened), sum(lines(c.source) for c in folded)


def main(lessons: Sequence[str] = ()) -> None:
    """Print a row for each lesson."""
    total = 0
    print(f"{'lesson':34}{'written':>8}{'of':>6}{'median cell':>13}{'folded':>8}")
    for lesson in lessons or Layout().lessons():
        written, of, median, folded = size_of(lesson)
        total += written
        print(f"{lesson:34}{written:8}{of:6}{median:13}{folded:8}")
    print(f"{'together':34}{total:8}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="*")
    main(parser.parse_args().lessons)
