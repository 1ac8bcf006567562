"""Check the catalogues of slips before a release, so that no student meets an error in them."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from attnlib.checks import Exercise
from attnlib.checks.asking.attempt import Local
from attnlib.checks.asking.time_limits import here
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.wronglines import BadCatalogue, NoPlace, WrongLine, read
from attnlib.checks.practising.table import checksum, rows
from attnlib.checks.verdict.judge import cases_of, try_case


def complaints(lessons: Collection[str], exercises: Iterable[Exercise]) -> list[str]:
    """One line for each fault in the catalogues of these lessons, with file and line."""
    written = [exercise for exercise in exercises if isinstance(exercise, WrittenExercise)]
    chosen = [exercise for exercise in written if exercise.lesson in lessons]
    try:
        found = [line for exercise in chosen for line in _right_ones(exercise)]
        found += [line for exercise in chosen for line in _untried(exercise)]
        found += _called_otherwise({file for exercise in chosen for file in exercise.files}, written)
        return found + without_a_place(chosen, written)
    except BadCatalogue as error:  # everything after it would be guesswork
        return [str(error)]


def _right_ones(exercise: WrittenExercise) -> Iterator[str]:
    """The wrong lines that do the same as the right ones, on every case."""
    assert exercise.misconceptions is not None  # fills everything they need
    for wrong in exercise.wrongs:
        asked = Local(wrong.told.implementation, here())
        if all(try_case(exercise, asked, case).difference is None for case in cases_of(exercise, hidden=True)):
            place = wrong.where or exercise.files[0]
            yield f"{place}: {wrong.told.id} does what the right answer to {exercise.name} does, in every case"


def _untried(exercise: WrittenExercise) -> Iterator[str]:
    """The bugs of practice that are not the programs that were tried, or that cannot be made any more."""
    for row in (row for row in rows() if row.exercise == exercise.name):
        try:
            same = checksum(row.bug.code) == row.code
        except (KeyError, IndexError, NoPlace):
            same = False
        if not same:
            yield f"{row.key} is not the bug that was tried: python -m autograder bugs {exercise.name}"


def _called_otherwise(files: Collection[Path], written: Iterable[WrittenExercise]) -> Iterator[str]:
    """The slips that have the id of another mistake, whose page in the gallery would be theirs."""
    first: dict[str, WrongLine] = {}
    for file in dict.fromkeys(file for exercise in written for file in exercise.files):
        for slip in read(file).slips.values():
            other = first.setdefault(slip.id, slip)
            if file in files and slip.title != other.title:
                yield f"{slip.where}: {slip.id} is {other.title!r} at {other.where}: give this one another id"


def without_a_place(chosen: Collection[Exercise], among: Collection[Exercise]) -> list[str]:
    """One line for each slip in the files of the chosen exercises that fits none of the exercises `among` all."""
    written = [exercise for exercise in among if isinstance(exercise, WrittenExercise)]
    found: list[str] = []
    for file in sorted({file for exercise in written if exercise in chosen for file in exercise.files}):
        found += _nowhere(file, [exercise for exercise in written if file in exercise.files])
    return found


def _nowhere(file: Path, users: list[WrittenExercise]) -> Iterator[str]:
    """The slips that fit no exercise, with the reason for each of its right answers; and answers to no exercise."""
    catalogue = read(file)
    coded = [exercise for exercise in users if exercise.kind != "choice"]
    for slip in catalogue.slips.values():
        why = {exercise.name: exercise.why_not(slip) for exercise in coded if exercise.has(slip, file)}
        if all(why.values()):
            told = "; ".join(f"{name}: {reason}" for name, reason in why.items())
            yield f"{slip.where}: {slip.id} fits nowhere ({told or 'there is no exercise'})"
    for kind, named in (("right", catalogue.right), ("given", catalogue.given), ("question", catalogue.letters)):
        for name in named.keys() - {exercise.name for exercise in users}:
            yield f"{file.parent.name}/{file.name}: `# {kind} {name}` is of no exercise of this lesson"
