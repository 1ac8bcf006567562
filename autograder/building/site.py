"""`python -m autograder.building.site FOLDER`: the pages of the site; `make site` renders them.

A page lies where its source lies in the repository, so that every link between them is right in both places. Lessons
are the students' notebooks, with the figures of the executed solutions; answers and verdicts are in none of them.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from attnlib.checks import Exercise, Misconception, exercises
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.exercise import AS_GIVEN
from autograder.building.front.pages import write_front
from autograder.lesson_text.layout import ROOT, Layout
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.showing.wrong_programs import wrong_lines

REPORT = "application/vnd.attnlib.report+json"
"""A verdict for the grader; the reader gets it as text beside that."""
CHECK = re.compile(r'^check\("(\w+)"', re.MULTILINE)
HEADING = re.compile(r"\]\([\w./]*#[\w-]+\)")
CONTENTS = """
```{{toctree}}
:hidden:
:glob:
:caption: {caption}

{pages}
```
"""
SECTIONS = {
    "Lessons": ["notebooks/*"],
    "Misconceptions": ["misconceptions/*"],
    "Guides": ["docs/*"],
    "Project": ["CONTRIBUTING", "CHANGELOG", "SECURITY"],
}
ABOUT = """# Misconceptions: {title}

What the checks of this lesson say about answers that are wrong in a known way, each with its reason and the wrong line
folded below. Try the exercise first: to say what is wrong, some of these say what would be right. No solution is here,
and neither are predictions and bug hunts, where the reason would be the answer.
"""
REASON = """
({here})=
**{title}**

<details><summary>Why</summary>

{explanation}

</details>
"""


def write_site(layout: Layout, folder: Path) -> None:
    """Write all pages to `folder`, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        copy(path, folder)
    for path in [
        *layout.solutions.glob("*.png"),
        *layout.solutions.glob("films/*.gif"),
        *(ROOT / "docs").rglob("*.png"),
    ]:
        copy(path, folder)
    contents = "".join(CONTENTS.format(caption=name, pages="\n".join(pages)) for name, pages in SECTIONS.items())
    (folder / "README.md").rename(folder / "course.md")
    with (folder / "course.md").open("a", encoding="utf-8") as file:
        file.write(contents)
    titles = {name: title_of(read_notebook(layout.notebooks / f"{name}.ipynb")) for name in layout.lessons()}
    write_front(folder / "front", titles, layout)
    (folder / "misconceptions").mkdir()
    for lesson in layout.lessons():
        told = {one.name: one for one in exercises().values() if one.lesson == lesson and not gives_away(one)}
        student = read_notebook(layout.notebooks / f"{lesson}.ipynb")
        page = with_figures(student, read_notebook(layout.solutions / f"{lesson}.ipynb"))
        write_notebook(with_links(page, told), folder / "notebooks" / f"{lesson}.ipynb")
        text = misconceptions(title_of(student), told.values())
        (folder / "misconceptions" / f"{lesson}.md").write_text(text, encoding="utf-8")


def copy(path: Path, folder: Path) -> None:
    """Copy a file of the repository to the same place in `folder`."""
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def with_figures(student: NotebookNode, solved: NotebookNode) -> NotebookNode:
    """The student's notebook with the outputs of those cells that are the same in the solved one and judge nothing."""
    outputs = {cell.id: cell for cell in solved.cells if cell.cell_type == "code"}
    for cell in student.cells:
        folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        same = cell.id in outputs and outputs[cell.id].source == cell.source
        if same and not CHECK.search(cell.source):
            cell.outputs = outputs[cell.id].outputs
            for output in cell.outputs:
                output.get("data", {}).pop(REPORT, None)
        cell.metadata = NotebookNode({"tags": ["hide-input"]} if folded else {})
        told = [kind for out in cell.get("outputs", []) for kind in out.get("metadata", {}).values()]
        alts = [kind["alt"] for kind in told if isinstance(kind, dict) and "alt" in kind]  # of an image, or a film
        if any(alts):
            cell.metadata["mystnb"] = {"image": {"alt": next(filter(None, alts))}}
    return student


def with_links(page: NotebookNode, told: dict[str, Exercise]) -> NotebookNode:
    """A line below each check that leads to the misconceptions of its exercise."""
    cells = []
    for cell in page.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":  # JupyterLab's headings are called as they're written, MyST's in lower case
            cell.source = HEADING.sub(lambda link: link[0].lower(), cell.source)
        for name in CHECK.findall(cell.source) if cell.cell_type == "code" else ():
            if name in told:
                text = f"[What the check says about wrong answers](#{anchor(name)})"
                cells.append(new_markdown_cell(text, id=f"{cell.id}-told"[-64:]))
    page.cells = cells
    return page


def gives_away(exercise: Exercise) -> bool:
    """Whether the explanations of its wrong answers would be the answer."""
    return exercise.kind == "choice" or any(one.id == AS_GIVEN for one in exercise.misconceptions)


def misconceptions(lesson: str, told: Iterable[Exercise]) -> str:
    """The page of one lesson."""
    text = ABOUT.format(title=lesson)
    for exercise in told:
        pairs = {f"{one.id}_and_{other.id}" for one in exercise.misconceptions for other in exercise.misconceptions}
        single = {(one.title, one.explanation): one for one in exercise.misconceptions if one.id not in pairs}
        text += f"\n({anchor(exercise.name)})=\n## `{exercise.name}`\n"
        text += "".join(entry(exercise, one) for one in single.values())
    return text


def entry(exercise: Exercise, one: Misconception) -> str:
    """One misconception, with an address of its own."""
    thread = f" [Somebody who met it]({one.thread})" if one.thread else ""
    here = anchor(f"{exercise.name}-{one.id}")
    told = plain(one.explanation) + thread
    if isinstance(exercise, WrittenExercise) and (program := exercise.programs.get(one.id)):
        rows = [program.split("\n")[number - 1] for number in wrong_lines(exercise.right, program)]
        told += f"\n\n```python\n{textwrap.dedent(chr(10).join(rows))}\n```" if rows else ""  # a line may be missing
    return REASON.format(here=here, title=plain(one.title), explanation=told)


def anchor(name: str) -> str:
    """The address of an exercise or of a misconception, as docutils writes it."""
    return "exercise-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def plain(text: str) -> str:
    """Text as Markdown that shows it unchanged: only `code` means something in it."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part if i % 2 else re.sub(r"([\\`*_$<>\[\]{}|~^#])", r"\\\1", part) for i, part in enumerate(parts))


def title_of(notebook: NotebookNode) -> str:
    """The text of the first heading."""
    headings = (re.match(r"# (.*)", cell.source) for cell in notebook.cells)
    return next(heading[1] for heading in headings if heading)


if __name__ == "__main__":
    write_site(Layout(), Path(sys.argv[1]))
