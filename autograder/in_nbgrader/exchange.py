"""nbgrader's exchange: a folder in which students write, and from which the instructor copies."""

import glob
import os
import shutil
import stat
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback
from nbgrader.plugins import ExtractorPlugin

from autograder.judging.intake.folder import MOST_BYTES, MOST_DEPTH, MOST_ENTRIES
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

NEVER = datetime.min


class CollectWithoutLinks(ExchangeCollect):
    """Collects regular files alone; one submission that cannot be collected keeps no other from being collected."""

    src_records: list[dict[str, Any]]

    def init_src(self) -> None:
        super().init_src()
        found = self.src_records
        self.src_records = [r for r in found if r["timestamp"] != NEVER and not r["username"].startswith(".")]
        for record in found:
            if record not in self.src_records:
                self.log.error("No submission, and not collected: %s", printable(record["filename"]))

    def _path_to_record(self, path: str) -> dict[str, Any]:
        try:
            return super()._path_to_record(path)
        except Exception:  # a folder of any name can be made there
            name = os.path.basename(path)
            return {"username": name, "filename": name, "timestamp": NEVER}

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        try:
            with tempfile.TemporaryDirectory() as own:
                for name in copy_regular_files(Path(src), Path(own, "copy"), 1000 * self.coursedir.max_dir_size):
                    self.log.warning("Not collected, since it is no regular file or too large: %s", printable(name))
                super().do_copy(str(Path(own, "copy")), dest)
        except (OSError, RuntimeError, CourseError) as error:
            shutil.rmtree(dest, ignore_errors=True)
            self.log.error("Not collected: %s: %s", printable(src), printable(error))


class ReleaseOneByOne(ExchangeReleaseFeedback):
    """Releases each student's feedback by itself: where a file is missing, the others still get theirs."""

    src_path: str

    def copy_files(self) -> None:
        failed = []
        for folder in sorted(glob.glob(self.src_path)):
            self.src_path = glob.escape(folder)
            try:
                super().copy_files()
            except (OSError, ValueError) as error:
                failed.append(printable(folder))
                self.log.error("No feedback was released from %s: %s", failed[-1], printable(error))
        if failed:
            self.fail(f"No feedback was released from {', '.join(failed)}")


class ExtractWithoutLinks(ExtractorPlugin):
    """For `zip_collect`, which would copy what a link among the downloads leads to; archives are unpacked without."""

    def extract(self, archive_path: str, extracted_path: str) -> None:
        for folder, folders, files in os.walk(archive_path):
            for path in (Path(folder, name) for name in (*folders, *files)):
                if path.is_symlink():
                    raise CourseError(f"{printable(path)} is a link, and no file of its own")
        super().extract(archive_path, extracted_path)


def copy_regular_files(source: Path, target: Path, most: int) -> list[str]:
    """Copy a folder that its owner may change meanwhile; returns the names of what was left out."""
    if source.is_symlink():
        raise CourseError("it is a link, and no folder of its own")
    left_out: list[str] = []
    size = number = 0
    for place, folders, names, descriptor in os.fwalk(source, follow_symlinks=False):
        inner = Path(place).relative_to(source)
        (target / inner).mkdir(parents=True)
        for name in names:
            number += 1
            data = _bytes(name, descriptor)
            if data is None:
                left_out.append(str(inner / name))
                continue
            size += len(data)
            if size > most or number > MOST_ENTRIES:
                raise CourseError("it is too large, or holds too many files")
            (target / inner / name).write_bytes(data)
        if len(inner.parts) >= MOST_DEPTH:
            left_out += [str(inner / name) for name in folders]
            folders.clear()
    return left_out


def _bytes(name: str, folder: int) -> bytes | None:
    """The file's bytes, if it is a regular file that is not too large; a pipe is not waited for."""
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    with open(opened, "rb") as file:
        data = file.read(MOST_BYTES + 1) if stat.S_ISREG(os.fstat(opened).st_mode) else None
    return data if data is not None and len(data) <= MOST_BYTES else None
