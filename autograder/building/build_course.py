"""`python -m autograder build`: from the lessons' text to the notebooks, all of them or none."""

import base64
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from attnlib.plot.film import still
from autograder.building.catalogues import complaints
from autograder.building.colab import add_colab, recorded_url, with_badges
from autograder.building.gate import Gate
from autograder.building.run_lesson import run_lesson, without_outputs
from autograder.building.save_for_the_sandbox import is_for_the_sandbox
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.lesson_text.figures import as_image
from autograder.lesson_text.layout import Layout, shown
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import read_notebook, to_text, write_notebook
from autograder.lesson_text.round_trip import changed_by_jupyterlab
from autograder.showing.errors import CourseError

LARGEST_FILM = 300_000
Say = Callable[[str], None]


class NotReleased(CourseError):
    """Lessons that nbgrader refuses to release, each with its reason; all others are prepared."""

    def __init__(self, why: dict[str, str]) -> None:
        super().__init__("\n".join(why.values()))
        self.why = why


@dataclass(frozen=True)
class Built:
    """A lesson's notebooks: nbgrader's source, and the student's."""

    lesson: str
    source: NotebookNode
    release: NotebookNode


def release(lesson: str, layout: Layout, course: NbgraderCourse, url: str | None) -> Built:
    """Release one lesson with nbgrader, in a course of its own; nothing outside that course is written."""
    source = read_lesson(layout.text(lesson))
    write_notebook(source, course.path(course.directory.source_directory, ".", lesson) / f"{lesson}.ipynb")
    student = read_notebook(course.generate_assignment(lesson))
    return Built(lesson, source, add_colab(student, lesson, url))


def release_all(
    lessons: list[str], layout: Layout, exercises: Mapping[str, Any], url_of: Callable[[str], str | None]
) -> list[Built]:
    """Release the lessons and let them through the gate; a CourseError lists every complaint about any of them."""
    faults: list[str] = []
    built: list[Built] = []
    with tempfile.TemporaryDirectory() as scratch:
        course = NbgraderCourse(Path(scratch), scratch=True)
        for lesson in lessons:
            try:
                found = release(lesson, layout, course, url_of(lesson))
                faults += Gate(lesson, found.release, found.source, exercises).complaints()
                built.append(found)
            except CourseError as error:
                faults.append(str(error))
    _refuse(faults)
    return built


def _refuse(faults: list[str]) -> None:
    if faults:
        raise CourseError("Nothing was published.\n" + "\n".join(f"- {line}" for line in faults))


def build(
    layout: Layout, wanted: tuple[str, ...], exercises: Mapping[str, Any], url: str | None, say: Say = print
) -> list[Path]:
    """Build, judge, execute, and only then publish; returns what was written."""
    lessons = layout.chosen(wanted)
    if not lessons:
        raise CourseError(f"There is no lesson in {shown(layout.solutions)}.")
    _refuse(complaints(lessons, exercises.values()))
    built = release_all(lessons, layout, exercises, lambda name: url if name in layout.own_lessons() else None)
    texts: dict[Path, str] = {}
    drawn: dict[Path, bytes] = {}
    for one in built:
        say(f"{one.lesson}: released, now executing the solutions")
        executed = run_lesson(one.source, one.lesson, layout.home(one.lesson))
        texts[layout.released(one.lesson)] = to_text(one.release)
        texts[layout.solved(one.lesson)] = to_text(executed)
        texts[layout.source(one.lesson)] = to_text(one.source)
        drawn |= {layout.home(one.lesson) / name: png for name, png in pictures(executed, one.lesson).items()}
    if layout.readme.is_file() and {*lessons} & {*layout.own_lessons()}:
        texts[layout.readme] = with_badges(layout.readme.read_text(encoding="utf-8"), layout.own_lessons(), url)
    for path, text in texts.items():
        write_if_changed(path, text.encode())
    for path, png in drawn.items():
        write_if_changed(path, png)
    for line in without_lesson(layout) if not wanted else ():
        say(line)
    return [*texts, *drawn]


