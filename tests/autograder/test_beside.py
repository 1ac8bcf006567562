"""The files beside a notebook: which are taken along, and what is read in them."""

import io
import json
import zipfile

import pytest
from tiny_course import RIGHT

from autograder.grading.entering import digest_of
from autograder.judging.intake import custody
from autograder.judging.intake.custody import take_in
from autograder.sandbox.inside.beside import modules_in, put_beside
from autograder.sandbox.inside.cells import parse
from autograder.sandbox.inside.needed import definitions

LESSON = "00_tiny"
NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def zipped(files) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def test_files_are_named_from_where_the_notebook_is():
    files = {"helper.py": b"a", "home/x.ipynb": NOTEBOOK, "home/helper.py": b"b", "home/data/one.csv": b"c"}
    assert take_in(files, LESSON).beside == {"helper.py": b"b", "data/one.csv": b"c"}
    files = {f"{LESSON}.ipynb": NOTEBOOK, "helper.py": b"a", "timestamp.txt": b"b", "other.ipynb": NOTEBOOK}
    assert take_in(files, LESSON).beside == {"helper.py": b"a"}
    files = {"all.zip": zipped({"home/x.ipynb": NOTEBOOK, "home/helper.py": b"b", "c.py": b"c", "__MACOSX/._x": b""})}
    assert take_in(files, LESSON).beside == {"helper.py": b"b"}


def test_names_that_lead_out_or_into_a_file_are_left_out():
    names = {"../out.py": b"", "/etc/out": b"", "a//b": b"", "bell\x07": b"", "a": b"", "a/b": b"", "back\\slash": b""}
    taken = take_in({"all.zip": zipped({"x.ipynb": NOTEBOOK, **names})}, LESSON)
    assert taken.beside == {"a": b""}
    assert "6 files beside the notebook were left out" in taken.remarks[-1]


def test_their_number_and_size_are_bounded():
    many = {f"{number:04}.txt": b"x" for number in range(1000)}
    assert len(take_in({f"{LESSON}.ipynb": NOTEBOOK, **many}, LESSON).beside) == custody.MOST_BESIDE
    large = {f"{number}.bin": bytes(6 << 20) for number in range(8)}
    for files in ({f"{LESSON}.ipynb": NOTEBOOK, **large}, {"all.zip": zipped({"x.ipynb": NOTEBOOK, **large})}):
        found = take_in(files, LESSON).beside
        assert 0 < sum(map(len, found.values())) <= custody.MOST_BYTES_BESIDE_IN_ALL


def test_a_zip_bomb_beside_the_notebook_is_not_unpacked_to_its_end(monkeypatch):
    bomb = zipped({"x.ipynb": NOTEBOOK, **{f"{number}.bin": bytes(8 << 20) for number in range(40)}})
    read = 0
    inner = zipfile.ZipExtFile.read

    def counted(self, *arguments):
        nonlocal read
        data = inner(self, *arguments)
        read += len(data)
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    take_in({"all.zip": bomb}, LESSON)
    assert read < 32 << 20


def test_a_changed_helper_is_judged_again():
    files = {f"{LESSON}.ipynb": NOTEBOOK, "helper.py": b"one"}
    assert digest_of(files, "") != digest_of({**files, "helper.py": b"two"}, "")


def test_a_changed_file_is_noticed_whatever_its_name(klass, run):
    seen: list[str] = []
    folder = klass.submit("a", RIGHT).parent
    for name in ("timestamp", "remarks"):
        for text in ("one", "two", "two"):
            (folder / name).write_text(text, encoding="utf-8")
            seen += run()
    assert len(seen) == 4


def test_they_are_written_into_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put_beside({"a.txt": b"1", "parts/deep/b.py": b"2"})
    assert (tmp_path / "parts" / "deep" / "b.py").read_bytes() == b"2"


def test_what_is_forbidden_is_looked_for_in_a_helper_as_in_a_cell():
    modules = modules_in({"parts/helper.py": b"import torch\n\ndef softmax(x):\n    return torch.softmax(x, -1)\n"})
    for source in (
        "from parts.helper import softmax",
        "import parts.helper as h\n\ndef softmax(x): return h.softmax(x)",
    ):
        units, _ = parse([{"name": "softmax", "source": source, "role": "answer"}], "softmax")
        assert "torch.softmax" in definitions(units, "softmax", modules)


@pytest.mark.parametrize("compared", ["theirs = {}", "off = softmax(x) - {}", "with torch.no_grad():\n    b = {}"])
def test_what_an_answer_is_compared_with_in_its_cell_is_no_part_of_it(compared):
    answer = "import torch\nimport torch.nn.functional as F\n\ndef softmax(x):\n    return F.relu(torch.exp(x))\n\n"
    source = answer + "x = torch.ones(2)\n" + compared.format("F.softmax(x, dim=-1)")
    units, _ = parse([{"name": "softmax", "source": source, "role": "answer"}], "softmax")
    found = definitions(units, "softmax", {})
    assert "F.relu" in found
    assert "F.softmax" not in found
