"""The exporter with which the formgrader and feedback show a submission."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, PrefixLoader
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from traitlets import Unicode, default

from autograder.in_nbgrader.pages.policy import MATHJAX, TEMPLATES, Guarded, policy
from autograder.judging.bound_display import fenced
from autograder.showing.clean_html import cleaned

OURS = Path(__file__).parent / "templates"
MAKE_HTML = frozenset({"ansi2html", "clean_html", "highlight_code", "markdown2html", "strip_files_prefix"})


class Page(HTMLExporter):
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
        environment.add_extension(Guarded)
        environment.globals |= {"nonce": self.nonce, "policy": policy(self.nonce), "mathjax_at": MATHJAX}
        return environment

    def _register_filter(self, environ: Environment, name: str, jinja_filter: Any) -> Any:
        result = super()._register_filter(environ, name, jinja_filter)
        if name in MAKE_HTML:
            environ.filters[name] = _cleaning(environ.filters[name])
        return result

    def markdown2html(self, source: str) -> str:
        """The Markdown's HTML, not yet cleaned."""
        return MarkdownWithMath(renderer=NoPictures(escape=False, exclude_anchor_links=True)).render(source)

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


def _cleaning(make_html: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *args, **options: cleaned(make_html(*args, **options))
