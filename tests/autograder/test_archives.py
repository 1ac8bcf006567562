"""Archives that students made, in a folder and in a platform's download: each costs what its size allows, no more."""

import bz2
import gzip
import io
import resource
import stat
import struct
import sys
import tarfile
import threading
import time
import tracemalloc
import zipfile

import pytest
from tiny_course import TINY

from autograder.in_nbgrader.unpacking import ExtractWithinBounds
from autograder.judging.budget import OutOfTime, Passing
from autograder.judging.intake import archives, bounded
from autograder.judging.intake.archives import Room, Unfit, zip_members
from autograder.judging.intake.custody import take_in
from autograder.showing.errors import NotGraded

SECRET = "what nobody else may read"
NOTEBOOK = b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


def zipped(files, method=zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def shared_body(members: int, body: bytes) -> bytes:
    """A zip file whose members all name one body."""
    with zipfile.ZipFile(io.BytesIO(zipped({"0.ipynb": body}))) as archive:
        (entry,) = archive.infolist()
        end = archive.start_dir
    local = zipped({"0.ipynb": body})[:end]
    central = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 8, 0, 0, entry.CRC, entry.compress_size,
                          entry.file_size, 7, 0, 0, 0, 0, 0, 0) + b"0.ipynb"  # fmt: skip
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, members, members, members * len(central), end, 0)
    return local + members * central + last


