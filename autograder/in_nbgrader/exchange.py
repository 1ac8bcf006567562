"""nbgrader's exchange: a folder in which students write, and from which the instructor copies."""

import glob
import os
import pwd
import shutil
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback

from autograder.in_nbgrader.copying import Copy
from autograder.in_nbgrader.handed_in import record_received
from autograder.in_nbgrader.names import fault_of_name
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

NEVER = datetime.min


class CollectWithoutLinks(ExchangeCollect):
    """Collects only regular files; a submission that can't be collected doesn't keep others from being collected.

    nbgrader believes the name that a folder claims, and only warns where it belongs to somebody else. Here a folder is
    the student's own, or the collector's; anybody else's is no submission. Where a service hands in for all students,
    `c.ExchangeCollect.check_owner = False` says that the names are to be believed.
    """

    src_records: list[dict[str, Any]]
    inbound_path: str

    def init_src(self) -> None:
        self.refused: dict[str, str] = {}
        super().init_src()
        self.src_records = [record for record in self.src_records if record["filename"] not in self.refused]
        for name, why in self.refused.items():
            self.log.error("No submission, and not collected: %s: %s", printable(name), printable(why))

    def _path_to_record(self, path: str) -> dict[str, Any]:
        name = Path(path).name
        try:
            record = dict(super()._path_to_record(path))
            why = self._refusal(Path(path), str(record["username"]))
        except Exception:  # anybody can make a folder of any name there
            record, why = {}, "its name is not STUDENT+LESSON+TIME"
        if not why:
            return record
        self.refused[name] = why
        return {"username": name, "filename": name, "timestamp": NEVER}

    def _refusal(self, path: Path, student: str) -> str:
        """Return the reason why it is no submission of the student it is named after; empty if it is one."""
        if not student or student.startswith("."):
            return "it has no student's name"
        if why := fault_of_name(student):
            return why
        if path.is_symlink() or not path.is_dir():
            return "it is a link, or no folder"
        owner = path.lstat().st_uid
        if not self._may_hand_in(owner, student):
            whose = f"{_name_of(owner)}, and neither to {student} nor to you"
            return f"it belongs to {whose} (see ExchangeCollect.check_owner)"
        return ""

    def _may_hand_in(self, owner: int, student: str) -> bool:
        return not self.check_owner or owner == os.getuid() or _name_of(owner) == student

    def copy_files(self) -> None:
        found = self.src_records
        if not found:
            super().copy_files()  # logs that there is nothing
        for record in found:
            self.src_records = [record]
            source = Path(self.inbound_path, record["filename"])
            path = self.coursedir.submitted_directory, record["username"], self.coursedir.assignment_id
            before = Path(self.coursedir.format_path(*path))
            try:
                if before.is_dir() and self.coursedir.get_existing_timestamp(str(before)) != record["timestamp"]:
                    with tempfile.TemporaryDirectory() as own:  # a failed collection must not replace an earlier one
                        self._copy(source, Path(own, "copy"), str(record["username"]))
                super().copy_files()
            except (OSError, RuntimeError, CourseError) as error:
                self.log.error("Not collected: %s: %s", printable(source), printable(error))
        self.src_records = found

    def _copy(self, source: Path, target: Path, student: str) -> Copy:
        return Copy(source, target, 1000 * self.coursedir.max_dir_size, partial(self._may_hand_in, student=student))

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:  # noqa: ARG002  nbgrader names it
        try:
            student = next(str(r["username"]) for r in self.src_records if r["filename"] == Path(src).name)
            with tempfile.TemporaryDirectory() as own:
                copy = self._copy(Path(src), Path(own, "copy"), student)
                for line in copy.left_out:
                    self.log.warning("Not collected: %s", line)
                super().do_copy(str(Path(own, "copy")), dest)
            received = datetime.fromtimestamp(copy.changed, UTC).replace(tzinfo=None)
            record_received(self.coursedir, student, self.coursedir.assignment_id, received)
        except (OSError, RuntimeError, CourseError) as error:
            shutil.rmtree(dest, ignore_errors=True)
            self.log.error("Not collected: %s: %s", printable(src), printable(error))


def _name_of(owner: int) -> str:
    """Return the name of the user with this number."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}, who has no name here"


class ReleaseOneByOne(ExchangeReleaseFeedback):
    """Releases each student's feedback separately: if a file is missing, the others still get theirs."""

    src_path: str

    def copy_files(self) -> None:
        failed = []
        for folder in sorted(glob.glob(self.src_path)):  # noqa: PTH207  from the root on
            self.src_path = glob.escape(folder)
            try:
                super().copy_files()
            except (OSError, ValueError) as error:
                failed.append(printable(folder))
                self.log.error("No feedback was released from %s: %s", failed[-1], printable(error))
        if failed:
            self.fail(f"No feedback was released from {', '.join(failed)}")
