"""The release gate: what a student's notebook must not contain, and what it must.

It checks the finished notebook, after nbgrader and everything else, and is a step of its own: nbgrader logs what a
hook of its own raises, and releases all the same.
"""

import ast
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from autograder.lesson_text.exercise_cells import checked
from autograder.lesson_text.regions import MARKER, Regions, logical_lines, solved_source, split_regions, uncomment
from autograder.lesson_text.released import longest_answer

# Names, commas and brackets alone (`return output, weights`, `x,`, `)`) are found everywhere and tell nothing; nor does
# the head of a loop or of a function.
WIDEST = 88  # characters in a line of code
TELLS_NOTHING = re.compile(r"[\w,)\]}\s]*|(for|if|elif|else|while|with|def|class|try|except|finally)\b.*:")


class Gate:
    """Compares a release with its source; `complaints()` is empty for a notebook that may be published.

    `exercises` is `attnlib.checks.exercises()`: what the notebook must ask for, and for how many points.
    """

    def __init__(self, lesson: str, release: NotebookNode, source: NotebookNode, exercises: Mapping[str, Any]) -> None:
        self.lesson, self.release, self.source = lesson, release, source
        self.expected = {name: exercise for name, exercise in exercises.items() if exercise.lesson == lesson}
        self.known = exercises
        self.regions = {number: _regions(cell) for number, cell in enumerate(source.cells)}
        self.answers = [_grade_id(cell) for cell in release.cells if _nbgrader(cell).get("solution")]

    def complaints(self) -> list[str]:
        """One sentence for each fault: the notebook, the exercise where there is one, the cell, and what is wrong."""
        return [
            *self._leaks(),
            *self._leftovers(),
            *self._cells_that_do_not_compile(),
            *self._wide_lines(),
            *self._stubs(),
            *self._duplicates(),
            *self._pairs(),
            *self._exercises(),
        ]

    def _say(self, cell: NotebookNode | None, what: str) -> str:
        if cell is None:
            return f"{self.lesson}: {what}"
        name = _grade_id(cell)
        exercise = longest_answer(name, self.answers) or name if name else None
        place = f"exercise {exercise}, cell {cell.get('id', name)}" if exercise else f"cell {cell.get('id', '?')}"
        return f"{self.lesson}, {place}: {what}"

    def _leaks(self) -> Iterator[str]:
        """Solution lines and hidden tests, in any cell.

        What a stub shows on purpose is no secret. Nor is the code that another exercise's cell shows around its
        solution, in that cell: to fix a block, one has to see its layers.
        """
        public = {
            _squeeze(line)
            for regions in self.regions.values()
            for line in logical_lines([uncomment(line) for line in regions.stub])
        }
        given = {
            _grade_id(cell): {_squeeze(line) for line in logical_lines(self.regions[number].released)}
            for number, cell in enumerate(self.source.cells)
            if _nbgrader(cell).get("solution")
        }
        for number, regions in self.regions.items():
            home = _grade_id(self.source.cells[number])
            solution, hidden = logical_lines(regions.solution), logical_lines(regions.hidden)
            secrets = [("a line of the solution", x) for x in solution if not TELLS_NOTHING.fullmatch(_code(x))]
            secrets += [("a line of a hidden test", x) for x in hidden if _code(x)]
            for kind, line in secrets:
                for cell in self.release.cells:
                    name, squeezed = _grade_id(cell), _squeeze(line)
                    shown = public | (given.get(name, set()) if name != home else set())
                    if squeezed not in shown and _contains(cell.source, squeezed):
                        yield self._say(cell, f"{kind} is left: {' '.join(_code(line).split())}")

    def _leftovers(self) -> Iterator[str]:
        if _keys_like(self.release.metadata, "jupytext"):
            yield self._say(None, "the notebook's metadata has a jupytext key")
        for cell in self.release.cells:
            if found := MARKER.search(cell.source):
                yield self._say(cell, f"the marker {found[0]!r} is left")
            if cell.get("outputs") or cell.get("execution_count") is not None:
                yield self._say(cell, "it has an output or an execution count")
            if _keys_like(cell.metadata, "jupytext", "lines_to_"):
                yield self._say(cell, "its metadata has a key of jupytext")

    def _wide_lines(self) -> Iterator[str]:
        """Code that runs out of a JupyterLab with a side bar, of Colab, and of the site's column."""
        for cell in self.release.cells:
            for line in cell.source.split("\n") if cell.cell_type == "code" else ():
                if len(line) > WIDEST:
                    yield self._say(cell, f"a line of {len(line)} characters, and {WIDEST} are allowed: {line.strip()}")

    def _cells_that_do_not_compile(self) -> Iterator[str]:
        for cell in self.release.cells:
            if cell.cell_type == "code":
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        _compile(cell.source)
                except (SyntaxError, ValueError) as error:
                    yield self._say(cell, f"it does not compile: {error}")

    def _stubs(self) -> Iterator[str]:
        released = {_grade_id(cell): cell for cell in self.release.cells if _nbgrader(cell).get("solution")}
        for number, cell in enumerate(self.source.cells):
            regions, name = self.regions[number], _grade_id(cell)
            if not _nbgrader(cell).get("solution"):
                continue
            if name not in released:
                yield self._say(cell, "the answer's cell is not in the release")
                continue
            text = released[name].source
            solved = "\n".join(line for line in cell.source.split("\n") if not MARKER.search(line))
            if not any(_code(line) for line in regions.solution):
                yield self._say(cell, "the text has no solution between its markers")
            elif _squeeze(text) in (_squeeze(solved), _squeeze(solved_source(cell.source))):
                yield self._say(cell, "there is no stub: the student gets the solution")
            elif not regions.stub and "NotImplementedError" not in text:
                yield self._say(cell, "there is no stub that raises NotImplementedError")
            elif re.search(r"^raise NotImplementedError", text, re.MULTILINE):
                yield self._say(cell, "the stub would end the run of the cells here: write one below BEGIN STUB")

    def _duplicates(self) -> Iterator[str]:
        ids = Counter(name for cell in self.release.cells if (name := _grade_id(cell)))
        cells = Counter(cell.get("id") for cell in self.release.cells)
        for cell in self.release.cells:
            if (name := _grade_id(cell)) and ids.pop(name, 1) > 1:
                yield self._say(cell, f"the grade id {name!r} is there more than once")
            if cells.pop(cell.get("id"), 1) > 1:
                yield self._say(cell, f"the cell id {cell.get('id')!r} is there more than once")

    def _pairs(self) -> Iterator[str]:
        """Check that answers are open and have a test, and that a test is locked, has points, calls check, and follows.

        The test of an exercise without points is a check that is not graded.
        """
        seen: list[str] = []
        tested = set()
        for cell in self.release.cells:
            nbgrader, name = _nbgrader(cell), _grade_id(cell)
            if nbgrader.get("solution"):
                seen.append(name)
                if nbgrader.get("grade") or nbgrader.get("locked"):
                    yield self._say(cell, "an answer must be neither graded nor locked itself")
            elif nbgrader.get("grade"):
                answer = longest_answer(name, self.answers)
                tested.add(answer)
                if answer is None:
                    yield self._say(cell, f"it is a test without an answer: no solution cell fits {name!r}")
                elif answer not in seen:
                    yield self._say(cell, "the test stands above its answer")
                elif _checked(cell.source) != answer:
                    yield self._say(cell, f'a test ends with check("{answer}", …)')
                if not nbgrader.get("locked") or not nbgrader.get("points", 0) > 0:
                    yield self._say(cell, "a test must be locked and have points")
            elif (
                (extra := _checked(cell.source)) in seen and extra in self.expected and not self.expected[extra].points
            ):
                tested.add(extra)
        for cell in self.release.cells:
            if _nbgrader(cell).get("solution") and _grade_id(cell) not in tested:
                yield self._say(cell, "the answer has no test")

    def _exercises(self) -> Iterator[str]:
        points: dict[str, float] = defaultdict(float)
        for cell in self.release.cells:
            if _nbgrader(cell).get("grade") and (answer := longest_answer(_grade_id(cell), self.answers)):
                points[answer] += _nbgrader(cell).get("points", 0)
        for name in self.answers:
            if name not in self.known:
                yield self._say(None, f"exercise {name}: attnlib.checks has no such exercise")
            elif name not in self.expected:
                yield self._say(None, f"exercise {name}: it belongs to lesson {self.known[name].lesson}")
            elif points[name] != self.expected[name].points:
                want, got = self.expected[name].points, points[name]
                yield self._say(None, f"exercise {name}: its tests must be worth {want} points together, got {got:g}")
        for name in self.expected:
            if name not in self.answers:
                yield self._say(None, f"exercise {name}: it is missing from the notebook")


