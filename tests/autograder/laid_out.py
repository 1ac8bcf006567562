"""A container as a platform lays it out, by bubblewrap: root with Docker's usual rights, and no network."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

LANDLOCK_CREATE, NO_SUCH_CALL = 444, 0x0005_0000 | 38  # SECCOMP_RET_ERRNO | ENOSYS
DOCKERS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "SYS_CHROOT")

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bwrap") is None,
    reason="NOT TESTED: laying out a container takes root and bubblewrap",
)


def without_landlock() -> int:
    """A descriptor with a seccomp filter under which the kernel seems to have no Landlock."""
    rules = [(0x20, 0, 0, 0), (0x15, 0, 1, LANDLOCK_CREATE), (0x06, 0, 0, NO_SUCH_CALL), (0x06, 0, 0, 0x7FFF_0000)]
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(struct.pack("HBBI", *rule) for rule in rules))
        file.seek(0)
        return os.dup(file.fileno())


def in_container(
    *command: str, bound: dict[str, Path], landlock: bool = True, setting: dict[str, str] | None = None, cwd: str = "/"
) -> subprocess.CompletedProcess[str]:
    """Run a command where `bound` are folders of its own, with this Python and the system's programs beside them."""
    arguments = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL"]
    for name in DOCKERS:
        arguments += ["--cap-add", f"CAP_{name}"]
    for parent in sorted(
        {str(parent) for path in (sys.base_prefix, sys.prefix) for parent in Path(path).parents} - {"/"}
    ):
        arguments += ["--perms", "0755", "--dir", parent]  # as an image's own Python is there for all users
    for path in ("/usr", "/etc", "/lib", "/lib64", "/bin", "/sbin", sys.base_prefix, sys.prefix):
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp", "--clearenv"]
    for where, folder in bound.items():
        arguments += ["--bind", str(folder), where]
    environment = {"PATH": "/usr/bin:/bin", "AUTOGRADER_VENV": sys.prefix, "TORCH_INDEX": "", **(setting or {})}
    for name, value in environment.items():
        arguments += ["--setenv", name, value]
    handed_on = [] if landlock else [without_landlock()]
    arguments += [word for descriptor in handed_on for word in ("--seccomp", str(descriptor))]
    try:
        return subprocess.run(
            [*arguments, "--chdir", cwd, *command], capture_output=True, text=True, pass_fds=handed_on, timeout=1800
        )
    finally:
        for descriptor in handed_on:
            os.close(descriptor)
