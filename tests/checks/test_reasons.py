"""A change that would make an answer right is told with a reason: each text of `repairs.md`, at a place for it."""

import ast

import pytest

from attnlib.checks.naming.one_change.edits import edits_of
from attnlib.checks.naming.one_change.reasons import REASONS, read, reason
from attnlib.checks.naming.one_change.written import Written

ASPECTS = {"values", "shape", "failure", "mutation", "dtype", "device"}
EXAMPLES = [
    ("An operation in place", "x += 1", "x = x + 1"),
    ("An operation in place", "y = x.mul_(2)", "y = x.mul(2)"),
    ("The gradient stops", "y = x.detach() @ k", "y = x @ k"),
    ("The gradient stops", "with torch.no_grad():\n    y = x @ k", "if True:\n    y = x @ k"),
    ("The gradient stops", "@torch.no_grad()\ndef f(x):\n    return x", "def f(x):\n    return x"),
    ("A Python number", "y.append(x.item())", "y.append(x)"),
    ("A dtype written", "y = x.float() @ k", "y = x @ k"),
    ("A dtype written", "x = x.float()", "pass"),
    ("A dtype written", "y = torch.tensor(d, dtype=torch.float64)", "y = torch.tensor(d)"),
    ("A dtype written", "y = x.sum(dtype=torch.float32)", "y = x.sum()"),
    ("A new tensor", "y = torch.zeros(3)", "y = torch.zeros(3, device=x.device)"),
    ("A new tensor", "y = torch.zeros(3)", "y = torch.zeros(3, dtype=x.dtype)"),
    ("With `keepdim=True`", "y = x / x.sum(-1)", "y = x / x.sum(-1, keepdim=True)"),
    ("With `keepdim=True`", "y = x.sum(-1, keepdim=True)", "y = x.sum(-1, keepdim=False)"),
    ("With `keepdim=True`", "y = x.sum(-1, keepdim=True)", "y = x.sum(-1)"),
    ("PyTorch divides by N", "y = x.var(-1)", "y = x.var(-1, correction=0)"),
    ("`nn.Linear` adds", "y = nn.Linear(3, 4)", "y = nn.Linear(3, 4, bias=False)"),
    ("A method without an underscore", "x.mul(2)", "x = x.mul(2)"),
    ("The numbers along this axis compete", "y = x.softmax(dim=1)", "y = x.softmax(dim=-1)"),
    ("The numbers along this axis compete", "y = x.softmax(-2)", "y = x.softmax(-1)"),
    ("The axis you name", "y = x.sum(dim=1)", "y = x.sum(dim=2)"),
    ("The axis you name", "y = x.sum()", "y = x.sum(dim=-1)"),
    ("Here one number is made", "y = x.mean(dim=1)", "y = x"),
    ("Say what is counted", "y = x.transpose(1, 2)", "y = x.transpose(0, 2)"),
    ("Two axes may have the same length", "d = x.shape[1]", "d = x.shape[2]"),
    ("Two axes may have the same length", "d = k.shape[-2]", "d = k.shape[-1]"),
    ("Two axes may have the same length", "d = len(x)", "d = len(k)"),
    ("The diagonal decides", "y = x.tril(-1)", "y = x.tril(0)"),
    ("Indices begin at 0", "y = x[1:]", "y = x[0:]"),
    ("Indices begin at 0", "y = x[: n - 1]", "y = x[:n]"),
    ("Indices begin at 0", "y = range(n - 1)", "y = range(n)"),
    ("Indices begin at 0", "y = x[k - 1]", "y = x[k]"),
    ("A power decides", "y = x**2", "y = x**0.5"),
    ("A term too many", "y = (d + h) ** 0.5", "y = d ** 0.5"),
    ("Before a softmax", "y = x.masked_fill(k, 0.0)", "y = x.masked_fill(k, float('-inf'))"),
    ("Where two axes have", "y = x @ k.T", "y = x @ k"),
    ("Where two axes have", "y = x @ k.transpose(0, 1)", "y = x @ k"),
    ("In `a @ b` the rows", "y = x @ k", "y = x @ k.mT"),
    ("Reshaping keeps", "y = x.view(2, 3)", "y = x.transpose(1, 2).reshape(2, 3)"),
    ("Reshaping keeps", "y = x.reshape(b, h, n)", "y = x.reshape(b, n, h).transpose(1, 2)"),
    ("In einops and einsum", "y = rearrange(x, 'b (h d) -> b d h')", "y = rearrange(x, 'b (h d) -> b h d')"),
    ("Broadcasting lines shapes up", "y = x * k", "y = x * k.unsqueeze(1)"),
    ("Broadcasting lines shapes up", "y = x * k", "y = (x * k).squeeze(-1)"),
    ("A sum keeps what it has", "y = 0\ny = x * k", "y = 0\ny = y + x * k"),
    ("A sum keeps what it has", "y = x * k", "y = x + k"),
    ("A nonlinearity", "y = F.relu(x)", "y = x"),
    ("Scores, probabilities", "y = x.softmax(dim=-1)", "y = x"),
    ("Each number is the length", "y = torch.randn(1, n)", "y = torch.randn(n)"),
    ("Dropout makes", "y = F.dropout(x)", "y = x"),
    ("Here one number is made", "y = x.max() - k", "y = x - k"),
    ("`@` multiplies", "y = x * k", "y = x @ k"),
    ("Multiplying and dividing", "y = x / d", "y = x * d"),
    ("A factor that isn't", "y = x / d", "y = x"),
    ("A factor in an index", "y = x[d, 2 * n + h]", "y = x[d, n + h]"),
    ("A factor in an index", "y = x[: 2 * n]", "y = x[:n]"),
    ("A transpose makes columns", "return k, x", "return k, x.mT"),
    ("A term too many", "y = x + 1", "y = x"),
    ("A term too many", "y = x.topk(n + 1)", "y = x.topk(n)"),
    ("True means", "y = x.masked_fill(mask, d)", "y = x.masked_fill(~mask, d)"),
    ("True means", "y = x.where(~allowed, d)", "y = x.where(allowed, d)"),
    ("Conditions go wrong", "y = x < k", "y = x <= k"),
    ("*And* keeps", "if x > 0 and k > 0:\n    d = 1", "if x > 0:\n    d = 1"),
    ("*And* keeps", "y = x & k", "y = x | k"),
    ("A special case", "if n > 1:\n    d = 1", "if True:\n    d = 1"),
    ("Along this axis pieces", "y = torch.cat(x, dim=0)", "y = torch.cat(x, dim=-1)"),
    ("Along this axis pieces", "y = x.split(3, 0)", "y = x.split(3, -1)"),
    ("Along this axis pieces", "y = x.split(3)", "y = x.split(3, dim=-1)"),
    ("`split()` without an argument", "y = line.split(' ')", "y = line.split()"),
    ("`stack` puts", "y = torch.stack(x, dim=0)", "y = torch.stack(x, dim=1)"),
    ("`stack` puts", "y = torch.stack(x)", "y = torch.stack(x, dim=1)"),
    ("`cat` joins", "y = torch.stack(x)", "y = torch.cat(x)"),
    ("An argument that fits", "y = F.embedding(x, k, padding_idx=0)", "y = F.embedding(x, k)"),
    ("An index or a slice drops", "y = x[:1] @ k", "y = x @ k"),
    ("`None` in an index adds an axis", "y = w @ b[:, None]", "y = w @ b"),
    ("`split` is told", "y = x.chunk(3)", "y = x.split(3)"),
    ("Opposites have", "y = x.triu()", "y = x.tril()"),
    ("`repeat` turns", "y = x.repeat(h)", "y = x.repeat_interleave(h)"),
    ("A number that's right", "y = x.flatten()[: 4]", "y = x.flatten()[:n]"),
    ("Two tensors, layers or widths", "y = x @ x", "y = x @ k"),
    ("Each place in the brackets", "y = x[d, n]", "y = x[n, d]"),
    ("The pieces lie", "y = torch.cat([x, k])", "y = torch.cat([k, x])"),
    ("Values that are returned", "return x, k", "return k, x"),
    ("With this operator", "y = x - k", "y = k - x"),
    ("Arguments without names", "y = torch.where(x, k, d)", "y = torch.where(x, d, k)"),
]


