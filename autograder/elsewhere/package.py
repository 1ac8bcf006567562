"""Make the package for another platform: the grader, one lesson, the locked requirements, perhaps the seed."""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.in_nbgrader.course_files import course_seed
from autograder.lesson_text.layout import ROOT, Layout, shown
from autograder.showing.errors import CourseError, first_line

ROOMS = ("showing", "lesson_text", "sandbox", "judging", "in_nbgrader", "elsewhere")
GRADER = "grader"
"""The folder of a package that corresponds to this repository."""
SETTINGS = "package.json"
SEED = "autograder/course/seed"
LOCKS = ("requirements-course.lock", "requirements.txt")
WEIGHTS = "requirements-weights.lock"
FOR_WEIGHTS = "12"
"""The number of the lesson whose model comes in a package of its own."""
VISIBILITIES = ("visible", "after_due_date", "after_published", "hidden")
"""The times at which Gradescope can show students a verdict."""
TEMPLATES = Path(__file__).with_name("templates")
OLDEST, EPOCH = (1980, 1, 1, 0, 0, 0), "315532800"  # that a zip file can hold: the same package has the same bytes

Files = dict[str, bytes]


def package_files(layout: Layout, lesson: str, *, seed: bool, **settings: Any) -> Files:
    """Return a package's files by their names in it: all that grades one lesson, with the course's seed or without.

    Raises CourseError for an unknown or another repository's lesson, a seed that is no number, or a wheel that cannot
    be built.
    """
    layout.chosen((lesson,))
    if lesson not in layout.own_lessons():
        raise CourseError(f"{lesson} is another repository's lesson, and a package holds only those of this one.")
    files: Files = {}
    for path in _grader_sources():
        files[f"{GRADER}/{path.relative_to(ROOT).as_posix()}"] = path.read_bytes()
    files[f"{GRADER}/solutions/{lesson}.py"] = (layout.solutions / f"{lesson}.py").read_bytes()
    files[f"{GRADER}/{SETTINGS}"] = json.dumps({"lesson": lesson, **settings}, indent=1).encode()
    if seed:
        files[f"{GRADER}/{SEED}"] = f"{course_seed(layout.course)}\n".encode()
    for name in (*LOCKS, *([WEIGHTS] if lesson.startswith(FOR_WEIGHTS) else [])):
        files[name] = (ROOT / name).read_bytes()
    return files | _wheel()


def _grader_sources() -> list[Path]:
    """The rooms that grade one submission, and nothing an instructor may have put beside them."""
    found = [ROOT / "autograder" / "__init__.py"]
    for room in ROOMS:
        found += (p for p in (ROOT / "autograder" / room).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return sorted(found)


def _wheel() -> Files:
    """Build attnlib's wheel from a copy, so that leftovers of an older build and the checkout's notebooks stay out."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "attnlib", Path(folder, "attnlib"), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        built = subprocess.run(
            [*command, "--wheel-dir", folder, folder], capture_output=True, text=True, env=environment
        )
        wheels = list(Path(folder).glob("attnlib-*.whl"))
        if built.returncode or not wheels:
            raise CourseError(f"attnlib's wheel cannot be built: {first_line(built.stderr or built.stdout)}.")
        return {wheels[0].name: wheels[0].read_bytes()}


def template(name: str, **values: str) -> bytes:
    """A script or a workflow of the package, with @NAME@ replaced by its value."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.encode()


def write_zip(target: Path, files: Mapping[str, bytes], executable: tuple[str, ...] = ()) -> Path:
    """Write the package as a zip file for its owner alone, whole or not at all."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, OLDEST)
            entry.external_attr = (0o755 if name in executable else 0o644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    new = target.with_name(f"{target.name}.new")
    try:
        new.touch(mode=0o600)
        new.write_bytes(buffer.getvalue())
        new.replace(target)
    except OSError as error:
        raise CourseError(f"{shown(target)} cannot be written: {error.strerror}.") from None
    return target


def write_folder(target: Path, files: Mapping[str, bytes], executable: tuple[str, ...] = ()) -> Path:
    """Write the package as a new folder; a CourseError if there is one already."""
    try:
        target.mkdir(parents=True)
        for name, data in files.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_bytes(data)
            path.chmod(0o600 if path.name == "seed" else 0o755 if name in executable else 0o644)
    except FileExistsError:
        raise CourseError(f"{shown(target)} is there already: name a new folder, or remove it.") from None
    except OSError as error:
        raise CourseError(f"{shown(target)} cannot be written: {error.strerror}.") from None
    return target
