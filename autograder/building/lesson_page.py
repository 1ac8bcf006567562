"""A lesson as a page of the site: the student's notebook with figures, its reading time, and links that open it."""

import re
import tomllib
from urllib.parse import quote, urlencode

from nbformat import NotebookNode

from autograder.building.colab import colab_address, repository_url
from autograder.lesson_text.figures import as_image
from autograder.lesson_text.layout import ROOT

REPORT = "application/vnd.attnlib.report+json"
"""The grader's form of a verdict; a reader gets the text beside it."""
CHECK = re.compile(r'^check\("(\w+)"', re.MULTILINE)
TITLE = re.compile(r"# .*\n")
WORDS_A_MINUTE = 220
AT_HOME = "[get the course](../course.md#start), start JupyterLab with `make lab`, and open `{lesson}.ipynb`"


def with_figures(student: NotebookNode, solved: NotebookNode) -> NotebookNode:
    """Add the outputs of cells that are unchanged in the solved notebook and judge nothing."""
    outputs = {cell.id: cell for cell in solved.cells if cell.cell_type == "code"}
    student.cells = [cell for cell in student.cells if cell.id not in ("colab-badge", "colab-install")]
    for cell in student.cells:
        folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        same = cell.id in outputs and outputs[cell.id].source == cell.source
        if same and not CHECK.search(cell.source):
            cell.outputs = [as_image(output) for output in outputs[cell.id].outputs]
            for output in cell.outputs:
                output.get("data", {}).pop(REPORT, None)
        cell.metadata = NotebookNode({"tags": ["hide-input"]} if folded else {})
        told = [kind for out in cell.get("outputs", []) for kind in out.get("metadata", {}).values()]
        alts = [kind["alt"] for kind in told if isinstance(kind, dict) and "alt" in kind]  # of an image, or a film
        if any(alts):
            cell.metadata["mystnb"] = {"image": {"alt": next(filter(None, alts))}}
    return student


def add_opening(page: NotebookNode, lesson: str) -> None:
    """Add below the title how long the page takes to read, and where its notebook can be opened."""
    words = sum(len(cell.source.split()) for cell in page.cells if cell.cell_type == "markdown")
    ways = [f"open it in [{name}]({address})" for name, address in addresses(lesson).items()]
    ways.append(AT_HOME.format(lesson=lesson))
    minutes = round(words / WORDS_A_MINUTE)
    line = f"*{f'{minutes} minutes' if minutes > 1 else 'A minute'} to read.* To work on it, {', or '.join(ways)}."
    page.cells[0].source = TITLE.sub(lambda title: f"{title[0]}\n{line}\n", page.cells[0].source, count=1)


def addresses(lesson: str) -> dict[str, str]:
    """Return the addresses that open the notebook: Colab if the repository is known, JupyterLab if a hub is as well.

    The hub is `project.urls.JupyterHub` of pyproject.toml. It needs nbgitpuller, which brings the repository there.
    """
    url = repository_url(ROOT)
    if url is None:
        return {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    hub = project.get("urls", {}).get("JupyterHub")
    found = {"Colab": colab_address(lesson, url)}
    if hub:
        place = f"lab/tree/{url.rpartition('/')[2]}/notebooks/{lesson}.ipynb"
        pulled = urlencode({"repo": url, "branch": "main", "urlpath": place}, quote_via=quote)
        found["JupyterLab"] = f"{hub.rstrip('/')}/hub/user-redirect/git-pull?{pulled}"
    return found
