"""A warm process in the sandbox: it forks a child for every answer that is judged, or for every one that is explained.

It talks to the grader alone, over a connection that its children do not have, and runs no student code itself.
"""

import contextlib
import gc
import json
import math
import os
import resource
import select
import signal
import socket
import tempfile
import time
import traceback
from typing import Any

REAP_SECONDS = 0.001
WATCH_SECONDS = 0.1


def received(control: Any) -> tuple[dict[str, Any], list[int]]:
    """Receive a request, and the descriptor that comes with it: the connection of a process to be forked."""
    from inside.wire import Closed

    marker, descriptors, _, _ = socket.recv_fds(control.connection, 1, 1)
    if not marker:
        raise Closed
    return control.receive(), list(descriptors)


def use_as_home(folder: str) -> None:
    """Let libraries keep their files in the folder, not in the user's home, which they must not know."""
    os.environ.update(dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR"), folder))
    tempfile.tempdir = None  # torch's compiler asks for it where it is imported, perhaps before the fork


class Zygote:
    """Forks, watches and ends the children, which are numbered from `first` + 1."""

    def __init__(self, control: Any, settings: dict[str, str], serve: Any, first: int = 0) -> None:
        self.control, self.settings, self.serve = control, settings, serve
        self.number = first
        self.living: dict[int, tuple[str, Any]] = {}
        """The children's scratch folders and bounds."""
        self.beyond: dict[int, list[str]] = {}
        """The bounds that children were ended for."""

    def run(self) -> None:
        """Answer the grader's requests until it is gone, and watch the living children meanwhile."""
        from inside.wire import Closed

        watched = 0.0
        with contextlib.suppress(Closed):
            while True:
                if self.living and time.monotonic() - watched >= WATCH_SECONDS:
                    for pid in self.living:
                        self._look(pid)
                    watched = time.monotonic()
                waiting = WATCH_SECONDS if self.living else None
                if not select.select([self.control.connection], [], [], waiting)[0]:
                    continue
                message, descriptors = received(self.control)
                if message["do"] == "fork":
                    self.control.send(self._fork(message, descriptors[0]))
                elif message["do"] == "read":
                    self._read(message["given"], message["library"])
                    self.control.send({})
                elif message["do"] == "learn":
                    self.serve.learn(message["library"], message["modules"])
                    gc.freeze()
                    self.control.send({})
                elif message["do"] == "expect":
                    self.serve.expect(message["module"], message["exercise"])
                    gc.freeze()
                    self.control.send({})
                elif message["do"] == "look":
                    self.control.send(self._look(message["pid"]))
                elif message["do"] == "end":
                    self.control.send(self._end(**message))

    def _look(self, pid: int) -> dict[str, Any]:
        """Return a child's state; one that has broken a bound is ended, whatever the grader is doing."""
        from inside.looking import state_of

        state = state_of(pid, *self.living[pid])
        if state["beyond"] and pid not in self.beyond:
            self.beyond[pid] = state["beyond"]
            os.kill(pid, signal.SIGKILL)
        return {**state, "beyond": self.beyond.get(pid)}

    def _read(self, given: list[str], library: dict[str, str]) -> None:
        """Read a lesson's own cells, and the library, before forking, as every child would have to."""
        from inside.cells import read_cell

        for source in given:
            with contextlib.suppress(SyntaxError, ValueError):  # a child will say which cell it is
                read_cell(source, True)
        for name, source in library.items():
            self.serve.compiled(source, f"<{name}>")
        gc.freeze()  # a collection in a child would touch, and so copy, every page

    def _fork(self, limits: dict[str, Any], descriptor: int) -> dict[str, Any]:
        self.number += 1
        os.mkdir(self._scratch(), 0o700)
        pid = os.fork()
        if pid == 0:
            try:
                self.control.close()
                self._become_student(limits, descriptor, self._scratch())
            except Exception:
                traceback.print_exc()  # to the sandbox's log; a student's process has no stderr any more
            finally:
                os._exit(0)
        os.close(descriptor)
        self.living[pid] = self._scratch(), self._bounds(limits)
        return {"pid": pid}

    def _bounds(self, limits: dict[str, Any]) -> Any:
        from inside.looking import Bounds

        names = ("threads", "scratch_bytes", "file_bytes")
        return Bounds(**{name: limits[name] for name in names}, quota=self.settings.get("quota") == "yes")

    def _scratch(self) -> str:
        """Return the folder of the child forked last; no other child ever has it."""
        return os.path.join(self.settings["scratch"], str(self.number))

    def _become_student(self, limits: dict[str, Any], descriptor: int, scratch: str) -> None:
        from inside import confine
        from inside.readable import OWN

        connection = socket.socket(fileno=descriptor)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_IGN)
        os.chdir(scratch)
        use_as_home(scratch)
        if limits["confined"]:
            confine.die_with_parent()
            confine.limit_resources(
                cpu_seconds=math.ceil(limits["time"]["child_cpu"]),
                memory_bytes=limits["memory_bytes"],
                file_bytes=limits["file_bytes"],
                threads=limits["threads"],
            )
            if self.settings.get("quota") != "yes":
                confine.show_memory()
            if self.settings.get("landlock") in ("child", "template"):
                rules = rules_of(self.settings)
                confine.restrict_files([*rules["readable"], *OWN], [scratch, "/dev/null"], rules["listable"])
            if self.settings.get("seccomp") == "yes":
                confine.forbid_system_calls()
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        os.close(nowhere)
        self.serve.serve(connection, limits["time"])

    def _end(self, *, pid: int, patience: float, kill: float, do: str = "end") -> dict[str, Any]:
        """Let the child end by itself or kill it; return how it ended, what it used, and what is left of it, or "".

        A child that cannot be killed is not waited for, and nothing is forked beside what is left: the grader then ends
        this process, and with it its file system or its folder.
        """
        status, usage = _waited(pid, patience)
        if usage is None:
            os.kill(pid, signal.SIGKILL)
            status, usage = _waited(pid, kill)
        if usage is None:
            left = "a process that cannot be killed"
            return {"signal": int(signal.SIGKILL), "cpu": 0.0, "rss": 0, "left": left, "beyond": None}
        self.living.pop(pid, None)
        return {
            "beyond": self.beyond.pop(pid, None),
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "cpu": usage.ru_utime + usage.ru_stime,
            "rss": usage.ru_maxrss * 1024,
            "left": self._left(),
        }

    def _left(self) -> str:
        """Remove what the child has written; return what is left, a process or files, in words."""
        from inside.scratch import clear

        try:
            os.waitpid(-1, os.WNOHANG)
            return "a process of its own"
        except ChildProcessError:  # none is left, as it must be
            pass
        try:
            clear(self.settings["scratch"])
        except OSError as error:
            return f"files: {error}"
        return ""


def rules_of(settings: dict[str, str]) -> dict[str, list[str]]:
    """Return the paths that Landlock lets a child read; a container, with its own Python, finds them itself."""
    from inside.readable import DEVICES, python_folders

    if "rules" in settings:
        rules: dict[str, list[str]] = json.loads(settings["rules"])
        return rules
    return {"readable": [*python_folders(), "/sandbox", *DEVICES], "listable": []}


def _waited(pid: int, seconds: float) -> tuple[int, resource.struct_rusage | None]:
    """Return a child's exit status and what it used; None for that if it has not ended after `seconds`."""
    last = time.monotonic() + seconds
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended or time.monotonic() >= last:
            return status, usage if ended else None
        time.sleep(REAP_SECONDS)
