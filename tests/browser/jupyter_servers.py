"""A JupyterLab as a newcomer's: no settings of this machine, a port that is free, all files in a temporary folder."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

BOUND = 600
"""Seconds after which anything here is taken for hanging; on a quiet machine a test needs a tenth of it."""

SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"windowingMode": "none"},  # every cell is in the page, also those far away
}


@contextlib.contextmanager
def jupyter_lab(root: Path, folder: Path, *options: str) -> Iterator[str]:
    """JupyterLab on the notebooks in `root`, what it writes in `folder`; gives its address with {} for a page."""
    for name, settings in SETTINGS.items():
        path = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    own = {"JUPYTER_RUNTIME_DIR": "runtime", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data"}
    own |= {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython"}
    environment = {**os.environ, **{name: str(folder / place) for name, place in own.items()}}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([*command, *options], cwd=root, env=environment, stdout=log, stderr=log)
    try:
        yield address(server, folder)
    finally:
        server.terminate()  # which ends its kernels, too
        try:
            server.wait(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def address(server: subprocess.Popen[bytes], folder: Path) -> str:
    """The address, from the file that the server writes when it is ready."""
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        for path in (folder / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(json.JSONDecodeError):  # not written to its end yet
                about = json.loads(path.read_text(encoding="utf-8"))
                return f"{about['url']}{{}}?token={about['token']}"
        assert server.poll() is None, (folder / "log").read_text()
        time.sleep(0.2)
    raise AssertionError((folder / "log").read_text())


def press(page, column):
    """Press the button in this column of the formgrader's only row, and read what nbgrader answers."""
    page.locator(f"td.{column} a").click()
    answer = page.locator(".modal.in, .modal.show")
    answer.wait_for()
    said = answer.inner_text()
    answer.get_by_role("button", name=re.compile("OK|Close")).last.click()
    answer.wait_for(state="detached")
    assert "Successfully" in said, said
