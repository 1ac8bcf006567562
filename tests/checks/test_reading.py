"""What a wrong attempt's source shows by itself; for each sentence there is code of which it is not said."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from notebook_cells import run_cell
from torch import nn

from attnlib.checks import Report, exercises, run
from attnlib.checks.naming.one_change.written import source_of
from attnlib.checks.naming.reading import read

NOTEBOOK = {
    "batch": torch.ones(2, 3, 4),
    "F": F,
    "nn": nn,
    "rearrange": rearrange,
    "torch": torch,
    "w_q": nn.Linear(7, 3),
    "WIDTH": 7,
}
"""What a student's notebook holds: imports, and what cells above have made."""

LAYERS = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q, self.w_k = nn.Linear(d_model, d_k, bias=False), nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return weights @ v, weights
"""


def defined(exercise: str, source: str) -> Any:
    return run_cell(source, NOTEBOOK)[exercise]


def judged(exercise: str, source: str) -> Report:
    return run(exercise, defined(exercise, source))


def said(exercise: str, source: str) -> tuple[set[str], set[str]]:
    """All that is certain, and all hints."""
    written = source_of(defined(exercise, source))
    assert written is not None
    found = read(exercises()[exercise], written)
    return {f.id for f in found.certain}, {f.id for f in found.hints}


DOT = "def pairwise_dot(x, y):\n    {}\n"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("return batch @ batch.mT", "notebook_variable"),
        ("return (x @ x.mT) / WIDTH", "notebook_variable"),
        ("out = x @ y.mT\n    out.mul(2)\n    return out.cos()", "result_not_kept"),
        ("out = x @ y.mT\n    torch.cos(out)\n    return out.cos()", "result_not_kept"),
        ("out = x @ y.mT\n    rearrange(out, 'b q k -> b k q')\n    return out.cos()", "result_not_kept"),
        ("out = x @ y.mT\n    out + 1\n    return out.cos()", "result_not_kept"),
        ("return F.dropout(x @ y.mT, 0.5)", "dropout_not_asked_for"),
        ("return nn.Dropout(0.5)(x @ y.mT)", "dropout_not_asked_for"),
        ("return F.one_hot(x.long().clamp(0)).sum() * (x @ y.mT).cos()", "classes_not_counted"),
    ],
)
def test_a_slip_that_explains_a_wrong_result_comes_first(body: str, name: str) -> None:
    assert judged("pairwise_dot", DOT.format(body)).diagnosis == name


KEPT = "def pairwise_dot(x, y, rows{}):\n    {}\n    for a, b in zip(x, y):\n        rows.append(a @ b.T)\n    {}\n"


@pytest.mark.parametrize(
    ("default", "first", "name"),
    [("=[]", "pass", {"kept_in_a_default"}), ("=None", "rows = []", set())],
)
def test_a_list_that_all_calls_share_is_named(default: str, first: str, name: set[str]) -> None:
    assert said("pairwise_dot", KEPT.format(default, first, "return torch.stack(rows).cos()"))[0] == name


@pytest.mark.parametrize(
    "body",
    [
        "batch = x\n    return (batch @ y.mT).cos()",
        "def batch(z):\n        return z.cos()\n\n    return batch(x @ y.mT)",
        "return (x @ y.mT) / WIDTH",
        "out = (x @ y.mT).clone()\n    out.mul_(2)\n    return out.cos()",
        "rows = []\n    for a, b in zip(x, y):\n        rows.append(a @ b.T)\n    return torch.stack(rows).cos()",
        "seen = set()\n    seen.add(1)\n    return (x @ y.mT).cos()",
        "out = x @ y.mT\n    torch.mul(out, 2, out=torch.empty_like(out))\n    return out.cos()",
        "print((x @ y.mT).sum())\n    return (x @ y.mT).cos()",
        "'''(b, q, d)'''\n    assert x.dim() == 3\n    return (x @ y.mT).cos()",
        "return F.dropout(x @ y.mT, 0.5, training=False).cos()",
        "return F.dropout(x @ y.mT, 0.5, False).cos()",
        "total = 0\n    total += x @ y.mT\n    return total.cos()",
        "sizes = [1] * 3\n    return (x @ y.mT).reshape(sizes)",
        "names = ['q', 'd']\n    names.sort()\n    return (x @ y.mT).cos() * len(names)",
        "out = x @ y.mT\n    F.relu(out, inplace=True)\n    return out.cos()",
        "layer = nn.Linear(4, 4)\n    layer.to(x.dtype)\n    return (layer(x) @ y.mT).cos()",
        "out = x\n    def keep(z):\n        nonlocal out\n        out = z\n    keep(x @ y.mT)\n    return out.cos()",
    ],
)
def test_nothing_is_said_of_code_that_is_all_in_use(body: str) -> None:
    assert said("pairwise_dot", DOT.format(body)) == (set(), set())


def test_a_variable_of_the_cell_itself_is_not_another_cells() -> None:
    cell = "batch = torch.ones(2, 3, 4)\n" + DOT.format("return (x @ y.mT) * batch.sum()")
    assert said("pairwise_dot", cell)[0] == set()


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("q, k, v = self.w_q(x)", "q, k, v = w_q(x)", "notebook_variable"),
        ("def forward(self, x)", "def forward(x)", "self_missing"),
        ("def forward", "def foward", "method_misspelt"),
        ("def __init__", "def _init_", "method_misspelt"),
        ("        weights = (q", "        self.drop(q)\n        weights = (q", "result_not_kept"),
        ("return weights @ v", "weights = self.drop(weights)\n        return weights @ v", "dropout_not_asked_for"),
        ("return weights @ v", "return F.dropout(weights, 0.1, self.training) @ v", "dropout_not_asked_for"),
    ],
)
def test_a_slip_in_a_class_is_named(old: str, new: str, name: str) -> None:
    assert said("SelfAttention", LAYERS)[0] == set()
    assert said("SelfAttention", LAYERS.replace(old, new, 1))[0] == {name}


@pytest.mark.parametrize(
    ("exercise", "source", "name"),
    [
        ("SelfAttention", LAYERS, "layer_not_used"),
        ("pairwise_dot", DOT.format("return x @ x.mT"), "argument_not_used"),
        ("pairwise_dot", DOT.format("a, b = [x.exp()] * 2\n    return a @ y.mT + b @ y.mT"), "one_object_repeated"),
        ("pairwise_dot", DOT.format("out = x @ y.mT\n    return x"), "variable_not_used"),
    ],
)
def test_what_is_never_used_is_a_hint(exercise: str, source: str, name: str) -> None:
    assert said(exercise, source)[1] == {name}


@pytest.mark.parametrize(
    ("exercise", "source", "unused"),
    [
        ("packed_causal", "def packed_causal(ids):\n    return torch.ones(2, 3, 3), torch.zeros(2, 3)\n", True),
        ("ov_circuit", "def ov_circuit(model, layer, head):\n    return model.layers[layer].w_v.weight[:4].T\n", True),
        ("split_heads", "def split_heads(x, heads):\n    return x.unflatten(-1, (3, -1)).transpose(1, 2)\n", True),
        ("causal_mask", "def causal_mask(q, k, window=None):\n    return torch.ones(q, q).tril().bool()\n", True),
    ],
)
def test_an_argument_that_follows_from_the_others_need_not_be_used(exercise: str, source: str, unused: bool) -> None:
    assert said(exercise, source)[1] == ({"argument_not_used"} if unused else set())


NORM = """
def layer_norm(x, gain, bias, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    return {} * centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt() + bias
"""


def test_an_argument_that_is_not_given_does_not_explain_a_wrong_result() -> None:
    one, two = (judged("layer_norm", NORM.format(gain)) for gain in ("gain", "(1 + gain)"))
    assert (one.diagnosis, two.diagnosis) == ("eps_fixed", "argument_not_used")
    assert ["does not give it" in " ".join(report.message.split()) for report in (one, two)] == [False, True]


def test_an_unused_argument_is_told_beside_a_mistake_that_does_not_speak_of_it() -> None:
    known = {m.id: m for m in exercises()["layer_norm"].misconceptions}
    written = source_of(defined("layer_norm", NORM.format("gain")))
    assert written is not None
    found = read(exercises()["layer_norm"], written)
    assert [finding.id for finding in found.beside(known["unbiased_variance"])] == ["argument_not_used"]
    assert not found.beside(known["eps_fixed"])
    distances = "torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)"
    one_slope = f"def alibi_bias(num_heads, q_len, k_len):\n    return ({distances}) / -256\n"
    written = source_of(defined("alibi_bias", one_slope))
    known = {m.id: m for m in exercises()["alibi_bias"].misconceptions}
    assert written is not None
    assert not read(exercises()["alibi_bias"], written).beside(known["one_slope_for_all"])  # "All heads": num_heads


@pytest.mark.parametrize(
    ("decorator", "is_read"),
    [("@torch.no_grad()", True), ("@(lambda f: functools.wraps(f)(lambda *x: f(*x) * 2))", False)],
)
def test_a_decorated_function_is_read_if_its_decorators_are_known(decorator: str, is_read: bool) -> None:
    source = f"import functools\n{decorator}\n{DOT.format('return x @ x.mT')}"
    written = source_of(defined("pairwise_dot", source))
    assert (written is not None) is is_read


FORWARD = """
class Inner(nn.Module):
    def __init__(self, d_model, d_hidden):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model)
        self.bend = nn.GELU()

    def forward(self, x):
        return [layer(x) for layer in (self.up, self.down, self.bend)][0]


