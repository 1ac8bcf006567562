"""Confine a process before it runs a student's code: seccomp, Landlock and resource limits, by system calls.

Each is its own layer, and none needs privileges. `python -m autograder doctor` attacks all of them.
"""

import ctypes
import os
import resource
import struct
from collections.abc import Iterable
from pathlib import Path

from . import system_calls

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
CAPABILITY_VERSION = 0x20080522
SIGKILL = 9
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_NOSUID, MS_NODEV, MS_PRIVATE = 2, 4, 0x44000  # private, with everything mounted below

# Landlock's rights on files, by the ABI that brought them.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ALL_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
ALL_NETWORK_RIGHTS = 3  # TCP bind and connect, since ABI 4
SCOPES = 3  # abstract unix sockets and signals, since ABI 6
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def no_new_privileges() -> None:
    """From now on no program that this process starts gains rights."""
    _checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def drop_capabilities() -> None:
    """Drop root's powers: what remains is an ordinary owner of files."""
    for capability in range(64):
        if LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header, none = struct.pack("II", CAPABILITY_VERSION, 0), struct.pack("6I", 0, 0, 0, 0, 0, 0)
    _checked(LIBC.capset(header, none), "capset")


def hide_memory() -> None:
    """Hide this process's memory from other processes of the same user."""
    _checked(LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")


def show_memory() -> None:
    """Let the warm process, and nobody outside its layers, see which files this one has open."""
    _checked(LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _checked(LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "pdeathsig")


def adopt_orphans() -> None:
    """Become the parent of processes that this one's children leave running, so that these can be seen."""
    _checked(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def limit(what: int, amount: int) -> None:
    """Set one resource limit, soft and hard; a limit that is lower already stays."""
    hard = resource.getrlimit(what)[1]
    amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(what, (amount, amount))


def limit_resources(*, cpu_seconds: int, memory_bytes: int, file_bytes: int, threads: int) -> None:
    """Bound processor time, address space beyond today's, the size of any file, and threads; no core dumps.

    The kernel counts the threads of a user, where it counts them at all: on the whole machine, unless there is a
    namespace of users. So its bound is four times as high, above all that run now, and the warm process counts, too.
    """
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    limit(resource.RLIMIT_CPU, cpu_seconds)
    limit(resource.RLIMIT_AS, used + memory_bytes)
    limit(resource.RLIMIT_FSIZE, file_bytes)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 128)
    limit(resource.RLIMIT_MSGQUEUE, 0)
    now = int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])
    limit(resource.RLIMIT_NPROC, now + 4 * threads)


def own_file_system(folder: str, size: int, owner: int) -> bool:
    """Mount a file system of this size on a folder for this process and its children; return whether that worked.

    Root may, and others where they may have a namespace of users. It is gone with the last process that sees it.
    """
    pid = os.fork()  # a refusal half-way would leave a process without a user
    if pid == 0:
        os._exit(0 if _mounted(folder, size, owner) else 1)
    return os.waitpid(pid, 0)[1] == 0 and _mounted(folder, size, owner)


def _mounted(folder: str, size: int, owner: int) -> bool:
    user, group, is_root = os.geteuid(), os.getegid(), os.geteuid() == 0
    try:
        _checked(LIBC.unshare(CLONE_NEWNS | (0 if is_root else CLONE_NEWUSER)), "unshare")
        if not is_root:
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
        _checked(LIBC.mount(b"none", b"/", None, MS_PRIVATE, None), "mount")
        options = f"size={size},mode=0700,uid={owner},gid={owner if is_root else group}"
        _checked(LIBC.mount(b"scratch", folder.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options.encode()), "mount")
    except OSError:  # not allowed here: then the warm process counts bytes
        return False
    return True


def seccomp_works() -> bool:
    """True if the seccomp filter knows this machine."""
    return system_calls.works()


def forbid_system_calls() -> None:
    """Forbid new processes, programs, network, mounts and looking at other processes; threads and files stay."""
    code = system_calls.program()
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    _checked(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(filter_program), 0, 0), "seccomp")


def landlock_abi() -> int:
    """Return the kernel's version of Landlock; 0 if it has none."""
    return max(0, int(LIBC.syscall(LANDLOCK_CREATE, None, 0, 1)))


def restrict_files(readable: Iterable[str], writable: Iterable[str], listable: Iterable[str] = ()) -> None:
    """Restrict by Landlock: read and execute under `readable`, anything under `writable`, only names in `listable`.

    TCP is refused altogether, and so are signals to processes outside, where the kernel knows of that.
    """
    abi = landlock_abi()
    rights = ALL_FILE_RIGHTS[min(abi, max(ALL_FILE_RIGHTS))]
    attributes = struct.pack("QQQ", rights, ALL_NETWORK_RIGHTS if abi >= 4 else 0, SCOPES if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _checked(LIBC.syscall(LANDLOCK_CREATE, attributes[:size], size, 0), "landlock_create_ruleset")
    groups = ((readable, EXECUTE | READ_FILE | READ_DIR), (writable, rights & ~EXECUTE), (listable, READ_DIR))
    for paths, allowed in groups:
        for path in paths:
            _allow_beneath(ruleset, path, allowed)
    _checked(LIBC.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow_beneath(ruleset: int, path: str, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not Path(path).is_dir():
        allowed &= EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15  # truncate, ioctl
    rule = struct.pack("=Qi", allowed, place)
    _checked(LIBC.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
    os.close(place)
