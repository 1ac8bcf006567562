"""What `import attnlib` and the exercises load; what that takes is measured by `python -m benchmarks.import_cost`."""

import functools
import subprocess
import sys

LOADED = """
import sys
import torch
before = set(sys.modules)
import attnlib
print(*sorted(set(sys.modules) - before))
"""


@functools.cache
def loaded() -> tuple[str, ...]:
    """The modules that `import attnlib` loads where torch is there already."""
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    return tuple(found.stdout.split())


def test_importing_loads_little_beyond_torch():
    packages = {name.split(".")[0] for name in loaded()}
    assert packages - set(sys.stdlib_module_names) - {"numpy"} == {"attnlib", "jaxtyping"}


def test_importing_loads_neither_plots_nor_anything_of_the_course():
    others = ("matplotlib", "einops", "attnlib.checks", "nbgrader", "autograder", "notebook")
    assert not [name for name in loaded() if name.startswith(others)]


def test_all_exercises_are_declared_without_torch_s_compiler():
    """It takes as long to import as torch itself, and every grader and every command would wait for it."""
    code = "import sys; from attnlib.checks import exercises; exercises(); print('torch._dynamo' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
