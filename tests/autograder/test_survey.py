"""Everything in a folder of submissions is a submission, or gets a line that says why it is none."""

import os

from autograder.judging.intake.survey import survey


def test_nothing_is_passed_over(tmp_path):
    for name in ("a/01_x", "a/.ipynb_checkpoints", "a/.01_x", ".hidden/01_x", "flat", "many", "empty", ".git"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "flat/01_x.ipynb",
        "flat/notes.txt",
        "flat/._notes.txt",
        "flat/.02_y.ipynb",
        "alone.ipynb",
        ".DS_Store",
    ):
        (tmp_path / name).touch()
    for number in range(1200):
        (tmp_path / "many" / f"{number}").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "02_y").symlink_to("01_x")
    (tmp_path / "a" / "03_z").symlink_to("nowhere")
    (tmp_path / "a" / "04_itself").symlink_to("04_itself")
    submissions, strays = survey(tmp_path)
    assert submissions == [("a", "01_x"), ("a", "02_y"), ("a", "03_z"), ("a", "04_itself")]
    assert [(one.student, one.why.split(":")[0]) for one in strays] == [
        (".hidden", "a student's name must not begin with a dot"),
        ("a", ".01_x"),
        ("alone.ipynb", "it is no student's folder"),
        ("empty", "the folder is empty"),
        ("flat", ".02_y.ipynb is in no lesson's folder"),
        ("flat", "01_x.ipynb is in no lesson's folder"),
        ("flat", "not in any lesson's folder"),
        ("linked", "it is a link, and no folder of its own"),
        ("many", "the folder holds more than 500 files and folders"),
    ]


def test_a_folder_that_cannot_be_read_gets_a_line(tmp_path, monkeypatch):
    (tmp_path / "closed" / "01_x").mkdir(parents=True)

    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refused)
    submissions, strays = survey(tmp_path)
    assert submissions == []
    assert [one.why for one in strays] == ["the folder cannot be read: Permission denied"]
