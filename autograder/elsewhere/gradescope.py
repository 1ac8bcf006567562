"""Gradescope: the zip of a programming assignment's autograder, and its results.json.

The contract: setup.sh runs as root once, run_autograder for each submission; what is handed in is in
/autograder/submission, and the results go to /autograder/results/results.json. Lateness is Gradescope's own affair.
"""

from pathlib import Path
from typing import Any

from autograder.elsewhere.package import VISIBILITIES, package_files, template, write_zip
from autograder.elsewhere.run import publish, seed_of_package, settings, verdict_on
from autograder.lesson_text.layout import Layout

SCRIPTS = ("setup.sh", "run_autograder")


def pack(layout: Layout, lesson: str, target: Path, visibility: str = "visible") -> Path:
    """Write the zip that an instructor uploads; `visibility` is when students see their verdicts."""
    files = package_files(layout, lesson, seed=True, visibility=visibility)
    files |= {"setup.sh": template("setup.sh"), "run_autograder": template("run_autograder")}
    return write_zip(target, files, SCRIPTS)


def results(verdict: dict[str, Any], visibility: str) -> dict[str, Any]:
    """A verdict in Gradescope's format: a test for each exercise, with its diagnosis as HTML."""
    shared = {"visibility": visibility, "stdout_visibility": "hidden"}
    if verdict["problem"] is not None:
        said = f"Not graded: {verdict['problem']}. This says nothing about your answers: hand in a notebook that opens."
        seen = {**shared, "visibility": VISIBILITIES[0]}  # at once, so that there is time to hand in again
        return {**seen, "score": 0.0, "output": said, "output_format": "text", "tests": []}
    tests = [
        {
            "name": report["exercise"],
            "name_format": "text",
            "number": str(number),
            "score": report["points"],
            "max_score": report["max_points"],
            "status": "passed" if report["passed"] else "failed",
            "output": report["html"],
            "output_format": "html",
            "visibility": visibility,
        }
        for number, report in enumerate(verdict["tests"].values(), start=1)
    ]
    remarks = "\n".join(verdict["remarks"])
    return {**shared, "score": verdict["points"], "output": remarks, "output_format": "text", "tests": tests}


def run(submission: Path, target: Path) -> None:
    """Grade what is in `submission`, and write the results."""
    verdict = verdict_on(submission, seed_of_package())
    publish(target, results(verdict, settings().get("visibility", VISIBILITIES[0])))
