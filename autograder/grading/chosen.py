"""Choose the submissions of a folder that a run grades, before any module that grades is imported."""

from pathlib import Path

from autograder.judging.intake.survey import Stray, survey
from autograder.lesson_text.layout import Layout, shown
from autograder.showing.errors import CourseError


def chosen_submissions(
    layout: Layout, folder: Path, wanted: tuple[str, ...]
) -> tuple[list[tuple[str, str]], list[Stray]]:
    """Return the submissions of the wanted lessons (all if none is named) and the strays; a CourseError for nothing."""
    layout.gradable(wanted)
    everything, strays = survey(folder)
    submissions = [(student, lesson) for student, lesson in everything if not wanted or lesson in wanted]
    if not submissions and (everything or not strays):
        of = f" of {' or '.join(wanted)}" if wanted and everything else ""
        raise CourseError(f"{shown(folder)} has no submission{of}; it needs the layout STUDENT/LESSON/LESSON.ipynb.")
    return submissions, strays
