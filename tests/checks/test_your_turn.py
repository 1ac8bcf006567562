"""A "Your turn" cell refuses what it cannot use in one sentence, before it does anything with it."""

import math
import re
from pathlib import Path

import pytest
from IPython import get_ipython
from IPython.testing.globalipapp import start_ipython

from attnlib import reactions as chemistry
from attnlib.checks import your_turn
from attnlib.checks.your_turn import NotUsable

ROOT = Path(__file__).resolve().parents[2]
CELL = re.compile(r"(?ms)^# (?:\*\*Your turn\.\*\*|## Your turn:).*?^# %%[^\n]*\n(?P<code>.*?)(?=^# %% \[markdown\])")
INPUT = re.compile(r'(?ms)^(mine(?:, count)?|sentence|drawing) = (?:"""\n.*?^"""|\(\n.*?^\)|[^\n]*)$')
LETTERS = ["\n", *" -.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,"]


class Reader:
    number_of = dict.fromkeys(LETTERS, 0)


NAMES = {
    **{name: getattr(your_turn, name) for name in ("NotUsable", "usable_number", "usable_text")},
    "math": math,
    "KINDS": ["she", "he", "it"],
    "VOCAB": 64,
    "four": Reader,
    "letters": LETTERS,
    "characters": LETTERS,
    "LAYER": 10,
    "HEAD": 5,
    "maps_of": lambda text, _model: text,
    "model": None,
}
"""All that a cell may use before it has refused; anything else would be a NameError."""


def cells() -> dict[str, str]:
    """The code after each lesson's "Your turn", up to the next text."""
    found = {}
    for path in sorted((ROOT / "solutions").glob("*.py")):
        for number, match in enumerate(CELL.finditer(path.read_text(encoding="utf-8"))):
            found[f"{path.stem[:2]}-{number}"] = re.sub(r"^# %%.*$", "", match["code"], flags=re.MULTILINE)
    return found


def test_ten_lessons_have_one():
    assert {name[:2] for name in cells()} >= {f"{number:02}" for number in range(2, 12)}


@pytest.mark.parametrize("bad", ['""', "None", "1789", '"é" * 5', '"a" * 5000', '["a", "b"]', 'b"abc"'])
@pytest.mark.parametrize("name", [name for name in cells() if not name.startswith("10")])
def test_a_text_that_cannot_be_used_gets_one_sentence(name, bad):
    code, changed = INPUT.subn(lambda found: f"{found[1]} = {bad}{', 300' * (', count' in found[0])}", cells()[name], 1)
    assert changed
    with pytest.raises(NotUsable) as refused:
        exec(code, dict(NAMES))
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("bad", ["0, 512", "16_384, 1", "2.5, 512", '"many", 512', "16_384, True", "10**9, 512"])
def test_a_number_that_cannot_be_used_gets_one_sentence(bad):
    code = re.sub(r"^n, size = .*$", f"n, size = {bad}", cells()["10-0"], flags=re.MULTILINE)
    with pytest.raises(NotUsable, match=r"^(n|size) must be a whole number from "):
        exec(code, dict(NAMES))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("CCO", "one arrow"),
        ("CC>>CO>>C", "one arrow"),
        (">>CC", "atoms on both sides"),
        ("CO>>", "atoms on both sides"),
        ("CO>>CN", "there is no N before"),
        ("C{O}>>CO", "can't be read"),
        ("[Uuo]>>C", "never seen these tokens"),
        ("C" * 300 + ">>" + "C" * 300, "512 positions"),
    ],
)
def test_a_reaction_that_cannot_be_used_gets_its_reason(bad, said):
    names = {**NAMES, "chemistry": chemistry, "number": {"[CLS]", "[SEP]", ">>", "C", "O", "N"}}
    with pytest.raises(NotUsable, match=said) as refused:
        exec(INPUT.sub(f"mine = {bad!r}", cells()["12-0"], count=1), names)
    assert str(refused.value).count("\n") == 0


def test_ipython_shows_the_sentence_and_no_traceback(capsys):
    start_ipython()  # where no other test has
    shell = get_ipython()
    shell.run_cell("from attnlib.checks.your_turn import usable_text\nusable_text(1789, longest=4)")
    said = capsys.readouterr().out.strip()
    assert said == "A text in quotation marks is needed, got int. Change it and run this cell again."
