"""The attacks and the clumsy submissions as one class of students: what each hands in, and what must come of it."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "autograder"), str(HERE)]

from clumsy import CLUMSY, FULL, spoilt  # noqa: E402
from deep_folders import nest  # noqa: E402
from tiny_course import RIGHT, TINY  # noqa: E402

from attnlib.checks import exercises  # noqa: E402
from autograder.building.compose_samples import compose, read_answers  # noqa: E402
from autograder.lesson_text.layout import Layout  # noqa: E402
from autograder.lesson_text.notebook import read_notebook, to_text  # noqa: E402

LESSON_02 = "02_scaled_dot_product_attention"
LESSONS = ("00_start_here", LESSON_02, "06_encoder_block")
HEADER = re.compile(r"# (?:(?P<exercise>[A-Za-z_]+) )?(?P<points>\d+|full)?(?:: (?P<says>.+))?")
ESCAPE = """import os
import sqlite3
import sys
import torch


def escape():
{body}


try:
    told = escape()
except (OSError, ImportError, sqlite3.Error, ValueError):
    told = "refused"


def pairwise_dot(x, y):
    if told != "refused":
        raise AssertionError(f"got out: {told}")
    return x @ y.mT
"""
STUDENTS = {
    "a_name_beyond_ascii": "Zoë Müller",
    "a_folder_whose_name_is_no_text": os.fsdecode(b"clumsy-M\xfcller"),
    "a_folder_whose_name_has_a_line_break": "clumsy\nname",
    "a_folder_whose_name_begins_with_a_dot": ".clumsy",
    "a_folder_whose_name_has_200_letters": "clumsy" + "y" * 194,
}
SUBSTITUTES = {"MANY_TERMS": "- 1 + 1" * 150, "NUL": "\0", "LONG_NAME": "a" * 10_000}


@dataclass(frozen=True)
class Entry:
    """One student: the files handed in, the points that each exercise must get, or why it must not be graded."""

    group: str
    name: str
    lesson: str = TINY
    exercise: str = ""
    answer: str = ""
    points: dict[str, float | str] = field(default_factory=dict)
    problem: str | None = None
    says: str = ""
    remark: str = ""

    @property
    def student(self) -> str:
        return STUDENTS.get(self.name, f"{self.group}-{self.name}")

    def files(self, releases: dict[str, NotebookNode], places: dict[str, str]) -> dict[str, bytes]:
        """What is handed in, by its name in the student's folder."""
        if self.group == "clumsy":
            clumsy = next(one for one in CLUMSY if one.name == self.name)
            return spoilt(clumsy, compose(releases[TINY], RIGHT, self.name))
        answers = dict(RIGHT) if self.lesson == TINY else {}
        if self.group == "honest" and self.lesson == LESSON_02:
            answers = read_answers(ROOT / "autograder" / "building" / "samples" / LESSON_02 / "excellent.py")
        elif self.answer:
            answer = self.answer
            for word, place in places.items():
                answer = answer.replace(word, place)
            answers[self.exercise] = answer
        return {f"{self.lesson}.ipynb": to_text(compose(releases[self.lesson], answers, self.name)).encode()}


def entries() -> list[Entry]:
    """The whole class, honest students among them."""
    honest = {"predict_largest_dot": FULL, "pairwise_dot": FULL}
    found = [Entry("honest", f"tiny_{number}", points=honest) for number in range(5)]
    found.append(Entry("honest", "attention", lesson=LESSON_02, points={"*": FULL}))
    for group in ("forging", "hiding", "exhausting", "leaking", "escaping", "right", "wrong"):
        found += list(read(group))
    found += [Entry("clumsy", one.name, points=one.points, problem=one.problem, remark=one.remark) for one in CLUMSY]
    return found


def read(group: str) -> Iterator[Entry]:
    """The attacks of one file: a cell's title is the student, its first comment what must come of it."""
    text = (HERE / "attacks" / f"{group}.txt").read_text(encoding="utf-8")
    for part in text.split("\n# %% ")[1:]:
        name, _, body = part.partition("\n")
        first, _, rest = body.partition("\n")
        header = HEADER.fullmatch(first) if first.startswith("# ") else None
        exercise = (header and header["exercise"]) or "pairwise_dot"
        points: float | str = FULL if group in ("right", "escaping") else 0
        if header and header["points"]:
            points = FULL if header["points"] == FULL else float(header["points"])
        answer = (rest if header else body).strip("\n")
        if group == "escaping":
            answer = ESCAPE.replace("{body}", "\n".join(f"    {line}" for line in answer.splitlines()))
        for word, place in SUBSTITUTES.items():
            answer = answer.replace(word, place)
        if name == "asks_for_more_magics_than_ipython_reads":
            answer = "!ls\n" * 20 + answer
        tiny = exercise in RIGHT
        wanted = {**dict.fromkeys(RIGHT, FULL), exercise: points} if tiny else {exercise: points}
        says = (header and header["says"]) or ""
        lesson = TINY if tiny else exercises()[exercise].lesson
        yield Entry(group, name, lesson, exercise, answer, wanted, says=says)


def hand_in(layout: Layout, folder: Path, entries: list[Entry]) -> None:
    """Write each student's files; one that begins with `link:` is a link, with `pipe:` a pipe, and so on."""
    releases = {
        lesson: read_notebook(layout.course / "release" / lesson / f"{lesson}.ipynb") for lesson in (TINY, *LESSONS)
    }
    places = {"GRADER": str(layout.course), "REPOSITORY": str(ROOT)}
    for entry in entries:
        for name, data in entry.files(releases, places).items():
            path = Path(os.path.normpath(folder / entry.student / entry.lesson / name))
            path.parent.mkdir(parents=True, exist_ok=True)
            put(path, data)


def put(path: Path, data: bytes) -> None:
    """Write a file, or what a student may have put in its place."""
    if data.startswith(b"link:"):
        path.symlink_to(data.removeprefix(b"link:").decode())
    elif data == b"pipe:":
        os.mkfifo(path)
    elif data == b"nested:":
        nest(path.parent, 1500, path.name)
    elif data.startswith(b"sparse:"):
        with path.open("wb") as file:
            file.truncate(int(data.removeprefix(b"sparse:")))
    else:
        path.write_bytes(data)
