"""The template of a sandbox: the process behind its layers that has torch imported, and forks the warm ones."""

import contextlib
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from attnlib.checks.asking.time_limits import TimeLimits
from autograder.sandbox import layers as layer
from autograder.sandbox.folder import Folder
from autograder.sandbox.inside.wire import POLL_SECONDS, BadMessage, Channel, Closed
from autograder.showing.errors import CourseError

Bound = Literal["", "computing", "waiting", "files", "threads", "crash"]


class Died(Exception):
    """Raised if the child is gone: says why, as a clause; `of` is the bound that it broke, or ""."""

    def __init__(self, why: str, of: Bound = "") -> None:
        super().__init__(why)
        self.of = of


class Template:
    """The process behind the layers, its folder, and what it has imported late."""

    def __init__(self, layers: layer.Layers, time: TimeLimits) -> None:
        self.layers, self.time = layers, time
        self.process: subprocess.Popen[bytes] | None = None
        self.control: Channel | None = None
        self.folder: Folder | None = None
        self.late: frozenset[str] = frozenset()
        self.resident = 0

    @property
    def is_alive(self) -> bool:
        """True if its process is alive and connected."""
        return self.control is not None and self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it and wait until it has imported torch; a CourseError with its last words if it does not."""
        self.close()
        self.folder = Folder()
        folder = Path(self.folder.name)
        (folder / "runtime").mkdir()
        scratch = folder / "scratch"
        scratch.mkdir(mode=0o700)
        files = layer.runtime(folder / "runtime")
        ours, theirs = socket.socketpair()
        ours.settimeout(POLL_SECONDS)
        listener = layer.control_socket(files) if self.layers.container is not None else None
        command, environment = layer.command(self.layers, files, scratch, theirs.fileno())
        log = folder / "log"
        with log.open("wb") as output, theirs:
            self.process = subprocess.Popen(
                command,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        if listener is not None:
            ours.close()
            ours = self._called(listener)
        self.control = Channel(ours)
        try:
            hello = self.control.receive(_Answer(self.time.start_wall))
        except (Closed, Died, BadMessage):
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            self.close()
            raise CourseError(" ".join(said[-3:]) if said else "the process did not start") from None
        self.resident = hello["rss"]

    def _called(self, listener: socket.socket) -> socket.socket:
        """Return the connection that it opens by the socket's path; one without another end if it never does."""
        listener.settimeout(POLL_SECONDS)
        waited = 0.0
        with listener:
            while self.process is not None and self.process.poll() is None and waited < self.time.start_wall:
                try:
                    connection, _ = listener.accept()
                    connection.settimeout(POLL_SECONDS)
                    return connection
                except TimeoutError:
                    waited += POLL_SECONDS
        ours, theirs = socket.socketpair()
        theirs.close()
        return ours

    def fork(self, late: Sequence[str]) -> tuple[Channel, frozenset[str]]:
        """Fork a warm process; return the connection to it, and all modules imported late so far. Raises Died."""
        assert self.control is not None
        ours, theirs = socket.socketpair()
        ours.settimeout(POLL_SECONDS)
        with theirs:
            asked(self.control, {"late": sorted(late)}, theirs.fileno(), self.time.start_wall)
        self.late |= frozenset(late)
        return Channel(ours), self.late

    def close(self) -> None:
        """End the process, and all that were forked from it."""
        self.late = frozenset()
        if self.control is not None:
            self.control.close()
            self.control = None
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it has been killed; more cannot be done
                self.process.wait(self.time.answer_wall)
            self.process = None
        if self.folder is not None:
            self.folder.remove()
            self.folder = None


class _Answer:
    """Raises Died once it has been called for this many seconds."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __call__(self) -> None:
        self.left -= POLL_SECONDS
        if self.left < 0:
            raise Died("it did not answer")


def asked(connection: Channel, request: dict[str, Any], descriptor: int | None, seconds: float) -> dict[str, Any]:
    """Send a request to a process in the sandbox that runs no student code; Died if it does not answer."""
    try:
        socket.send_fds(connection.connection, [b"?"], [] if descriptor is None else [descriptor])
        connection.send(request)
        return connection.receive(_Answer(seconds))
    except (Closed, BadMessage, OSError) as error:
        raise Died(f"the sandbox has ended ({type(error).__name__})") from None
