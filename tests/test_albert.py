"""A random ALBERT of the published names and shapes, against the equations and, where it is installed, transformers."""

import math
import zlib

import pytest
import torch
from oracles import assert_agrees

from attnlib import from_albert

VOCAB, D_EMBED, D_MODEL, HEADS, HIDDEN, DEPTH, MAX_LEN = 13, 5, 12, 3, 17, 3, 11
BLOCK = "albert.encoder.albert_layer_groups.0.albert_layers.0."


def weights(dtype=torch.float64, d_hidden=HIDDEN):
    generator, d, e = torch.Generator().manual_seed(0), D_MODEL, D_EMBED
    shapes = {
        "albert.embeddings.word_embeddings.weight": (VOCAB, e),
        "albert.embeddings.position_embeddings.weight": (MAX_LEN, e),
        "albert.embeddings.token_type_embeddings.weight": (2, e),
    }
    linear = {
        "albert.encoder.embedding_hidden_mapping_in": (d, e),
        **{f"{BLOCK}attention.{name}": (d, d) for name in ("query", "key", "value", "dense")},
        f"{BLOCK}ffn": (d_hidden, d),
        f"{BLOCK}ffn_output": (d, d_hidden),
        "predictions.dense": (e, d),
        "predictions.decoder": (VOCAB, e),
    }
    norms = {
        "albert.embeddings.LayerNorm": e,
        f"{BLOCK}attention.LayerNorm": d,
        f"{BLOCK}full_layer_layer_norm": d,
        "predictions.LayerNorm": e,
    }
    for name, (out, into) in linear.items():
        shapes |= {f"{name}.weight": (out, into), f"{name}.bias": (out,)}
    for name, width in norms.items():
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    return {name: torch.randn(shape, generator=generator, dtype=dtype).mul(0.7) for name, shape in shapes.items()}


def albert_by_the_papers(w, ids):
    """Lan et al. 2020 with Devlin et al. 2019: one sentence, head by head, no nn.Module -> logits, weights."""

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + 1e-12).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x):
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    at, d = "albert.embeddings", D_MODEL // HEADS
    x = w[f"{at}.word_embeddings.weight"][ids] + w[f"{at}.position_embeddings.weight"][: len(ids)]
    x = norm(x + w[f"{at}.token_type_embeddings.weight"][0], f"{at}.LayerNorm")
    x, tables = linear(x, "albert.encoder.embedding_hidden_mapping_in"), []
    for _ in range(DEPTH):
        q, k, v = (linear(x, f"{BLOCK}attention.{name}") for name in ("query", "key", "value"))
        shares, heads = [], []
        for head in range(HEADS):
            own = slice(head * d, (head + 1) * d)
            shares.append(torch.softmax(q[:, own] @ k[:, own].T / math.sqrt(d), dim=-1))
            heads.append(shares[-1] @ v[:, own])
        tables.append(torch.stack(shares))
        x = norm(x + linear(torch.cat(heads, dim=-1), f"{BLOCK}attention.dense"), f"{BLOCK}attention.LayerNorm")
        thought = linear(gelu(linear(x, f"{BLOCK}ffn")), f"{BLOCK}ffn_output")
        x = norm(x + thought, f"{BLOCK}full_layer_layer_norm")
    x = norm(gelu(linear(x, "predictions.dense")), "predictions.LayerNorm")
    return linear(x, "predictions.decoder"), torch.stack(tables)


def sentences():
    return torch.randint(0, VOCAB, (2, 7), generator=torch.Generator().manual_seed(1))


def test_the_logits_and_the_weights_of_the_papers():
    w, ids = weights(), sentences()
    model = from_albert(w, num_heads=HEADS, depth=DEPTH)
    logits, tables = model(ids, return_weights=True)
    expected = [albert_by_the_papers(w, sentence) for sentence in ids]
    assert_agrees(logits, torch.stack([logits for logits, _ in expected]), tolerance=1e-10)
    assert_agrees(tables, torch.stack([tables for _, tables in expected]), tolerance=1e-10)
    assert_agrees(model(ids), logits, tolerance=1e-12)
    assert not model.training