class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        self.inner, self.p = Inner(d_model, int(d_model * mlp_ratio)), dropout

    def forward(self, x, key_mask=None):
        return {}
"""


@pytest.mark.parametrize(
    ("result", "name"),
    [
        ("F.dropout(self.inner(x), self.p)", "dropout_always_on"),
        ("F.dropout(self.inner(x), self.training)", "mode_for_share"),
        ("F.dropout(self.inner(x), p=self.training)", "mode_for_share"),
        ("nn.Dropout(self.p)(self.inner(x))", "dropout_made_anew"),
    ],
)
def test_dropout_that_is_asked_for_has_to_know_the_mode(result: str, name: str) -> None:
    assert said("EncoderBlock", FORWARD.replace("{}", result))[0] == {name}


def test_a_layer_is_looked_for_in_its_own_class() -> None:
    assert said("EncoderBlock", FORWARD.replace("{}", "self.inner(x)"))[0] == set()


@pytest.mark.parametrize("layer", ["nn.Dropout(0.0)", "nn.Dropout(p=0)", "nn.Identity()"])
def test_dropout_of_nothing_is_no_dropout(layer: str) -> None:
    source = LAYERS.replace("nn.Dropout(0.1)", layer).replace("weights @ v", "self.drop(weights) @ v")
    assert said("SelfAttention", source) == (set(), set())
    assert judged("SelfAttention", source).passed


def test_a_function_that_is_called_by_its_class_needs_no_self() -> None:
    helper = "    def rows(x):\n        return x.softmax(-1)\n\n    def forward"
    called = LAYERS.replace("    def forward", helper).replace("weights @ v", "{}.rows(weights) @ v")
    assert said("SelfAttention", called.format("SelfAttention"))[0] == set()
    assert said("SelfAttention", called.format("self"))[0] == {"self_missing"}


@pytest.mark.parametrize("dropped", ["self.drop(weights)", "F.dropout(weights, self.p, self.training)"])
@pytest.mark.parametrize(("default", "certain"), [("0.0", set()), ("0.1", {"dropout_not_asked_for"})])
def test_an_argument_that_the_contract_does_not_have_has_its_default(
    dropped: str, default: str, certain: set[str]
) -> None:
    source = LAYERS.replace("d_v):", f"d_v, p={default}):").replace("Dropout(0.1)", "Dropout(p)\n        self.p = p")
    assert said("SelfAttention", source.replace("weights @ v", f"{dropped} @ v"))[0] == certain


def test_dropout_in_training_alone_is_not_right_where_nobody_asks_for_it() -> None:
    report = judged("SelfAttention", LAYERS.replace("weights @ v", "self.drop(weights) @ v"))
    assert report.diagnosis == "dropout_not_asked_for"
    assert report.headline == "the values are not right under “gradient”"


def test_where_the_objects_own_layer_is_is_said() -> None:
    message = " ".join(judged("SelfAttention", LAYERS.replace("= self.w_q(x)", "= w_q(x)")).message.split())
    assert "`w_q` is a variable of the notebook" in message
    assert "The object's own is `self.w_q`" in message


def test_a_right_answer_is_not_read() -> None:
    right = DOT.format("extra = x + 1\n    extra.mul(2)\n    return x @ y.mT")
    assert judged("pairwise_dot", right).sections == ()


def test_an_argument_that_the_contract_does_not_have_need_not_be_read() -> None:
    wrong = """
def scaled_dot_product_attention(q, k, v, mask=None):
    weights = (q @ k.mT / q.shape[-1]).softmax(-1)
    return weights @ v, weights
"""
    report = judged("scaled_dot_product_attention", wrong)
    assert report.diagnosis is not None
    assert "never used" not in report.message
