"""A Jupyter server with the one config, as `jupyter lab` started in autograder/, and what its formgrader answers."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tiny_course import HANGS

from autograder.lesson_text.layout import CONFIG


@contextlib.contextmanager
def formgrader(course: Path, folder: Path) -> Iterator[Callable[..., str]]:
    """Start the server in `folder`, on the course in `course`; gives a function that fetches a page."""
    config = f"c = get_config()\nload_subconfig({str(CONFIG)!r})\nc.CourseDirectory.root = {str(course)!r}\n"
    (folder / "nbgrader_config.py").write_text(config, encoding="utf-8")
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "JUPYTER_CONFIG_DIR": str(folder)}
    options = ["--no-browser", "--allow-root", "--ServerApp.port=0", "--IdentityProvider.token=secret"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield lambda path, **more: fetch(address(process, folder), path, **more)
    finally:
        process.terminate()
        process.wait(timeout=HANGS)


def address(process: subprocess.Popen[bytes], folder: Path) -> str:
    """The server's address, from the file that it writes when it is ready."""
    for _ in range(10 * HANGS):
        for path in (folder / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(json.JSONDecodeError):  # not written to its end yet
                return json.loads(path.read_text(encoding="utf-8"))["url"]
        assert process.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    raise AssertionError((folder / "log").read_text())


def fetch(base: str, path: str, method: str = "GET", header: str = "") -> str:
    """Return the page, or this header of the answer."""
    request = urllib.request.Request(base + path, method=method, headers={"Authorization": "token secret"})
    for _ in range(10 * HANGS):
        try:
            with urllib.request.urlopen(request, timeout=HANGS) as answer:
                return answer.headers[header] if header else answer.read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()[:2000]}") from None
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError(f"{path}: no answer")
