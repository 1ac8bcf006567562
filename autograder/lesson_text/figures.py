"""Figures in a notebook: `attnlib.plot` shows each as an `<img>` with its text; other tools want an image."""

import re
from html import unescape

from nbformat import NotebookNode
from nbformat.v4 import new_output

FIGURE = re.compile(
    r'<img src="data:(?P<kind>image/(?:png|gif));base64,(?P<image>[\w+/]+=*)" alt="(?P<alt>[^"<>]*)" '
    r'width="(?P<width>\d+)" height="(?P<height>\d+)">\s*',
    re.ASCII,
)


def as_image(output: NotebookNode) -> NotebookNode:
    """Turn an output that is only a figure in HTML into an image with that text and size; others stay as they are."""
    html = output.get("data", {}).get("text/html", "")
    found = FIGURE.fullmatch(html)
    if not found:
        return output
    size = {side: int(found[side]) for side in ("width", "height")}
    image: NotebookNode = new_output(
        "display_data",
        {found["kind"]: found["image"], "text/plain": output.data.get("text/plain", "")},
        metadata={found["kind"]: {"alt": unescape(found["alt"]), **size}},
    )
    return image
