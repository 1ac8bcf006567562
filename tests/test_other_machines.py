"""`.ci/without` takes away what it says, from the command and from all that it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LACKS = {
    "bubblewrap": "import shutil; assert shutil.which('bwrap') is None",
    "landlock": "import ctypes; assert ctypes.CDLL(None).syscall(444, None, 0, 1) == -1",
    "root": """
import os, pathlib, torch
assert os.getuid() != 0 and "CapEff:\\t0000000000000000" in pathlib.Path("/proc/self/status").read_text()
assert not os.access(pathlib.Path.home(), os.W_OK)""",
    "write-back": """
import subprocess, tempfile
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(dir=folder) as file:
    assert "S" in subprocess.check_output(["lsattr", file.name], text=True).split()[0]""",
}


def without(*lacks: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / ".ci" / "without", *lacks, "--", sys.executable, "-c", "\n".join(LACKS[lack] for lack in lacks)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: only Linux has what is taken away")
@pytest.mark.parametrize("lacks", [*((lack,) for lack in LACKS), tuple(LACKS)], ids=" ".join)
def test_a_command_runs_as_on_a_machine_that_lacks(lacks: tuple[str, ...]) -> None:
    run = without(*lacks)
    if run.stdout.startswith("NOT TESTED"):
        pytest.skip(run.stdout)
    assert run.returncode == 0, run.stderr
