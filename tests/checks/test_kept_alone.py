"""A file of the learner's package is used without the notebook: whatever is in it has to pass there, too."""

import ast

import pytest
from test_own_code import IMPORTS, SCORES, SOFTMAX, another, notebook, own  # noqa: F401

from attnlib.checks import check, keep, yours_or_ours
from attnlib.checks.standing import own_code
from attnlib.checks.standing.own_source import NotKept, bound, own_source

INIT = """class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q, self.w_k = nn.Linear(d_model, d_k, bias=False), nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)"""
FORWARD = """def forward(self, x):
    q, k = self.w_q(x), self.w_k(x)
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ self.w_v(x), weights"""
IN_TWO_CELLS = "class SelfAttention(SelfAttention):\n    " + FORWARD.replace("\n", "\n    ")
BY_ROOT = "def root(q):\n    return q.shape[-1] ** 0.5", "def attention_scores(q, k):\n    return q @ k.mT / root(q)"
BY_EXP = (
    "def root(s):\n    return (s - s.amax(-1, keepdim=True)).exp()",
    SOFTMAX.replace("(s - s.amax(-1, keepdim=True)).exp()", "root(s)"),
)
BY_TORCH = (
    "from torch import einsum",
    ("def attention_scores(q, k):\n    return einsum('...qd,...kd->...qk', q, k) / q.shape[-1] ** 0.5"),
)
BY_EINOPS = (
    "from einops import einsum",
    (
        "def scaled_dot_product_attention(q, k, v):\n"
        "    weights = (einsum(q, k, '... q d, ... k d -> ... q k') / q.shape[-1] ** 0.5).softmax(-1)\n"
        "    return weights @ v, weights"
    ),
)
MASKED = """def masked_softmax(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    kept = scores.masked_fill(~mask & ~empty, -torch.inf)
    return weights_of(kept).masked_fill(empty, 0.0)"""


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (IN_TWO_CELLS, "it does not run (NameError: name 'SelfAttention' is not defined)"),
        (f"{FORWARD}\nSelfAttention.forward = forward", "it does not pass"),
    ],
)
def test_a_class_that_stands_in_two_cells_is_not_kept(own, notebook, capsys, second, why):  # noqa: F811
    names = notebook.run("import torch\nfrom torch import nn", INIT, second)
    check("SelfAttention", names["SelfAttention"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not kept in my_attention/lesson_02.py: without the rest of the notebook {why}" in said
    assert not (own / "lesson_02.py").exists()


@pytest.mark.parametrize(("first", "second"), [(BY_ROOT, BY_EXP), (BY_TORCH, BY_EINOPS)])
def test_an_answer_does_not_spoil_another_one_s_helper(own, notebook, capsys, first, second):  # noqa: F811
    check("attention_scores", notebook.run(*first)["attention_scores"])
    before = (own / "lesson_02.py").read_text()
    last = second[1].split("(")[0].removeprefix("def ")
    capsys.readouterr()
    check(last, notebook.run(*second)[last])
    said = " ".join(capsys.readouterr().out.split())
    shared = "root" if first is BY_ROOT else "einsum"
    assert f"attention_scores there uses another {shared}, and would not pass with yours" in said
    assert (own / "lesson_02.py").read_text() == before
    keep(last, notebook.user_ns[last])  # who says so
    assert second[1] in (own / "lesson_02.py").read_text()


def test_a_better_helper_replaces_the_one_before(own, notebook):  # noqa: F811
    check("attention_scores", notebook.run(*BY_ROOT)["attention_scores"])
    better = BY_ROOT[0].replace("q.shape[-1] ** 0.5", "q.shape[-1] ** (1 / 2)")
    rows = "def scaled_dot_product_attention(q, k, v):\n    w = (q @ k.mT / root(q)).softmax(-1)\n    return w @ v, w"
    check("scaled_dot_product_attention", notebook.run(better, rows)["scaled_dot_product_attention"])
    assert better in (text := (own / "lesson_02.py").read_text())
    assert text.count("def root") == 1


def test_another_name_for_an_answer_of_the_same_lesson(own, notebook, monkeypatch):  # noqa: F811
    asked = ['grown = yours_or_ours("softmax", globals())', 'score = yours_or_ours("attention_scores", globals())']
    rows = "def scaled_dot_product_attention(q, k, v):\n    w = grown(score(q, k))\n    return w @ v, w"
    names = notebook.run("from attnlib.checks import yours_or_ours", IMPORTS, SOFTMAX, SCORES)
    check("softmax", names["softmax"])
    check("attention_scores", names["attention_scores"])
    file, before = own / "lesson_02.py", (own / "lesson_02.py").read_text()
    for again in (False, True):  # in one go, and after a restart
        each = another(monkeypatch) if again else notebook
        each.run("import torch\nfrom attnlib.checks import yours_or_ours", *asked, rows)
        check("scaled_dot_product_attention", each.user_ns["scaled_dot_product_attention"])
        text = file.read_text()
        assert "grown = softmax\n" in text
        assert "score = attention_scores\n" in text
        assert "yours_or_ours" not in text
        assert "from ." not in text
        own_code.write_own(file, before)


def test_an_attribute_and_an_item_are_no_names():
    assert [bound(statement) for statement in ast.parse("a.b = 1\nc[0] = 2\n(d, e.f) = 3, 4").body] == [[], [], ["d"]]
    cells = ["def half(x):\n    return x / TABLE[0]", "TABLE = [1]", "TABLE[0] = 2"]
    with pytest.raises(NotKept, match="it uses TABLE, which the notebook computes"):
        own_source("half", cells, {"half": len, "TABLE": [2]})


def test_what_was_edited_counts_at_once_also_in_what_uses_it(own, notebook, monkeypatch, capsys):  # noqa: F811
    check("softmax", notebook.run(IMPORTS, SOFTMAX)["softmax"])
    later = another(monkeypatch)
    asked = 'weights_of = yours_or_ours("softmax", globals())'
    later.run("from attnlib.checks import yours_or_ours", IMPORTS, asked)
    check("masked_softmax", later.run(MASKED)["masked_softmax"])
    file = own / "lesson_02.py"
    file.write_text((right := file.read_text()).replace("/ e.sum", "* e.sum(-1, keepdim=True) / e.sum"))
    capsys.readouterr()
    yours_or_ours("masked_softmax", {})
    why = "does not pass its check any more"
    told = f"the one in {own}/lesson_05.py {why}, because it uses softmax, and the one in {file} {why}."
    assert told in capsys.readouterr().out
    file.write_text(right)
    yours_or_ours("masked_softmax", {})
    assert "Your own masked_softmax is used here" in capsys.readouterr().out


def test_an_earlier_lesson_that_was_broken_for_a_while_is_imported_again(own, notebook, monkeypatch, capsys):  # noqa: F811
    check("softmax", notebook.run(IMPORTS, SOFTMAX)["softmax"])
    file = own / "lesson_02.py"
    right = file.read_text()
    for text in (right, right.replace("/ e.sum", "* e.sum"), right):
        file.write_text(text)
        later = another(monkeypatch)
        asked = 'weights_of = yours_or_ours("softmax", globals())'
        names = later.run("from attnlib.checks import yours_or_ours", IMPORTS, asked, MASKED)
        check("masked_softmax", names["masked_softmax"])
        imports = [line for line in (own / "lesson_05.py").read_text().split("\n") if " as weights_of" in line]
        assert imports == [f"from {'.lesson_02' if text == right else 'attnlib.softmax'} import softmax as weights_of"]


ROWS = "def scaled_dot_product_attention(q, k, v):\n    w = softmax(attention_scores(q, k))\n    return w @ v, w"


def test_what_came_as_a_helper_is_an_answer_once_it_has_passed(own, notebook, monkeypatch, capsys):  # noqa: F811
    names = notebook.run(IMPORTS, SOFTMAX, SCORES, ROWS)
    for name in ("scaled_dot_product_attention", "softmax"):  # the later check first
        check(name, names[name])
    capsys.readouterr()
    assert yours_or_ours("softmax", another(monkeypatch).user_ns).__module__ == "my_attention.lesson_02"
    assert "import softmax as softmax" in (own / "__init__.py").read_text()


def test_the_answer_is_the_last_that_passed_whatever_it_is_called(own, notebook, capsys):  # noqa: F811
    names = notebook.run(SOFTMAX, SOFTMAX.replace("def softmax", "def mine"))
    check("softmax", names["softmax"])
    check("softmax", names["mine"])
    assert yours_or_ours("softmax", {}).__name__ == "mine"
    check("softmax", notebook.run(SOFTMAX.replace("return e", "return 1.0 * e"))["softmax"])
    capsys.readouterr()
    assert yours_or_ours("softmax", {}).__name__ == "softmax"


def test_an_answer_may_import_another_one_by_its_name(own, notebook, monkeypatch, capsys):  # noqa: F811
    check("softmax", notebook.run(IMPORTS, SOFTMAX)["softmax"])
    later = another(monkeypatch)
    by_name = later.run(IMPORTS, "from my_attention import softmax as weights_of", MASKED)
    check("masked_softmax", by_name["masked_softmax"])
    assert "from .lesson_02 import softmax as weights_of" in (own / "lesson_05.py").read_text()
    last = another(monkeypatch)
    as_a_whole = MASKED.replace("weights_of", "my_attention.softmax")
    capsys.readouterr()
    check("masked_softmax", last.run(IMPORTS, "import my_attention", as_a_whole)["masked_softmax"])
    assert "it uses my_attention as a whole; import the names that it needs" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_class_in_the_file_moves_above_the_answer_that_now_extends_it(own, notebook):  # noqa: F811
    whole = f"{INIT}\n    " + FORWARD.replace("\n", "\n    ")
    base = INIT.replace("SelfAttention", "Base")
    check("SelfAttention", notebook.run("import torch\nfrom torch import nn", whole)["SelfAttention"])
    counted = SOFTMAX.replace("def softmax(s):", "def softmax(s):\n    Tool")
    check("softmax", notebook.run(base, "class Tool(Base):\n    pass", counted)["softmax"])  # both stand below
    extended = IN_TWO_CELLS.replace("(SelfAttention)", "(Base)")
    check("SelfAttention", notebook.run(extended)["SelfAttention"])
    text = (own / "lesson_02.py").read_text()
    order = [base, "# SelfAttention, passed", extended, "class Tool", "# softmax, passed"]
    assert order == sorted(order, key=text.index)
    assert text.count("class Base") == 1
    assert "\n\n\n\n" not in text


def test_an_answer_that_is_only_imported_is_not_kept_and_it_says_so(own, notebook, monkeypatch, tmp_path, capsys):  # noqa: F811
    (tmp_path / "mine.py").write_text(SOFTMAX)
    monkeypatch.syspath_prepend(tmp_path)
    check("softmax", notebook.run("from mine import softmax")["softmax"])
    said = " ".join(capsys.readouterr().out.split())
    assert "it is not written in this notebook, but imported (from mine import softmax)" in said
    assert not own.exists()


def test_a_name_for_what_has_that_name_already_is_no_circle(own, notebook):  # noqa: F811
    asked = 'first = yours_or_ours("softmax", globals())\nsoftmax = first'
    notebook.run("from attnlib.checks import yours_or_ours", IMPORTS, asked)
    check("masked_softmax", notebook.run(MASKED.replace("weights_of", "softmax"))["masked_softmax"])
    assert "from attnlib.softmax import softmax as first" in (own / "lesson_05.py").read_text()
