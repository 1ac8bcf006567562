"""The one nbgrader config: for `nbgrader` and the formgrader started in this folder, and for `python -m autograder`.

The config written into a course's folder loads it as well: see `in_nbgrader/course_config.py`.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = str(HERE.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)  # so that nbgrader finds the steps below
PATHS = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if ROOT not in PATHS:
    # Kernels must find this checkout's attnlib: with another one, or none, right answers would get 0.
    os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, PATHS)])

BIN = str(Path(sys.executable).parent)
if BIN not in os.environ["PATH"].split(os.pathsep):
    # nbgrader calls `alembic` by its bare name: it has to be found where the virtual environment is not activated, too.
    os.environ["PATH"] = os.pathsep.join([BIN, os.environ["PATH"]])

from autograder.in_nbgrader.guards import guard  # noqa: E402
from autograder.in_nbgrader.pages.serving import guard_pages  # noqa: E402
from autograder.in_nbgrader.shares import SHARE, show_one_share  # noqa: E402
from autograder.in_nbgrader.table_version import look_up_in_process  # noqa: E402
from autograder.showing.errors import CourseError  # noqa: E402

guard()  # a student's folder is read as `grade` reads it: no link is followed, and few files are copied
guard_pages()  # nothing that a student wrote runs or loads anything in the formgrader
look_up_in_process()
if os.environ.get(SHARE):  # 2/3: the second of three assistants' students
    try:
        show_one_share()
    except CourseError as error:
        sys.exit(str(error))

c = get_config()  # type: ignore[name-defined]  # traitlets puts it into the names of this file  # noqa: F821

c.CourseDirectory.root = str(HERE / "course")
if os.environ.get("AUTOGRADER_DB"):  # postgresql://user:password@host/course; else SQLite, in the course's folder
    c.CourseDirectory.db_url = os.environ["AUTOGRADER_DB"].replace("postgresql://", "postgresql+psycopg://", 1)
    c.CourseDirectory.course_id = "default_course"  # nbgrader's own; without one, no table row may refer to the course

c.NbGrader.logging_config = {"formatters": {"console": {"class": "autograder.showing.logs.PrintableFormatter"}}}

# A release. The gradebook keeps stubs and tests as they are before the hidden tests are cut out, so that grading can
# put them back; the checksums are taken again after the cut.
c.GenerateAssignment.preprocessors = [
    "nbgrader.preprocessors.LockCells",
    "autograder.building.clear_solutions.ClearSolutionsToStubs",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "autograder.building.save_for_the_sandbox.SaveForTheSandbox",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
    "autograder.building.add_progress.AddProgress",
]

# A submission is first made gradable: what a student's editor may have changed is settled before nbgrader looks at it.
c.Autograde.exporter_class = "autograder.in_nbgrader.record_failures.RecordFailures"
c.Autograde.sanitize_preprocessors = [
    "nbgrader.preprocessors.ClearOutput",
    "autograder.in_nbgrader.preprocessors.settle_cells.SettleCells",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# Then each answer is judged: run in a sandbox, and compared with the reference outside of it.
c.Autograde.autograde_preprocessors = [
    "autograder.in_nbgrader.preprocessors.judge_in_sandbox.JudgeInSandbox",
    "autograder.in_nbgrader.preprocessors.save_points.SavePoints",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# Or "bubblewrap", "landlock", "docker:IMAGE", "podman:IMAGE"; "none" runs student code with your own rights.
c.JudgeInSandbox.sandbox = "auto"

# The exchange is where every student can write.
c.ExchangeFactory.collect = "autograder.in_nbgrader.exchange.CollectWithoutLinks"
c.ExchangeFactory.release_feedback = "autograder.in_nbgrader.exchange.ReleaseOneByOne"
c.ZipCollectApp.extractor_plugin = "autograder.in_nbgrader.unpacking.ExtractWithinBounds"

# Feedback tells the diagnosis, not the hidden test, and shows a student's text as the formgrader does.
c.GenerateFeedback.exporter_class = "autograder.in_nbgrader.pages.page.Page"
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "autograder.in_nbgrader.preprocessors.hide_hidden_tests.HideHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]

# nbconvert's own word for it: no scripts as outputs, no widgets. What is shown as HTML is cleaned in pages/page.py.
c.HTMLExporter.sanitize_html = True

c.ExportApp.plugin_class = "autograder.in_nbgrader.export_grades.CsvWithStatus"
