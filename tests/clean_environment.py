"""A new environment as Colab has it: torch is there already, attnlib comes from its built wheel, nothing of ours else.

The lessons' notebooks run in it (`--nbval-kernel-name clean`): once, for what they print and for what they need.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

from filelock import FileLock
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(sysconfig.get_path("purelib"))
KERNEL = "clean"
FOLDER = "CLEAN_ENVIRONMENT"
"""The variable that tells pytest's workers where the session's environment is, or will be."""
OURS = ("PYTHON", "PIP_", "VIRTUAL_ENV", "MPLBACKEND")


def announce(folder: Path) -> None:
    """Tell Jupyter of the kernel, and the workers of the folder; nothing is made yet."""
    place = folder / "jupyter" / "kernels" / KERNEL
    place.mkdir(parents=True)
    unset = [word for name in os.environ if name.startswith(OURS) for word in ("-u", name)]
    argv = ["env", *unset, str(_python(folder)), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": KERNEL, "language": "python"}
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    paths = [str(folder / "jupyter"), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    os.environ.update({FOLDER: str(folder), "JUPYTER_PATH": os.pathsep.join(paths)})


def python() -> Path:
    """The environment's Python. Whoever asks first makes it, and the others wait."""
    folder = Path(os.environ[FOLDER])
    with FileLock(folder / "lock"):
        if not (folder / "made").exists():
            _make(folder)
            (folder / "made").touch()
    return _python(folder)


def clean(environment: dict[str, str]) -> dict[str, str]:
    """The environment's variables without those that speak of this Python."""
    return {name: value for name, value in environment.items() if not name.startswith(OURS)}


def _python(folder: Path) -> Path:
    return folder / "env" / "bin" / "python"


def _make(folder: Path) -> None:
    checkout = folder / "checkout"
    checkout.mkdir()
    shutil.copytree(ROOT / "attnlib", checkout / "attnlib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "notebooks", checkout / "notebooks")
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, checkout)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(checkout)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")

    venv.create(folder / "env", with_pip=True, symlinks=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [Requirement(text).name for text in project["dependencies"]]
    _link(_with_dependencies("torch", "ipykernel", "scikit-learn", "babel", *needed), site)
    if importlib.util.find_spec("rxnmapper"):  # lesson 12's weights: of this package nothing else is needed
        _link({"rxnmapper"}, site)
    before = _files_of_torch()
    pip = [str(_python(folder)), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command = [*pip, "--no-index", str(wheel)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=clean(dict(os.environ)))
    assert result.returncode == 0, result.stderr
    assert _files_of_torch() == before
    assert (site / "torch").is_symlink()


def _with_dependencies(*names: str) -> set[str]:
    """The distributions that these need, with the extras that are asked for, as far as they are installed here."""
    found: set[tuple[str, str]] = set()
    left = [(name, "") for name in names]
    while left:
        name, extra = left.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        if (name, extra) not in found:
            found.add((name, extra))
            wanted = [Requirement(text) for text in needs]
            wanted = [w for w in wanted if w.marker is None or w.marker.evaluate({"extra": extra})]
            left += [(w.name, each) for w in wanted for each in ("", *w.extras)]
    return {name for name, _ in found}


def _link(names: set[str], site: Path) -> None:
    """Put installed distributions into another environment, as links: pip sees them as installed."""
    for name in names:
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            if top not in ("..", "bin", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(SITE / top)


def _files_of_torch() -> dict[str, tuple[int, int]]:
    folder = Path(importlib.metadata.distribution("torch").locate_file("torch"))
    return {
        str(p): (p.stat().st_size, p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file() and p.suffix != ".pyc"
    }
