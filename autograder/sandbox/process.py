"""A sandbox: the warm process behind its layers, and the children that it forks, one for each answer that is judged."""

import math
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from attnlib.checks.asking.time_limits import TimeLimits, here
from autograder.sandbox.inside.wire import POLL_SECONDS, BadMessage, Channel, Closed
from autograder.sandbox.layers import SCRATCH_BYTES, Layers
from autograder.sandbox.template import Died, Template, asked
from autograder.showing.errors import CourseError


@dataclass(frozen=True)
class Limits:
    """The limits on one child's time, memory, files and threads."""

    time: TimeLimits = field(default_factory=here)
    memory_bytes: int = 2 << 30
    file_bytes: int = 16 << 20
    scratch_bytes: int = SCRATCH_BYTES
    threads: int = 100


class Sandbox:
    """One warm process and at most one living child, its own or that of the companion, which shares its template."""

    def __init__(self, layers: Layers, limits: Limits | None = None, template: Template | None = None) -> None:
        self.layers, self.limits = layers, limits or Limits()
        self.template = template or Template(layers, self.limits.time)
        self.control: Channel | None = None
        self.late: frozenset[str] = frozenset()
        self.most_memory = 0
        self.read: set[object] = set()
        self.companion: Sandbox | None = None  # ends with this one
        self.living: list[Child] = []

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def start(self, late: Sequence[str] = ()) -> None:
        """Fork a warm process that has imported the `late` modules, in place of the current one.

        Raises CourseError with the template's last words if that does not start.
        """
        self._forget()
        if not self.template.is_alive:
            self.close()
            self.template.start()
        self.control, self.late = self.template.fork(late)
        self.most_memory = max(self.most_memory, self.template.resident)

    def fork(
        self, given: frozenset[str] = frozenset(), late: Sequence[str] = (), library: Mapping[str, str] | None = None
    ) -> "Child":
        """Fork a fresh child; the warm process has read `given` and the `library`, and imported the `late` modules.

        The one before must have ended: no two processes of one submission are ever alive at the same time.
        """
        if self.living:
            raise RuntimeError("a child can be forked once the one before has ended, and it has not")
        for _ in range(2):
            ours, theirs = socket.socketpair()
            ours.settimeout(POLL_SECONDS)
            request = {"do": "fork", **asdict(self.limits), "confined": self.layers.confined}
            try:
                with theirs:
                    if self.control is None or not self.template.is_alive or not self.late.issuperset(late):
                        self.start(late)
                    known = (given, frozenset((library or {}).items()))
                    if known not in self.read:
                        self._ask({"do": "read", "given": sorted(given), "library": dict(library or {})})
                        self.read.add(known)
                    answer = self._ask(request, theirs.fileno())
                return Child(self, Channel(ours), answer["pid"])
            except Died:
                ours.close()
                self.close()
        raise CourseError("The sandbox cannot be started again.")

    def _ask(self, request: dict[str, Any], descriptor: int | None = None, seconds: float = 0.0) -> dict[str, Any]:
        """Send a request to the warm process, which answers at once; Died if it does not."""
        assert self.control is not None
        return asked(self.control, request, descriptor, seconds or self.limits.time.answer_wall)

    def _forget(self) -> None:
        """End the warm process by closing its connection."""
        self.read.clear()
        if self.control is not None:
            self.control.close()
            self.control = None

    def close(self) -> None:
        """End everything in the sandbox."""
        if self.companion is not None:
            self.companion._forget()
        self._forget()
        self.template.close()


