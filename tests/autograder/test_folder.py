"""A folder that a student filled is read within bounds: nothing in it stops, slows or misleads the reading."""

import os
import socket

import pytest
from deep_folders import nest, remove

from autograder.judging.intake import folder as reading
from autograder.judging.intake.folder import collect
from autograder.showing.errors import NotGraded

LESSON = "00_tiny"
NOTEBOOK = f"{LESSON}.ipynb"


@pytest.fixture
def handed_in(tmp_path):
    (tmp_path / NOTEBOOK).write_bytes(b"{}")
    return tmp_path


def remarks(folder) -> str:
    return "; ".join(collect(folder, LESSON).remarks)


def test_files_beside_the_notebook_are_read_by_their_names(handed_in):
    (handed_in / "parts").mkdir()
    (handed_in / "parts" / "helper.py").write_bytes(b"x = 1")
    (handed_in / ".ipynb_checkpoints").mkdir()
    (handed_in / ".ipynb_checkpoints" / "old.ipynb").write_bytes(b"{")
    found = collect(handed_in, LESSON)
    assert found.files == {NOTEBOOK: b"{}", "parts/helper.py": b"x = 1"}
    assert found.remarks == ()


def test_folders_nested_without_end_are_not_followed(handed_in):
    name = "d" * 100
    nest(handed_in, 1500, name)
    found = remarks(handed_in)
    remove(handed_in / name)
    assert found == "left out: folders nested more than 10 deep"


def test_a_thousand_deep_is_listed_ten_times(handed_in, monkeypatch):
    (handed_in / "/".join("d" * 400)).mkdir(parents=True)
    listed = []
    monkeypatch.setattr(os, "scandir", lambda path, scandir=os.scandir: listed.append(path) or scandir(path))
    collect(handed_in, LESSON)
    assert len(listed) == reading.MOST_DEPTH + 1


def test_pipes_sockets_and_links_are_never_opened(handed_in):
    os.mkfifo(handed_in / "pipe.txt")
    (handed_in / "passwords.txt").symlink_to("/etc/passwd")
    (handed_in / "root").symlink_to("/")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(handed_in)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    found = collect(handed_in, LESSON)
    assert list(found.files) == [NOTEBOOK]
    assert "pipe.txt is not a regular file" in " ".join(found.remarks)
    assert "passwords.txt is a link" in " ".join(found.remarks)
    assert "root is a link" in " ".join(found.remarks)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_notebook_that_is_no_file_is_a_reason(tmp_path, make):
    make(tmp_path / NOTEBOOK)
    with pytest.raises(NotGraded, match=r"00_tiny\.ipynb is (not a regular file|a link)"):
        collect(tmp_path, LESSON)


@pytest.mark.slow
def test_of_very_many_files_the_notebook_alone_is_read(handed_in):
    for number in range(reading.MOST_ENTRIES + 100):
        (handed_in / f"{number}").touch()
    assert list(collect(handed_in, LESSON).files) == [NOTEBOOK]
    assert "holds more than 2000 files" in remarks(handed_in)
    (handed_in / NOTEBOOK).unlink()
    with pytest.raises(NotGraded, match=r"more than 2000 files, and none is called 00_tiny\.ipynb"):
        collect(handed_in, LESSON)


def test_a_huge_folder_is_not_listed_to_its_end(handed_in, monkeypatch):
    listed = 0

    class Endless:
        def __enter__(self):
            return self

        def __exit__(self, *exception):
            pass

        def __iter__(self):
            nonlocal listed
            while True:
                listed += 1
                yield next(iter(real))

    real = list(os.scandir(handed_in))
    monkeypatch.setattr(os, "scandir", lambda path: Endless())
    collect(handed_in, LESSON)
    assert listed <= reading.MOST_ENTRIES + 2


def test_a_large_file_is_left_out_with_its_size(handed_in):
    with (handed_in / "data.bin").open("wb") as file:
        file.truncate(300 << 20)  # without any block on the disk
    assert remarks(handed_in) == "left out: data.bin has 300 MB; it may have 8"
    with (handed_in / NOTEBOOK).open("wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(NotGraded, match="has 300 MB; a notebook may have 32"):
        collect(handed_in, LESSON)


def test_a_file_changed_in_no_year_of_any_calendar(handed_in):
    os.utime(handed_in / NOTEBOOK, (2**40, 2**40))
    assert collect(handed_in, LESSON).changed.year > 2400  # the file system may know no later one
