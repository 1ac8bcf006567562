"""The file of reactions, and the script that makes it."""

import pytest

from attnlib.reactions import FILE


def test_the_script_still_makes_the_file():
    pytest.importorskip("rdkit", reason="RDKit is not installed: NOT COMPARED with what the script makes")
    from autograder.building.make_reactions import lines

    kept = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    without_drawings = [[";".join(line.split(";")[:3]) for line in each] for each in (kept, list(lines()))]
    assert without_drawings[0] == without_drawings[1]
