"""HTML pages that need no network and run no script: a filled-in template with everything escaped."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.showing.text import printable


def fill_in(template: Path, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """Return the template's HTML; a name that it uses and that isn't given is an error."""
    return _environment(template.parent, tuple(filters.items())).get_template(template.name).render(values)


@lru_cache  # a thousand pages are made of one template
def _environment(folder: Path, filters: tuple[tuple[str, Callable[..., Any]], ...]) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**FILTERS, **dict(filters)}
    return environment


def code(text: str) -> Markup:
    """The text escaped, with `code` set as code.

    >>> print(code("`a < b`, or a > b"))
    <code>a &lt; b</code>, or a &gt; b
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


FILTERS = {"code": code}
"""The filters that every template may use."""


def _finalize(value: Any) -> Any:
    """Remove invisible characters from text and markup: on a page, they would turn the direction of what follows."""
    return type(value)(printable(value, keep="\n")) if isinstance(value, str) else value