@pytest.mark.parametrize("depth", [1, 4])
def test_transformers_says_the_same(depth):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: NOT COMPARED with it")
    config = transformers.AlbertConfig(
        vocab_size=VOCAB,
        embedding_size=D_EMBED,
        hidden_size=D_MODEL,
        num_hidden_layers=depth,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        max_position_embeddings=MAX_LEN,
        hidden_act="gelu",
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs, ids = transformers.AlbertForMaskedLM(config).eval(), sentences()
    with torch.no_grad():
        for parameter in theirs.parameters():  # norms of 1 and biases of 0 would hide an exchange
            parameter.normal_(std=0.5)
        expected = theirs(ids, output_attentions=True)
        model = from_albert(theirs.state_dict(), num_heads=HEADS, depth=depth)
        logits, tables = model(ids, return_weights=True)
    assert_agrees(logits, expected.logits, tolerance=1e-5)
    assert_agrees(tables, torch.stack(expected.attentions, dim=1), tolerance=1e-5)


def exchanged(one, other):
    def change(w):
        for kind in ("weight", "bias"):
            w[f"{one}.{kind}"], w[f"{other}.{kind}"] = w[f"{other}.{kind}"], w[f"{one}.{kind}"]

    return change


def transposed(w):
    w[f"{BLOCK}attention.query.weight"] = w[f"{BLOCK}attention.query.weight"].T


@pytest.mark.parametrize(
    "change",
    [
        exchanged(f"{BLOCK}attention.query", f"{BLOCK}attention.key"),
        exchanged(f"{BLOCK}attention.value", f"{BLOCK}attention.dense"),
        exchanged(f"{BLOCK}attention.LayerNorm", f"{BLOCK}full_layer_layer_norm"),
        transposed,
        lambda w: w["albert.embeddings.token_type_embeddings.weight"].mul_(2),
    ],
)
def test_what_raises_no_error_would_show(change):
    w, ids = weights(), sentences()
    right = from_albert(w, num_heads=HEADS, depth=DEPTH)(ids)
    change(w)
    assert (from_albert(w, num_heads=HEADS, depth=DEPTH)(ids) - right).abs().max() > 1e-3


def test_what_a_file_may_hold_besides():
    saved = weights(dtype=torch.float32)
    saved |= {
        "albert.pooler.weight": torch.ones(D_MODEL, D_MODEL),
        "albert.embeddings.position_ids": torch.arange(MAX_LEN)[None],
        "predictions.bias": saved["predictions.decoder.bias"],
    }
    before = {name: zlib.crc32(tensor.contiguous().numpy()) for name, tensor in saved.items()}
    model = from_albert(saved, num_heads=HEADS, depth=DEPTH)
    assert model.embed.weight.dtype == torch.float32
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert {name: zlib.crc32(tensor.contiguous().numpy()) for name, tensor in saved.items()} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop(f"{BLOCK}ffn.bias"), r"missing or unknown: \['encoder.*\.ffn\.bias'\]"),
        (lambda w: w.update({f"{BLOCK}ffn.gate": torch.ones(3)}), r"missing or unknown: \['encoder.*\.ffn\.gate'\]"),
        (lambda w: w.clear(), "the weights must be those of an ALBERT"),
    ],
)
def test_weights_of_another_model_are_refused(change, message):
    w = weights()
    change(w)
    with pytest.raises(ValueError, match=message):
        from_albert(w, num_heads=HEADS, depth=DEPTH)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="d_model must be divisible by num_heads"):
        from_albert(weights(), num_heads=5, depth=DEPTH)
    with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
        from_albert(weights(), num_heads=HEADS, depth=0)
    model = from_albert(weights(), num_heads=HEADS, depth=DEPTH)
    with pytest.raises(ValueError, match="ids must have at most max_len = 11 tokens, got 12"):
        model(torch.zeros(1, 12, dtype=torch.long))
