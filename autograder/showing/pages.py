"""HTML pages that need no network and run no script: a template, filled in, and everything in it escaped."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.showing.text import printable


def fill_in(template: Path, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """The template's HTML; a name that it uses and that is not given is an error."""
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(template.name).render(values)


def _finalize(value: Any) -> Any:
    """Text and markup without what is not visible: a page would turn the direction of what follows it."""
    return type(value)(printable(value, keep="\n")) if isinstance(value, str) else value
