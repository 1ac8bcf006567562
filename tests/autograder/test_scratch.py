"""What a child writes is counted while it lives, and gone afterwards, however deep it is and however locked."""

import os
import subprocess
import sys
import time

import pytest
from deep_folders import nest, remove

from autograder.sandbox import folder as removing
from autograder.sandbox.folder import Folder, remove_leftovers
from autograder.sandbox.inside import scratch, zygote
from autograder.sandbox.inside.scratch import MOST_DEPTH, MOST_FILES, clear, look_into
from autograder.sandbox.layers import SCRATCH_BYTES, Layers
from autograder.sandbox.probe import NOTHING, probe
from autograder.sandbox.process import Sandbox
from autograder.showing.errors import CourseError

pytestmark = pytest.mark.slow

DEEP = 3000  # a path so long is none that the kernel takes, and none that a recursion reaches
AS_AN_ORDINARY_OWNER = """
import os, sys
from attnlib.checks.asking import confine
from autograder.sandbox.inside import scratch

confine.drop_capabilities()  # root could look into everything
os.chdir(sys.argv[1])
os.mkdir("locked", 0o300)
open("locked/file", "w").close()
os.mkdir("locked/inner", 0)
os.mkdir("read-only")
open("read-only/file", "w").close()
os.chmod("read-only", 0o500)
print(scratch.look_into(".").odd)
scratch.clear(".")
print(os.listdir("."))
"""


def test_folders_nested_deeper_than_a_path_can_say_are_removed(tmp_path):
    nest(tmp_path, DEEP)
    clear(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_locked_folders_are_noticed_and_removed(tmp_path):
    command = [sys.executable, "-c", AS_AN_ORDINARY_OWNER, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert said.stdout.splitlines() == ["made a folder that nobody can look into", "[]"]


def test_what_links_lead_to_stays(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (outside / "kept").touch()
    inside.mkdir()
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "kept")
    assert look_into(str(inside)).files == 2
    clear(str(inside))
    assert os.listdir(outside) == ["kept"]


def test_files_and_their_bytes_are_counted_in_all_folders(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(bytes(1 << 20))
    found = look_into(str(tmp_path))
    assert (found.files, found.odd) == (2, "")
    assert found.bytes >= 1 << 20


def test_counting_ends_soon_after_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MOST_FILES", 50)
    for number in range(200):
        (tmp_path / str(number)).mkdir()
    assert look_into(str(tmp_path)).files == 51


def test_folders_nested_too_deep_are_noticed_without_looking_further(tmp_path):
    nest(tmp_path, DEEP)
    found = look_into(str(tmp_path))
    remove(tmp_path / "deeper")
    assert found.odd == f"nested more than {MOST_DEPTH} folders"
    assert found.files == MOST_DEPTH + 1


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A system's folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(removing, "NEW_SECONDS", 0.0)
    return tmp_path


def test_what_a_killed_grader_has_left_is_removed_by_the_next(temporary):
    left = temporary / "autograder-left"
    left.mkdir()
    nest(left, DEEP)
    folder = Folder()
    assert os.listdir(temporary) == [os.path.basename(folder.name)]
    folder.remove()
    assert os.listdir(temporary) == []


def test_a_folder_of_a_grader_that_lives_stays(temporary):
    folder = Folder()
    remove_leftovers()
    assert os.path.isdir(folder.name)
    folder.remove()


def test_what_cannot_be_removed_stops_nobody(temporary, monkeypatch):
    (temporary / "autograder-left").mkdir()

    def cannot(top):
        raise PermissionError(top)

    monkeypatch.setattr(removing, "clear", cannot)
    folder = Folder()
    folder.remove()
    assert (temporary / "autograder-left").is_dir()
    assert os.path.isdir(folder.name)


def test_a_process_that_cannot_be_killed_is_not_waited_for(tmp_path, monkeypatch):
    """Which no test can make: here the signal is not sent."""
    warm = zygote.Zygote(None, {"scratch": str(tmp_path)}, None)
    child = subprocess.Popen(["sleep", "100"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", lambda *_: None)
        found = warm._end(pid=child.pid, patience=0.0, kill=0.1)
    child.kill()
    child.wait()
    assert found["left"] == "a process that cannot be killed"


LEAVES_A_PROCESS = """
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
"""


def test_a_process_that_a_child_leaves_running_costs_the_warm_process():
    """Without seccomp, which would have let it make none."""
    usual = probe()
    if usual.outer != "bubblewrap":
        pytest.skip("NOT TESTED: there is no bubblewrap on this machine")
    with Sandbox(Layers("bubblewrap", seccomp=False, landlock=usual.landlock)) as sandbox:
        child = sandbox.fork()
        cells = [{"name": "a", "source": LEAVES_A_PROCESS, "role": "answer"}]
        child.ask({**NOTHING, "cells": cells, "wanted": "a"})
        child.listen()
        assert sandbox.template.process is not None
        child.close()
        assert sandbox.template.process is None
        sandbox.fork().close()
        assert sandbox.template.process is not None


@pytest.mark.parametrize("choice", ["bubblewrap", "landlock"])
def test_a_child_writes_to_a_file_system_of_64_mb(choice):
    """The kernel says that it is full; without one, what a child has written is counted between its answers."""
    try:
        layers = probe(choice)
    except CourseError as error:
        pytest.skip(f"NOT TESTED: there is no sandbox ({choice}) on this machine. {error}")
    with Sandbox(layers) as sandbox:
        child = sandbox.fork()
        child.ask({**NOTHING, "expression": "str((s := __import__('os').statvfs('.')).f_blocks * s.f_frsize)"})
        found = int(child.listen()["value"]["text"])
        child.close()
    if choice == "landlock" and found != SCRATCH_BYTES and os.geteuid() != 0:
        pytest.skip("NOT TESTED: here, only root can make a file system behind Landlock alone")
    assert found == SCRATCH_BYTES


@pytest.mark.parametrize("choice", ["auto", "landlock"])
def test_a_child_that_answers_at_once_is_looked_at_too(choice, monkeypatch):
    """Each answer comes before the next look; all together they make far too many files, in memory: disks are slow."""
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    from autograder.sandbox.template import Died
    from autograder.sandbox.views import view

    source = f"made = 0\ndef f(x, y):\n    global made\n    for _ in range({MOST_FILES} // 20):\n"
    source += "        made += 1\n        open(str(made), 'w').close()\n    return x"
    cells = [{"name": "a", "source": source, "role": "answer"}]
    task = {**NOTHING, "cells": cells, "wanted": "a", "expression": "f", "kind": "function"}
    with Sandbox(probe(choice)) as sandbox:
        child = sandbox.fork()
        child.ask({**task, "library": view()})
        child.listen()
        with pytest.raises(Died, match=f"made more than {MOST_FILES} files"):  # noqa: PT012
            for _ in range(40):
                child.ask({"do": "call", "inputs": [None, None], "gradient": False})
                time.sleep(0.05)
