"""Where things are."""

from dataclasses import dataclass
from pathlib import Path

from autograder.showing.errors import CourseError

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "autograder" / "nbgrader_config.py"
SETTINGS = "course_settings.py"
"""What an instructor changes for one course, in the course's folder."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The places that building and grading read and write; a test passes its own."""

    solutions: Path = ROOT / "solutions"
    notebooks: Path = ROOT / "notebooks"
    course: Path = ROOT / "autograder" / "course"
    samples: Path = ROOT / "autograder" / "building" / "samples"
    readme: Path = ROOT / "README.md"

    def lessons(self) -> list[str]:
        """The names of all lessons, in course order."""
        return sorted(path.stem for path in self.solutions.glob("[0-9][0-9]_*.py"))

    def chosen(self, wanted: tuple[str, ...]) -> list[str]:
        """The lessons that were asked for, all if none was named; a CourseError for a name that is no lesson's."""
        lessons = self.lessons()
        for name in wanted:
            if name not in lessons:
                raise CourseError(f"No lesson is called {name!r}; there are: {', '.join(lessons) or 'none'}.")
        return [name for name in lessons if name in wanted] if wanted else lessons

    def gradable(self, wanted: tuple[str, ...]) -> list[str]:
        """The same of lessons and of assignments that are another one for each student."""
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
        """The assignments of the course that are another one for each student."""
        return sorted({path.name for path in (self.course / "individual" / "source").glob("*/*/")})

    def source_for(self, student: str, assignment: str) -> Path:
        """What a submission is graded by: the student's own source, which may be missing, or else the lesson's."""
        own = self.individual("source", student, assignment)
        is_lesson = not own.is_file() and assignment not in self.individual_assignments()
        return self.source(assignment) if is_lesson else own


def shown(path: Path) -> str:
    """The path as a person in the repository would type it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
