"""The `nbgrader_config.py` in a course's folder: nbgrader started there reads no other, so it is the grader's own."""

from pathlib import Path

from autograder.in_nbgrader.course_files import write_whole
from autograder.lesson_text.layout import CONFIG, SETTINGS, shown
from autograder.showing.errors import CourseError

FIRST = "# Written by `python -m autograder`, and written anew: what is yours stands in course_settings.py, beside it."
TEXT = f"""{FIRST}
from pathlib import Path

HERE = str(Path(__file__).parent)
c = get_config()
load_subconfig({CONFIG.name!r}, path={str(CONFIG.parent)!r})
load_subconfig({SETTINGS!r}, path=HERE)
c.CourseDirectory.root = HERE
"""


def write_course_config(course: Path) -> None:
    """Write the file; a CourseError if there is somebody else's, which would grade without a sandbox."""
    path = course / CONFIG.name
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if before and not before.startswith(FIRST):
        raise CourseError(
            f"{shown(path)} is not the grader's own, and nbgrader started beside it would run student code without a "
            f"sandbox: rename it to {SETTINGS}, which is read in its place, and try again."
        )
    if before != TEXT:
        write_whole(path, TEXT)
