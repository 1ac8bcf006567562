"""What keeps student code in: which layers this machine offers, and the command that starts a process behind them."""

import contextlib
import fcntl
import json
import os
import shutil
import site
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import attnlib.checks.asking
from autograder.sandbox.inside import confine
from autograder.sandbox.inside.readable import DEVICES, python_folders
from autograder.sandbox.inside.scratch import FOLDER, clear
from autograder.showing.errors import CourseError

CHOICES = ("auto", "bubblewrap", "landlock", "none")
CONTAINERS = ("docker", "podman")
NOBODY = 65534
OURS = ("attnlib", "autograder")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TORCHDYNAMO_DISABLE": "1",  # torch.compile would start a C compiler; the function itself gives the same numbers
}
BESIDE_STUDENTS = ("attempt", "clock", "limits", "ready_made", "shortcuts", "time_limits", "watch")
SCRATCH_BYTES = 64 << 20
PREFIX = "autograder-"
NEW_SECONDS = 60.0
CONTAINER_MEMORY = "4g"
STUDENT = "/student"
CONTROL = "control"
NOTHING = {
    "cells": [],
    "wanted": "",
    "run": "all",
    "stuck": [],
    "expression": "None",
    "kind": "choice",
    "forbidden": [],
    "library": {},
}
"""A task that shows whether a child comes to life."""


@dataclass(frozen=True)
class Layers:
    """The layers that are on, and how to start the warm process behind them."""

    outer: str  # "bubblewrap", "landlock", "container" or "none"
    seccomp: bool
    landlock: bool
    container: tuple[str, str] | None = None
    """A program, docker or podman, and an image that has the course's packages."""

    @property
    def confined(self) -> bool:
        return self.outer != "none"

    def __str__(self) -> str:
        if not self.confined:
            return "sandbox: none: student code runs with your rights"
        first = {
            "bubblewrap": "bubblewrap (own user, processes, files, no network)",
            "landlock": "no user namespaces here",
            "container": f"{self.container[0]} container of {self.container[1]}" if self.container else "",
        }[self.outer]
        more = [("Landlock", self.landlock), ("seccomp", self.seccomp), ("resource limits", True)]
        return f"sandbox: {first} + " + " + ".join(name for name, on in more if on)


def runtime(folder: Path) -> Path:
    """Put what stands beside the student's code into a folder of its own, and return that folder."""
    target = folder / "inside"
    target.mkdir()
    files = [*Path(__file__).with_name("inside").glob("*.py")]
    files += [Path(attnlib.checks.asking.__path__[0]) / f"{name}.py" for name in BESIDE_STUDENTS]
    for file in files:
        shutil.copyfile(file, target / file.name)
    for path in (folder, target, *target.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def hidden_folders() -> list[str]:
    """Where this project is installed as a package: its answers must not be there for students."""
    places = {path for path in [*sys.path, *site.getsitepackages()] if path and os.path.isdir(path)}
    packages = [os.path.join(place, name) for place in places for name in OURS]
    inside = tuple(folder + os.sep for folder in python_folders())
    return sorted(path for path in packages if os.path.isdir(path) and path.startswith(inside))


def bubblewrap_command(program: str, runtime_folder: Path) -> list[str]:
    """The start of a command line: everything that follows runs inside, without network, and writes to one folder."""
    command = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() == 0:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    command += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    outermost = list(_outermost(python_folders()))
    command += ["--perms", "0755", "--dir", "/tmp"]  # first, because Python may itself be installed beneath it
    command += ["--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs", STUDENT]
    for parent in sorted({str(parent) for path in outermost for parent in Path(path).parents} - {"/"}):
        if not parent.startswith(tuple(path + os.sep for path in outermost)) and parent not in outermost:
            command += ["--perms", "0755", "--dir", parent]
    for path in outermost:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        else:
            command += ["--ro-bind", path, path]
    for path in hidden_folders():
        command += ["--tmpfs", path]
    command += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--remount-ro",
        "/dev",
    ]
    command += ["--ro-bind", str(runtime_folder), "/sandbox", "--chdir", STUDENT, "--remount-ro", "/"]
    return command


