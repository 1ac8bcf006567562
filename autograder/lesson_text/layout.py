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

    def source(self, lesson: str) -> Path:
        """nbgrader's source notebook of a lesson."""
        return self.course / "source" / lesson / f"{lesson}.ipynb"


def shown(path: Path) -> str:
    """The path as a person in the repository would type it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
