"""What passed lives on: in `my_attention/`, as Python that is the learner's, found by later lessons."""

import importlib
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import torch
from IPython import get_ipython
from IPython.testing.globalipapp import start_ipython
from torch import Tensor

from attnlib.checks import check, course, exercises, keep, yours_or_ours
from attnlib.checks.standing import folder, kept, own_code
from attnlib.checks.standing.folder import day

TODAY = day(date.today())
MASKED = """def masked_softmax(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    kept = scores.masked_fill(~mask & ~empty, -torch.inf)
    return weights_of(kept).masked_fill(empty, 0.0)"""
SOFTMAX = """def softmax(s):
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)"""
SCALED = """def attention_scores(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5 * one.item()"""
SHIFTED = """def shifted(s):
    return (s - top(s)).exp()"""
IN_TWO = """def softmax(s):
    e = shifted(s)
    return e / e.sum(LAST, keepdim=True)"""
IMPORTS = "import torch\nfrom torch import Tensor\nfrom einops import einsum\nimport torch.nn.functional as F"
SCORES = """def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    # mine
    return einsum(q, k, "... q d, ... k d -> ... q k") / k.shape[-1] ** 0.5"""
OTHER = "def attention_scores(q: Tensor, k: Tensor) -> Tensor:\n    return q @ k.mT / q.shape[-1] ** 0.5"


class Notebook:
    """A kernel's shell as far as the course looks at it: cells are run, and their texts are kept."""

    def __init__(self) -> None:
        self.user_ns: dict[str, object] = {"__name__": "__main__"}
        self.history_manager = self
        self.input_hist_parsed = [""]

    def run(self, *cells: str) -> dict[str, object]:
        for cell in cells:
            self.input_hist_parsed.append(cell)
            exec(cell, self.user_ns)
        return self.user_ns


