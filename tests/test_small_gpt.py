"""The page on a small GPT does what it says, pasted into a file as a reader would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "a_small_gpt.md"
AFTERWARDS = """
import math
assert abs(math.log(len(letters)) - 4.3) < 0.1
assert loss < 1.5, loss
assert written.shape == (1, 60)
assert (one_by_one - at_once).abs().max() < 1e-4
assert (exported.module()(prompt) - at_once).abs().max() < 1e-4
with torch.no_grad():
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(prompt)
assert (compiled - at_once).abs().max() < 1e-4
"""


@pytest.mark.slow
def test_the_page_trains_writes_caches_and_exports(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    program = tmp_path / "small_gpt.py"
    program.write_text("\n".join([*blocks, AFTERWARDS]), encoding="utf-8")
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith('"""Scaled dot-product')
