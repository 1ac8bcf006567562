"""A real JupyterHub with ngshare, set up with the lines that docs/elsewhere.md shows; everybody has a home.

HUB names a folder with
- `venv`: pip install jupyterhub ngshare "sqlalchemy<2"
- `client`: pip install --no-deps --target client ngshare_exchange rapidfuzz, and for servers in the browser
  jupyterhub aiohttp aiohappyeyeballs aiosignal frozenlist multidict propcache yarl oauthlib certipy pamela
- `node_modules`: npm install configurable-http-proxy
"""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from tiny_course import HANGS

ROOT = Path(__file__).resolve().parents[2]
HUB = Path(os.environ.get("HUB") or "no folder")
GUIDE = (ROOT / "docs" / "elsewhere.md").read_text(encoding="utf-8")
NEEDED = pytest.mark.skipif(not os.environ.get("HUB"), reason="NOT TESTED: HUB names no folder with JupyterHub")
TOKEN = secrets.token_hex(16)
CONFIG = """
import sys

c = get_config()
c.JupyterHub.bind_url, c.JupyterHub.hub_bind_url = "http://127.0.0.1:{port}", "http://127.0.0.1:{hub_port}"
c.JupyterHub.db_url, c.JupyterHub.cookie_secret_file = "sqlite:///{here}/hub.sqlite", "{here}/cookie_secret"
c.ConfigurableHTTPProxy.command = ["{hub}/node_modules/.bin/configurable-http-proxy"]
c.ConfigurableHTTPProxy.api_url, c.ConfigurableHTTPProxy.pid_file = "http://127.0.0.1:{api}", "{here}/proxy.pid"
c.JupyterHub.authenticator_class, c.Authenticator.allowed_users = "dummy", set({people})
c.JupyterHub.spawner_class, c.SimpleLocalProcessSpawner.home_dir_template = "simple", "{here}/home/{{username}}"
c.Spawner.cmd, c.Spawner.args = ["{python}", "-m", "jupyterhub.singleuser"], ["--allow-root"]
c.Spawner.environment, c.Spawner.start_timeout, c.Spawner.http_timeout = {environment}, {hangs}, {hangs}
c.JupyterHub.services = [{{"name": "tests", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "tests", "services": ["tests"], "scopes": ["admin:users", "tokens"]}}]
"""


def shown(after: str, language: str = "python") -> str:
    """The guide's next example in that language after those words."""
    found = re.search(rf"{re.escape(after)}.*?```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None, after
    return found[1]


@dataclasses.dataclass
class Hub:
    """A hub that runs: its address, and everybody's token."""

    here: Path
    address: str
    settings: str
    tokens: dict[str, str] = dataclasses.field(default_factory=dict)

    def home(self, who: str) -> Path:
        return self.here / "home" / who

    def call(self, who: str, *arguments: str, folder: str = "", code: int = 0) -> str:
        """Run a Python module as somebody on the hub, in a folder of their home."""
        environment = {**paths(), "HOME": str(self.home(who))}  # where the client keeps what was handed in
        environment |= {"JUPYTERHUB_USER": who, "JUPYTERHUB_API_TOKEN": self.tokens[who]}
        command = [sys.executable, "-m", *arguments]
        place = self.home(who) / folder
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
        assert done.returncode == code, f"{who}: {arguments}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def paths() -> dict[str, str]:
    """What programs of this environment need to find the client and each other."""
    return {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "PYTHONPATH": f"{HUB}/client:{ROOT}", "OMP_NUM_THREADS": "1"}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def running_hub(here: Path, people: list[str]) -> Iterator[Hub]:
    """Start the hub; each of the people has an empty home with the guide's settings."""
    port, hub_port, api, exchange = free_ports(4)
    names = {"port": port, "hub_port": hub_port, "api": api, "here": here, "hub": HUB}
    own = {"/opt/tljh/hub/bin/python3": f"{HUB}/venv/bin/python", "/srv/ngshare": f"{here}/ngshare"}
    service, settings = shown("jupyterhub_config.d/ngshare.py"), shown("the same lines |")
    for theirs, ours in {**own, "127.0.0.1:10101": f"127.0.0.1:{exchange}"}.items():
        assert theirs in service
        service = service.replace(theirs, ours)
    settings = settings.replace("127.0.0.1:10101", f"127.0.0.1:{exchange}")
    (here / "ngshare").mkdir(parents=True)
    config = here / "jupyterhub_config.py"
    text = CONFIG.format(**names, python=sys.executable, token=TOKEN, people=people, environment=paths(), hangs=HANGS)
    config.write_text(text + service, encoding="utf-8")
    hub = Hub(here, f"http://127.0.0.1:{port}", settings)
    for who in people:
        hub.home(who).mkdir(parents=True)
        (hub.home(who) / "nbgrader_config.py").write_text(settings, encoding="utf-8")
    command = [str(HUB / "venv" / "bin" / "jupyterhub"), "-f", str(config)]
    with (here / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=here, stdout=log, stderr=log)
    try:
        wait(f"{hub.address}/services/ngshare/", process, here / "log")
        for who in people:
            path, header = f"{hub.address}/hub/api/users/{who}/tokens", {"Authorization": f"token {TOKEN}"}
            with urlopen(Request(path, method="POST", headers=header), timeout=HANGS) as answer:
                hub.tokens[who] = json.load(answer)["token"]
        yield hub
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(HANGS)


def wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the address answers."""
    until = time.monotonic() + HANGS
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(URLError, OSError), urlopen(address, timeout=5):
            return
        time.sleep(0.5)
    raise AssertionError(log.read_text())