class Child:
    """One student's answer to one exercise, in a process of its own."""

    def __init__(self, sandbox: Sandbox, channel: Channel, pid: int) -> None:
        self.sandbox, self.channel, self.pid = sandbox, channel, pid
        self.ended: Died | None = None
        self.patience = math.inf
        """The seconds for which it may compute, or wait, for one answer, where that is less than the limits allow."""
        sandbox.living.append(self)
        self.asleep = self.blocked = self.waited = self.cpu = 0.0

    @property
    def spent(self) -> float:
        """The seconds that it has computed or waited, but not for the processor, however loaded the machine is."""
        return self.cpu + self.asleep + self.blocked

    def ask(self, request: dict[str, Any], cpu_seconds: float | None = None) -> dict[str, Any]:
        """Send a request and wait for the answer, as long as the child computes within its limits; else Died."""
        if self.ended:
            raise self.ended
        return self._exchange(request, _Guard(self, cpu_seconds or self.sandbox.limits.time.reply_cpu))

    def listen(self) -> dict[str, Any]:
        """Wait for a report on the cells, as long as they compute within the limit for all of them; else Died."""
        return self._exchange(None, _Guard(self, self.sandbox.limits.time.cells_cpu))

    def _exchange(self, request: dict[str, Any] | None, guard: "_Guard") -> dict[str, Any]:
        try:
            if request is not None:
                self.channel.send(request, guard)
            return self.channel.receive(guard)
        except Died as error:
            raise self._end(error) from None
        except BadMessage:  # its words may be the child's own
            raise self._end(Died("it answered with what is no answer")) from None
        except Closed:
            raise self._end() from None

    def look(self) -> dict[str, Any]:
        """Return its state at this moment, and the bound that it has broken, if any."""
        return self.sandbox._ask({"do": "look", "pid": self.pid})

    def close(self) -> None:
        """End the child, whatever it is doing."""
        if not self.ended:
            self._end(Died("closed"))

    def _end(self, why: Died | None = None) -> Died:
        """End it and return why it has ended: `why` if given, else the bound that it broke, or its signal."""
        self.channel.close()
        self.sandbox.living.remove(self)
        try:
            patience = 0.0 if why else self.sandbox.limits.time.ending_wall
            kill = self.sandbox.limits.time.kill_wall
            usage = self.sandbox._ask({"do": "end", "pid": self.pid, "patience": patience, "kill": kill})
        except Died as error:
            self.ended = why or error
            self.sandbox.close()
            return self.ended
        self.sandbox.most_memory = max(self.sandbox.most_memory, usage["rss"])
        self.cpu = max(self.cpu, usage["cpu"])  # a child that cannot be killed has no usage
        self.ended = why or (Died(*usage["beyond"]) if usage["beyond"] else _how_it_ended(usage["signal"]))
        if usage["left"]:  # no other student's answer may find what is left
            self.sandbox.close()
        return self.ended


def _how_it_ended(number: int) -> Died:
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return Died("the process was stopped: it used too much processor time or memory", "computing")
    if number == signal.SIGSYS:
        return Died("the process was stopped: it made a system call that is not allowed")
    if number:
        named = number in signal.valid_signals() and number in list(signal.Signals)
        return Died(f"the process crashed ({signal.Signals(number).name if named else f'signal {number}'})", "crash")
    return Died("the process ended itself")


class _Guard:
    """Called while the grader waits for a child: raises Died if that has used up its time, or only sleeps.

    The child ends its own cells and calls in less time than this, and says why: this is for one that does not. It is
    not asleep while it waits for the processor, however loaded the machine is.
    """

    def __init__(self, child: Child, cpu_seconds: float) -> None:
        self.child, self.limits = child, child.sandbox.limits.time
        self.cpu_seconds = min(cpu_seconds, child.patience)
        self.waiting = min(self.limits.child_waiting, child.patience)
        self.first: float | None = None
        self.last = self.still = 0.0

    def __call__(self) -> None:
        child, state = self.child, self.child.look()
        if state["cpu"]:  # it is 0 for a child that is gone
            child.cpu = state["cpu"]
        if self.first is None:
            self.first = state["cpu"]
        child.waited += POLL_SECONDS
        if state["asleep"]:
            child.asleep += POLL_SECONDS
        elif state["blocked"]:
            child.blocked += POLL_SECONDS
        if state["cpu"] - self.last >= POLL_SECONDS / 5:
            self.still = 0.0
        elif state["asleep"]:  # otherwise it waits for the processor, or a timer of its own has just woken it
            self.still += POLL_SECONDS
        self.last = state["cpu"]
        if state["cpu"] - self.first > self.cpu_seconds:
            raise Died(f"did not end within {self.cpu_seconds:.0f} seconds of computing", "computing")
        if self.still >= self.waiting or child.asleep >= self.limits.child_waiting_in_all:
            raise Died(f"waited for {max(self.still, child.asleep):.0f} seconds without computing", "waiting")
        if child.blocked >= self.limits.child_blocked_wall:
            raise Died(f"waited for {child.blocked:.0f} seconds for the disk, or for what never comes", "waiting")
        if child.waited >= self.limits.child_wall:
            raise Died(f"did not end within {self.limits.child_wall / 60:.0f} minutes", "waiting")
        if state["beyond"]:  # the warm process has already ended it
            raise Died(*state["beyond"])
