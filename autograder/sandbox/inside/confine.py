"""What a process gives up before it runs a student's code: seccomp, Landlock and resource limits, by system calls.

Each is its own layer, and none needs privileges. `python -m autograder doctor` attacks all of them.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Iterable

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
CAPABILITY_VERSION = 0x20080522
SIGKILL = 9

# x86_64 and aarch64 numbers of what an exercise never needs; None where the architecture has no such call.
REFUSED = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "setuid": (105, 146),
    "setgid": (106, 144),
    "setreuid": (113, 145),
    "setregid": (114, 143),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "setgroups": (116, 159),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "personality": (135, 92),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "memfd_secret": (447, 447),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "ioprio_set": (251, 30),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "tkill": (200, 130),
}
CLONE = (56, 220)
CLONE3 = (435, 435)
KILL = (62, 129)
TGKILL = (234, 131)
PRLIMIT = (302, 261)
CLONE_THREAD = 0x10000
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
ALLOW, REFUSE, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000

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
    """Root without its powers: what is left is an ordinary owner of files."""
    for capability in range(64):
        if LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header, none = struct.pack("II", CAPABILITY_VERSION, 0), struct.pack("6I", 0, 0, 0, 0, 0, 0)
    _checked(LIBC.capset(header, none), "capset")


def hide_memory() -> None:
    """No other process of the same user may look into this one."""
    _checked(LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")


def die_with_parent() -> None:
    """The kernel kills this process when its parent ends."""
    _checked(LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "pdeathsig")


def limit(what: int, amount: int) -> None:
    """Set one resource limit, soft and hard; one that is lower already stays."""
    hard = resource.getrlimit(what)[1]
    amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(what, (amount, amount))


def limit_resources(*, cpu_seconds: int, memory_bytes: int, file_bytes: int) -> None:
    """Bound processor time, address space beyond today's, and the size of any file; no core dumps."""
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit(resource.RLIMIT_CPU, cpu_seconds)
    limit(resource.RLIMIT_AS, used + memory_bytes)
    limit(resource.RLIMIT_FSIZE, file_bytes)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 128)
    limit(resource.RLIMIT_MSGQUEUE, 0)


def seccomp_works() -> bool:
    """Whether this machine is one that the filter knows."""
    return platform.system() == "Linux" and platform.machine() in ARCHITECTURES


def forbid_system_calls() -> None:
    """No further process, no program, no network, no look at other processes, no mounts; threads and files stay."""
    column, architecture = ARCHITECTURES[platform.machine()]
    program: list[tuple[int, int, int, int]] = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, KILL_PROCESS),
        (0x20, 0, 0, 0),  # load the call's number
    ]
    if platform.machine() == "x86_64":
        program += [(0x35, 0, 1, 0x40000000), (0x06, 0, 0, KILL_PROCESS)]  # the x32 calls
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            program += [(0x15, 0, 1, number), (0x06, 0, 0, REFUSE | errno.EPERM)]
    program += [(0x15, 0, 1, CLONE3[column]), (0x06, 0, 0, REFUSE | errno.ENOSYS)]  # glibc falls back to clone
    # clone makes threads alone: its flags are the first argument
    program += [(0x15, 0, 4, CLONE[column]), (0x20, 0, 0, 16), (0x45, 1, 0, CLONE_THREAD)]
    program += [(0x06, 0, 0, REFUSE | errno.EPERM), (0x06, 0, 0, ALLOW)]
    # signals go to this process alone
    for number, own in ((KILL[column], os.getpid()), (TGKILL[column], os.getpid())):
        program += [(0x15, 0, 4, number), (0x20, 0, 0, 16), (0x15, 1, 0, own)]
        program += [(0x06, 0, 0, REFUSE | errno.EPERM), (0x06, 0, 0, ALLOW)]
    # limits are read and set for this process alone
    program += [(0x15, 0, 4, PRLIMIT[column]), (0x20, 0, 0, 16), (0x15, 1, 0, 0)]
    program += [(0x06, 0, 0, REFUSE | errno.EPERM), (0x06, 0, 0, ALLOW)]
    program.append((0x06, 0, 0, ALLOW))
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    _checked(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(filter_program), 0, 0), "seccomp")


def landlock_abi() -> int:
    """The kernel's version of Landlock; 0 without it."""
    return max(0, LIBC.syscall(LANDLOCK_CREATE, None, 0, 1))


def restrict_files(readable: Iterable[str], writable: Iterable[str], listable: Iterable[str] = ()) -> None:
    """By Landlock: read and execute beneath `readable`, anything beneath `writable`, names alone in `listable`.

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
    if not os.path.isdir(path):
        allowed &= EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15  # truncate, ioctl
    rule = struct.pack("=Qi", allowed, place)
    _checked(LIBC.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
    os.close(place)
