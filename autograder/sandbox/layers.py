"""The layers that keep student code in, and the command that starts a process behind them."""

import json
import os
import shutil
import site
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import attnlib.checks.asking
from autograder.sandbox.inside.readable import DEVICES, python_folders

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
BESIDE = """attempt clock confine contract endless failure given inputs installed limits other_device ready_made
shortcuts system_calls time_limits watch window"""
"""The modules of attnlib.checks.asking that run in the sandbox along with `inside`."""
SCRATCH_BYTES = 64 << 20
CONTAINER_MEMORY = "4g"
STUDENT = "/student"
CONTROL = "control"


@dataclass(frozen=True)
class Layers:
    """The layers that are on."""

    outer: str  # "bubblewrap", "landlock", "user", "container" or "none"
    seccomp: bool
    landlock: bool
    container: tuple[str, str] | None = None
    """A program, docker or podman, and an image with the course's packages."""

    @property
    def confined(self) -> bool:
        return self.outer != "none"

    def __str__(self) -> str:
        if not self.confined:
            return "sandbox: none: student code runs with your rights"
        first = {
            "bubblewrap": "bubblewrap (own user, processes, files, no network)",
            "landlock": "no bubblewrap here",
            "user": "another user, who can read what every user of this machine can",
            "container": f"{self.container[0]} container of {self.container[1]}" if self.container else "",
        }[self.outer]
        more = [("Landlock", self.landlock), ("seccomp", self.seccomp), ("resource limits", True)]
        return f"sandbox: {first} + " + " + ".join(name for name, on in more if on)


def runtime(folder: Path) -> Path:
    """Copy the modules that run beside student code into `folder`, readable for all, and return it."""
    target = folder / "inside"
    target.mkdir()
    files = [*Path(__file__).with_name("inside").glob("*.py")]
    files += [Path(attnlib.checks.asking.__path__[0]) / f"{name}.py" for name in BESIDE.split()]
    for file in files:
        shutil.copyfile(file, target / file.name)
    for path in (folder, target, *target.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def hidden_folders() -> list[str]:
    """Return the folders in which this project is installed as a package: students must not find its answers there."""
    places = {path for path in [*sys.path, *site.getsitepackages()] if path and os.path.isdir(path)}
    packages = [os.path.join(place, name) for place in places for name in OURS]
    inside = tuple(folder + os.sep for folder in python_folders())
    found = {*packages, *map(os.path.realpath, packages)}
    return sorted(path for path in found if os.path.isdir(path) and path.startswith(inside))


def bubblewrap_command(program: str, runtime_folder: Path) -> list[str]:
    """Return the start of a command line: all that follows runs inside, without network, and writes to one folder."""
    command = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() == 0:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    command += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    outermost = list(_outermost(python_folders()))
    command += ["--perms", "0755", "--dir", "/tmp"]  # first, because Python itself may be installed in it
    command += ["--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs", STUDENT]
    for parent in sorted({str(parent) for path in outermost for parent in Path(path).parents} - {"/"}):
        if not parent.startswith(tuple(path + os.sep for path in outermost)) and parent not in outermost:
            command += ["--perms", "0755", "--dir", parent]
    for path in outermost:
        if os.path.islink(path):
            command += ["--symlink", os.path.realpath(path), path]
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
    """Yield the paths that are not inside another one of them."""
    for path in paths:
        if not any(path.startswith(other + os.sep) for other in paths):
            yield path


def container_command(program: str, image: str, runtime_folder: Path) -> list[str]:
    """Return the start of a command line: a container without network or rights, which writes only to its own /tmp."""
    command = [program, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    command += ["--security-opt", "no-new-privileges", "--user", f"{NOBODY}:{NOBODY}", "--hostname", "sandbox"]
    command += ["--ipc", "none", "--pids-limit", "256", "--memory", CONTAINER_MEMORY, "--ulimit", "nofile=1024:1024"]
    command += ["--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,size={SCRATCH_BYTES}", "--workdir", "/tmp"]
    command += ["--volume", f"{runtime_folder}:/sandbox:ro"]
    if program == "podman":  # whose --read-only leaves /run and /var/tmp writable, for the next student to read
        command += ["--read-only-tmpfs=false"]
    for name, value in ENVIRONMENT.items():
        if name != "PATH":  # the image knows where its Python is
            command += ["--env", f"{name}={value}"]
    return [*command, "--entrypoint", "python3", image]


def control_socket(runtime_folder: Path) -> socket.socket:
    """Open the socket to which the template in a container connects: docker's server passes no descriptor on."""
    path = runtime_folder / CONTROL
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(1)
    return listener


def command(layers: Layers, runtime_folder: Path, scratch: Path, descriptor: int) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts the template, and its environment."""
    settings = [f"control={descriptor}", f"seccomp={'yes' if layers.seccomp else 'no'}"]
    settings += ["quota=yes"] if layers.outer in ("bubblewrap", "container") else []
    if layers.container is not None:
        settings[0] = f"control=/sandbox/{CONTROL}"
        settings += ["scratch=/tmp", f"landlock={'child' if layers.landlock else 'no'}"]
        wrapped = container_command(*layers.container, runtime_folder)
        return [*wrapped, "-I", "-B", "/sandbox/inside/template.py", *settings], dict(os.environ)
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
        wrapped = [*bubblewrap_command(program, runtime_folder), *interpreter, "/sandbox/inside/template.py", *settings]
        return wrapped, dict(ENVIRONMENT)
    settings.append(f"scratch={scratch}")
    if layers.outer in ("landlock", "user"):
        settings += ["quota=try", f"scratch_bytes={SCRATCH_BYTES}"]
        readable = [*_without_hidden(python_folders()), str(runtime_folder), *DEVICES]
        if layers.landlock:
            rules = {"readable": readable, "listable": [*{os.path.dirname(path) for path in hidden_folders()}]}
            settings += ["landlock=template", f"rules={json.dumps(rules)}"]
        if layers.outer == "user" or (os.geteuid() == 0 and readable_for_all(readable)):
            settings.append(f"user={NOBODY}")
            os.chown(scratch, NOBODY, NOBODY)
    return [*interpreter, str(runtime_folder / "inside" / "template.py"), *settings], dict(ENVIRONMENT)


def readable_for_all(paths: list[str]) -> bool:
    """True if other users can reach these paths; if Python is in root's own folder, they cannot."""
    parents = {parent for path in paths for parent in Path(path).parents}
    return all(os.stat(parent).st_mode & 0o1 for parent in parents)


def why_no_other_user() -> str:
    """Return why a process of another user would not start, or could read the course's answers; "" if neither."""
    if os.geteuid() != 0:
        return "only root can start a process as another user"
    if not readable_for_all(python_folders()):
        return "this Python is in a folder that other users cannot read"
    for path in [*hidden_folders(), attnlib.__path__[0], str(Path(__file__).parents[1])]:
        if readable_for_all([path]) and os.stat(path).st_mode & 0o5:
            return f"other users can read {path}, which has the answers: close a folder above it (chmod 700)"
    return ""


def _without_hidden(paths: list[str]) -> Iterator[str]:
    """Yield the paths, but for one that holds a hidden folder, all else in it: Landlock's rules can only allow."""
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
