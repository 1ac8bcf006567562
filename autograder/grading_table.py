"""The table that `grade` prints."""

from rich.table import Table
from rich.text import Text

from autograder.grade_course import Graded, Result


def grading_table(graded: list[Graded]) -> Table:
    """One row a submission: the score, and for each exercise its points and what went wrong."""
    table = Table(show_lines=True)
    table.add_column("Student", no_wrap=True)
    table.add_column("Lesson")
    table.add_column("Score", justify="right", no_wrap=True)
    table.add_column("Exercises")
    for one in graded:
        if one.problem is not None:
            table.add_row(Text(one.student), Text(one.lesson), "–", Text(one.problem, style="yellow"))
        else:
            lines = Text("\n").join(exercise_line(result) for result in one.results)
            table.add_row(Text(one.student), Text(one.lesson), f"{one.points:g}/{one.max_points:g}", lines)
    return table


def exercise_line(result: Result) -> Text:
    """`✗ softmax 1/3 wrong_axis`."""
    full = result.points >= result.max_points
    line = Text("✓ " if full else "✗ ", style="green" if full else "red")
    line.append(f"{result.exercise} {result.points:g}/{result.max_points:g}", style="default")
    if result.diagnosis and not full:
        line.append(f" {result.diagnosis}", style="yellow")
    return line
