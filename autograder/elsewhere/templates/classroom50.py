"""classroom50 runs this once a submission, in the student's checkout; it leaves result.json there."""

import os
import subprocess
import sys
from pathlib import Path

here = Path(__file__).resolve().parent
venv = os.environ.get("AUTOGRADER_VENV") or str(here / "venv")
environment = {**os.environ, "AUTOGRADER_VENV": venv, "PYTHONPATH": str(here / "@GRADER@")}
subprocess.run(["bash", str(here / "setup.sh")], env=environment, check=True)
checkout = Path.cwd()
command = [f"{venv}/bin/python", "-m", "autograder.elsewhere", "github", str(checkout), str(checkout / "result.json")]
sys.exit(subprocess.run(command, cwd=here / "@GRADER@", env=environment).returncode)
