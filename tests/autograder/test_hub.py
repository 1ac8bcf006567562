"""A real JupyterHub with ngshare: two instructors, students, and nbgrader's own commands.

HUB names a folder with `venv` (jupyterhub, ngshare, sqlalchemy<2), `client` (pip install --no-deps --target client
ngshare_exchange rapidfuzz) and `node_modules` (configurable-http-proxy).
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from tiny_course import HANGS, POINTS, RIGHT, TINY, cell, make_layout

from autograder.building.build_course import prepare
from autograder.lesson_text.notebook import read_notebook, write_notebook

HUB = os.environ.get("HUB", "")
WRONG = RIGHT["pairwise_dot"].replace("return ", "return 2 * ")
PEOPLE = ("admin", "ann", "ian", "sam", "tess")
CONFIG = """
import sys

c = get_config()
c.JupyterHub.bind_url, c.JupyterHub.hub_bind_url = "http://127.0.0.1:18000", "http://127.0.0.1:18081"
c.JupyterHub.db_url, c.JupyterHub.cookie_secret_file = "sqlite:///{here}/hub.sqlite", "{here}/cookie_secret"
c.ConfigurableHTTPProxy.command = ["{hub}/node_modules/.bin/configurable-http-proxy"]
c.ConfigurableHTTPProxy.api_url, c.ConfigurableHTTPProxy.pid_file = "http://127.0.0.1:18001", "{here}/proxy.pid"
c.JupyterHub.authenticator_class, c.Authenticator.allowed_users = "dummy", set({people})
c.JupyterHub.spawner_class = "simple"
ngshare = [sys.executable, "-m", "ngshare", "--admins", "admin"]
ngshare += ["--database", "sqlite:///{here}/ngshare.db", "--storage", "{here}/files"]
c.JupyterHub.services = [{{"name": "ngshare", "url": "http://127.0.0.1:10101", "command": ngshare}}]
"""
SETTINGS = """from ngshare_exchange import configureExchange

c = get_config()
configureExchange(c, "http://127.0.0.1:10101/services/ngshare")
c.CourseDirectory.course_id = "attention"
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HUB, reason="NOT TESTED: HUB names no folder with a JupyterHub and ngshare"),
]


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """Run a Python module as somebody on the hub, with their token."""
    here, hub = tmp_path_factory.mktemp("hub"), Path(HUB)
    config = here / "jupyterhub_config.py"
    config.write_text(CONFIG.format(here=here, hub=hub, people=PEOPLE))
    jupyterhub = [str(hub / "venv" / "bin" / "jupyterhub")]
    with (here / "log").open("wb") as log:
        running = subprocess.Popen([*jupyterhub, "-f", str(config)], cwd=here, stdout=log, stderr=log)
    try:
        until = time.monotonic() + HANGS
        while not is_there("http://127.0.0.1:18000/services/ngshare/"):
            assert running.poll() is None, (here / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.5)
        command = [*jupyterhub, "token", "-f", str(config)]
        tokens = {one: subprocess.check_output([*command, one], cwd=here, text=True).split()[-1] for one in PEOPLE}

        def run(who: str, folder: Path, *arguments: str, code: int = 0) -> str:
            home = here / "home" / who  # where the client remembers what this student has handed in
            home.mkdir(parents=True, exist_ok=True)
            environment = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": f"{hub}/client"}
            environment |= {"JUPYTERHUB_USER": who, "JUPYTERHUB_API_TOKEN": tokens[who]}
            done = subprocess.run(
                [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True
            )
            assert done.returncode == code, done.stderr
            return done.stdout + done.stderr

        yield run
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(HANGS)


def is_there(address: str) -> bool:
    try:
        with urlopen(address, timeout=5):
            return True
    except (URLError, OSError):
        return False


def test_one_instructor_releases_and_another_grades_and_gives_back(call, tmp_path):
    course = {}
    for instructor in ("ann", "ian"):
        layout = make_layout(tmp_path / instructor)
        prepare(layout, ())
        (layout.course / "course_settings.py").write_text(SETTINGS)
        course[instructor] = layout.course
    home = {who: tmp_path / who for who in ("admin", "sam", "tess")}
    for folder in home.values():
        folder.mkdir()
        (folder / "nbgrader_config.py").write_text(SETTINGS)
    manage = "ngshare_exchange.course_management"
    call("admin", home["admin"], manage, "create_course", "attention", "ann", "ian")
    for student in ("sam", "tess"):
        call("ann", home["admin"], manage, "add_student", "attention", student, "--no-gb")
    assert "Successfully released" in call("ann", course["ann"], "nbgrader", "release_assignment", TINY)

    for student, answer in (
        ("sam", RIGHT["pairwise_dot"]),
        ("tess", WRONG),
    ):
        call(student, home[student], "nbgrader", "fetch_assignment", TINY)
        path = home[student] / TINY / f"{TINY}.ipynb"
        notebook = read_notebook(path)
        cell(notebook, "pairwise_dot").source = answer
        write_notebook(notebook, path)
        assert "Submitted as: attention" in call(student, home[student], "nbgrader", "submit", TINY)
    refused = call("tess", home["tess"], "nbgrader", "collect", TINY, code=1)
    assert "Permission denied" in refused

    for command in ("collect", "autograde", "generate_feedback", "release_feedback"):
        call("ian", course["ian"], "nbgrader", command, TINY)
    for student, points in (("sam", POINTS["pairwise_dot"]), ("tess", 0)):
        call(student, home[student], "nbgrader", "fetch_feedback", TINY)
        (page,) = (home[student] / TINY / "feedback").rglob("*.html")
        score = re.search(r"Score: ([\d.]+) / ([\d.]+)", page.read_text(encoding="utf-8"))
        assert score is not None
        assert tuple(map(float, score.groups())) == (points, sum(POINTS.values()))
