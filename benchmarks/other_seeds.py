"""Test a lesson's claims from other starts: run the whole lesson, with all its assertions, for each seed."""

import argparse
import re
import sys
import time

from autograder.building.run_lesson import run_lesson
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.showing.errors import CourseError

SEED = re.compile(r"^seed = \d+", re.MULTILINE)
NOT_COMPARED = "nbval-ignore-output"


def run_with(lesson: str, seed: int) -> str:
    """Return what the lesson's training cells print with this seed; a CourseError if one of its assertions fails."""
    layout = Layout()
    notebook = read_lesson(layout.solutions / f"{lesson}.py")
    seeded = [cell for cell in notebook.cells if cell.cell_type == "code" and SEED.search(cell.source)]
    if len(seeded) != 1:
        raise CourseError(f"{lesson}: one cell has to say `seed = ...`, and {len(seeded)} do.")
    seeded[0].source = SEED.sub(f"seed = {seed}", seeded[0].source)
    executed = run_lesson(notebook, lesson, layout.solutions)
    trained = [cell for cell in executed.cells if NOT_COMPARED in cell.metadata.get("tags", [])]
    return "".join(output.text for cell in trained for output in cell.outputs if output.output_type == "stream")


def seeded() -> tuple[str, ...]:
    """The lessons that have a seed to change."""
    return tuple(path.stem for path in sorted(Layout().solutions.glob("*.py")) if SEED.search(path.read_text("utf-8")))


def main(lessons: tuple[str, ...] = (), seeds: tuple[int, ...] = (1, 2, 3)) -> bool:
    """Print what came out for each seed, and whether all assertions held for all of them."""
    held = [_holds(lesson, seeds) for lesson in lessons or seeded()]  # all lessons, even if one fails
    return all(held)


def _holds(lesson: str, seeds: tuple[int, ...]) -> bool:
    held = 0
    for seed in seeds:
        started = time.perf_counter()
        try:
            print(f"{lesson}, seed {seed}\n{run_with(lesson, seed)}")
        except CourseError as error:
            print(f"seed {seed}: {error}\n")
        else:
            held += 1
            print(f"every assertion holds; {time.perf_counter() - started:.0f} s\n")
    print(f"{lesson}: all assertions hold for {held} of {len(seeds)} seeds")
    return held == len(seeds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lesson")
    parser.add_argument("seeds", nargs="*", type=int, default=[1, 2, 3])
    asked = parser.parse_args()
    sys.exit(not main((asked.lesson,), tuple(asked.seeds)))