def _nbgrader(cell: NotebookNode) -> dict[str, Any]:
    found: dict[str, Any] = cell.metadata.get("nbgrader", {})
    return found


def _grade_id(cell: NotebookNode) -> str:
    return str(_nbgrader(cell).get("grade_id", ""))


def _regions(cell: NotebookNode) -> Regions:
    return split_regions(cell.source) if cell.cell_type == "code" else Regions()


def _code(line: str) -> str:
    """Return the line without its comment and its indentation."""
    return "" if line.strip().startswith("#") else re.sub(r"\s#\s.*", "", line).strip()


def _squeeze(text: str) -> str:
    """Return the text without white space and trailing comments, so that no leak can hide behind its layout."""
    return "".join("".join(re.sub(r"\s#\s.*", "", line) for line in text.split("\n")).split())


def _contains(text: str, squeezed: str) -> bool:
    """True if the squeezed line is one of the text's lines or, if it is long enough to tell, part of one."""
    lines, whole = _squeezed(text)
    return squeezed in lines or (len(squeezed) >= 12 and squeezed in whole)


@cache
def _squeezed(text: str) -> tuple[frozenset[str], str]:
    """Return each of the text's lines, and the whole: many lines are looked for in the same cell."""
    return frozenset(_squeeze(line) for line in logical_lines(text.split("\n"))), _squeeze(text)


def _compile(source: str) -> None:
    code = TransformerManager().transform_cell(source)
    compile(code, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def _checked(source: str) -> str | None:
    """Return the exercise whose check is the cell's last expression."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    return checked(body[-1]) if body else None


def _keys_like(metadata: Any, *prefixes: str) -> bool:
    """True if any key in the metadata, however deep, begins with one of these prefixes."""
    if isinstance(metadata, dict):
        return any(k.startswith(prefixes) or _keys_like(v, *prefixes) for k, v in metadata.items())
    return isinstance(metadata, list) and any(_keys_like(value, *prefixes) for value in metadata)
