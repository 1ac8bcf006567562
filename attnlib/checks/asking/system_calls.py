"""The system calls a student's process may make, as a seccomp filter: a list of what is allowed, and nothing else.

Landlock knows nothing of modes, owners and times, of signals (before Linux 6.12), or of truncating (before 6.2). Where
it is alone, what is not on this list must not be needed to keep a file, or another process, safe.
"""

import errno
import os
import platform
import struct
from collections.abc import Iterable

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# By name, the numbers on x86_64 and aarch64; a dash where the architecture has no such call.
ALLOWED = """
read 0 63, write 1 64, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, preadv 295 69, pwritev 296 70,
preadv2 327 286, pwritev2 328 287, lseek 8 62, close 3 57, close_range 436 436, dup 32 23, dup2 33 -, dup3 292 24,
pipe 22 -, pipe2 293 59, copy_file_range 326 285, sendfile 40 71, fadvise64 221 223, flock 73 32,

stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439,
readlink 89 -, readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50,
umask 95 166, statfs 137 43, fstatfs 138 44, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11,
llistxattr 195 12, flistxattr 196 13,

creat 85 -, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38,
renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36, ftruncate 77 46,
fsync 74 82, fdatasync 75 83,

mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, brk 12 214, madvise 28 233, mincore 27 232, msync 26 227,
mlock 149 228, mlock2 325 284, munlock 150 229, get_mempolicy 239 236,

select 23 -, pselect6 270 72, poll 7 -, ppoll 271 73, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21,
epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd 284 -, eventfd2 290 19, timerfd_create 283 85,
timerfd_settime 286 86, timerfd_gettime 287 87, futex 202 98, futex_waitv 449 449, nanosleep 35 101,
clock_nanosleep 230 115, pause 34 -, sched_yield 24 124, membarrier 324 283, restart_syscall 219 128, wait4 61 260,
waitid 247 95,

gettimeofday 96 169, time 201 -, clock_gettime 228 113, clock_getres 229 114, times 100 153, getitimer 36 102,
setitimer 38 103, alarm 37 -, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108,
timer_getoverrun 225 109, timer_delete 226 111, getrusage 98 165,

rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigtimedwait 128 137,
rt_sigsuspend 130 133, sigaltstack 131 132, signalfd4 289 74,

getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177,
getresuid 118 148, getresgid 120 150, getgroups 115 158, getpgrp 111 -, getpgid 121 155, getsid 124 156,
getpriority 140 141, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120,
sched_get_priority_max 146 125, sched_get_priority_min 147 126, getcpu 309 168, getrlimit 97 163, setrlimit 160 164,
capget 125 90, uname 63 160, sysinfo 99 179, getrandom 318 278, set_tid_address 218 96, set_robust_list 273 99,
get_robust_list 274 100, rseq 334 293, arch_prctl 158 -, exit 60 93, exit_group 231 94,

sendto 44 206, recvfrom 45 207, shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209
"""

# These do nothing, and say that they have done it: whoever copies a file with shutil copies its mode and its times, and
# needs neither. The filter sees no paths, and Landlock alone would let a child lock or open the grader's own files.
PRETENDED = """
chmod 90 -, fchmod 91 52, fchmodat 268 53, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88
"""

# Allowed with some arguments only.
CLONE, CLONE3 = (56, 220), (435, 435)
KILL, TGKILL, PRLIMIT, SET_AFFINITY = (62, 129), (234, 131), (302, 261), (203, 122)
FALLOCATE = (285, 47)
OPEN, OPENAT = (2, None), (257, 56)
FCNTL, IOCTL, PRCTL = (72, 25), (16, 29), (157, 167)

