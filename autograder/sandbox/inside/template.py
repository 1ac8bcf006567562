"""The template in the sandbox: it has torch imported and knows nothing else; warm processes are forked from it.

So they share its pages. It talks to the grader alone, over a connection that no process forked from it has, and runs no
student code itself.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import socket
import sys
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
    "contourpy",  # imported late by matplotlib, when no child could load its compiled part any more
    "IPython.core.inputtransformer2",
)
CHILDREN = 1_000_000
"""More children than a warm process ever forks, so that no two children have the same number."""


def main() -> None:
    """Serve until the grader closes the connection; `control` is its file descriptor, or a socket's path."""
    settings = dict(argument.split("=", 1) for argument in sys.argv[1:])
    sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    from inside import confine, zygote

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
    zygote.use_as_home(settings["scratch"])
    for name in WARM:
        importlib.import_module(name)
    import torch
    from inside import serve

    torch.set_num_threads(1)
    _warm_up(torch)
    clear(settings["scratch"])
    if settings.get("landlock") == "template":
        rules = json.loads(settings["rules"])
        confine.restrict_files([*rules["readable"], "/proc"], [settings["scratch"], "/dev/null"], rules["listable"])
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    control.send({"ready": True, "pid": os.getpid(), "rss": resident})
    Template(control, settings, serve).run()


def _connection(where: str) -> socket.socket:
    if where.isdigit():
        return socket.socket(fileno=int(where))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(where)
    return connection


def _warm_up(torch: Any) -> None:
    """Judge once, for all that the first use imports; not autograd, whose threads would not survive a fork."""
    from inside.attempt import Local, Terms
    from inside.ready_made import FAMILIES

    torch.nn.Linear(3, 2)(torch.randn(5, 3)).softmax(-1)
    torch.random.fork_rng(devices=[])
    terms = Terms(outputs=("result",), forbidden=tuple(FAMILIES))
    Local(torch.exp).open(terms).call([torch.randn(5, 3)])


class Template:
    """Forks warm processes, which end with it."""

    def __init__(self, control: Any, settings: dict[str, str], serve: Any) -> None:
        self.control, self.settings, self.serve = control, settings, serve
        self.number = 0

    def run(self) -> None:
        """Fork one at each request, after importing the `late` modules for it, until the grader is gone."""
        from inside import zygote
        from inside.wire import Closed

        with contextlib.suppress(Closed):
            while True:
                message, descriptors = zygote.received(self.control)
                import_late(message["late"])
                self._forget_ended()
                pid = self._fork(descriptors[0])
                os.close(descriptors[0])
                self.control.send({"pid": pid})

    def _forget_ended(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _fork(self, descriptor: int) -> int:
        self.number += 1
        pid = os.fork()
        if pid == 0:
            try:
                self.control.close()
                self._become_warm(descriptor)
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(0)
        return pid

    def _become_warm(self, descriptor: int) -> None:
        """Serve as a warm process; `die_with_parent` and `adopt_orphans` are not inherited by a fork."""
        from inside import confine, zygote
        from inside.wire import Channel

        confine.hide_memory()
        confine.die_with_parent()
        confine.adopt_orphans()
        control = Channel(socket.socket(fileno=descriptor))
        zygote.Zygote(control, self.settings, self.serve, CHILDREN * self.number).run()


def import_late(names: list[str]) -> None:
    """Import modules that take long, once for all processes that are forked from here."""
    for name in set(names) - sys.modules.keys():
        with contextlib.suppress(ModuleNotFoundError):  # a child says which cell lacks it
            importlib.import_module(name)
    gc.freeze()  # a collection in a child would touch, and so copy, every page


if __name__ == "__main__":
    main()