def pictures(executed: NotebookNode, lesson: str) -> dict[str, bytes]:
    """File name -> PNG or GIF, for each cell with a tag `picture:NAME`: figures that are shown outside of their lesson.

    A film, `NAME.gif`, brings its last frame along, `NAME.png`.
    """
    found = {}
    for cell in executed.cells:
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("picture:"):
                name = Path(tag.removeprefix("picture:"))
                kind = f"image/{name.suffix[1:]}"
                shown_here = (as_image(output).get("data", {}) for output in cell.outputs)
                images = [base64.b64decode(data[kind]) for data in shown_here if kind in data]
                if len(images) != 1:
                    said = f"it is tagged {tag!r} and draws {len(images)} figures, not one"
                    raise CourseError(f"{lesson}, cell {cell.id}: {said}.")
                if len(images[0]) > LARGEST_FILM:
                    said = f"{name} has {len(images[0]):,} bytes, and {LARGEST_FILM:,} are allowed"
                    raise CourseError(f"{lesson}, cell {cell.id}: {said}.")
                found[name.as_posix()] = images[0]
                if name.suffix == ".gif":
                    found[name.with_suffix(".png").as_posix()] = still(images[0])
    return found


def without_lesson(layout: Layout) -> list[str]:
    """Name the notebooks beside the built ones that have no lesson: it is gone, or they are somebody's own."""
    there, lessons = [*layout.notebooks.glob("*.ipynb"), *layout.solutions.glob("*.ipynb")], layout.lessons()
    strange = [shown(path) for path in there if path.stem not in lessons]
    return [f"{name} has no lesson: remove it, or move it elsewhere" for name in strange]


def drift(layout: Layout, wanted: tuple[str, ...], exercises: Mapping[str, Any]) -> list[str]:
    """List how the present notebooks differ from what the text builds; nothing is executed or written.

    Badge and install cell are built with the address in the present notebook, so that a clone from anywhere finds no
    difference.
    """

    def url_of(lesson: str) -> str | None:
        path = layout.released(lesson)
        return recorded_url(read_notebook(path)) if path.is_file() else None

    differences = changed_by_saving(layout, wanted)
    for one in release_all(layout.chosen(wanted), layout, exercises, url_of):
        student, instructor = layout.released(one.lesson), layout.solved(one.lesson)
        for path in (path for path in (student, instructor) if not path.is_file()):
            differences.append(f"{shown(path)} is missing")
        if student.is_file() and student.read_text(encoding="utf-8") != to_text(one.release):
            differences.append(f"{shown(student)} is not what {one.lesson}.py builds")
        if instructor.is_file() and to_text(without_outputs(read_notebook(instructor))) != to_text(one.source):
            differences.append(f"{shown(instructor)} is not what {one.lesson}.py builds")
        if instructor.is_file():
            for name, png in pictures(read_notebook(instructor), one.lesson).items():
                path = layout.home(one.lesson) / name
                if not path.is_file() or path.read_bytes() != png:
                    differences.append(f"{shown(path)} is not the figure in {shown(instructor)}")
    if not wanted:
        differences += without_lesson(layout)
    return differences


def changed_by_saving(layout: Layout, wanted: tuple[str, ...]) -> list[str]:
    """The lessons whose text would change if it were opened and saved in JupyterLab."""
    texts = [layout.text(lesson) for lesson in layout.chosen(wanted)]
    return [f"{shown(path)} is not as JupyterLab saves it" for path in texts if changed_by_jupyterlab(path)]


def prepare(layout: Layout, wanted: tuple[str, ...]) -> list[str]:
    """Put the lessons into the nbgrader course: source notebooks, released assignments, gradebook.

    That includes assignments that differ from student to student, whose source notebooks exist already.

    A lesson that the gradebook knows, and that did not change since its release, is left alone. One that changed is
    released again; nbgrader refuses where that would take graded cells away from submissions. Then NotReleased is
    raised, after the lessons that follow have been prepared.
    """
    course = NbgraderCourse(layout.course)
    with course.gradebook() as gradebook:
        known = {assignment.name for assignment in gradebook.assignments if is_for_the_sandbox(assignment)}
    done, refused = [], dict[str, str]()
    for lesson in layout.gradable(wanted):
        source = layout.source(lesson)
        if lesson in layout.lessons():
            write_if_changed(source, to_text(read_lesson(layout.text(lesson))).encode())
        released = course.path(course.directory.release_directory, ".", lesson) / f"{lesson}.ipynb"
        changed = source.stat().st_mtime_ns
        fresh = released.is_file() and released.stat().st_mtime_ns == changed
        if lesson not in known or not fresh:
            try:
                released = course.generate_assignment(lesson)
            except CourseError as error:
                refused[lesson] = str(error)
                continue
            os.utime(released, ns=(changed, changed))  # "of that one", by any clock
            done.append(lesson)
    if refused:
        raise NotReleased(refused)
    return done


def write_if_changed(path: Path, content: bytes) -> None:
    """Write the file unless it is unchanged: its time shows whether a release is of this source."""
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
