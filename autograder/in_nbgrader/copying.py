"""Copy a student's files to where others see them: beside the graded notebook, and beside the feedback."""

from pathlib import Path, PurePosixPath

from autograder.judging.intake.folder import TIMESTAMP, collect
from autograder.judging.intake.timestamp import told_time

# The formgrader serves these files from its own origin, with the instructor's session: none of them may be a page, a
# script or a drawing that runs scripts. And none may run code when it is opened, as a pickle does. What an answer needs
# while it is judged is taken from the submission itself, whatever its ending.
DATA = (".csv", ".dat", ".json", ".npy", ".npz", ".toml", ".tsv", ".yaml", ".yml")
TEXT = (".log", ".md", ".py", ".txt")
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")
COPIED = frozenset({*DATA, *TEXT, *PICTURES})


def copy_listed(source: Path, target: Path, lesson: str) -> None:
    """Copy the regular files with one of these endings, and the time that a timestamp.txt names if it is one."""
    target.mkdir(parents=True, exist_ok=True)
    for name, data in collect(source, lesson).files.items():
        if PurePosixPath(name).suffix.lower() in COPIED:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(data)
    told, _ = told_time(source)
    (target / TIMESTAMP).unlink(missing_ok=True)
    if told is not None:
        (target / TIMESTAMP).write_text(f"{told.isoformat(' ')} UTC", encoding="ascii")
