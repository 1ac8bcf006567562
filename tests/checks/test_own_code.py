"""What passed lives on: in `my_attention/`, as Python that is the learner's, found by later lessons."""

import importlib
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import torch
from IPython.testing.globalipapp import get_ipython
from torch import Tensor

from attnlib.checks import check, course, exercises, keep, yours_or_ours
from attnlib.checks.standing import folder, kept, own_code
from attnlib.checks.standing.folder import day

TODAY = day(date.today())
MASKED = """def masked_softmax(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    kept = scores.masked_fill(~mask & ~empty, -torch.inf)
    return weights_of(kept).masked_fill(empty, 0.0)"""
SPLIT = """def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{x.shape[-1]} columns, {num_heads} heads")
    return rearrange(x, "b n (h d) -> b h n d", h=num_heads)"""
SOFTMAX = """def softmax(s):
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)"""
SCALED = """def merge_heads(x):
    return x.transpose(1, 2).flatten(2) * one.item()"""
SHIFTED = """def shifted(s):
    return (s - top(s)).exp()"""
IN_TWO = """def softmax(s):
    e = shifted(s)
    return e / e.sum(LAST, keepdim=True)"""
IMPORTS = "import torch\nfrom torch import Tensor\nfrom einops import rearrange\nimport torch.nn.functional as F"
MERGE = "def merge_heads(x: Tensor) -> Tensor:\n    # mine\n    return rearrange(x, 'b h n d -> b n (h d)')"
OTHER = "def merge_heads(x: Tensor) -> Tensor:\n    return x.transpose(1, 2).flatten(2)"


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
    monkeypatch.setattr(own_code, "_shell", lambda: fresh)
    return fresh


def test_an_answer_that_passes_is_kept_with_what_it_needs(own, notebook, capsys):
    names = notebook.run(IMPORTS, "unrelated = torch.zeros(3)", MERGE)
    check("merge_heads", names["merge_heads"])
    assert f"Kept in {own / 'lesson_03.py'}." in capsys.readouterr().out
    text = (own / "lesson_03.py").read_text()
    head, _, code = text.partition('"""\n\n')
    assert head.startswith('"""Lesson 03 multi head attention: what I wrote.')
    assert (
        code
        == f"from einops import rearrange\nfrom torch import Tensor\n\n\n# merge_heads, passed on {TODAY}\n{MERGE}\n"
    )
    assert "from .lesson_03 import merge_heads as merge_heads" in (own / "__init__.py").read_text()


def test_the_package_can_be_imported(own, notebook):
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    package = importlib.import_module("my_attention")
    assert package.merge_heads(torch.zeros(2, 3, 5, 7)).shape == (2, 5, 21)
    command = "import my_attention; print(my_attention.merge_heads.__module__)"
    alone = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert alone.stdout == "my_attention.lesson_03\n"


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
    check("merge_heads", names["merge_heads"])
    assert "Not kept in my_attention/lesson_03.py: it uses one, which the notebook computes." in capsys.readouterr().out
    assert not own.exists()


def test_an_answer_without_a_name_is_not_kept_and_it_says_so(own, notebook, capsys):
    check("merge_heads", lambda x: x.transpose(1, 2).flatten(2))
    assert "it has no name in the notebook" in capsys.readouterr().out


def test_a_letter_is_not_kept(own, notebook, capsys):
    check("predict_largest_dot", exercises()["predict_largest_dot"].reference)
    assert "ept" not in capsys.readouterr().out
    assert not own.exists()


def test_a_better_answer_replaces_it_and_the_old_one_stays_in_the_history(own, notebook):
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    check("merge_heads", notebook.run(OTHER)["merge_heads"])
    text = (own / "lesson_03.py").read_text()
    assert OTHER in text
    assert text.count("def merge_heads") == 1
    assert MERGE in (own / "history" / "lesson_03.py").read_text()


def test_the_same_answer_again_changes_nothing_and_says_nothing(own, notebook, capsys):
    merge = notebook.run(IMPORTS, MERGE)["merge_heads"]
    check("merge_heads", merge)
    before = (own / "lesson_03.py").stat().st_mtime_ns
    capsys.readouterr()
    check("merge_heads", merge)
    assert "ept in" not in capsys.readouterr().out
    assert (own / "lesson_03.py").stat().st_mtime_ns == before
    assert not (own / "history").exists()


