"""Talk to a learning platform: one request at a time, errors as one clause, and a token that is never shown."""

import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

SECONDS = 30.0
PATIENCE = 3
"""The most repeats of a request that the platform asks to make later."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
NO_TOKEN = "The token is refused: it is wrong, has expired, or may not do this"


class Refused(Exception):
    """A platform's refusal, with the reason as a clause; the other students are not affected."""


class NoAccess(CourseError):
    """Raised if the platform accepts nothing with this token: no further request makes sense."""


def read_token(variable: str, file: Path | None) -> str:
    """A token from a file that only its owner can read, or else from an environment variable."""
    if file is not None:
        try:
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                raise CourseError(f"Others can read {shown(file)}, which holds a secret: chmod 600 {shown(file)}")
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise CourseError(f"{shown(file)} cannot be read.") from None
    else:
        token = os.environ.get(variable, "").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        where = shown(file) if file is not None else f"the environment variable {variable}"
        raise CourseError(f"A token is required in {where}, or in a file that --token-file names; there is none.")
    return token


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None  # a redirect would take the token along


@dataclass(frozen=True)
class Answer:
    """A platform's answer: its JSON, and the address of the next page, if there is one."""

    data: Any
    next: str = ""


class Web:
    """A platform's address with a token, which is sent to that address alone."""

    def __init__(self, address: str, token: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise CourseError(f"The address should begin with https://, got {printable(address)!r}.")
        self.address, self.token, self.headers = address.rstrip("/"), token, dict(headers or {})
        self.opener = build_opener(_NoRedirects)

    def ask(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> Answer:
        """One request; Refused says what was answered instead, NoAccess that the token is no good."""
        url = path if path.startswith(self.address + "/") else f"{self.address}{path}"
        data = urlencode(fields).encode() if fields is not None else None
        for waited in range(PATIENCE):
            request = Request(url, data=data, method=method, headers=self.headers)
            try:
                with self.opener.open(request, timeout=SECONDS) as response:
                    return Answer(json.load(response), self._next(response.headers.get("Link", "")))
            except HTTPError as error:
                with error:
                    if error.code != 429 or waited + 1 == PATIENCE:
                        raise self._refusal(error) from None
                    later = error.headers.get("Retry-After") or "1"
                    time.sleep(min(float(later), SECONDS) if later.isdecimal() else 1.0)  # else it is a date
            except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
                why = self._clean(getattr(error, "reason", error))
                raise Refused(f"no answer ({why}): the next run will show whether it arrived") from None
            except ValueError:
                raise Refused("the answer is no JSON") from None
        raise AssertionError("the loop ends by an answer or a refusal")

    def _refusal(self, error: HTTPError) -> Exception:
        if error.code in (401, 403):
            return NoAccess(f"{NO_TOKEN} ({error.code}). Nothing is lost: renew it and run the same command again.")
        said = self._clean(error.read(300).decode("utf-8", "replace"))
        return Refused(f"the platform answered {error.code}" + (f": {said}" if said else ""))

    def _clean(self, text: object) -> str:
        return printable(str(text).replace(self.token, "…"))[:160].strip()

    def _next(self, link: str) -> str:
        """The next page's address from a Link header, if it is the same platform's."""
        for part in link.split(","):
            address, _, relation = part.partition(";")
            address = address.strip().strip("<>")
            if 'rel="next"' in relation and address.startswith(self.address + "/"):
                return address
        return ""
