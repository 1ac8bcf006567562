"""Mistakes that are certain to come have a name in every exercise with such a line, however they are written."""

import pytest
import torch
import torch.nn.functional as F
from contradictions import contradictions
from notebook_cells import run_cell
from torch import nn

import attnlib
from attnlib.checks import run

NOTEBOOK = {"attnlib": attnlib, "F": F, "nn": nn, "torch": torch}


def softmax_over_queries(share: str) -> str:
    return f"""
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def forward(self, x, key_mask=None):
        q, k, v = (attnlib.split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        mask = mask if key_mask is None else mask & key_mask[:, None, None]
        empty = ~mask.any(dim=-1, keepdim=True)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = {share}
        return self.w_o(attnlib.merge_heads(weights @ v)), weights
"""


POST_NORM = """
class PostNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0):
        super().__init__()
        self.num_heads, self.attn = num_heads, nn.Module()
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self.attn, name, nn.Linear(d_model, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio))

    def forward(self, x, key_mask=None):
        layers = self.attn.w_q, self.attn.w_k, self.attn.w_v
        q, k, v = (attnlib.split_heads(layer(x), self.num_heads) for layer in layers)
        scores = q @ k.mT{}
        if key_mask is not None:
            scores = scores.masked_fill(~key_mask[:, None, None], -torch.inf)
        x = self.norm1(x + self.attn.w_o(attnlib.merge_heads(scores.softmax(-1) @ v)))
        return self.norm2(x + self.mlp(x))
"""

TRAIN_HEAD = """
def train_head(words, wanted, position, w_q, w_k, w_v, lr):
    w, losses = [t.detach().clone().requires_grad_() for t in (w_q, w_k, w_v)], []
    for x, target in zip(words, wanted):
        q, k, v = (x @ one for one in w)
        loss = ((({}) @ v)[:, position] - target).square().mean()
        losses.append(loss.detach())
        w = [(one - lr * g).detach().requires_grad_() for one, g in zip(w, torch.autograd.grad(loss, w))]
    return torch.stack(losses), *(one.detach() for one in w)
"""

CACHED = """
def cached_attention(x, attn, cache):
    n, length, heads = x.shape[1], cache["length"], cache["k"].shape[1]
    q, k, v = (attnlib.split_heads(layer(x), heads) for layer in (attn.w_q, attn.w_k, attn.w_v))
    cache["k"][:, :, length : length + n], cache["v"][:, :, length : length + n] = k, v
    cache["length"] = length + n
    scores = q @ cache["k"][:, :, : length + n].mT
    past = torch.ones(n, length + n, dtype=torch.bool, device=x.device).tril(length)
    shares = scores.masked_fill(~past, -torch.inf).softmax(-1)
    return attn.w_o(attnlib.merge_heads(shares @ cache["v"][:, :, : length + n]))
"""

APPEND = """
def append_to_cache(cache, k, v):
    length = cache["length"] + k.shape[2]
    if length > cache["k"].shape[2]:
        raise ValueError(f"the cache has room for {cache['k'].shape[2]} positions, got {length}")
    for name, new in (("k", k), ("v", v)):
        cache[name] = torch.cat([cache[name][:, :, : cache["length"]], new], dim=2)
    cache["length"] = length
    return cache["k"], cache["v"]
"""

WRITER = """
def train_writer(model, excerpts, rates, make=torch.optim.SGD):
    model.train()
    optimiser, losses = make(model.parameters(), lr=1.0), []
    for e, rate in zip(excerpts, rates.tolist()):
        loss = F.cross_entropy({})
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)
"""

NORM = """
def layer_norm(x, gain, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (({}).mean(-1, keepdim=True) + eps).sqrt() * gain + bias
"""

BELL = """
def witten_bell(text, test, order, vocab):
    text, test, followers, found = text.tolist(), test.tolist(), {}, []
    for k in range(order):
        for end in range(k, len(text)):
            counts = followers.setdefault(tuple(text[end - k : end]), {})
            counts[text[end]] = counts.get(text[end], 0) + 1
    for at in range(order - 1, len(test)):
        p = 1 / vocab
        for k in range(order):
            counts = followers.get(tuple(test[at - k : at]), {})
            if counts:
                p = (counts.get(test[at], 0) + 1) / (sum(counts.values()) + vocab)
        found.append(p)
    return torch.tensor(found)
"""