def _outermost(paths: list[str]) -> Iterator[str]:
    """The paths that do not lie in another one of them."""
    for path in paths:
        if not any(path.startswith(other + os.sep) for other in paths):
            yield path


def container_command(program: str, image: str, runtime_folder: Path) -> list[str]:
    """The start of a command line: a container without network, rights or anything to write to but its own /tmp."""
    command = [program, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    command += ["--security-opt", "no-new-privileges", "--user", f"{NOBODY}:{NOBODY}", "--hostname", "sandbox"]
    command += ["--ipc", "none", "--pids-limit", "256", "--memory", CONTAINER_MEMORY, "--ulimit", "nofile=1024:1024"]
    command += ["--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,size={SCRATCH_BYTES}", "--workdir", "/tmp"]
    command += ["--volume", f"{runtime_folder}:/sandbox:ro"]
    for name, value in ENVIRONMENT.items():
        if name != "PATH":  # the image knows where its Python is
            command += ["--env", f"{name}={value}"]
    return [*command, "--entrypoint", "python3", image]


def control_socket(runtime_folder: Path) -> socket.socket:
    """Where the warm process in a container calls: docker's server hands no descriptor on."""
    path = runtime_folder / CONTROL
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(1)
    return listener


def command(layers: Layers, runtime_folder: Path, scratch: Path, descriptor: int) -> tuple[list[str], dict[str, str]]:
    """The command line that starts the warm process, and its environment."""
    settings = [f"control={descriptor}", f"seccomp={'yes' if layers.seccomp else 'no'}"]
    if layers.container is not None:
        settings[0] = f"control=/sandbox/{CONTROL}"
        settings += ["scratch=/tmp", f"landlock={'child' if layers.landlock else 'no'}"]
        wrapped = container_command(*layers.container, runtime_folder)
        return [*wrapped, "-I", "-B", "/sandbox/inside/zygote.py", *settings], dict(os.environ)
    interpreter = [sys.executable, "-I", "-B"]
    if layers.outer == "bubblewrap":
        rules = {"readable": [*python_folders(), "/sandbox", *DEVICES], "listable": []}
        settings += [
            f"scratch={STUDENT}",
            f"landlock={'child' if layers.landlock else 'no'}",
            f"rules={json.dumps(rules)}",
        ]
        if os.geteuid() == 0:
            settings.append(f"user={NOBODY}")
        program = shutil.which("bwrap")
        assert program is not None
        wrapped = [*bubblewrap_command(program, runtime_folder), *interpreter, "/sandbox/inside/zygote.py", *settings]
        return wrapped, dict(ENVIRONMENT)
    settings.append(f"scratch={scratch}")
    if layers.outer == "landlock":
        listable = [*{os.path.dirname(path) for path in hidden_folders()}]
        rules = {"readable": [*_without_hidden(python_folders()), str(runtime_folder), *DEVICES], "listable": listable}
        settings += ["landlock=zygote", f"rules={json.dumps(rules)}"]
        if os.geteuid() == 0 and readable_for_all(rules["readable"]):
            settings.append(f"user={NOBODY}")
            os.chown(scratch, NOBODY, NOBODY)
    return [*interpreter, str(runtime_folder / "inside" / "zygote.py"), *settings], dict(ENVIRONMENT)


def readable_for_all(paths: list[str]) -> bool:
    """Whether another user reaches these paths; where Python lies in root's own folder, one does not."""
    parents = {parent for path in paths for parent in Path(path).parents}
    return all(os.stat(parent).st_mode & 0o1 for parent in parents)


def _without_hidden(paths: list[str]) -> Iterator[str]:
    """The paths; where a hidden folder lies in one, what stands beside it instead, for Landlock only ever allows."""
    hidden = hidden_folders()
    for path in paths:
        within = [place for place in hidden if place.startswith(path + os.sep)]
        if not within:
            yield path
            continue
        for name in os.listdir(path):
            child = os.path.join(path, name)
            if child not in hidden:
                yield from _without_hidden([child])


OTHER_FINDERS = "__import__('sys').meta_path[1:]"  # the first one is ours
HAS_REFERENCE = f"'yes' if any(finder.find_spec('attnlib', None) for finder in {OTHER_FINDERS}) else 'no'"


def probe_container(program: str, image: str) -> Layers:
    """A container's layers, by starting one; a CourseError if that fails, or if the image holds the answers."""
    from autograder.sandbox.process import Died, Sandbox

    if shutil.which(program) is None:
        raise CourseError(f"The program {program} is not installed, so there is no sandbox, and nothing is graded.")
    why = ""
    for landlock in (True, False) if confine.landlock_abi() > 0 else (False,):
        layers = Layers("container", confine.seccomp_works(), landlock, (program, image))
        try:
            with Sandbox(layers) as sandbox:
                child = sandbox.fork()
                child.ask({**NOTHING, "expression": HAS_REFERENCE})
                told = child.listen()["value"]
                child.close()
                if told != {"text": "no"}:
                    raise CourseError(f"The image {image} has attnlib installed, whose source answers the exercises.")
            return layers
        except Died as error:
            why = str(error)
    raise CourseError(f"A container of {image} starts, but cannot judge: {why}")


def check_choice(choice: str) -> None:
    """Raise a CourseError for what is no choice of a sandbox."""
    program, _, image = choice.partition(":")
    if choice not in CHOICES and not (image and program in CONTAINERS):
        raise CourseError(f"--sandbox is {', '.join(CHOICES)}, docker:IMAGE or podman:IMAGE, got {choice!r}.")


def probe(choice: str = "auto") -> Layers:
    """The strongest layers that work here, by starting a process behind them; a CourseError if there are none."""
    check_choice(choice)
    if choice == "none":
        return Layers("none", seccomp=False, landlock=False)
    program, _, image = choice.partition(":")
    if image:
        return probe_container(program, image)
    from autograder.sandbox.process import Died, Sandbox

    seccomp, landlock = confine.seccomp_works(), confine.landlock_abi() > 0
    tried = []
    for outer in ("bubblewrap", "landlock") if choice == "auto" else (choice,):
        if outer == "bubblewrap" and shutil.which("bwrap") is None:
            tried.append("bubblewrap: the program bwrap is not installed")
            continue
        if outer == "landlock" and not (landlock and seccomp):
            tried.append("Landlock and seccomp: this kernel does not have both")
            continue
        layers = Layers(outer, seccomp=seccomp, landlock=landlock)
        try:
            with Sandbox(layers) as sandbox:
                sandbox.start()
                child = sandbox.fork()
                child.ask(NOTHING)
                child.close()
            return layers
        except (CourseError, Died) as error:
            tried.append(f"{outer}: {error}")
    raise CourseError(
        "There is no sandbox here, so nothing is graded. " + " ".join(f"{line.rstrip('.')}." for line in tried) + " "
        "Install bubblewrap, or say --sandbox none to run student code with your own rights."
    )


class Folder:
    """A folder for one sandbox, in the system's folder for such; locked as long as its grader lives."""

    def __init__(self) -> None:
        remove_leftovers()
        self.name = tempfile.mkdtemp(prefix=PREFIX)
        self.lock = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.chmod(self.name, 0o755)  # the sandbox's user must find its own folders there
        self.remove = weakref.finalize(self, _remove, self.name, self.lock)
        """Called at the end of the program, too, and only once."""


def _remove(name: str, lock: int) -> None:
    """Remove a sandbox's folder; what cannot be removed now is left to later runs, and harms none of them."""
    with contextlib.suppress(OSError):
        clear(name)
        os.rmdir(name)
    os.close(lock)


def remove_leftovers() -> None:
    """Remove the folders of graders that were killed: those that nobody has locked, but for ones just being made."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or removed by another grader meanwhile
            if left.lstat().st_uid != os.geteuid() or time.time() - left.lstat().st_mtime < NEW_SECONDS:
                continue
            lock = os.open(left, FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                clear(str(left))
                left.rmdir()
            finally:
                os.close(lock)
