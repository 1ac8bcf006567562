"""Stock nbgrader in a course folder of its own, to be measured beside ours."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

from autograder.lesson_text.layout import ROOT, Layout
from autograder.lesson_text.notebook import write_notebook


class Stock:
    """A course of stock nbgrader with one lesson; its kernels run the same hidden checks."""

    def __init__(self, layout: Layout, lesson: str, folder: Path) -> None:
        self.folder, self.lesson = folder, lesson
        shutil.copytree(layout.course / "source", folder / "source")
        self.run("generate_assignment")

    def hand_in(self, notebooks: Iterable[tuple[str, NotebookNode]]) -> None:
        """Lay each student's notebook where `nbgrader collect` would."""
        for student, notebook in notebooks:
            write_notebook(notebook, self.folder / "submitted" / student / self.lesson / f"{self.lesson}.ipynb")

    def begin(self, command: str) -> "subprocess.Popen[bytes]":
        """Start one of nbgrader's commands for the lesson."""
        options = [f"--CourseDirectory.root={self.folder}", "--CourseDirectory.course_id=stock"]
        return subprocess.Popen(
            [sys.executable, "-m", "nbgrader", command, self.lesson, *options],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def run(self, *commands: str) -> None:
        """Run commands one after another; it is no error here that a submission fails, it leaves no score."""
        for command in commands:
            self.begin(command).wait()