CIRCUIT = """
def ov_circuit(model, layer, head):
    at = model.layers[layer]
    d = at.w_v.weight.shape[0] // at.num_heads
    own = slice(head * d, head * d + d)
    return model.embed.weight @ at.w_o.weight[:, own] @ at.w_v.weight[own] @ model.unembed.weight.T
"""

OVER_QUERIES = (
    "scores.softmax(-2) * mask",
    "scores.masked_fill(~(mask | empty), -torch.inf).softmax(-2).masked_fill(empty, 0.0)",
    "scores.masked_fill(~mask, -torch.inf).softmax(-2).masked_fill(empty, 0.0)",
)


FILL_IN = """
def fill_in(model, ids, position, k, mask_id):
    masked = ids.clone()
    masked[position] = mask_id
    top = model(masked)[position].softmax(-1).topk(k)
    return top.indices, top.values
"""

SPLIT = """
def split_heads(x, num_heads):
    b, n, width = x.shape
    if width % num_heads:
        {}
    return x.view(b, n, num_heads, -1).transpose(1, 2)
"""


@pytest.mark.parametrize("refused", ["print('no')\n        return", "return ValueError('no')"])
def test_an_error_that_is_printed_or_returned_is_none(refused: str) -> None:
    report = run("split_heads", run_cell(SPLIT.format(refused), NOTEBOOK)["split_heads"])
    assert report.diagnosis == "not_refused"
    assert report.headline.startswith("accepts these inputs, but must refuse them")
    assert "must return" not in report.message


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_has_no_shape_to_compare() -> None:
    report = run("pairwise_dot", lambda x, y: torch.nested.nested_tensor([x[0] @ y[0].T]))
    assert report.headline == "must return a tensor, but returned a nested tensor"


@pytest.mark.parametrize(
    ("exercise", "source", "name"),
    [
        ("train_head", TRAIN_HEAD.format("(q @ k.mT).softmax(-1)"), "no_scale"),
        ("train_head", TRAIN_HEAD.format("(q @ k.mT / q.shape[-1] ** 0.5).softmax(-2)"), "over_queries"),
        ("PostNormBlock", POST_NORM.format(""), "no_scale"),
        ("PostNormBlock", POST_NORM.format(" / x.shape[-1] ** 0.5"), "scaled_by_root_d_model"),
        ("cached_attention", CACHED, "no_scale"),
        *(("CausalSelfAttention", softmax_over_queries(share), "over_queries") for share in OVER_QUERIES),
        ("train_writer", WRITER.format("model(e[:, 1:]).mT, e[:, :-1]"), "slices_exchanged"),
        ("train_writer", WRITER.format("model(e[:, :-1])[:, 1:].mT, e[:, :-2]"), "loss_shifted_the_wrong_way"),
        ("train_writer", WRITER.format("model(e)[:, 1:].mT, e[:, :-1]"), "loss_shifted_the_wrong_way"),
        ("train_writer", WRITER.format("model(e[:, :-1]), e[:, 1:]"), "classes_on_the_last_axis"),
        ("layer_norm", NORM.format("x - mean"), "differences_not_squared"),
        ("layer_norm", NORM.format("(x - mean).abs()"), "absolute_for_squared"),
        ("append_to_cache", APPEND, "room_lost_by_cat"),
        ("witten_bell", BELL, "one_added_to_each_count"),
        ("ov_circuit", CIRCUIT, "w_o_before_w_v"),
        ("fill_in", FILL_IN, "text_without_a_batch"),
    ],
)
def test_a_mistake_that_is_certain_to_come_has_a_name(exercise: str, source: str, name: str) -> None:
    report = run(exercise, run_cell(source, NOTEBOOK)[exercise])
    assert report.diagnosis == name
    assert contradictions(report) == []
