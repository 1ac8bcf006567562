"""`make lab` is for students: nbgrader's tools for instructors are left out of it, and nowhere else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlib.checks.at_home.lessons import config_path

ROOT = Path(__file__).resolve().parents[2]
FOR_INSTRUCTORS = {"course-list", "create-assignment", "formgrader"}
ASK = """
import json
from jupyter_core.paths import jupyter_config_path, jupyter_path
from jupyter_server.extension.config import ExtensionConfigManager
from jupyterlab_server.config import get_page_config
manager = ExtensionConfigManager(read_config_path=jupyter_config_path())
print(json.dumps([manager.get_jpserver_extensions(), get_page_config(jupyter_path("labextensions"))]))
"""


def asked(config: str | None) -> tuple[set[str], set[str]]:
    """The server's extensions that are on, and the plug-ins of JupyterLab that are off."""
    environment = {key: value for key, value in os.environ.items() if key != "JUPYTER_CONFIG_PATH"}
    environment |= {"JUPYTER_CONFIG_PATH": config} if config else {}
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    server, page = json.loads(done.stdout.splitlines()[-1])
    return {name for name, on in server.items() if on}, set(page["disabledExtensions"])


@pytest.mark.slow
def test_instructors_tools_are_off_for_students_and_on_for_instructors():
    prefix = "nbgrader.server_extensions."
    assert "attnlib lab notebooks\n" in (ROOT / "Makefile").read_text()
    on, off = asked(config_path(ROOT / "notebooks"))
    assert {f"@jupyter/nbgrader:{name}" for name in FOR_INSTRUCTORS} <= off
    assert on & {f"{prefix}formgrader", f"{prefix}course_list"} == set()
    assert {f"{prefix}validate_assignment", f"{prefix}assignment_list"} <= on
    on, off = asked(None)
    assert {f"{prefix}formgrader", f"{prefix}course_list"} <= on
    assert not [name for name in off if "nbgrader" in name]
