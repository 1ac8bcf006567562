"""The last touch to each page: badges for paths, code in fewer tags, drawings as files, names for what unfolds."""

import base64
import re
from hashlib import sha256
from html import escape
from pathlib import Path

from docutils import nodes

PATH = re.compile(r' · (core|more|stretch)(?=<a class="headerlink"|</a>)')
"""How a lesson's heading says to which path it belongs."""
PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
"""Names, punctuation and spaces, which have the colour of all code."""
DRAWING = re.compile(r"data:image/svg\+xml;base64,([\w+/=]+)")
OPENING = re.compile(r"(\d+ minutes|A minute) to read\.")
LONGEST_DESCRIPTION = 160  # characters: what a search engine shows
NO_HEAD = re.compile(r'<thead>\s*<tr[^>]*>\s*(<th class="head"><p></p></th>\s*)+</tr>\s*</thead>')
MARK = re.compile(r'(<span class="math[^>]*>\\\([^<]*)\\\)</span>([.,;])')
"""A formula and the mark behind it, which would begin a line of its own where a phone breaks the formula."""
UNFOLD = '<summary aria-label="Toggle hidden content">'
"""Its label hides the words that are in it."""


def setup(app):  # noqa: D103
    app.connect("html-page-context", finish)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", name_what_unfolds, priority=900)  # behind the theme, which makes the list


def finish(app, name, _template, context, _document):
    """Change a page's text and its list of headings."""
    for part in ("body", "toc"):
        text = PLAIN.sub(r"\1", context.get(part, "")).replace(UNFOLD, "<summary>")
        text = MARK.sub(r"\1\2\\)</span>", NO_HEAD.sub("", text))
        if name.startswith("notebooks/"):
            text = PATH.sub(r' <span class="path path-\1">\1</span>', text)
            text = DRAWING.sub(lambda found: f"../{as_file(app, found[1])}", text)
        context[part] = text


def describe(_app, _name, _template, context, document):
    """Give a document its first paragraph as the description that a search engine shows below its title."""
    paragraphs = [] if document is None else [node.astext() for node in document.findall(nodes.paragraph)]
    for text in (" ".join(text.split()) for text in paragraphs):
        if OPENING.match(text) or not text:
            continue
        if len(text) > LONGEST_DESCRIPTION:
            text = text[: LONGEST_DESCRIPTION - 2].rsplit(" ", 1)[0] + " …"
        context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{escape(text)}">\n'
        return


def name_what_unfolds(_app, _name, _template, context, _document):
    """Give the arrows in the list of pages a name."""
    if make := context.get("generate_toctree_html"):
        unfold = '<summary aria-label="The pages below">'
        context["generate_toctree_html"] = lambda *of, **how: str(make(*of, **how)).replace("<summary>", unfold)


def as_file(app, drawing):
    """Write a drawing among the pictures, under a name that follows from it; its address on the site."""
    content = base64.b64decode(drawing)
    name = f"{app.builder.imagedir}/{sha256(content).hexdigest()[:16]}.svg"
    file = Path(app.outdir) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return name
