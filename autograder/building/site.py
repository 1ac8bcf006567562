"""`python -m autograder.building.site FOLDER`: the pages of the site; `make site` renders them.

A page has the same place as its source in the repository, so that every link between them works in both. Lessons
are the students' notebooks, with the figures of the executed solutions; answers and verdicts are in none of them.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from attnlib.checks import Exercise, exercises
from attnlib.checks.verdict.gallery import gives_away
from autograder.building.front.pages import write_front
from autograder.building.gallery.mistakes import Mistake, mistakes
from autograder.building.gallery.pages import anchor, index, mistake_pages, symptom_pages, task
from autograder.building.gallery.seen import seen
from autograder.building.lesson_page import CHECK, add_opening, with_figures
from autograder.lesson_text.layout import ROOT, Layout
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.showing.errors import CourseError
from autograder.showing.pages import code

HEADING = re.compile(r"\]\([\w./]*#[\w-]+\)")
TASK = re.compile(r"^### ", re.MULTILINE)
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
    "Mistakes": ["mistakes/index"],
    "Guides": ["docs/*"],
    "Project": ["CONTRIBUTING", "CHANGELOG", "SECURITY"],
}
GALLERY = """# Gallery of mistakes

{count} mistakes you can make when you write attention, transformers and their training in PyTorch. Each has a
page: the wrong line, what you see when you run it, why it's wrong, and the change that puts it right. What you see is
measured: each wrong program has been run beside a right one.

```{{toctree}}
:hidden:

{lists}
```

{body}
"""
ABOUT = """# Mistakes: {title}

What the checks of this lesson name in wrong answers. Each has a page, with the reason, and folded below it the repair.
Try the exercise first: a reason may say what would be right. Predictions and bug hunts aren't here, where the reason
would be the answer.
"""


def write_site(layout: Layout, folder: Path) -> None:
    """Write all pages to `folder`, which is emptied before; a CourseError if it holds something else than a site."""
    if any(folder.glob("*")) and not (folder / "course.md").is_file():
        raise CourseError(f"{folder} holds something else than a site, and would be emptied: name a new folder.")
    shutil.rmtree(folder, ignore_errors=True)
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        copy(path, folder)
    for path in [
        *layout.solutions.glob("*.png"),
        *layout.solutions.glob("films/*.gif"),
        *(ROOT / "docs/images").iterdir(),
    ]:
        copy(path, folder)
    for home in layout.others:
        for path in [*home.glob("*.png"), *home.glob("films/*.gif")]:
            copy(path, folder, home.parent)
    contents = "".join(CONTENTS.format(caption=name, pages="\n".join(pages)) for name, pages in SECTIONS.items())
    (folder / "README.md").rename(folder / "course.md")
    with (folder / "course.md").open("a", encoding="utf-8") as file:
        file.write(contents)
    titles = {name: title_of(read_notebook(layout.released(name))) for name in layout.lessons()}
    write_front(folder / "front", titles, layout)
    (folder / "misconceptions").mkdir()
    (folder / "mistakes").mkdir()
    known = mistakes(exercises().values())
    for lesson in layout.lessons():
        told = {one.name: one for one in exercises().values() if one.lesson == lesson and not gives_away(one)}
        student = read_notebook(layout.released(lesson))
        page = with_figures(student, read_notebook(layout.solved(lesson)))
        add_opening(page, lesson)
        write_notebook(with_links(page, told), folder / "notebooks" / f"{lesson}.ipynb")
        text = list_of_mistakes(titles[lesson], told.values(), known)
        (folder / "misconceptions" / f"{lesson}.md").write_text(text, encoding="utf-8")
    found = seen(known)
    pages = [page.as_record() for page in (*mistake_pages(found, titles), *symptom_pages(found, titles))]
    (folder / "mistakes" / "pages.json").write_text(json.dumps(pages), encoding="utf-8")
    lists = "\n".join(f"Lesson {lesson[:2]} <../misconceptions/{lesson}>" for lesson in titles)
    text = GALLERY.format(count=f"{len(known):,}", lists=lists, body=index(found, titles))
    (folder / "mistakes" / "index.md").write_text(text, encoding="utf-8")


def copy(path: Path, folder: Path, root: Path = ROOT) -> None:
    """Copy a file of a repository to the same place in `folder`; a CourseError if another repository's is there."""
    target = folder / path.relative_to(root)
    if target.exists():
        raise CourseError(f"{target.relative_to(folder)} is in two courses: give the one in {root} another name.")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def with_links(page: NotebookNode, told: dict[str, Exercise]) -> NotebookNode:
    """Add to each check a line with a link to its exercise's mistakes, and give the exercise's heading an address."""
    cells: list[NotebookNode] = []
    for cell in page.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":  # JupyterLab's anchors keep a heading's case, MyST's are in lower case
            cell.source = HEADING.sub(lambda link: link[0].lower(), cell.source)
        for name in CHECK.findall(cell.source) if cell.cell_type == "code" else ():
            if name in told:
                headings = (one for one in reversed(cells) if one.cell_type == "markdown" and TASK.search(one.source))
                text = f"[What the check says about wrong answers](#{anchor(name)})"
                if heading := next(headings, None):
                    *_, last = TASK.finditer(heading.source)
                    place = last.start()
                    heading.source = f"{heading.source[:place]}({task(name)})=\n{heading.source[place:]}"
                else:  # another author's lesson may have none
                    text = f"({task(name)})=\n{text}"
                cells.append(new_markdown_cell(text, id=f"{cell.id}-told"[-64:]))
    page.cells = cells
    return page


def list_of_mistakes(lesson: str, told: Iterable[Exercise], known: Sequence[Mistake]) -> str:
    """The page of one lesson: for each exercise its mistakes, which lead to their own pages."""
    text = ABOUT.format(title=lesson)
    for exercise in told:
        here = [one for one in known if any(place.exercise.name == exercise.name for place in one.places)]
        rows = (f'<li><a href="../mistakes/{one.id}.html">{code(one.title)}</a></li>' for one in here)
        text += f"\n({anchor(exercise.name)})=\n## `{exercise.name}`\n\n<ul>\n" + "\n".join(rows) + "\n</ul>\n"
    return text


def title_of(notebook: NotebookNode) -> str:
    """The text of the first heading."""
    headings = (re.match(r"# (.*)", cell.source) for cell in notebook.cells)
    return next(heading[1] for heading in headings if heading)


if __name__ == "__main__":
    write_site(Layout(), Path(sys.argv[1]))
