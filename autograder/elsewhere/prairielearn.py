"""PrairieLearn: an external grader's image, a question for it, and its results.json.

The contract: what is handed in is in /grade/student, the course's own files are in /grade/serverFilesCourse, and the
results go to /grade/results/results.json. The seed comes with the course's files: the image holds none.
"""

import json
import uuid
from pathlib import Path
from typing import Any

from autograder.elsewhere.package import package_files, template, write_folder
from autograder.elsewhere.run import publish, seed_in, verdict_on
from autograder.in_nbgrader.course_files import course_seed
from autograder.lesson_text.layout import Layout

IMAGE = "attention-grader"
OF_COURSE = "serverFilesCourse/attention"
MOST_SECONDS = 600
"""The time after which PrairieLearn ends any external grader."""


def pack(layout: Layout, lesson: str, target: Path) -> Path:
    """Write the folders `image`, to build the grader's image from, and `course`, for the course's repository."""
    files = {f"image/{name}": data for name, data in package_files(layout, lesson, seed=False).items()}
    files["image/setup.sh"] = template("setup.sh")
    files["image/Dockerfile"] = template("Dockerfile")
    files["image/run.sh"] = template("run_prairielearn.sh")
    question = f"course/questions/{lesson}"
    files[f"{question}/info.json"] = json.dumps(_question(lesson), indent=2).encode()
    files[f"{question}/question.html"] = template("question.html", LESSON=lesson)
    files[f"course/{OF_COURSE}/seed"] = f"{course_seed(layout.course)}\n".encode()
    return write_folder(target, files, ("image/setup.sh", "image/run.sh"))


def _question(lesson: str) -> dict[str, Any]:
    return {
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"attention-from-scratch/{lesson}")),
        "title": lesson[3:].replace("_", " ").capitalize(),
        "topic": "Attention",
        "type": "v3",
        "singleVariant": True,
        "gradingMethod": "External",
        "externalGradingOptions": {
            "enabled": True,
            "image": IMAGE,
            "entrypoint": "/opt/grader/run.sh",
            "serverFilesCourse": ["attention/"],
            "timeout": MOST_SECONDS,
        },
    }


def results(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict in PrairieLearn's format.

    It shows a message as fixed text, in which markup would be escaped: the small example is a table of columns.
    """
    if verdict["problem"] is not None:
        return {"gradable": False, "format_errors": [f"Not graded: {verdict['problem']}."]}
    tests = [
        {
            "name": report["exercise"],
            "points": report["points"],
            "max_points": report["max_points"],
            "message": report["message"],
        }
        for report in verdict["tests"].values()
    ]
    share = verdict["points"] / verdict["max_points"] if verdict["max_points"] else 0.0
    return {"gradable": True, "score": share, "message": "\n".join(verdict["remarks"]), "tests": tests}


def run(submission: Path, target: Path) -> None:
    """Grade what is in `submission`, and write the results."""
    seed = seed_in(submission.parent / OF_COURSE)
    publish(target, results(verdict_on(submission, seed)))
