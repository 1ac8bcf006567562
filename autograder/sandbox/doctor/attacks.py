"""The attacks that `doctor` makes: each promise of the sandbox with the code that tries to break it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from attnlib.checks.asking.time_limits import here
from autograder.lesson_text.layout import ROOT
from autograder.sandbox.inside.scratch import MOST_FILES
from autograder.sandbox.process import Limits

LOOKS = 3.0  # seconds in which the grader looks several times
LIMITS = Limits(time=replace(here().slower(1 / 5), waiting=LOOKS + 1))  # short: none is a right answer


@dataclass(frozen=True)
class Attack:
    """A promise and the code that tries to break it; `expected` names the bounds or exceptions that may stop it.

    The code runs in a function. It raises OSError or ImportError where it is refused, and returns where it is not.
    If there is a `first`, that runs before it in a process that ends, as another student's would.
    """

    promise: str
    attack: str
    code: str
    expected: tuple[str, ...] = ()
    first: str = ""


def attacks(secret: Path, course: Path) -> Iterator[Attack]:
    """Yield every attack; `secret` is a file outside of the sandbox, which everybody may read and write.

    An attack that gets out does no harm: it asks whether it could send a signal and sends none, it goes a little beyond
    a bound and no further, and it removes what it has made.
    """
    yield from attacks_on_the_network()
    yield from attacks_on_files(secret, course)
    yield from attacks_on_processes()
    yield from attacks_on_rights(secret)
    yield from attacks_on_bounds()
    yield from attacks_on_the_next()


def attacks_on_the_network() -> Iterator[Attack]:
    """Try to get anything but answers in or out."""
    yield Attack("no network", "connects to 1.1.1.1", "socket.create_connection(('1.1.1.1', 80), timeout=3)")
    yield Attack("no network", "asks for a name", "socket.getaddrinfo('example.org', 80)")
    yield Attack("no network", "listens on a port", "socket.create_server(('127.0.0.1', 0))")
    yield Attack("no sockets of this machine", "opens a unix socket", "socket.socket(socket.AF_UNIX)")


def attacks_on_files(secret: Path, course: Path) -> Iterator[Attack]:
    """Try to read more than Python and its packages, and to write more than the process's own scratch folder."""
    yield Attack("no file outside is read", f"reads {secret.name}", f"open({str(secret)!r}).read()")
    yield Attack("no file outside is read", "reads /etc/shadow", "open('/etc/shadow').read()")
    yield Attack("no file outside is read", "reads /etc/passwd", "open('/etc/passwd').read()")
    yield Attack("no file outside is read", "lists /", "os.listdir('/')")
    yield Attack("no file outside is read", "lists the folder above its own", "os.listdir('..')")
    yield Attack("no file outside is written", f"writes {secret.name}", f"open({str(secret)!r}, 'w').write('x')")
    beside = "open(torch.__file__ + '.x', 'w').write('x'); os.unlink(torch.__file__ + '.x')"
    yield Attack("no file outside is written", "writes beside torch", beside)
    yield Attack("no file outside is written", "makes /hostile", "os.mkdir('/hostile'); os.rmdir('/hostile')")
    yield Attack("no file outside is written", "changes a file's mode", noticed("os.chmod", secret, 0o666))
    yield Attack("no file outside is written", "changes a file's times", noticed("os.utime", secret))
    yield Attack("no file outside is written", "cuts a file off", f"os.truncate({str(secret)!r}, 5)")
    emptied = "open('mine', 'w').write('x'); os.open('mine', os.O_RDONLY | os.O_TRUNC)"
    yield Attack("no file outside is written", "empties what it reads", emptied)
    watch = called("inotify_add_watch", f"libc.inotify_init1(0), {os.fsencode(secret)!r}, 0xFFF")
    yield Attack("no file outside is watched", "asks for news of it", watch)
    yield Attack("no solutions", "lists the repository's", f"os.listdir({str(ROOT / 'solutions')!r})")
    yield Attack("no checks", "reads a check", f"open({str(ROOT / 'attnlib' / 'checks' / 'judge.py')!r}).read()")
    yield Attack("no gradebook", "opens it", f"open({str(course / 'gradebook.db')!r}, 'rb').read()")
    yield Attack("no submissions", "lists them", f"os.listdir({str(course / 'submitted')!r})")
    yield Attack("no reference", "imports the checks", "importlib.import_module('attnlib.checks.verdict.judge')")
    yield Attack(
        "no reference",
        "imports it from its file",
        f"sys.path.insert(0, {str(ROOT)!r}); sys.meta_path[:] = "
        "sys.meta_path[1:]; sys.modules.pop('attnlib.checks', None); "
        "importlib.import_module('attnlib.checks.verdict.judge')",
    )


