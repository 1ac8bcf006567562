"""What the site has beside Sphinx's documents: the pages of the gallery of mistakes, which are HTML already."""

import json
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.utils import new_document

PAGES = "mistakes/pages.json"


def setup(app):  # noqa: D103
    app.connect("html-collect-pages", pages)


def pages(app):
    """What Sphinx asks for beside its documents: the address, what the frame needs to know, and the frame."""
    for page in json.loads((Path(app.srcdir) / PAGES).read_text(encoding="utf-8")):
        title = escape(page["title"])
        contents = "".join(
            f'<li><a class="reference internal" href="#{id}">{text}</a></li>' for id, text in page["contents"]
        )
        context = {
            "title": title,
            "body": page["body"],
            "metatags": f'<meta name="description" content="{escape(page["description"])}">\n',
            "toc": f'<ul><li><a class="reference internal" href="#">{title}</a><ul>{contents}</ul></li></ul>',
            "display_toc": len(page["contents"]) > 1,
            "parents": [],
        }
        if app.builder.indexer is not None:
            text = new_document("")
            text += nodes.title("", page["title"])
            text += nodes.paragraph("", page["words"])
            app.builder.indexer.feed(page["name"], f"{page['name']}.html", page["title"], text)
            # what is no document is dropped from the index in the end
            app.env.all_docs[page["name"]], app.env.titles[page["name"]] = 0, nodes.title("", page["title"])
        yield page["name"], context, "page.html"