def told(wrong: str, right: str) -> set[str]:
    """The reasons of all changes that turn the one piece of code into the other."""
    body = "\n    ".join(wrong.split("\n"))
    tree = ast.parse(f"def f(x, k, d, n, h, b, mask, allowed):\n    {body}")
    aim = ast.unparse(ast.parse("\n    ".join([ast.unparse(tree).split("\n")[0], *right.split("\n")])))
    written = Written(tree, "f", {}, (), frozenset())
    found = set()
    for edit in edits_of(written, ASPECTS):
        with edit.put():
            made = ast.unparse(tree)
        if made == aim:
            found.add(reason(tree, edit))
    return found


@pytest.mark.parametrize(("text", "wrong", "right"), EXAMPLES, ids=[f"{w} → {r}" for _, w, r in EXAMPLES])
def test_a_change_is_told_with_its_reason(text: str, wrong: str, right: str) -> None:
    reasons = told(wrong, right)
    assert any(reason.startswith(text) for reason in reasons), reasons


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("y = x", "y = -x"),
        ("y = max(1, d)", "y = max(0, d)"),
        ("return x.tril().bool()", "pass"),  # the whole table goes, and not its dtype
        ("x = (x @ k).detach()", "pass"),
    ],
)
def test_a_change_of_which_nothing_more_is_true_has_no_reason(wrong: str, right: str) -> None:
    assert told(wrong, right) == {""}


def test_each_reason_has_an_example() -> None:
    starts = {text for text, _, _ in EXAMPLES}
    assert [known.text for known in REASONS if not known.text.startswith(tuple(starts))] == []


def test_a_reason_for_no_kind_of_change_is_refused() -> None:
    with pytest.raises(ValueError, match="got opperator"):
        read("### operator, opperator: *\nWhy.\n")
