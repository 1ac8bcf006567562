"""The formgrader's pages, served with a policy of their own; no option of nbgrader's names what makes them."""

import secrets
from typing import Any

from nbgrader.server_extensions.formgrader.base import BaseHandler
from nbgrader.server_extensions.formgrader.handlers import SubmissionFilesHandler

from autograder.in_nbgrader.pages.page import Page
from autograder.in_nbgrader.pages.policy import Guarded, policy


def guard_pages() -> None:
    """Replace how the formgrader makes its pages and their headers; a second call changes nothing."""
    BaseHandler.exporter = property(_exporter)
    BaseHandler.render = _render
    BaseHandler.content_security_policy = property(lambda self: f"{policy(_nonce(self))}; frame-ancestors 'self'")
    SubmissionFilesHandler.content_security_policy = "sandbox; default-src 'none'"  # what a student handed in


def _nonce(handler: Any) -> str:
    """Return the nonce of the page that this handler answers with."""
    if not hasattr(handler, "_nonce"):
        handler._nonce = secrets.token_urlsafe(16)
    return str(handler._nonce)


def _exporter(handler: Any) -> Page:
    return Page(config=handler.settings["nbgrader_exporter"].config, nonce=_nonce(handler))


def _render(handler: Any, name: str, **values: Any) -> str:
    """Render as nbgrader does, but escape every value: students' names come from wherever the list of students does."""
    shared = handler.settings["nbgrader_jinja2_env"]
    environment = shared.overlay(autoescape=True, cache_size=0, extensions=[Guarded])
    environment.globals = {**shared.globals, "nonce": _nonce(handler)}
    return str(environment.get_template(name).render(**values))
