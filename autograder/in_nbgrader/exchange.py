"""nbgrader's exchange: a folder in which students write, and from which the instructor copies."""

import glob
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback

from autograder.in_nbgrader.copying import Copy
from autograder.in_nbgrader.handed_in import record_received
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
            return dict(super()._path_to_record(path))
        except Exception:  # a folder of any name can be made there
            name = Path(path).name
            return {"username": name, "filename": name, "timestamp": NEVER}

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:  # noqa: ARG002  nbgrader names it
        try:
            with tempfile.TemporaryDirectory() as own:
                copy = Copy(Path(src), Path(own, "copy"), 1000 * self.coursedir.max_dir_size)
                for line in copy.left_out:
                    self.log.warning("Not collected: %s", line)
                super().do_copy(str(Path(own, "copy")), dest)
            received = datetime.fromtimestamp(copy.changed, UTC).replace(tzinfo=None)
            record_received(self.coursedir, self._student(src), self.coursedir.assignment_id, received)
        except (OSError, RuntimeError, CourseError) as error:
            shutil.rmtree(dest, ignore_errors=True)
            self.log.error("Not collected: %s: %s", printable(src), printable(error))

    def _student(self, src: str) -> str:
        return next(str(r["username"]) for r in self.src_records if r["filename"] == Path(src).name)


class ReleaseOneByOne(ExchangeReleaseFeedback):
    """Releases each student's feedback by itself: where a file is missing, the others still get theirs."""

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
