"""Every instructor notebook gives the outputs that are committed with it."""

import os
import subprocess
import sys

import pytest

from autograder.layout import Layout

pytestmark = pytest.mark.slow
NOTEBOOKS = sorted(Layout().solutions.glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_committed_outputs_come_again(notebook):
    """nbval compares all outputs except pictures; cells tagged nbval-ignore-output say why, and assert instead."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--nbval",
        str(notebook),
    ]
    result = subprocess.run(
        command, cwd=notebook.parent, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-5000:]
