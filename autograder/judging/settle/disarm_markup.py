"""A student's text is shown to others: HTML in it is shown as it is written, and does nothing."""

import re

from nbformat import NotebookNode

from autograder.lesson_text.released import Released

HARMLESS = "b|br|code|details|em|hr|i|kbd|li|ol|p|pre|small|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul"
TAG = re.compile(rf"<(?!/?(?:{HARMLESS})\s*/?>)(?!(?:https?://|mailto:)[^\s<>]*>)(?=[a-zA-Z/!?])", re.IGNORECASE)
# A link to anywhere but the web, in place or below a reference: in the formgrader's pages, a relative one is a path on
# the instructor's own server.
LINK = re.compile(r"\](?=[(:](?![ \t\n]*<?(?:https?://|mailto:|#)))", re.IGNORECASE)
# Merely looked at, a picture from the web tells its owner who looks, and asks any address for whatever it does.
PICTURE = re.compile(r"!(?=\[)")
NOTHING = "\u200b"  # a space without width: before it a < begins no tag, a ] ends no link, and a ! no picture


def disarm_markup(notebook: NotebookNode, released: Released) -> NotebookNode:
    """Take the meaning of every tag in text cells, but for plain ones without attributes, and drop attachments.

    nbgrader's pages for the formgrader and for feedback show Markdown's HTML as it is, whatever nbconvert's
    sanitize_html says.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            cell.source = disarmed(cell.source)
            cell.pop("attachments", None)
    return notebook


def disarmed(text: str) -> str:
    """The text with a space of no width where a tag would begin, and before the target of a link not to the web.

    A picture on the web becomes a link.

    >>> disarmed("a < b, <b>bold</b>, <img src=x onerror=f()>").replace(NOTHING, "_")
    'a < b, <b>bold</b>, <_img src=x onerror=f()>'
    >>> disarmed("[a](https://arxiv.org) [b](javascript:f()) ![c](d.svg)").replace(NOTHING, "_")
    '[a](https://arxiv.org) [b]_(javascript:f()) !_[c]_(d.svg)'
    """
    return PICTURE.sub("!" + NOTHING, LINK.sub("]" + NOTHING, TAG.sub("<" + NOTHING, text)))
