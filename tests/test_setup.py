"""The lock, environment.yml, pyproject.toml and the Makefile say the same."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pins}


def environment() -> list[str]:
    lines = (ROOT / "environment.yml").read_text(encoding="utf-8").splitlines()
    return [line.strip(" -") for line in lines[lines.index("  - pip:") + 1 :]]


def test_the_lock_pins_torch_as_pypi_writes_it() -> None:
    assert locked()["torch"] == "2.13.0"


def test_environment_yml_has_the_versions_of_the_lock() -> None:
    *pins, editable = environment()
    assert editable == "editable ."
    assert len(pins) >= 10
    disagree = [pin for pin in pins if locked().get(canonical(pin.split("==")[0])) != pin.split("==")[1]]
    assert disagree == []


def test_environment_yml_has_all_that_a_student_and_an_instructor_need() -> None:
    optional = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *optional["course"], *optional["grading"]]
    names = {canonical(re.split(r"[<>=]", requirement)[0]) for requirement in wanted}
    assert names <= {canonical(pin.split("==")[0]) for pin in environment()}


def test_a_student_installs_five_packages() -> None:
    names = [re.split(r"[<>=]", requirement)[0] for requirement in PROJECT["dependencies"]]
    assert names == ["torch", "einops", "jaxtyping", "matplotlib", "tqdm"]


def test_every_direct_dependency_is_locked_within_its_range() -> None:
    from packaging.requirements import Requirement

    optional = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *(r for extra in optional.values() for r in extra)]:
        requirement = Requirement(line)
        assert locked()[canonical(requirement.name)] in requirement.specifier


def test_python_is_the_same_range_everywhere() -> None:
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert "- python >=3.11,<3.14" in (ROOT / "environment.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["help", "setup", "lab", "test", "build", "grade", "bench", "lint", "clean"])
def test_make_help_lists_every_command(target: str) -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.search(rf"^make {target} +\w+", listed.stdout, re.MULTILINE)