def attacks_on_processes() -> Iterator[Attack]:
    """Try to see, reach or start another process."""
    yield Attack("no other processes", "reads their memory", "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)")
    yield Attack("no other processes", "looks for their commands", "os.listdir('/proc')")
    yield Attack("no other processes", "traces its parent", called("ptrace", "16, os.getppid(), 0, 0"))
    yield Attack("no other processes", "may send everybody a signal", "os.kill(-1, 0)")
    yield Attack("no other processes", "may send its parent a signal", "os.kill(os.getppid(), 0)")
    owner = "fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getppid())"
    yield Attack("no other processes", "lets a pipe send its parent a signal", owner)
    processors = "os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))"
    yield Attack("no other processes", "chooses its parent's processors", processors)
    yield Attack("no other processes", "outlives its parent", called("prctl", "1, 0, 0, 0, 0"))
    yield Attack("no further processes", "forks", "os.fork() or os._exit(0)")
    yield Attack("no further processes", "forks twenty times", "for _ in range(20): os.fork() or os._exit(0)")
    yield Attack("no programs", "starts /bin/true", "subprocess.run(['/bin/true'])")
    yield Attack("no programs", "becomes /bin/true", "os.execv('/bin/true', ['true'])")


def attacks_on_rights(secret: Path) -> Iterator[Attack]:
    """Try to take back rights that have been given up."""
    yield Attack("no rights", "becomes root", "os.setuid(0)")
    yield Attack("no rights", "mounts", called("mount", "b'none', os.getcwdb(), b'tmpfs', 0, None"))
    yield Attack("no rights", "makes a namespace", called("unshare", "0x10000000"))
    yield Attack("no rights", "takes back its limits", "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))")
    yield Attack("no rights", "uses the ring", called("syscall", "425, 1, ctypes.create_string_buffer(120)"))


def attacks_on_bounds() -> Iterator[Attack]:
    """Exceed each bound, and then wait until the grader has looked."""
    beyond = LIMITS.memory_bytes + (1 << 30)
    yield Attack("memory is bounded", "allocates 3 GB", f"torch.empty({beyond}, dtype=torch.uint8)", ("RuntimeError",))
    grows = f"kept = [bytes(10**8) for _ in range({beyond // 10**8})]"
    yield Attack("memory is bounded", "grows a list", grows, ("MemoryError",))
    yield Attack(
        "files are bounded", "writes too much into one", f"open('x', 'wb').write(bytes({2 * LIMITS.file_bytes}))"
    )
    fills = f"for n in range(25): open(str(n), 'wb').write(bytes({LIMITS.file_bytes // 2}))\n    time.sleep({LOOKS})"
    yield Attack("files are bounded", "fills the scratch", fills, ("files",))
    # more names of one file: on some disks, this many new files take longer than a question may compute
    makes = (
        f"open('x', 'w').close()\n    for n in range({MOST_FILES + 100}): os.link('x', str(n))\n    time.sleep({LOOKS})"
    )
    yield Attack("files are bounded", "makes too many", makes, ("files",))
    nests = f"for n in range(1500): os.mkdir('d'); os.chdir('d')\n    time.sleep({LOOKS})"
    yield Attack("files are bounded", "nests folders", nests, ("files",))
    yield Attack("files are bounded", "makes one without a name", "os.memfd_create('x')")
    starts = "for n in range(150): threading.Thread(target=time.sleep, args=(20,), daemon=True).start()"
    starts = f"threading.stack_size(32768)\n    {starts}\n    time.sleep({LOOKS})"
    yield Attack("threads are bounded", "starts 150", starts, ("threads", "RuntimeError"))
    loops = f"while time.process_time() < {6 * LIMITS.time.reply_cpu}: pass"
    yield Attack("computing is bounded", "loops", loops, ("time", "computing"))
    yield Attack("computing is bounded", "loops in one call", "sum(range(4 * 10**9))", ("time", "computing"))
    yield Attack("waiting is bounded", "sleeps", "time.sleep(60)", ("time", "waiting"))
    vfork = called("syscall", "{'x86_64': 56, 'aarch64': 220}[os.uname().machine], 0x3D4F00, 0, 0, 0, 0")
    yield Attack("waiting is bounded", "waits where nothing wakes it", vfork)
    yield Attack("a crash is reported", "writes to address 0", "ctypes.memset(0, 1, 1)", ("crash",))


