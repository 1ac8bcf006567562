"""The student notebooks of this version: copied into a folder, brought up to date, opened."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import attnlib
from attnlib.checks.at_home.merging import merged, sources
from attnlib.checks.standing.progress import progress

FOLDER = "attention_from_scratch"
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
PORT, OTHER_PORTS = 8888, 50
BASE, BEFORE = ".as_handed_out", ".before_the_update"
INSTALL = 'python -m pip install "attnlib[course]"'
CALLED = "attnlib" if Path(sys.argv[0]).stem == "attnlib" else "python -m attnlib"
"""The command as it was called: there may be no `python` that knows attnlib, as with uvx."""


class CannotOpen(Exception):
    """The course cannot be opened here; the text says why, and what helps."""


def published() -> Path:
    """The folder with the notebooks of this version: in a clone, or where the wheel put them."""
    clone = Path(attnlib.__file__).resolve().parents[1]
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))  # Debian's isn't in sys.prefix
    for place in (clone, *(Path(sysconfig.get_path("data", scheme)) / "share" / "attnlib" for scheme in schemes)):
        if (place / "notebooks" / "00_start_here.ipynb").exists():
            return place / "notebooks"
    raise CannotOpen(f"This installation of attnlib has no notebooks. Install it from its wheel: {INSTALL}")


def bring(folder: Path) -> list[str]:
    """Copy the notebooks that are missing, and return their names; existing ones stay as they are."""
    came, notebooks = [], sorted(published().glob("*.ipynb"))
    if folder.resolve() == published():
        return []
    _make(folder)
    for notebook in notebooks:
        if not (folder / notebook.name).exists():
            _copy(notebook, folder)
            came.append(notebook.name)
    settings = published() / ".jupyter"
    if settings.is_dir() and not (folder / ".jupyter").exists():
        shutil.copytree(settings, folder / ".jupyter")
    return came


def update(folder: Path) -> list[str]:
    """Bring a folder to this version, and say what was done, a line for each notebook; see `merging`.

    A notebook that was changed, by the course and by the learner, is kept in `.before_the_update/` as it was.
    """
    if not (folder / BASE).is_dir():
        raise CannotOpen(f"{folder} holds no notebooks of this course. To get them: {CALLED} lab {folder}")
    told = []
    for notebook in sorted(published().glob("*.ipynb")):
        own, base = folder / notebook.name, folder / BASE / notebook.name
        if not own.exists():
            _copy(notebook, folder)
            told.append(f"{notebook.name}: new")
            continue
        if base.exists() and base.read_bytes() == notebook.read_bytes():
            continue
        try:
            mine = json.loads(own.read_text(encoding="utf-8"))
            before = json.loads(base.read_text(encoding="utf-8")) if base.exists() else {"cells": []}
            touched = sources(mine) != sources(before)
            new = merged(before, mine, json.loads(notebook.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as error:
            told.append(f"{notebook.name}: left as it is, since it cannot be read as a notebook ({error})")
            continue
        if touched:
            (folder / BEFORE).mkdir(exist_ok=True)
            shutil.copyfile(own, folder / BEFORE / own.name)
            _write(own, f"{json.dumps(new, indent=1, ensure_ascii=False)}\n".encode())
            shutil.copyfile(notebook, base)
        else:
            _copy(notebook, folder)
        told.append(
            f"{notebook.name}: brought up to date" + (f", with what you wrote; as it was: {BEFORE}/" if touched else "")
        )
    return told or ["All notebooks are those of this version."]


def next_lesson() -> str:
    """Return the lesson of the first exercise with points that hasn't passed; the last lesson if all have."""
    rows = progress(terminal=True).rows
    return next((row.lesson for row in rows if row.most and not row.passed), rows[-1].lesson)


def open_lab(folder: Path, options: list[str]) -> int:
    """Copy missing notebooks and open JupyterLab at the next lesson; return its exit status."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise CannotOpen(f"JupyterLab is not installed in this Python. To install it: {INSTALL}")
    came = bring(folder)
    if came:
        print(f"{len(came)} notebooks are now in {folder}. `{CALLED} update` refreshes them and keeps your work.")
    command = [sys.executable, "-m", "jupyterlab", str(folder / f"{next_lesson()}.ipynb"), *options]
    command += [*_on_a_free_port(options), *_as_root(), *_without_a_display()]
    return subprocess.call(command, env={**os.environ, "JUPYTER_CONFIG_PATH": config_path(folder)})


def _on_a_free_port(options: list[str]) -> list[str]:
    """Return the options that ask for a free port; none if the learner names one."""
    if any(option.startswith(("--port", "--ServerApp.port", "--sock", "--ServerApp.sock")) for option in options):
        return []
    for port in range(PORT, PORT + OTHER_PORTS):
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)):
                break
    else:
        raise CannotOpen(f"The ports {PORT} to {port} are taken. Name a free one: {CALLED} lab --port 9999")
    if port != PORT:
        print(f"Port {PORT} is taken, perhaps by a JupyterLab that you have open: this one is on port {port}.")
    return [f"--port={port}"]


def _as_root() -> list[str]:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return []
    print("You are root, and so is everything a notebook runs. If you can, start this as another user.")
    return ["--allow-root"]


def _without_a_display() -> list[str]:
    if sys.platform != "linux" or any(map(os.environ.get, SCREENS)):
        return []
    print("There is no display here: open the address below in a browser.")
    return ["--no-browser"]


def config_path(folder: Path) -> str:
    """The path on which Jupyter finds the students' settings before those of the machine."""
    return os.pathsep.join(filter(None, [str(folder.resolve() / ".jupyter"), os.environ.get("JUPYTER_CONFIG_PATH")]))


def _make(folder: Path) -> None:
    try:
        (folder / BASE).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotOpen(f"{folder} cannot be made ({error.strerror}). Name another: {CALLED} lab FOLDER") from None


def _copy(notebook: Path, folder: Path) -> None:
    for target in (folder / notebook.name, folder / BASE / notebook.name):
        _write(target, notebook.read_bytes())


def _write(file: Path, text: bytes) -> None:
    """Write the file whole, byte for byte: what was handed out is recognised by its bytes."""
    fresh = file.with_name(f"{file.name}.fresh")
    fresh.write_bytes(text)
    fresh.replace(file)
