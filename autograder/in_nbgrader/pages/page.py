"""The exporter with which the formgrader and feedback show a submission."""

import re
import secrets
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import BytecodeCache, Environment, FileSystemLoader, PrefixLoader
from jinja2.bccache import Bucket
from markupsafe import Markup, escape
from nbconvert import HTMLExporter, TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from traitlets import Unicode, default

from autograder.in_nbgrader.pages.policy import MATHJAX, TEMPLATES, Guarded, policy
from autograder.judging.bound_display import fenced
from autograder.showing.clean_html import cleaned

OURS = Path(__file__).parent / "templates"
MAKE_HTML = frozenset({"ansi2html", "clean_html", "highlight_code", "markdown2html", "strip_files_prefix"})
MOST_KEPT = 2048
"""Cells whose HTML is kept: those of all lessons, most of which stand in every student's page."""
LONGEST_KEPT = 3_000
"""Characters of such a cell: a student may hand in megabytes, as often as they like."""
UNDESCRIBED = "No description has been provided for this image"
NO_ALT = re.compile(r"<img\b(?![^>]*\balt=)")  # a template's: a student's text has none


class Compiled(BytecodeCache):
    """The templates' code, which a new exporter for each page would compile again."""

    kept: ClassVar[dict[tuple[str, str], Any]] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self.kept.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key, bucket.checksum] = bucket.code


class Rendered(TemplateExporter):
    """Keeps the page out of what HTMLExporter does to it, a BeautifulSoup of some 8,000 tags: half of a page's time."""

    def from_notebook_node(self, *args: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
        html, resources = super().from_notebook_node(*args, **options)
        return "", {**resources, "page": html}


class Page(HTMLExporter, Rendered):
    """nbgrader's page of a submission: every value in it is text, or HTML of one of nbconvert's filters, cleaned.

    A page has no headings' anchors: an id that a student chose may be one of the form's.
    """

    nonce = Unicode()

    @default("nonce")
    def _new_nonce(self) -> str:
        return secrets.token_urlsafe(16)

    @default("extra_loaders")
    def _our_templates(self) -> list[Any]:
        nbgraders = PrefixLoader({"nbgrader": FileSystemLoader(TEMPLATES)})
        return [FileSystemLoader([OURS / self.template_name, OURS]), nbgraders]

    def _create_environment(self) -> Environment:
        environment: Environment = super()._create_environment()
        environment.autoescape = True
        environment.bytecode_cache = Compiled()
        environment.add_extension(Guarded)
        environment.globals |= {"nonce": self.nonce, "policy": policy(self.nonce), "mathjax_at": MATHJAX}
        return environment

    def _register_filter(self, environ: Environment, name: str, jinja_filter: Any) -> Any:
        result = super()._register_filter(environ, name, jinja_filter)
        if name in MAKE_HTML:
            environ.filters[name] = _cleaning(environ.filters[name])
        elif name == "escape_html":
            environ.filters[name] = escape  # whose result isn't escaped again
        return result

    @default("filters")
    def _remembering(self) -> dict[str, Callable[..., str]]:
        return {"highlight_code": self.highlight, "markdown2html": kept(from_markdown)}

    def highlight(self, source: str, metadata: Mapping[str, Any]) -> str:
        """The code's HTML, not yet cleaned."""
        return kept(highlighted)(source, metadata.get("magics_language", self.language))

    def from_notebook_node(self, nb: NotebookNode, *args: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.language = str(nb.metadata.get("language_info", {}).get("pygments_lexer", "ipython3"))
        _, resources = super().from_notebook_node(nb, *args, **options)
        return NO_ALT.sub(f'<img alt="{UNDESCRIBED}"', resources.pop("page")), resources

    def _preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        nb, resources = super()._preprocess(nb, resources)
        resources["inlining"]["css"] = [Markup(css) for css in resources["inlining"]["css"]]
        for cell in nb.cells:
            if cell.cell_type == "raw":  # the template would take it for HTML, outside of any box
                cell.cell_type, cell.source = "markdown", fenced(cell.source)
            elif cell.cell_type == "code" and cell.execution_count is None:
                cell.execution_count = "\N{NO-BREAK SPACE}"  # the template would write "&nbsp;" for None
        return nb, resources


class NoPictures(IPythonRenderer):
    """Turns pictures on the web into links: merely looked at, a picture tells its owner who looks."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return str(self.link(text or url, url, title))


def kept(make_html: Any) -> Callable[..., str]:
    """The function, which has a cache, for short sources; for long ones the same without it."""
    return lambda source, *more: (make_html if len(source) <= LONGEST_KEPT else make_html.__wrapped__)(source, *more)


@lru_cache(MOST_KEPT)
def highlighted(source: str, language: str) -> str:
    """The code's HTML, not yet cleaned."""
    return str(Highlight2HTML()(source, language))


@lru_cache(MOST_KEPT)
def from_markdown(source: str) -> str:
    """The Markdown's HTML, not yet cleaned."""
    return MarkdownWithMath(renderer=NoPictures(escape=False, exclude_anchor_links=True)).render(source)


def _cleaning(make_html: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *args, **options: cleaned(make_html(*args, **options))