@pytest.fixture
def own(monkeypatch, tmp_path) -> Path:
    monkeypatch.delenv(kept.PLACE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(folder.PLACE, "my_attention")
    monkeypatch.syspath_prepend(tmp_path)
    yield Path("my_attention")
    for name in [name for name in sys.modules if name.split(".")[0] == "my_attention"]:
        del sys.modules[name]


@pytest.fixture
def notebook(own, monkeypatch) -> Notebook:
    return another(monkeypatch)


def another(monkeypatch) -> Notebook:
    """A notebook just started, beside the same folder."""
    fresh = Notebook()
    monkeypatch.setattr(own_code, "running_shell", lambda: fresh)
    return fresh


def test_an_answer_that_passes_is_kept_with_what_it_needs(own, notebook, capsys):
    names = notebook.run(IMPORTS, "unrelated = torch.zeros(3)", SCORES)
    check("attention_scores", names["attention_scores"])
    assert f"Kept in {own / 'lesson_02.py'}." in capsys.readouterr().out
    text = (own / "lesson_02.py").read_text()
    head, _, code = text.partition('"""\n\n')
    assert head.startswith('"""Lesson 02 scaled dot product attention: what I wrote.')
    assert (
        code
        == f"from einops import einsum\nfrom torch import Tensor\n\n\n# attention_scores, passed on {TODAY}\n{SCORES}\n"
    )
    assert "from .lesson_02 import attention_scores as attention_scores" in (own / "__init__.py").read_text()


def test_the_package_can_be_imported(own, notebook):
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    package = importlib.import_module("my_attention")
    assert package.attention_scores(torch.zeros(2, 3, 5), torch.zeros(2, 7, 5)).shape == (2, 3, 7)
    command = "import my_attention; print(my_attention.attention_scores.__module__)"
    alone = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert alone.stdout == "my_attention.lesson_02\n"


def test_helpers_constants_and_lambdas_come_along_in_order(own, notebook):
    cells = [
        "from functools import partial",
        "AXIS, OTHER = -1, 2",
        "LAST = -1",
        "top = lambda s: s.amax(LAST, keepdim=True)",
    ]
    check("softmax", notebook.run(IMPORTS, *cells, SHIFTED, IN_TWO)["softmax"])
    text = (own / "lesson_02.py").read_text()
    order = ["LAST = -1", "top = lambda", "def shifted", f"# softmax, passed on {TODAY}\ndef softmax"]
    assert sorted(order, key=text.index) == order
    assert not any(unused in text for unused in ("AXIS", "partial", "import torch"))


def test_an_answer_that_needs_a_computed_value_is_not_kept_and_it_says_so(own, notebook, capsys):
    names = notebook.run(IMPORTS, "one = torch.ones(1)", SCALED)
    check("attention_scores", names["attention_scores"])
    assert "Not kept in my_attention/lesson_02.py: it uses one, which the notebook computes." in capsys.readouterr().out
    assert not own.exists()


def test_an_answer_without_a_name_is_not_kept_and_it_says_so(own, notebook, capsys):
    check("attention_scores", lambda q, k: q @ k.mT / q.shape[-1] ** 0.5)
    assert "it has no name in the notebook" in capsys.readouterr().out


def test_a_letter_is_not_kept(own, notebook, capsys):
    check("predict_largest_dot", exercises()["predict_largest_dot"].reference)
    assert "ept" not in capsys.readouterr().out
    assert not own.exists()


def test_a_better_answer_replaces_it_and_the_old_one_stays_in_the_history(own, notebook):
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    check("attention_scores", notebook.run(OTHER)["attention_scores"])
    text = (own / "lesson_02.py").read_text()
    assert OTHER in text
    assert text.count("def attention_scores") == 1
    assert SCORES in (own / "history" / "lesson_02.py").read_text()


def test_the_same_answer_again_changes_nothing_and_says_nothing(own, notebook, capsys):
    scores = notebook.run(IMPORTS, SCORES)["attention_scores"]
    check("attention_scores", scores)
    before = (own / "lesson_02.py").stat().st_mtime_ns
    capsys.readouterr()
    check("attention_scores", scores)
    assert "ept in" not in capsys.readouterr().out
    assert (own / "lesson_02.py").stat().st_mtime_ns == before
    assert not (own / "history").exists()


def test_two_answers_of_a_lesson_stand_in_one_file(own, notebook):
    names = notebook.run(IMPORTS, SCORES, SOFTMAX)
    check("softmax", names["softmax"])
    check("attention_scores", names["attention_scores"])
    assert own_code.answers_in((own / "lesson_02.py").read_text()) == {
        "softmax": "softmax",
        "attention_scores": "attention_scores",
    }


def test_a_file_that_was_edited_is_not_written_unless_the_learner_says_so(own, notebook, capsys):
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    file = own / "lesson_02.py"
    edited = file.read_text() + "\n\ndef of_my_own():\n    return 1\n"
    file.write_text(edited)
    scores = notebook.run(OTHER)["attention_scores"]
    capsys.readouterr()
    check("attention_scores", scores)
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not kept: you have edited {file}, so it stays as it is." in said
    assert 'keep("attention_scores", attention_scores)' in said
    assert file.read_text() == edited
    keep("attention_scores", scores)
    assert capsys.readouterr().out == f"Kept in {file}\n"
    assert OTHER in file.read_text()
    assert "def of_my_own" in file.read_text()


def test_a_later_notebook_goes_on_with_what_passed(own, notebook, monkeypatch, capsys):
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    later = another(monkeypatch)
    capsys.readouterr()
    scores = yours_or_ours("attention_scores", later.user_ns)
    assert capsys.readouterr().out == f"Your own attention_scores is used here, from {own / 'lesson_02.py'}.\n"
    assert scores.__module__ == "my_attention.lesson_02"
    assert "my_attention" not in sys.modules  # whoever imports it gets all of it


def test_what_uses_an_earlier_lesson_s_answer_imports_it(own, notebook, monkeypatch, capsys):
    check("softmax", notebook.run(IMPORTS, SOFTMAX)["softmax"])
    later = another(monkeypatch)
    later.user_ns["weights_of"] = yours_or_ours("softmax", later.user_ns)
    later.input_hist_parsed.append('weights_of = yours_or_ours("softmax", globals())')
    check("masked_softmax", later.run(IMPORTS, MASKED)["masked_softmax"])
    assert "from .lesson_02 import softmax as weights_of" in (own / "lesson_05.py").read_text()
    last = another(monkeypatch)
    capsys.readouterr()
    found = yours_or_ours("masked_softmax", last.user_ns)
    assert "Your own masked_softmax is used here" in capsys.readouterr().out
    assert found(torch.zeros(1, 2), torch.tensor([[True, False]])).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text.replace("return", "return (x :="), " of lesson_02.py isn't valid Python)"),
        (lambda text: text.replace("import einsum", "import einsom"), "cannot be used (ImportError: "),
        (lambda text: text.replace("** 0.5", "** 1.0"), "does not pass its check any more"),
        (lambda text: text.replace("from torch", "raise SystemExit\nfrom torch"), "cannot be used (SystemExit: "),
    ],
    ids=["no Python", "an import that fails", "wrong by now", "it ends the program"],
)
def test_a_file_that_fails_is_named_and_attnlib_goes_on(own, notebook, monkeypatch, capsys, damage, said):
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    file = own / "lesson_02.py"
    file.write_text(damage(file.read_text()))
    capsys.readouterr()
    scores = yours_or_ours("attention_scores", another(monkeypatch).user_ns)
    out = capsys.readouterr().out
    assert scores is exercises()["attention_scores"].reference
    assert out.startswith("attnlib's attention_scores is used here: ")
    assert str(file) in out
    assert out.count("\n") == 1
    assert said in out


