"""The Colab badge and install cell: there if and only if the repository's own address is known."""

import re
import subprocess
import tomllib
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.lesson_text.lesson import FOLDED

MISSING = """raise ModuleNotFoundError(
        "attnlib, the package of this course, is not there for the Python of this "
        "notebook. Run `make lab` in the course's folder, or `pip install '.[course]'` "
        "with this Python; then restart the kernel."
    )"""
BEGIN, END = "<!-- colab -->", "<!-- /colab -->"
GITHUB = re.compile(r"(?:https?://(?:[^@/]+@)?|ssh://git@|git@)github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


def repository_url(root: Path) -> str | None:
    """`https://github.com/OWNER/NAME`, from pyproject.toml's project.urls.Repository, else git's origin, else None."""
    project = root / "pyproject.toml"
    urls = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}) if project.is_file() else {}
    setting = urls.get("urls", {}).get("Repository")
    if setting:
        return github_url(setting)
    command = ["git", "--git-dir", str(root / ".git"), "remote", "get-url", "origin"]  # of no repository around it
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return github_url(answer.stdout.strip()) if answer.returncode == 0 else None


def github_url(address: str) -> str | None:
    """The https address without credentials, for any way of writing a GitHub repository; None for all else.

    >>> github_url("git@github.com:someone/attention.git")
    'https://github.com/someone/attention'
    """
    found = GITHUB.fullmatch(address)
    return f"https://github.com/{found[1]}/{found[2]}" if found else None


def colab_address(lesson: str, url: str) -> str:
    """The address at which Colab opens the student's notebook."""
    target = url.removeprefix("https://").replace(".com", "", 1)
    return f"https://colab.research.google.com/{target}/blob/main/notebooks/{lesson}.ipynb"


def badge(lesson: str, url: str) -> str:
    """The badge that opens the student's notebook in Colab, as Markdown."""
    picture = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({picture})]({colab_address(lesson, url)})"


def add_colab(notebook: NotebookNode, lesson: str, url: str | None) -> NotebookNode:
    """Add a cell below the title that installs attnlib where it is missing, and the badge on top.

    The cell leaves torch as it is: pip finds the requirement satisfied. Where no address is known, there is no badge,
    and the cell says what to do.
    """
    notebook = deepcopy(notebook)
    install = f'%pip install -q "attnlib @ git+{url}"' if url else MISSING
    source = (
        "# Only where attnlib is missing, as on Colab; torch stays as it is.\n"
        "# To keep my_attention/ there, mount your Drive in the Files panel and run\n"
        "# %env ATTNLIB_MY_ATTENTION=/content/drive/MyDrive/my_attention\n"
        "import importlib.util\n\n"
        'if importlib.util.find_spec("attnlib") is None:\n'
        f"    {install}"
    )
    if url and lesson.startswith("12_"):
        source += (
            '\nif importlib.util.find_spec("rxnmapper") is None:  # the published weights\n'
            "    %pip install -q --no-deps rxnmapper==0.4.3"
        )
    notebook.cells.insert(1, new_code_cell(source, id="colab-install", metadata=FOLDED))
    if url:
        notebook.cells.insert(0, new_markdown_cell(badge(lesson, url), id="colab-badge"))
        notebook.metadata["attnlib"] = {"repository": url}
    return notebook


def recorded_url(notebook: NotebookNode) -> str | None:
    """The address with which a student's notebook was built."""
    found: str | None = notebook.metadata.get("attnlib", {}).get("repository")
    return found


def with_badges(readme: str, lessons: list[str], url: str | None) -> str:
    """Put one badge per lesson between the README's two marks, or nothing if no address is known."""
    if BEGIN not in readme or END not in readme:
        return readme
    before, rest = readme.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    rows = [f"{badge(lesson, url)} {lesson}<br>" for lesson in lessons] if url else []
    return before + "\n".join([BEGIN, *rows, END]) + after
