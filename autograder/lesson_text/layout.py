"""The layout of files and folders."""

import os
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path

from autograder.showing.errors import CourseError

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "autograder" / "nbgrader_config.py"
SETTINGS = "course_settings.py"
"""The file with an instructor's settings for one course, in the course's folder."""

LESSON = "[0-9][0-9]_*.py"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The places where building and grading read and write; tests use their own."""

    solutions: Path = ROOT / "solutions"
    notebooks: Path = ROOT / "notebooks"
    course: Path = ROOT / "autograder" / "course"
    samples: Path = ROOT / "autograder" / "building" / "samples"
    readme: Path = ROOT / "README.md"

    @property
    def others(self) -> tuple[Path, ...]:
        """The folders with lessons' texts in other authors' repositories; a CourseError if one isn't a course."""
        if not os.environ.get("ATTNLIB_COURSE_PATH") and not entry_points(group="attnlib.course"):
            return ()  # without loading attnlib
        from attnlib.checks import course

        if course.FAULTS:
            raise CourseError("\n".join(course.FAULTS))
        return tuple(folder for package in course.OTHERS if (folder := package.parent / "solutions").is_dir())

    def lessons(self) -> list[str]:
        """The names of all lessons, in course order."""
        found = [path for folder in (self.solutions, *self.others) for path in folder.glob(LESSON)]
        for one, other in pairwise(sorted(found, key=lambda path: path.stem)):
            if one.stem == other.stem:
                raise CourseError(f"Two lessons are called {one.stem}: {shown(one)} and {shown(other)}.")
        return sorted(path.stem for path in found)

    def own_lessons(self) -> list[str]:
        """The lessons of this repository."""
        return sorted(path.stem for path in self.solutions.glob(LESSON))

    def home(self, lesson: str) -> Path:
        """The folder of a lesson's text, its executed notebook and its pictures."""
        return next((one for one in self.others if (one / f"{lesson}.py").is_file()), self.solutions)

    def text(self, lesson: str) -> Path:
        """The text of a lesson."""
        return self.home(lesson) / f"{lesson}.py"

    def solved(self, lesson: str) -> Path:
        """The instructor's notebook of a lesson."""
        return self.home(lesson) / f"{lesson}.ipynb"

    def released(self, lesson: str) -> Path:
        """The students' notebook of a lesson."""
        home = self.home(lesson)
        return (self.notebooks if home == self.solutions else home.parent / "notebooks") / f"{lesson}.ipynb"

    def chosen(self, wanted: tuple[str, ...]) -> list[str]:
        """Return the lessons asked for, all if none was named; a CourseError for an unknown name."""
        lessons = self.lessons()
        for name in wanted:
            if name not in lessons:
                raise CourseError(f"No lesson is called {name!r}; there are: {', '.join(lessons) or 'none'}.")
        return [name for name in lessons if name in wanted] if wanted else lessons

    def gradable(self, wanted: tuple[str, ...]) -> list[str]:
        """Return the lessons chosen, and assignments that differ from student to student."""
        own = [name for name in self.individual_assignments() if not wanted or name in wanted]
        lessons = tuple(name for name in wanted if name not in own)
        return [*(self.chosen(lessons) if lessons or not wanted else []), *own]

    def source(self, lesson: str) -> Path:
        """nbgrader's source notebook of a lesson."""
        return self.course / "source" / lesson / f"{lesson}.ipynb"

    def individual(self, step: str, student: str, assignment: str) -> Path:
        """A student's own notebook of an assignment; `step` is source, with the answers, or release."""
        return self.course / "individual" / step / student / assignment / f"{assignment}.ipynb"

    def individual_assignments(self) -> list[str]:
        """The assignments of the course that differ from student to student."""
        return sorted({path.name for path in (self.course / "individual" / "source").glob("*/*/")})

    def source_for(self, student: str, assignment: str) -> Path:
        """Return the source that grades a submission: the student's own, which may be missing, or the lesson's."""
        own = self.individual("source", student, assignment)
        is_lesson = not own.is_file() and assignment not in self.individual_assignments()
        return self.source(assignment) if is_lesson else own


def shown(path: Path) -> str:
    """The path as a person in the repository would type it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
