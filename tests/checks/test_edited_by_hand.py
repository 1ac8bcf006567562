"""The learner's package after other programs, and a full disk: nothing is lost, and no check is stopped by it."""

import codecs
import importlib
from pathlib import Path

import pytest
from test_own_code import IMPORTS, OTHER, SCORES, SOFTMAX, another, notebook, own  # noqa: F401

from attnlib.checks import check, exercises, keep, yours_or_ours
from attnlib.checks.standing import own_code


def test_a_file_in_another_encoding_stops_nobody_and_stays(own, notebook, monkeypatch, capsys):  # noqa: F811
    """An old editor on Windows saves so."""
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    file = own / "lesson_02.py"
    file.write_bytes(before := file.read_text().replace("# mine", "# für mich").encode("cp1252"))
    capsys.readouterr()
    later = another(monkeypatch)
    assert yours_or_ours("attention_scores", later.user_ns) is exercises()["attention_scores"].reference
    assert f"{file} cannot be used (UnicodeDecodeError: " in capsys.readouterr().out
    check("attention_scores", later.run(IMPORTS, OTHER)["attention_scores"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not kept: {file} cannot be read (it isn't Python in UTF-8)." in said
    assert file.read_bytes() == before


def test_a_mark_at_the_beginning_is_no_edit(own, notebook, monkeypatch, capsys):  # noqa: F811
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    file = own / "lesson_02.py"
    file.write_bytes(codecs.BOM_UTF8 + file.read_bytes())
    capsys.readouterr()
    yours_or_ours("attention_scores", another(monkeypatch).user_ns)
    assert "Your own attention_scores is used here" in capsys.readouterr().out


def test_a_lesson_that_is_no_python_keeps_no_other_out(own, notebook, capsys):  # noqa: F811
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    (own / "lesson_02.py").write_text("def not yet")
    capsys.readouterr()
    check("softmax", notebook.run(SOFTMAX)["softmax"])
    check("pairwise_dot", notebook.run("def pairwise_dot(x, y):\n    return x @ y.mT")["pairwise_dot"])
    assert f"Kept in {own / 'lesson_00.py'}." in capsys.readouterr().out
    assert importlib.import_module("my_attention").pairwise_dot


@pytest.mark.parametrize("place", ["my_attention", ".as_written"])
def test_a_disk_that_is_full_half_way_leaves_no_edit(own, notebook, monkeypatch, capsys, place):  # noqa: F811
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    write, before = Path.write_text, (own / "lesson_02.py").read_text()

    def full(path: Path, *what: str, **how: str) -> int:
        if path.parent.name == place:
            raise OSError(28, "No space left on device")
        return write(path, *what, **how)

    monkeypatch.setattr(Path, "write_text", full)
    scores = notebook.run(OTHER)["attention_scores"]
    check("attention_scores", scores)
    assert "cannot be written (No space" in " ".join(capsys.readouterr().out.split())
    assert own_code.read_own(own / "lesson_02.py") == (before, before)
    monkeypatch.setattr(Path, "write_text", write)
    check("attention_scores", scores)
    assert f"Kept in {own / 'lesson_02.py'}." in capsys.readouterr().out


def test_a_file_that_another_program_has_open_is_no_edit(own, notebook, monkeypatch, capsys):  # noqa: F811
    """Windows replaces no such file."""
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    file, replace = own / "lesson_02.py", Path.replace
    before = file.read_text()

    def busy(path: Path, target: Path) -> Path:
        if target == file:
            raise PermissionError(13, "Permission denied")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", busy)
    scores = notebook.run(OTHER)["attention_scores"]
    check("attention_scores", scores)
    assert "cannot be written (Permission" in " ".join(capsys.readouterr().out.split())
    assert own_code.read_own(file) == (before, before)
    monkeypatch.setattr(Path, "replace", replace)
    check("attention_scores", scores)
    assert f"Kept in {file}." in capsys.readouterr().out


@pytest.mark.parametrize("line", ["import os; EPS = 1e-6", "import os  # mine", "from __future__ import annotations"])
def test_keep_leaves_what_stands_beside_an_import(own, notebook, line):  # noqa: F811
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    file = own / "lesson_02.py"
    file.write_text(file.read_text().replace("from einops", f"{line}\nfrom einops"))
    names = notebook.run("import math", OTHER.replace("** 0.5", "** math.log10(10**0.5)"))
    keep("attention_scores", names["attention_scores"])
    compile(file.read_text(), file, "exec")
    assert line in file.read_text()
    assert "import math" in file.read_text()
