"""`.ci/run` and the workflow run what they say, and none of the two is green because there is no browser."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8"))["jobs"]
CONFTEST = (ROOT / "tests" / "browser" / "conftest.py").read_text("utf-8")
BROWSERS = re.findall(r'"([\w-]+)"', re.search(r"^NAMES = \((.*)\)$", CONFTEST, re.MULTILINE)[1])
SAYS = "#!/bin/sh\necho ${0##*/} $*\n"


def program(path: Path, text: str = SAYS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def said(folder: Path, *installed: str) -> list[str]:
    """The lines of `.ci/run` where only these programs are installed, and each only says how it was called."""
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    program(folder / ".ci" / "without")
    for name in ("make", *installed):
        program(folder / "bin" / name)
    for name in ("bash", "dirname"):
        (folder / "bin" / name).symlink_to(shutil.which(name))
    run = [folder / ".ci" / "run"]
    environment = {"PATH": str(folder / "bin")}
    return subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("browser", BROWSERS)
def test_ci_runs_what_the_workflow_runs_and_the_browser(tmp_path: Path, browser: str) -> None:
    lines = said(tmp_path, "bwrap", browser)
    workflow = [step["run"].removeprefix(".ci/") for step in JOBS["linux"]["steps"] if "run" in step]
    assert lines == [*workflow[1:], "make test-browser"]  # the first one installs bubblewrap


def test_ci_says_loudly_what_it_cannot_test(tmp_path: Path) -> None:
    untested = [line for line in said(tmp_path) if not line.startswith(("make ", "without "))]
    assert len(untested) == 2
    assert all(line.startswith("NOT TESTED: ") for line in untested)
    assert [name for name in ("bubblewrap", *BROWSERS) if name not in " ".join(untested)] == []


def commands(target: str) -> str:
    return subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def test_the_browser_s_part_of_ci_is_files_of_the_whole_that_need_no_site() -> None:
    assert "make browser" in [step.get("run") for step in JOBS["browser"]["steps"]]
    assert re.search(r"-m pytest tests/browser( |$)", commands("browser"), re.MULTILINE)
    files = re.search(r"-m pytest (.*)", commands("test-browser"))[1].split()
    assert len(files) > 3
    for file in files:
        assert Path(file).parent == Path("tests/browser")
        assert "test_site_in_browser" not in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize(
    ("lacks", "complaint"),
    [("browser", f"none of {', '.join(BROWSERS)} is installed"), ("playwright", "No module named 'playwright")],
)
def test_a_test_in_the_browser_fails_where_it_cannot_run(tmp_path: Path, lacks: str, complaint: str) -> None:
    (tmp_path / "playwright").mkdir()
    (tmp_path / "playwright" / "__init__.py").touch()  # an empty one, whether or not this environment has another
    if lacks != "browser":
        program(tmp_path / "bin" / BROWSERS[0])
    folder = tmp_path / "tests" / "browser"
    folder.mkdir(parents=True)
    for name in ("conftest.py", "jupyter_servers.py"):
        shutil.copy(ROOT / "tests" / "browser" / name, folder)
    (folder / "test_any.py").write_text("def test_any(page):\n    page.goto('about:blank')\n")
    environment = {**os.environ, "PATH": str(tmp_path / "bin"), "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", tmp_path / "base", folder],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1, run.stdout
    assert complaint in run.stdout
