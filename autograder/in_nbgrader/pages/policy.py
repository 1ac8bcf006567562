"""The content policy of nbgrader's pages: a browser may run only the scripts their templates write, and MathJax."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2.ext import Extension
from nbgrader.server_extensions.formgrader import handlers

TEMPLATES = Path(handlers.template_path)
MATHJAX = "https://cdnjs.cloudflare.com/ajax/libs/mathjax/2.7.7/"  # the version that nbconvert names


def policy(nonce: str) -> str:
    """The Content-Security-Policy of a page: scripts need its nonce, so one in a student's folder doesn't run."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'nonce-{nonce}' {MATHJAX} 'unsafe-hashes' {_handlers()}",
            f"style-src 'self' 'unsafe-inline' {MATHJAX}",  # MathJax writes its styles into the page
            f"font-src 'self' {MATHJAX}",
            f"img-src data: {MATHJAX}",
            f"connect-src 'self' {MATHJAX}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


@cache
def _handlers() -> str:
    """The digests of the code in the templates' `onclick`."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.rglob("*")) if path.is_file())
    code = {code for text in texts for code in re.findall(r'\bonclick="([^"]*)"', text, re.IGNORECASE)}
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in sorted(code))
    return " ".join(f"'sha256-{digest}'" for digest in digests)


META = '<meta http-equiv="Content-Security-Policy" content="{{ policy }}">'


class Guarded(Extension):
    """Gives the page's nonce to every script that a template writes, and the policy to a page that is a file."""

    def preprocess(self, source: str, *_of_jinja: Any, **_more: Any) -> str:
        source = source.replace("<script", '<script nonce="{{ nonce }}"')
        return source.replace("<head>", f"<head>{{% if policy %}}{META}{{% endif %}}")
