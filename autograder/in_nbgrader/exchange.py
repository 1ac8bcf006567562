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
from autograder.in_nbgrader.course_files import FULL
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
        if not self.src_records:
            super().copy_files()  # logs that there is nothing
        for record in self.src_records:
            source = Path(self.inbound_path, record["filename"])
            path = self.coursedir.submitted_directory, record["username"], self.coursedir.assignment_id
            target = Path(self.coursedir.format_path(*path))
            if self._is_wanted(target, record["timestamp"]):
                self.log.info("Collecting submission: %s", printable(source.name))
                try:
                    self.take(source, target, str(record["username"]))
                except (OSError, RuntimeError, CourseError) as error:
                    self.log.error("Not collected: %s: %s", printable(source), printable(error))
            else:
                self.log.info("There already: %s (use --update for newer ones)", printable(source.name))

    def _is_wanted(self, target: Path, time: datetime) -> bool:
        """True for what nbgrader copies: the first or, by its options, a newer one or the last before the deadline."""
        if not target.is_dir():
            return True
        before = self.coursedir.get_existing_timestamp(str(target))
        return bool(self.update and (before is None or time > before)) or bool(self.before_duedate and before != time)

    def take(self, source: Path, target: Path, student: str) -> None:
        """Copy a submission into the course, and record when it was received.

        What is there stays until the copy is whole. Raises CourseError or RuntimeError for a submission that cannot be
        collected, and OSError where the machine fails, as on a full disk: then the next attempt may go well.
        """
        new = target.with_name(f".{target.name}.new")
        may = partial(self._may_hand_in, student=student)
        try:
            with tempfile.TemporaryDirectory() as own:
                copy = Copy(source, Path(own, "copy"), 1000 * self.coursedir.max_dir_size, may)
                for line in copy.left_out:
                    self.log.warning("Not collected: %s", line)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(new, ignore_errors=True)
                self.do_copy(str(Path(own, "copy")), str(new))
            received = datetime.fromtimestamp(copy.changed, UTC).replace(tzinfo=None)
            record_received(self.coursedir, student, self.coursedir.assignment_id, received, new)
            if target.exists():
                shutil.rmtree(target)
            new.rename(target)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _name_of(owner: int) -> str:
    """Return the name of the user with this number."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}, who has no name here"


class ReleaseOneByOne(ExchangeReleaseFeedback):
    """Releases each student's feedback separately: if a file is missing, the others still get theirs.

    nbgrader names a page in the exchange after a secret that came with the submission. Who handed in elsewhere has
    none, and gets the page from the course's folder.
    """

    src_path: str

    def copy_files(self) -> None:
        failed = []
        for folder in sorted(glob.glob(self.src_path)):  # noqa: PTH207  from the root on
            if not Path(folder, "submission_secret.txt").exists():
                self.log.warning("Not handed in through the exchange, so send this yourself: %s", printable(folder))
                continue
            self.src_path = glob.escape(folder)
            try:
                super().copy_files()
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    raise
                failed.append(printable(folder))
                self.log.error("No feedback was released from %s: %s", failed[-1], printable(error))
        if failed:
            self.fail(f"No feedback was released from {', '.join(failed)}")
