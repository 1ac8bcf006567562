"""The item analysis as two tidy CSV files: what was found in each exercise, and each exercise's figures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.report.analysis import Item, LessonAnalysis
from autograder.showing.spreadsheet import write_rows

FINDINGS = ["lesson", "exercise", "kind", "finding", "title", "count", "of", "share", "students"]
EXERCISES = [
    "lesson",
    "exercise",
    "submissions",
    "passed",
    "passed_share",
    "passed_low",
    "passed_high",
    "mean_points_share",
    "not_answered",
    "misconceptions",
    "other_mistakes",
    "discrimination",
]


def write_csv(analyses: list[LessonAnalysis], path: Path) -> tuple[Path, Path]:
    """Write FILE.csv and FILE_exercises.csv; returns their paths.

    FILE.csv has a row for each exercise and finding, with the students that it is about: a misconception, another
    mistake, not answered, a part not earned; and one for each submission that was not graded.
    """
    exercises = path.with_name(f"{path.stem}_exercises{path.suffix}")
    write_rows(path, FINDINGS, (row for analysis in analyses for row in _finding_rows(analysis)))
    write_rows(exercises, EXERCISES, (_exercise_row(item) for analysis in analyses for item in analysis.items))
    return path, exercises


def _finding_rows(analysis: LessonAnalysis) -> Iterator[dict[str, Any]]:
    for item in analysis.items:
        of = {"lesson": item.lesson, "exercise": item.exercise}
        for found in (*item.findings, *([item.not_answered] if item.not_answered.count else [])):
            what = {"kind": found.kind, "finding": found.what, "title": found.title}
            yield of | what | _counted(found.count, item.submissions, found.students)
        for part in item.parts:
            what = {"kind": "part not earned", "finding": part.name}
            yield of | what | _counted(part.known - part.earned, part.known, part.without)
    total = analysis.graded + analysis.without_grade
    for one in analysis.not_graded:
        what = {"lesson": analysis.lesson, "kind": "not graded", "finding": one.problem or ""}
        yield what | _counted(1, total, (one.student,))
    if analysis.without_grade and not analysis.not_graded:
        yield {"lesson": analysis.lesson, "kind": "not graded"} | _counted(analysis.without_grade, total, ())


def _counted(count: int, of: int, students: tuple[str, ...]) -> dict[str, Any]:
    return {"count": count, "of": of, "share": f"{count / of:.4f}", "students": "; ".join(students)}


def _exercise_row(item: Item) -> dict[str, Any]:
    low, high = item.interval
    return {
        "lesson": item.lesson,
        "exercise": item.exercise,
        "submissions": item.submissions,
        "passed": item.passed,
        "passed_share": f"{item.share:.4f}",
        "passed_low": f"{low:.4f}",
        "passed_high": f"{high:.4f}",
        "mean_points_share": f"{item.points:.4f}",
        "not_answered": item.not_answered.count,
        "misconceptions": item.count("misconception"),
        "other_mistakes": item.count("other"),
        "discrimination": "" if item.discrimination is None else f"{item.discrimination:.4f}",
    }