def peak(action) -> int:
    """The most bytes that Python held at a time."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_kilobyte_that_would_be_gigabytes_is_never_begun(method):
    bomb = zipped({"a.ipynb": bytes(64 << 20)}, method)
    assert len(bomb) < 20_000

    def take() -> None:
        with pytest.raises(NotGraded, match=r"holds a notebook of 64 MB"):
            take_in({"x.zip": bomb}, TINY)

    assert peak(take) < 4 << 20
    (member,) = zip_members(io.BytesIO(bomb))
    assert member.why_not == "it is compressed by another method than deflate"


def test_a_member_of_another_method_that_names_a_small_size_is_not_read(monkeypatch):
    data = zipped({"a.ipynb": NOTEBOOK}, zipfile.ZIP_BZIP2)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("read"))
    with pytest.raises(NotGraded, match=r"a\.ipynb: it is compressed by another method"):
        take_in({"x.zip": data}, TINY)


def test_members_that_share_their_bytes_are_refused_whatever_they_hold():
    bomb = shared_body(2000, NOTEBOOK)
    with zipfile.ZipFile(io.BytesIO(bomb)) as archive:
        assert len(archive.infolist()) == 2000
    with pytest.raises(Unfit, match="share their bytes"):
        zip_members(io.BytesIO(bomb))
    with pytest.raises(NotGraded, match=r"x\.zip cannot be opened: some of its files share their bytes"):
        take_in({"x.zip": bomb}, TINY)
    assert [member.read() for member in zip_members(io.BytesIO(shared_body(1, NOTEBOOK)))] == [NOTEBOOK]


def test_a_list_of_a_million_members_is_not_read():
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 46 << 20, 0, 0)
    many = io.BytesIO((b"PK\1\2" + bytes(42)) * (1 << 20) + last)

    def take() -> None:
        with pytest.raises(Unfit, match="more than 20000 files"):
            zip_members(many)

    assert peak(take) < 8 << 20


def test_more_members_than_may_be_listed_are_not_opened(monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    assert len(zip_members(io.BytesIO(zipped({"1": b"", "2": archives.ENTRY * 9, "3": b""}, zipfile.ZIP_STORED)))) == 3
    with pytest.raises(Unfit, match="more than"):
        zip_members(io.BytesIO(zipped({"1": b"", "2": b"", "3": b"", "4": b""})))


def test_a_size_that_is_not_true_is_found_out():
    data = bytearray(zipped({"a.ipynb": NOTEBOOK}))
    place = data.index(archives.ENTRY) + 24
    data[place : place + 4] = struct.pack("<L", 5)
    (member,) = zip_members(io.BytesIO(bytes(data)))
    with pytest.raises(Unfit, match="Bad CRC"):
        member.read()


def test_what_is_shared_is_shared_equally_and_handed_on():
    room, taken = Room(90, 9), []
    for number, wanted in enumerate((10, 50, 1000)):
        part = room.share(3 - number)
        taken.append(min(wanted, part.bytes))
        part.takes(taken[-1])
        room.give_back(part)
    assert taken == [10, 40, 40]
    assert (room.bytes, room.files) == (0, 6)


@pytest.fixture
def unpacked(tmp_path, caplog):
    """What `zip_collect` unpacks of a folder of downloads with small bounds, and what it says it does not."""
    (tmp_path / "archive").mkdir()

    def extract(most_bytes=3 << 20):
        plugin = ExtractWithinBounds(most_bytes=most_bytes, most_files=20)
        plugin.extract(str(tmp_path / "archive"), str(tmp_path / "extracted"))
        files = {str(p.relative_to(tmp_path / "extracted")) for p in (tmp_path / "extracted").rglob("*") if p.is_file()}
        return files, [line.removeprefix("Not unpacked: ").removeprefix(f"{tmp_path}/") for line in caplog.messages]

    return extract


def test_links_among_downloads_are_named_and_not_followed(tmp_path, unpacked):
    (tmp_path / "secret.txt").write_text(SECRET, encoding="utf-8")
    (tmp_path / "archive" / f"a_{TINY}.ipynb").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "archive" / "folder").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "archive" / f"b_{TINY}.ipynb").write_text("b's", encoding="utf-8")
    files, said = unpacked()
    assert files == {f"b_{TINY}.ipynb"}
    assert [line.split(": ")[1] for line in said] == ["it is a link, and no file of its own"] * 2


def test_one_student_keeps_no_other_s_files_out_of_a_platform_s_archive(tmp_path, unpacked):
    """Bombs of every kind, a file of 40 MB and 30 small ones, beside two students who did as they were told."""
    inner = zipped({"x.ipynb": b"deep", "y.ipynb": bytes(9 << 20)})
    files = {
        "ann.ipynb": NOTEBOOK,
        "bob.zip": zipped({f"{TINY}.ipynb": NOTEBOOK, "data.csv": b"1,2"}),
        "eve_1.zip": zipped({"0.ipynb": bytes(64 << 20)}),
        "eve_2.zip": zipped({f"{number}.ipynb": bytes(2 << 20) for number in range(9)}),
        "eve_3.zip": shared_body(2000, NOTEBOOK),
        "eve_4.zip": zipped({"0.ipynb": bytes(64 << 20)}, zipfile.ZIP_BZIP2),
        "eve_5.zip": zipped({"again.zip": inner, "again/x.ipynb/y": b"in the way"}),
        "eve_6.zip": b"no zip file",
        "eve.ipynb": bytes(40 << 20),
    }
    (tmp_path / "archive" / "class.zip").write_bytes(zipped(files))
    found, said = unpacked()
    assert {"class/ann.ipynb", f"class/bob/{TINY}.ipynb", "class/bob/data.csv"} <= found
    assert (tmp_path / "extracted" / "class" / "bob" / f"{TINY}.ipynb").read_bytes() == NOTEBOOK
    assert "class/eve.ipynb" not in found
    assert sum(path.stat().st_size for path in (tmp_path / "extracted").rglob("*") if path.is_file()) <= 3 << 20
    assert len(found) <= 20
    for part in ("class.zip: 'eve.ipynb': it has 40 MB", "eve_1.zip: '0.ipynb': it has 64 MB", "eve_6.zip: "):
        assert any(part in line for line in said), part
    for part in ("eve_2.zip: '8.ipynb': there is no room for it", "eve_3.zip: some of its files share their bytes"):
        assert any(part in line for line in said), part


def test_archives_are_unpacked_within_bounds_and_one_after_the_other(tmp_path, unpacked):
    downloads = tmp_path / "archive"
    inner = zipped({"x.ipynb": "inner"})
    (downloads / "a.zip").write_bytes(
        zipped({"x.ipynb": "a", "sub/data.csv": "1", "inner.zip": inner, "../out.txt": "out"})
    )
    (downloads / "many.zip").write_bytes(zipped({f"{number}": "" for number in range(60)}))
    (downloads / "cut.zip").write_bytes(inner[:-30])
    (downloads / "words.gz").write_bytes(gzip.compress(b"no tar file"))
    (downloads / "gzip_bomb.gz").write_bytes(gzip.compress(bytes(64 << 20)))
    (tmp_path / "inner.zip").write_bytes(inner)
    with tarfile.open(downloads / "t.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "inner.zip", "x.ipynb")
        archive.addfile(tarfile.TarInfo("link"))
        link = tarfile.TarInfo("passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with zipfile.ZipFile(downloads / "l.zip", "w") as archive:
        entry = zipfile.ZipInfo("passwd.ipynb")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    with tarfile.open(downloads / "headers.tar.gz", "w:gz", pax_headers={"x": "y" * (8 << 20)}) as archive:
        archive.add(tmp_path / "inner.zip", "x.ipynb")
    files, said = unpacked()
    assert {file for file in files if not file.startswith("many")} == {
        *("a/x.ipynb", "a/sub/data.csv", "a/inner.zip", "a/inner/x.ipynb", "t/x.ipynb", "t/link")
    }
    assert len([file for file in files if file.startswith("many")]) == 20
    assert len([line for line in said if "many.zip" in line]) == 21
    assert "archive/many.zip: 20 more of its files" in said
    reasons = dict(line.removeprefix("archive/").split(": ", 1) for line in said if "many" not in line)
    assert reasons.pop("a.zip") == "'../out.txt': its name leads out of it or cannot be written"
    assert reasons.pop("t.tar.gz") == "'passwd': it is a link, or no regular file"
    assert reasons.pop("l.zip") == "'passwd.ipynb': it is a link, or no regular file"
    for name in ("gzip_bomb.gz", "headers.tar.gz"):
        assert reasons.pop(name) == "it holds more than 3 MB", name
    assert set(reasons) == {"cut.zip", "words.gz"}


def test_a_file_compressed_in_another_way_is_named(tmp_path, unpacked, monkeypatch):
    (tmp_path / "archive" / "t.bz2").write_bytes(bz2.compress(bytes(64 << 20)))
    monkeypatch.setattr(ExtractWithinBounds, "zip_ext", [".bz2"])
    assert unpacked() == (
        set(),
        ["archive/t.bz2: it is neither a zip file nor a tar file, plain or compressed by gzip"],
    )


def test_what_takes_too_long_is_interrupted_and_tried_again_in_the_next_run():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(OutOfTime, match=r"could not be read within 0\.05 seconds"), bounded.bounded(0.05):
        time.sleep(60)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.skipif(not bounded.STATE.is_file(), reason="there is no /proc here")
def test_what_takes_too_much_memory_is_the_submission_s_reason_and_no_fault(monkeypatch):
    monkeypatch.setattr(bounded, "MEMORY_BYTES", 1 << 30)
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(Passing, match="could not be read in 1 GB of memory"), bounded.bounded():
        bytes(8 << 30)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert len(bytes(2 << 30)) == 2 << 30


def test_in_another_thread_there_is_no_alarm_and_all_else_holds():
    found: list[object] = []

    def work() -> None:
        with bounded.bounded(0.01):
            time.sleep(0.1)
            found.append(take_in({f"{TINY}.ipynb": NOTEBOOK}, TINY).notebook.cells)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[]]
    assert sys.getsizeof(found) > 0