def test_of_what_is_no_python_the_file_is_named_that_holds_it(own, notebook, monkeypatch, capsys):
    check("softmax", notebook.run(IMPORTS, SOFTMAX)["softmax"])
    later = another(monkeypatch)
    later.run("from attnlib.checks import yours_or_ours", IMPORTS, 'weights_of = yours_or_ours("softmax", globals())')
    check("masked_softmax", later.run(MASKED)["masked_softmax"])
    file = own / "lesson_02.py"
    file.write_text((right := file.read_text()) + "def (:\n")
    line = right.count("\n") + 1
    capsys.readouterr()
    yours_or_ours("masked_softmax", {})
    assert f"lesson_05.py cannot be used (line {line} of lesson_02.py isn't valid Python)." in capsys.readouterr().out
    yours_or_ours("softmax", {})
    assert f"lesson_02.py cannot be used (line {line} of lesson_02.py isn't valid Python)." in capsys.readouterr().out


def test_nothing_is_kept_where_the_learner_said_no(own, notebook, monkeypatch, capsys):
    yours_or_ours("attention_scores", {})
    assert "yours is not written yet, or does not pass its check" in capsys.readouterr().out
    monkeypatch.setenv(folder.PLACE, "")
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    assert not own.exists()
    assert yours_or_ours("attention_scores", {}) is exercises()["attention_scores"].reference
    assert "yours is not written in this notebook, or does not pass its check" in capsys.readouterr().out


def test_nothing_is_kept_or_read_while_nbgrader_runs_the_notebook(own, notebook, monkeypatch):
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert own_code.kept_answer(course.find("attention_scores")) == (None, "")


def test_a_folder_that_cannot_be_written_is_told_in_one_line(own, notebook, capsys):
    own.write_text("a file stands here")
    check("attention_scores", notebook.run(IMPORTS, SCORES)["attention_scores"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not kept: {own / 'lesson_02.py'} cannot be written (" in said


def test_a_real_shell_gives_what_is_needed(own, monkeypatch, capsys):
    start_ipython()  # where no other test has
    shell = get_ipython()
    monkeypatch.setattr(own_code, "running_shell", lambda: shell)
    for cell in (IMPORTS, SCORES, "from attnlib.checks import check", 'check("attention_scores", attention_scores)'):
        assert shell.run_cell(cell, store_history=True).success
    assert "# mine" in (own / "lesson_02.py").read_text()
    assert isinstance(yours_or_ours("attention_scores", {})(torch.zeros(2, 3), torch.zeros(5, 3)), Tensor)
