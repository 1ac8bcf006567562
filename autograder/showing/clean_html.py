"""Clean the HTML made from a student's text: no pattern over Markdown knows what will become a tag."""

import re

import nh3
from markupsafe import Markup
from pygments.token import STANDARD_TYPES

# fmt: off
TAGS = {
    "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4",
    "h5", "h6", "hr", "i", "kbd", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "summary", "sup",
    "table", "tbody", "td", "th", "thead", "tr", "u", "ul",
}
# fmt: on
# No id or name, which would stand in for one of the page's own; a style only where Markdown's tables say left or right.
ATTRIBUTES = {"*": set(), "a": {"href", "title"}, "ol": {"start"}, "td": {"style"}, "th": {"style"}}
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI = {f"ansi-{name}{bright}-{where}" for name in COLOURS for bright in ("", "-intense") for where in ("fg", "bg")}
CLASSES = {"div": {"highlight"}, "span": {*STANDARD_TYPES.values(), *ANSI, "ansi-bold", "ansi-underline"} - {""}}
# To anywhere but the web: in the formgrader's pages, a relative address is a path on the instructor's own server.
WEB = re.compile(r"(?:https?://|mailto:)\S*", re.IGNORECASE)


def cleaned(html: str) -> Markup:
    """Keep what is on the lists and leave out all other tags, so that nothing runs, loads or hides.

    >>> cleaned('<b onclick="f()">a</b> < b <svg><p id=x>c<script>d()</script>')
    Markup('<b>a</b> &lt; b <p>c</p>')
    >>> cleaned('<a href="https://arxiv.org">a</a> <a href="javascript:f()" href=b.html>b</a>').unescape()
    '<a href="https://arxiv.org" rel="noopener noreferrer">a</a> <a rel="noopener noreferrer">b</a>'
    """
    return Markup(CLEANER.clean(html))


def _kept(_tag: str, attribute: str, value: str) -> str | None:
    return value if attribute != "href" or WEB.fullmatch(value) else None


CLEANER = nh3.Cleaner(
    tags=TAGS,
    attributes=ATTRIBUTES,
    attribute_filter=_kept,
    allowed_classes=CLASSES,
    filter_style_properties={"text-align"},
    url_schemes={"http", "https", "mailto"},
)
