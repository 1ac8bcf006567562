"""GitHub: a workflow with the visible checks for students, one that grades for instructors, and classroom50's script.

Students can change whatever runs in their own repository, and read its secrets' values. So the course's seed is a
secret of the instructor's repository, and the grade that counts is made there; classroom50, which grades in the
student's repository, gets no seed, and draws its numbers anew in each run. The results are classroom50's result/v1.
"""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder.elsewhere.package import GRADER, WEIGHTS, package_files, template, write_folder
from autograder.elsewhere.run import publish, seed_of_environment, settings, verdict_on
from autograder.lesson_text.layout import ROOT, Layout
from autograder.lesson_text.notebook import to_text

SCHEMA = "classroom50/result/v1"
OF_CLASSROOM50 = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
}
"""The fields of a result that classroom50's runner gives as environment variables."""


def pack(layout: Layout, lesson: str, target: Path) -> Path:
    """Write a folder for the students' repositories, and one for the instructor's own."""
    from autograder.building.build_course import release  # a package holds this file, and not that one
    from autograder.building.colab import repository_url
    from autograder.in_nbgrader.nbgrader_course import NbgraderCourse

    grader = package_files(layout, lesson, seed=False)
    with tempfile.TemporaryDirectory() as scratch:  # not from `notebooks`, where somebody may have answered it
        course = NbgraderCourse(Path(scratch), scratch=True)
        notebook = release(lesson, layout, course, repository_url(ROOT)).release
    files = {f"instructor/{name}": data for name, data in grader.items()}
    files["instructor/setup.sh"] = template("setup.sh")
    files["instructor/.github/workflows/grade.yml"] = template("grade.yml", LESSON=lesson)
    wheel = next(name for name in grader if name.endswith(".whl"))
    files[f"student/{wheel}"] = grader[wheel]
    files[f"student/{lesson}.ipynb"] = to_text(notebook).encode()
    if WEIGHTS in grader:
        files[f"student/{WEIGHTS}"] = grader[WEIGHTS]
    files["student/.github/workflows/checks.yml"] = template("checks.yml", LESSON=lesson, WHEEL=wheel)
    return write_folder(target, files, ("instructor/setup.sh",))


def pack_classroom50(layout: Layout, lesson: str, target: Path) -> Path:
    """Write the folder that goes to CLASSROOM/autograders/ASSIGNMENT; students can read it, and so it has no seed."""
    files = package_files(layout, lesson, seed=False)
    files |= {"setup.sh": template("setup.sh"), "autograder.py": template("classroom50.py", GRADER=GRADER)}
    return write_folder(target, files, ("setup.sh",))


def results(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict as classroom50's result.json, whose points are whole numbers."""
    tests = [
        {
            "test-name": report["exercise"],
            "passed": report["passed"],
            "score": round(report["points"]),
            "max-score": round(report["max_points"]),
            "diagnosis": report["diagnosis"],
            "message": report["message"],
        }
        for report in verdict["tests"].values()
    ]
    return {
        "schema": SCHEMA,
        **{field: os.environ[name] for field, name in OF_CLASSROOM50.items() if name in os.environ},
        **({"review": review} if (review := os.environ.get("REVIEW_URL") or os.environ.get("COMMIT_URL")) else {}),
        "datetime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lesson": verdict["lesson"],
        "score": sum(test["score"] for test in tests),
        "max-score": round(verdict["max_points"]),
        "problem": verdict["problem"],
        "remarks": verdict["remarks"],
        "tests": tests,
    }


def summary(verdict: dict[str, Any]) -> str:
    """Return the verdict as Markdown: a table, and each message as in a terminal."""
    if verdict["problem"] is not None:
        return f"**Not graded**: {verdict['problem']}\n"
    reports = verdict["tests"].values()
    rows = [f"| {r['exercise']} | {r['points']:g} of {r['max_points']:g} |" for r in reports]
    lines = ["| exercise | points |", "| --- | --- |", *rows]
    for report in reports:
        if not report["passed"]:
            lines += ["", *(f"    {line}" for line in report["message"].splitlines())]  # verbatim, without markup
    return "\n".join([*lines, ""])


def run(submission: Path, target: Path) -> None:
    """Grade a checkout, write the results, and append the verdict to the job's summary if there is one."""
    settings()
    verdict = verdict_on(submission, seed_of_environment())
    publish(target, results(verdict))
    if page := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(summary(verdict))