def test_two_answers_of_a_lesson_stand_in_one_file(own, notebook):
    names = notebook.run(IMPORTS, MERGE, SPLIT)
    check("split_heads", names["split_heads"])
    check("merge_heads", names["merge_heads"])
    assert own_code.answers_in((own / "lesson_03.py").read_text()) == {
        "split_heads": "split_heads",
        "merge_heads": "merge_heads",
    }


def test_a_file_that_was_edited_is_not_written_unless_the_learner_says_so(own, notebook, capsys):
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    file = own / "lesson_03.py"
    edited = file.read_text() + "\n\ndef of_my_own():\n    return 1\n"
    file.write_text(edited)
    merge = notebook.run(OTHER)["merge_heads"]
    capsys.readouterr()
    check("merge_heads", merge)
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not kept: you have edited {file}, so it stays as it is." in said
    assert 'keep("merge_heads", merge_heads)' in said
    assert file.read_text() == edited
    keep("merge_heads", merge)
    assert capsys.readouterr().out == f"Kept in {file}\n"
    assert OTHER in file.read_text()
    assert "def of_my_own" in file.read_text()


def test_a_later_notebook_goes_on_with_what_passed(own, notebook, monkeypatch, capsys):
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    later = another(monkeypatch)
    capsys.readouterr()
    merge = yours_or_ours("merge_heads", later.user_ns)
    assert capsys.readouterr().out == f"Your own merge_heads is used here, from {own / 'lesson_03.py'}.\n"
    assert merge.__module__ == "my_attention.lesson_03"
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
        (lambda text: text.replace("return", "return (x :="), "cannot be used (SyntaxError: "),
        (lambda text: text.replace("import rearrange", "import rarange"), "cannot be used (ImportError: "),
        (lambda text: text.replace("b n (h d)", "b n (d h)"), "does not pass its check any more"),
        (lambda text: text.replace("from torch", "raise SystemExit\nfrom torch"), "cannot be used (SystemExit: "),
    ],
    ids=["no Python", "an import that fails", "wrong by now", "it ends the program"],
)
def test_a_file_that_fails_is_named_and_attnlib_goes_on(own, notebook, monkeypatch, capsys, damage, said):
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    file = own / "lesson_03.py"
    file.write_text(damage(file.read_text()))
    capsys.readouterr()
    merge = yours_or_ours("merge_heads", another(monkeypatch).user_ns)
    out = capsys.readouterr().out
    assert merge is exercises()["merge_heads"].reference
    assert out.startswith("attnlib's merge_heads is used here: ")
    assert str(file) in out
    assert out.count("\n") == 1
    assert said in out


def test_nothing_is_kept_where_the_learner_said_no(own, notebook, monkeypatch):
    monkeypatch.setenv(folder.PLACE, "")
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    assert not own.exists()
    assert yours_or_ours("merge_heads", {}) is exercises()["merge_heads"].reference


def test_nothing_is_kept_or_read_while_nbgrader_runs_the_notebook(own, notebook, monkeypatch):
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert own_code.kept_answer(course.find("merge_heads")) == (None, "")


def test_a_folder_that_cannot_be_written_is_told_in_one_line(own, notebook, capsys):
    own.write_text("a file stands here")
    check("merge_heads", notebook.run(IMPORTS, MERGE)["merge_heads"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not kept: {own / 'lesson_03.py'} cannot be written (" in said


def test_a_real_shell_gives_what_is_needed(own, monkeypatch, capsys):
    shell = get_ipython()
    monkeypatch.setattr(own_code, "_shell", lambda: shell)
    for cell in (IMPORTS, MERGE, "from attnlib.checks import check", 'check("merge_heads", merge_heads)'):
        assert shell.run_cell(cell, store_history=True).success
    assert "# mine" in (own / "lesson_03.py").read_text()
    assert isinstance(yours_or_ours("merge_heads", {})(torch.zeros(2, 3, 5, 7)), Tensor)
