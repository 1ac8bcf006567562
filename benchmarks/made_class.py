"""A class that hands in one lesson: right, wrong, untouched, noisy and hanging submissions, the same each time."""

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from attnlib.checks.practising.dialects import of_the_bank
from attnlib.checks.practising.programs import with_imports
from autograder.building.compose_samples import compose
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.regions import solved_source
from autograder.proof.mutants import mutants

SHARES = {"right": 0.60, "wrong": 0.25, "untouched": 0.08, "noisy": 0.05, "hanging": 0.02}
NOISE = """
import sys
import warnings

for step in range(2000):
    print(f"step {step}: loss {1 / (step + 1):.4f}")
warnings.warn("this is only a warning")
print("\\x1b[31m" + "=" * 4000 + "\\x1b[0m", file=sys.stderr)
"""
HANGS = ("\n\nwhile True:\n    pass\n", "\n\nimport time\ntime.sleep(10**6)\n")


@dataclass(frozen=True)
class Handed:
    """One student's submission, and which kind it is."""

    student: str
    kind: str
    notebook: NotebookNode


def made_class(layout: Layout, lesson: str, release: NotebookNode, size: int, seed: int = 0) -> Iterator[Handed]:
    """The submissions of `size` students, one at a time, in the order of their names."""
    source = read_lesson(layout.text(lesson))
    cells = {c.id: solved_source(c.source) for c in source.cells if c.metadata.get("nbgrader", {}).get("solution")}
    choices = {name: [text] for name, text in cells.items()}
    for name, exercise, judged in _asked(source.cells):
        choices[name] += _in_other_words(exercise, judged)
    for number, kind in enumerate(_kinds(size, seed)):
        rng = random.Random(f"{seed} {number}")
        answers = CHANGES[kind]({name: rng.choice(texts) for name, texts in choices.items()}, cells, rng)
        yield Handed(f"student{number:04}", kind, compose(release, answers, lesson))


def _kinds(size: int, seed: int) -> list[str]:
    """Draw each student's kind: the shares, shuffled; each kind at least once in a class of twenty."""
    found = [kind for kind, share in SHARES.items() for _ in range(max(round(share * size), size >= 20))]
    found = (found + ["right"] * size)[:size]
    random.Random(seed).shuffle(found)
    return found


def _asked(cells: list[NotebookNode]) -> Iterator[tuple[str, str, str]]:
    """From the tests: the answer's cell, the exercise, and the name by which the answer goes."""
    for cell in (c for c in cells if c.metadata.get("nbgrader", {}).get("grade")):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and len(node.args) == 2 and isinstance(node.args[0], ast.Constant):
                yield cell.id.removeprefix("test_"), str(node.args[0].value), ast.unparse(node.args[1])


def _in_other_words(exercise: str, name: str) -> list[str]:
    """Right answers written in other ways, if they work on their own; each with its imports."""
    return [f"{with_imports(text, text)[0]}\n\n\n{name} = {exercise}" for text in of_the_bank(exercise) if text]


Answers = dict[str, str]


def _wrong(answers: Answers, cells: Answers, rng: random.Random) -> Answers:
    """Some answers with one small thing changed, a prediction guessed, one left open."""
    for name in rng.sample(sorted(answers), k=max(1, len(answers) // 2)):
        if changed := mutants(cells[name]):
            answers[name] = rng.choice(changed).source
    if rng.random() < 0.5:
        del answers[rng.choice(sorted(answers))]
    return answers


def _noisy(answers: Answers, cells: Answers, rng: random.Random) -> Answers:
    return {name: text + "\n" + NOISE for name, text in answers.items()}


def _hanging(answers: Answers, cells: Answers, rng: random.Random) -> Answers:
    """One cell never ends."""
    name = rng.choice(sorted(answers))
    return {**answers, name: answers[name] + rng.choice(HANGS)}


CHANGES: dict[str, Callable[[Answers, Answers, random.Random], Answers]] = {
    "right": lambda answers, cells, rng: answers,
    "wrong": _wrong,
    "untouched": lambda answers, cells, rng: {},
    "noisy": _noisy,
    "hanging": _hanging,
}
