"""The locks, environment.yml, pyproject.toml and the Makefile say the same."""

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str) -> dict[str, list[str]]:
    """Name -> versions with their markers: one for each Python and system."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith(("#", " ")):
            package, version = line.removesuffix("\\").rstrip().split("==", 1)
            found.setdefault(canonical(package.partition("[")[0]), []).append(version)
    return found


LOCKED, EVERYTHING = pins("requirements.lock"), pins("requirements.txt")
COURSE = pins("requirements-course.lock")
LOCKS = ["requirements.lock", "requirements-course.lock"]


def test_torch_is_pinned_as_pypi_writes_it_and_outside_of_the_hashes() -> None:
    assert EVERYTHING["torch"] == ["2.13.0"]
    assert "torch" not in LOCKED


def test_both_files_have_the_same_versions() -> None:
    assert LOCKED | {"torch": EVERYTHING["torch"]} == EVERYTHING


def test_who_opens_the_course_gets_the_same_versions_and_none_of_the_workshop() -> None:
    versions = {name: {line.split(" ;")[0] for line in lines} for name, lines in LOCKED.items()}
    assert [
        name for name, lines in COURSE.items() if not {line.split(" ;")[0] for line in lines} <= versions[name]
    ] == []
    assert {"jupyterlab", "matplotlib", "nbgrader"} <= set(COURSE)
    assert {"mypy", "pytest", "ruff", "hypothesis", "distributed", "psycopg"} & set(COURSE) == set()


@pytest.mark.parametrize("name", LOCKS)
def test_every_version_in_the_lock_has_hashes(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 100
    assert [entry for entry in entries if not re.search(r"\\\n    --hash=sha256:[0-9a-f]{64}", entry)] == []


def test_an_extra_that_a_locked_package_asks_for_is_locked_with_it() -> None:
    """Else pip looks for the newest version that has the extra, and refuses one that is not the locked one."""
    asked = [
        Requirement(text)
        for distribution in importlib.metadata.distributions()
        if canonical(distribution.name) in LOCKED
        for text in distribution.requires or []
    ]
    needed = {
        f"{canonical(one.name)}[{extra}]"
        for one in asked
        for extra in one.extras
        if one.marker is None or one.marker.evaluate({"extra": ""})
    }
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert {"jsonschema[format-nongpl]"} <= needed
    assert [one for one in needed if f"\n{one}==" not in lock] == []


@pytest.mark.parametrize("name", [*LOCKS, "requirements.txt", "environment.yml", "Makefile"])
def test_no_place_to_download_from_is_written_down(name: str) -> None:
    assert not re.search(r"://|--find-links|--index-url|/opt/", (ROOT / name).read_text(encoding="utf-8"))


def test_environment_yml_repeats_no_version() -> None:
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    assert "==" not in text
    assert text.endswith("  - pip:\n      - --requirement requirements.txt\n      - --editable .\n")


def test_a_student_installs_five_packages() -> None:
    names = [re.split(r"[<>=]", requirement)[0] for requirement in PROJECT["dependencies"]]
    assert names == ["torch", "einops", "jaxtyping", "matplotlib", "tqdm"]


def test_every_direct_dependency_is_locked_within_its_range() -> None:
    from packaging.requirements import Requirement

    optional = PROJECT["optional-dependencies"]
    for line in [
        *PROJECT["dependencies"],
        *(r for name, extra in optional.items() if name != "browser" for r in extra),
    ]:
        requirement = Requirement(line)
        for version in EVERYTHING[canonical(requirement.name)]:
            assert version.split(" ;")[0] in requirement.specifier


def test_python_is_the_same_range_everywhere() -> None:
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert "- python >=3.11,<3.14" in (ROOT / "environment.yml").read_text(encoding="utf-8")


def test_the_hooks_before_a_commit_need_no_network() -> None:
    import yaml

    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    hooks = {hook["id"]: hook for hook in repositories[0]["hooks"]}
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    assert [hook["entry"].split()[0] for hook in hooks.values()] == [
        ".venv/bin/ruff",
        ".venv/bin/ruff",
        ".venv/bin/python",
    ]
    assert hooks["lessons"]["entry"].endswith("-m autograder build --check")
    for path in ("solutions/00_start_here.py", "notebooks/00_start_here.ipynb", "attnlib/checks/course/__init__.py"):
        assert (ROOT / path).is_file()
        assert re.search(hooks["lessons"]["files"], path)


def test_the_lock_is_made_of_all_extras_but_the_browser() -> None:
    extras = re.findall(r"^(?:COURSE|WORKSHOP) := (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {*" ".join(extras).split(), "browser"} == set(PROJECT["optional-dependencies"])
    assert "playwright" not in EVERYTHING


@pytest.mark.parametrize(
    "target", ["help", "setup", "lab", "test", "browser", "site", "build", "grade", "bench", "lint", "lock", "clean"]
)
def test_make_help_lists_every_command(target: str) -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.search(rf"^make {target} +\w+", listed.stdout, re.MULTILINE)