CLONE_THREAD = 0x10000
FLAGS_OF_A_THREAD = 0x7D0F00
"""The flags glibc and musl use. CLONE_VFORK is left out: a caller waiting for such a thread can't be woken."""
O_ACCMODE, O_TRUNC, O_ASYNC = 3, 0x200, 0x2000
F_SETFL = 4
FCNTL_COMMANDS = (0, 1, 2, 3, 5, 6, 7, 36, 37, 38, 1030, 1032)
"""Commands for descriptors, their flags and locks; not for signals to an owner, leases or notices."""
IOCTL_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Requests that ask whether it is a terminal, its size, how much there is to read, or set flags of the descriptor."""
PRCTL_OPTIONS = (2, 3, 15, 16, 21, 23, 29, 30, 39, 0x53564D41)
"""Options for names of threads and mappings, and for questions; not the one that ends it with its parent."""
FIRST_UNKNOWN = 450  # from here on the C library falls back if the kernel doesn't know the call

LOAD, AND, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, ERROR, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
Line = tuple[int, int, int, int]
ALLOWS: Line = (RETURN, 0, 0, ALLOW)
PRETENDS: Line = (RETURN, 0, 0, ERROR | 0)
REFUSES: Line = (RETURN, 0, 0, ERROR | errno.EPERM)
KILLS: Line = (RETURN, 0, 0, KILL_PROCESS)


def works() -> bool:
    """True if the filter knows this machine."""
    return platform.system() == "Linux" and platform.machine() in ARCHITECTURES


def numbers_of(calls_by_name: str, column: int) -> list[int]:
    """The numbers of the calls in a list on one architecture, in the list's order: the frequent ones come first."""
    calls = (call.split() for call in calls_by_name.split(",") if call.strip())
    return [int(numbers[column]) for _, *numbers in calls if numbers[column] != "-"]


def program() -> bytes:
    """The filter for the process that asks for it: it names that process's id."""
    column, architecture = ARCHITECTURES[platform.machine()]
    own = os.getpid()
    lines: list[Line] = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, architecture), KILLS, (LOAD, 0, 0, 0)]
    if platform.machine() == "x86_64":
        lines += [(AT_LEAST, 0, 1, 0x40000000), KILLS]  # the x32 calls
    for calls, answer in ((ALLOWED, ALLOWS), (PRETENDED, PRETENDS)):
        for number in numbers_of(calls, column):
            lines += [(EQUAL, 0, 1, number), answer]
    rules = (
        (OPEN, _truncates_only_what_it_writes(1)),
        (OPENAT, _truncates_only_what_it_writes(2)),
        (FCNTL, _fcntl()),
        (IOCTL, _among(1, IOCTL_COMMANDS, errno.ENOTTY)),
        (PRCTL, _among(0, PRCTL_OPTIONS)),
        (CLONE, _makes_a_thread()),
        (CLONE3, [(RETURN, 0, 0, ERROR | errno.ENOSYS)]),  # its flags are in memory; glibc falls back to clone
        (KILL, _among(0, [own])),
        (TGKILL, _among(0, [own])),
        (PRLIMIT, _among(0, [0, own])),
        (FALLOCATE, _among(1, [0], errno.EOPNOTSUPP)),  # what keeps the file's size is bound by no limit of it
        (SET_AFFINITY, _among(0, [0, own])),
    )
    for numbers, rule in rules:
        if (known := numbers[column]) is not None:
            lines += [(EQUAL, 0, len(rule), known), *rule]
    lines += [(AT_LEAST, 0, 1, FIRST_UNKNOWN), (RETURN, 0, 0, ERROR | errno.ENOSYS), REFUSES]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _argument(place: int) -> Line:
    return (LOAD, 0, 0, 16 + 8 * place)


def _among(place: int, values: Iterable[int], otherwise: int = errno.EPERM) -> list[Line]:
    """Allow the call if an argument has one of these values."""
    values = list(values)
    tests: list[Line] = [(EQUAL, len(values) - n, 0, value) for n, value in enumerate(values)]
    return [_argument(place), *tests, (RETURN, 0, 0, ERROR | otherwise), ALLOWS]


def _makes_a_thread() -> list[Line]:
    others = ~FLAGS_OF_A_THREAD & 0xFFFFFFFF
    return [_argument(0), (ANY_BIT, 1, 0, others), (ANY_BIT, 1, 0, CLONE_THREAD), REFUSES, ALLOWS]


def _truncates_only_what_it_writes(place: int) -> list[Line]:
    """Refuse to open a file for reading and empty it at once: Landlock before Linux 6.2 asks for no right there."""
    both = O_TRUNC | O_ACCMODE
    return [_argument(place), (AND, 0, 0, both), (EQUAL, 1, 0, O_TRUNC), (EQUAL, 0, 1, both), REFUSES, ALLOWS]


def _fcntl() -> list[Line]:
    sets_flags = [_argument(2), (ANY_BIT, 0, 1, O_ASYNC), REFUSES, ALLOWS]
    return [_argument(1), (EQUAL, 0, len(sets_flags), F_SETFL), *sets_flags, *_among(1, FCNTL_COMMANDS)]