def attacks_on_the_next() -> Iterator[Attack]:
    """Leave something behind in one process, and look for it in the next."""
    nothing = "raise OSError('nothing is there')"
    for means, leaves, finds in (
        ("a file", "open('left', 'w').close()", "open(beside('left')).close()"),
        ("a locked folder", LOCKED, "open(beside('locked/left')).close()"),
        ("a deep folder", "for n in range(1500): os.mkdir('d'); os.chdir('d')", "os.listdir(beside('d'))"),
        (
            "many files",
            f"for n in range({MOST_FILES}): os.close(os.open(str(n), os.O_CREAT))",
            "os.listdir(beside(''))",
        ),
        ("a full disk", FULL, NO_ROOM),
        ("files elsewhere", ELSEWHERE, f"if not any(map(os.path.exists, places)): {nothing}"),
        ("shared memory", "libc.shmget(4711, 4096, 0o1666)", called("shmget", "4711, 0, 0")),
        ("a queue", "libc.msgget(4711, 0o1666)", called("msgget", "4711, 0")),
        ("an environment variable", "os.environ['LEFT'] = 'x'", f"if 'LEFT' not in os.environ: {nothing}"),
        ("a name in torch", "torch.left = True", f"if not hasattr(torch, 'left'): {nothing}"),
    ):
        yield Attack("nothing is left for the next", f"leaves {means}", finds, first=leaves)


LOCKED = "os.mkdir('locked', 0o300); open('locked/left', 'w').write('x'); os.mkdir('locked/inner', 0)"
FULL = f"""os.mkdir('full', 0o300)
    for n in range(7): open(f'full/{{n}}', 'wb').write(bytes({LIMITS.file_bytes // 2}))"""
NO_ROOM = f"""try:
        for n in range(7): open(str(n), 'wb').write(bytes({LIMITS.file_bytes // 2}))
    except OSError: return
    raise OSError('there is room')"""
ELSEWHERE = """for place in places:
        with contextlib.suppress(OSError): open(place, 'w').close()"""


def called(function: str, arguments: str) -> str:
    """Return code that calls libc's function and raises OSError if it fails."""
    return f"if libc.{function}({arguments}) < 0: raise OSError(ctypes.get_errno(), 'refused')"


def noticed(function: str, file: Path, *more: object) -> str:
    """Return code that calls a function to change a file's status, and raises OSError if nothing has changed."""
    arguments = ", ".join(map(repr, (str(file), *more)))
    return f"""before = os.stat({str(file)!r}).st_ctime_ns
    {function}({arguments})
    if os.stat({str(file)!r}).st_ctime_ns == before: raise OSError('nothing has changed')"""
