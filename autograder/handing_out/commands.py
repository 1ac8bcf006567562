"""The command that hands out bugs: nothing is loaded before it runs."""

from pathlib import Path

import click

from autograder.lesson_text.layout import Layout, shown
from autograder.showing.terminal import say


@click.command()
@click.option("--lesson", required=True, metavar="NN", help="The lesson, by its number or its name.")
@click.option(
    "--students",
    "roster",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="ROSTER.csv",
    help="The class: a CSV file with a column id, as nbgrader takes it.",
)
@click.option(
    "--bugs", "count", type=click.IntRange(1, 20), default=5, show_default=True, help="How many bugs each gets."
)
@click.option(
    "--course", type=click.Path(path_type=Path), help="An nbgrader course elsewhere, instead of autograder/course."
)
def practice(lesson: str, roster: Path, count: int, course: Path | None) -> None:
    """Make for each student an assignment of bugs to find, equally hard, and a different one for each.

    The notebooks to hand out are in individual/release/STUDENT/practice_NN of the course, those with the answers in
    individual/source. The course's seed deals the bugs, so that another run deals the same. A student who has an
    assignment keeps it: after a change of the roster, the same command makes those that are missing.
    """
    from attnlib.checks.practising.difficulty import LEVELS
    from autograder.handing_out.assigning import assign
    from autograder.handing_out.roster import read_roster

    layout = Layout() if course is None else Layout(course=course.resolve())
    made = assign(layout, lesson, read_roster(roster), count)
    had = f", and {len(made.before)} who had theirs before" if made.before else ""
    say(f"{made.assignment}: made for {len(made.new)} student{'s' * (len(made.new) != 1)}{had}")
    for number, level in enumerate(made.levels, 1):
        say(f"  bug {number}, level {level}: {LEVELS[level]}")
    if made.shared_by > 1:
        say(f"There are too few bugs of these levels, so one is given to up to {made.shared_by} students.")
    say(f"Hand out: {shown(layout.course / 'individual' / 'release')}/STUDENT/{made.assignment}/")
    say(f"Then grade it as a lesson: python -m autograder grade FOLDER --assignment {made.assignment}")
