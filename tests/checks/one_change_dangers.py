"""What a branch that never ran could do to a learner's files, notebook and network, if a search ran it."""

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from notebook_cells import run_cell

RECEIVED: list[int] = []
"""The signals that came."""

DANGERS = {
    "a function of the notebook": ("import shutil\ndef start_afresh():\n    shutil.rmtree(folder)", "start_afresh()"),
    "a name of its own for os.remove": ("from os import remove as forget", "forget(folder / 'notes.txt')"),
    "a function that is passed on": ("from os import remove", "list(map(remove, [folder / 'notes.txt']))"),
    "a partial": ("import functools, os\nclean = functools.partial(os.remove, folder / 'notes.txt')", "clean()"),
    "a program": ("from subprocess import run", "run(['rm', '-r', str(folder)], check=True)"),
    "a method of a path": ("notes = folder / 'notes.txt'", "notes.unlink()"),
    "a file that is emptied": ("begin = open", "begin(folder / 'notes.txt', 'w').close()"),
    "a file that is open": ("diary = journal", "diary.write('x'), diary.flush()"),
    "a file that is mapped": ("def fill(where): where[:] = 1", "fill(table)"),
    "a file of torch's": ("import torch\nkeep = torch.save", "keep(x, folder / 'notes.txt')"),
    "a file of torch's, by its storage": ("", "torch.from_file(str(folder / 'new'), shared=True, size=4)"),
    "a file of numpy's": ("", "x.numpy().tofile(folder / 'new')"),
    "a mode": ("import os\nlock = os.chmod", "lock(folder, 0)"),
    "a connection": ("import socket\nconnect = socket.create_connection", "connect(address, timeout=1).close()"),
    "a signal": ("from signal import raise_signal as tell", "tell(10)"),
    "a signal to the notebook": ("from os import kill", "kill(notebook, 10)"),
    "an object that deletes in a helper": (
        "def empty(place):\n    (place / 'notes.txt').unlink()\n"
        "class Desk:\n    def tidy(self):\n        empty(folder)\ndesk = Desk()",
        "desk.tidy()",
    ),
    "an object that is made on the spot": (
        "import shutil\nclass Desk:\n    def __init__(self):\n        shutil.rmtree(folder)",
        "Desk()",
    ),
    "a decorator": (
        "import functools, shutil\ndef clearing(f):\n    @functools.wraps(f)\n    def wrapped(x):\n"
        "        shutil.rmtree(folder)\n        return f(x)\n    return wrapped\n"
        "@clearing\ndef identity(x):\n    return x",
        "x = identity(x)",
    ),
    "a decorator that says nothing": (
        "import shutil\ndef clearing(f):\n    def wrapped(x):\n        shutil.rmtree(folder)\n        return f(x)\n"
        "    return wrapped\n@clearing\ndef identity(x):\n    return x",
        "x = identity(x)",
    ),
    "a property": (
        "import shutil\nclass Desk:\n    @property\n    def empty(self):\n        shutil.rmtree(folder)\ndesk = Desk()",
        "desk.empty",
    ),
    "an object that is called": (
        "import shutil\nclass Desk:\n    def __call__(self, x):\n        shutil.rmtree(folder)\ndesk = Desk()",
        "desk(x)",
    ),
    "an object in a text": (
        "import shutil\nclass Desk:\n    def __format__(self, how):\n        shutil.rmtree(folder)\ndesk = Desk()",
        "f'{desk}'",
    ),
    "a context": (
        "import shutil\nclass Clearing:\n    def __enter__(self):\n        shutil.rmtree(folder)\n"
        "    def __exit__(self, *of_an_error):\n        pass",
        "with Clearing(): pass",
    ),
    "getattr": ("import os as system", "getattr(system, 're' + 'move')(folder / 'notes.txt')"),
    "a module by another name": ("import os as system", "system.remove(folder / 'notes.txt')"),
    "an import in the answer": ("", "from os import remove; remove(folder / 'notes.txt')"),
    "what Python hides": ("", "torch.__builtins__['open'](folder / 'notes.txt', 'w').close()"),
    "what a function knows": ("import os\ndef f(x): return x", "f.__globals__['os'].unlink(folder / 'notes.txt')"),
    "a list of the notebook": ("def note(where): where.append(1)", "note(kept)"),
    "a default of the notebook": ("def note(x, seen=kept): seen.append(1)", "note(x)"),
    "a tensor of the notebook": ("def count(where): where.add_(1)", "count(numbers)"),
    "a shared tensor": ("def count(where): where.add_(1)", "count(shared)"),
    "an attribute of the notebook's object": ("def rename(it): it.name = 'other'", "rename(thing)"),
    "a class of the notebook": (
        "class Kept:\n    here = kept\n    def note(self): self.here.append(1)",
        "Kept().note()",
    ),
    "a library": ("def mark(where): where.marked = 1", "mark(torch)"),
}
"""What the notebook has, and the line that never runs: on one of the first edits it does."""
ENDS_THE_CHILD = ("a file that is mapped", "a shared tensor")


class World:
    """A notebook's surroundings, and whether all is as it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mine"
        self.folder.mkdir()
        (self.folder / "notes.txt").write_text("weeks of work")
        self.mapped = np.memmap(folder / "table", dtype=np.float32, mode="w+", shape=4)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0)
        self.journal = (self.folder / "notes.txt").open("a")
        self.numbers, self.shared = torch.zeros(3), torch.zeros(3).share_memory_()
        self.kept: list[int] = []
        self.thing = SimpleNamespace(name="mine")
        self.names = {
            **{"folder": self.folder, "address": self.listener.getsockname(), "kept": self.kept, "thing": self.thing},
            **{"numbers": self.numbers, "shared": self.shared, "torch": torch, "table": self.mapped},
            **{"notebook": os.getpid(), "journal": self.journal},
        }

    def is_intact(self) -> bool:
        """Whether nothing was deleted, written, sent or changed."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            pass
        else:
            return False
        if not self.folder.exists() or self.folder.stat().st_mode & 0o700 != 0o700:  # only root could look into it
            return False
        files = {path.name: path.stat().st_mode & 0o700 for path in self.folder.iterdir()}
        numbers = [*self.numbers, *self.shared, *torch.from_numpy(np.fromfile(self.mapped.filename, np.float32))]
        kept = not self.kept and not any(map(bool, numbers)) and vars(self.thing) == {"name": "mine"}
        return (
            files == {"notes.txt": 0o600}
            and (self.folder / "notes.txt").read_bytes() == b"weeks of work"
            and kept
            and not RECEIVED
            and not hasattr(torch, "marked")
        )

    def answer(self, danger: str) -> Any:
        """A wrong answer with a branch that never runs, in the notebook that has what the branch uses."""
        around, line = DANGERS[danger]
        names = run_cell(around, self.names, path=f"<the cell above of {danger}>")
        branch = f"    if x.shape[0] > 100_000:\n        {line}\n"
        source = f"def pairwise_dot(x, y):\n{branch}    return (x @ y.mT).roll(1, dims=0)"
        return run_cell(source, names, path=f"<the cell of {danger}>")["pairwise_dot"]
