"""What is kept is what passed, and nothing else that stood beside it, by two notebooks at once as well."""

import subprocess
import sys

import pytest
from IPython import get_ipython
from IPython.testing.globalipapp import start_ipython
from test_own_code import IMPORTS, OTHER, SCORES, notebook, own  # noqa: F401

from attnlib.checks import check
from attnlib.checks.standing import own_code
from attnlib.checks.standing.own_source import own_source
from attnlib.checks.standing.stale import cell_of

HALF = "def attention_scores(q, k):\n    return q @ k.mT / 2"


def test_what_is_kept_is_what_passed(own, monkeypatch, capsys):  # noqa: F811
    """Not what stands in a cell that failed, nor what stood there before a magic compiled it."""
    start_ipython()
    shell = get_ipython()
    monkeypatch.setattr(own_code, "running_shell", lambda: shell)
    asked = 'check("attention_scores", attention_scores)'
    for cell in (IMPORTS, SCORES, "from attnlib.checks import check", f"1 / 0\n{HALF}", asked):
        shell.run_cell(cell, store_history=True)
    assert SCORES in (text := (own / "lesson_02.py").read_text())
    capsys.readouterr()
    for cell in (HALF, f"%%time\n{SCORES}", asked):
        assert shell.run_cell(cell, store_history=True).success
    assert "Not kept in my_attention/lesson_02.py" in capsys.readouterr().out
    assert (own / "lesson_02.py").read_text() == text
    decorated = f"@torch.no_grad()\n{SCORES}"
    for cell in (f"{decorated}\nkept = attention_scores", HALF):
        assert shell.run_cell(cell, store_history=True).success
    found = own_source(
        "attention_scores",
        shell.history_manager.input_hist_parsed,
        {**shell.user_ns, "attention_scores": shell.user_ns["kept"]},
        lambda value: cell_of(value, shell),
    )
    assert found.statements["attention_scores"] == decorated


@pytest.mark.parametrize(
    ("cells", "kept_one"),
    [
        (["ONE = 3", "ONE -= 2"], None),
        (["async def a(): return 1\nasked = a()", "ONE = await asked"], None),
        (["ONE = 1.0; print('seen')"], "ONE = 1.0"),
        (["print('é'); ONE = 1"], "ONE = 1"),
    ],
)
def test_a_number_is_kept_alone_and_as_it_was(own, notebook, capsys, cells, kept_one):  # noqa: F811
    notebook.input_hist_parsed += cells
    notebook.user_ns["ONE"] = 1.0 if "1.0" in cells[-1] else 1
    check("attention_scores", notebook.run(IMPORTS, OTHER.replace("return ", "return ONE * "))["attention_scores"])
    if kept_one is None:
        assert "it uses ONE, which the notebook computes" in capsys.readouterr().out
    else:
        assert kept_one in (own / "lesson_02.py").read_text().split("\n")


KEEPS = """
import sys
from pathlib import Path
from types import SimpleNamespace
from attnlib.checks import course
from attnlib.checks.standing import own_code
own_code.own_folder = lambda: Path(sys.argv[1])
exercise, names = course.find(sys.argv[2]), {}
for number in range(200):
    cell = f"def {exercise.name}():\\n    return {number}"
    exec(cell, names)
    history = SimpleNamespace(input_hist_parsed=["", cell])
    own_code.running_shell = lambda: SimpleNamespace(user_ns=names, history_manager=history)
    said = own_code.keep_answer(exercise, names[exercise.name], lambda *_: True)
    assert said.startswith("Kept in"), said
"""


@pytest.mark.slow
def test_two_notebooks_of_different_lessons_keep_at_the_same_time(own):  # noqa: F811
    names = ["pairwise_dot", "attention_scores"]
    writers = [subprocess.Popen([sys.executable, "-c", KEEPS, str(own), name]) for name in names]
    assert [writer.wait(timeout=600) for writer in writers] == [0, 0]
    text = (own / "__init__.py").read_text()
    assert text == (own / ".as_written" / "__init__.py").read_text()
    assert all(name in text for name in names)
