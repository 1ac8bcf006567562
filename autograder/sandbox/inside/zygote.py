"""The warm process in the sandbox: it has torch imported, and forks a child for every exercise that is to be judged.

It talks to the grader alone, over a connection that its children do not have, and runs no student code itself.
"""

import contextlib
import gc
import importlib
import json
import math
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any

WARM = (
    "math",
    "numpy",
    "torch",
    "torch.nn.functional",
    "einops",
    "jaxtyping",
    "matplotlib",
    "contourpy",  # which matplotlib imports late, and whose compiled part no child could import then
    "IPython.core.inputtransformer2",
)
REAP_SECONDS = 0.001
WATCH_SECONDS = 0.1


def main() -> None:
    """Serve until the grader closes the connection; the first argument is its file descriptor, or a socket's path."""
    settings = dict(argument.split("=", 1) for argument in sys.argv[1:])
    sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    from inside import confine

    if settings.get("quota") == "try":
        owner = int(settings.get("user", os.geteuid()))
        made = confine.own_file_system(settings["scratch"], int(settings["scratch_bytes"]), owner)
        settings["quota"] = "yes" if made else "no"
    if "user" in settings:
        os.setgroups([])
        os.setresgid(*[int(settings["user"])] * 3)
        os.setresuid(*[int(settings["user"])] * 3)
    from inside.scratch import clear
    from inside.wire import Channel

    control = Channel(_connection(settings["control"]))
    confine.no_new_privileges()
    confine.drop_capabilities()
    confine.hide_memory()
    confine.die_with_parent()
    confine.adopt_orphans()
    use_as_home(settings["scratch"])
    for name in WARM:
        importlib.import_module(name)
    import torch
    from inside import serve

    torch.set_num_threads(1)
    _warm_up(torch)
    clear(settings["scratch"])
    if settings.get("landlock") == "zygote":
        rules = json.loads(settings["rules"])
        confine.restrict_files([*rules["readable"], "/proc"], [settings["scratch"], "/dev/null"], rules["listable"])
    control.send({"ready": True, "pid": os.getpid(), "rss": _resident()})
    Zygote(control, settings, serve).run()


def _connection(where: str) -> socket.socket:
    if where.isdigit():
        return socket.socket(fileno=int(where))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(where)
    return connection


def use_as_home(folder: str) -> None:
    """What a library keeps in files goes there; it must not know the user's own."""
    os.environ.update(HOME=folder, TMPDIR=folder, MPLCONFIGDIR=folder)


def _warm_up(torch: Any) -> None:
    """What the first use of torch imports and allocates, without autograd's engine: its threads would not be forked."""
    torch.nn.Linear(3, 2)(torch.randn(5, 3)).softmax(-1)
    torch.random.fork_rng(devices=[])


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Zygote:
    """Forks, watches and ends the children."""

    def __init__(self, control: Any, settings: dict[str, str], serve: Any) -> None:
        self.control, self.settings, self.serve = control, settings, serve
        self.number = 0
        self.living: dict[int, tuple[str, Any]] = {}
        """The children's scratch folders and bounds."""
        self.beyond: dict[int, list[str]] = {}
        """The bounds that children were ended for."""

    def run(self) -> None:
        """Answer the grader's requests until it is gone, and meanwhile watch whatever lives."""
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
                message, descriptors = self._receive()
                if message["do"] == "fork":
                    self.control.send(self._fork(message, descriptors[0]))
                elif message["do"] == "read":
                    self._read(message["given"], message["library"])
                    self.control.send({})
                elif message["do"] == "learn":
                    self.serve.learn(message["library"], message["modules"])
                    gc.freeze()
                    self.control.send({})
                elif message["do"] == "look":
                    self.control.send(self._look(message["pid"]))
                elif message["do"] == "end":
                    self.control.send(self._end(**message))

    def _look(self, pid: int) -> dict[str, Any]:
        """What a child does and holds; one that is beyond a bound is ended, whatever the grader is doing."""
        from inside.looking import state_of

        state = state_of(pid, *self.living[pid])
        if state["beyond"] and pid not in self.beyond:
            self.beyond[pid] = state["beyond"]
            os.kill(pid, signal.SIGKILL)
        return {**state, "beyond": self.beyond.get(pid)}

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        """A request, and the descriptor that comes with it, which is that of a child's connection."""
        from inside.wire import Closed

        marker, descriptors, _, _ = socket.recv_fds(self.control.connection, 1, 1)
        if not marker:
            raise Closed
        return self.control.receive(), list(descriptors)

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
        for name in set(limits["late"]) - sys.modules.keys():  # once in this process, or else in each child
            with contextlib.suppress(ModuleNotFoundError):  # a child says which cell lacks it
                importlib.import_module(name)
            gc.freeze()
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
        """The folder of the child that was forked last; no other child ever has it."""
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
            if self.settings.get("landlock") in ("child", "zygote"):
                rules = rules_of(self.settings)
                confine.restrict_files([*rules["readable"], *OWN], [scratch, "/dev/null"], rules["listable"])
            if self.settings.get("seccomp") == "yes":
                confine.forbid_system_calls()
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        os.close(nowhere)
        self.serve.serve(connection, limits["time"])

    def _end(self, *, pid: int, patience: float, kill: float, do: str = "end") -> dict[str, Any]:
        """Let the child end by itself or kill it; how it ended, what it used, and what is left of it, if anything is.

        Nobody waits for one that cannot be killed, and nothing is forked beside what is left: the grader then ends
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
        """Remove what the child has written; what is left, a process or files, in words."""
        from inside.scratch import clear

        try:
            os.waitpid(-1, os.WNOHANG)
            return "a process of its own"
        except ChildProcessError:  # as it must be
            pass
        try:
            clear(self.settings["scratch"])
        except OSError as error:
            return f"files: {error}"
        return ""


def rules_of(settings: dict[str, str]) -> dict[str, list[str]]:
    """What Landlock lets a child read; in a container, which has a Python of its own, that is found there."""
    from inside.readable import DEVICES, python_folders

    if "rules" in settings:
        rules: dict[str, list[str]] = json.loads(settings["rules"])
        return rules
    return {"readable": [*python_folders(), "/sandbox", *DEVICES], "listable": []}


def _waited(pid: int, seconds: float) -> tuple[int, resource.struct_rusage | None]:
    """How a child has ended, and what it used; None for that if it has not ended after so many seconds."""
    last = time.monotonic() + seconds
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended or time.monotonic() >= last:
            return status, usage if ended else None
        time.sleep(REAP_SECONDS)


if __name__ == "__main__":
    main()
