"""A random LLaMA of the published names and shapes, against the equations and, where it is installed, transformers."""

import math

import pytest
import torch
from oracles import assert_agrees, untyped

from attnlib import from_llama

VOCAB, D_MODEL, HEADS, D_HEAD, HIDDEN, DEPTH = 17, 12, 4, 6, 10, 2


def weights(kv_heads=2, tied=False, prefix="model.", dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    d, wide, narrow = D_MODEL, HEADS * D_HEAD, kv_heads * D_HEAD
    shapes = {f"{prefix}embed_tokens.weight": (VOCAB, d), f"{prefix}norm.weight": (d,)}
    for i in range(DEPTH):
        of_block = {
            "input_layernorm": (d,),
            "self_attn.q_proj": (wide, d),
            "self_attn.k_proj": (narrow, d),
            "self_attn.v_proj": (narrow, d),
            "self_attn.o_proj": (d, wide),
            "post_attention_layernorm": (d,),
            "mlp.gate_proj": (HIDDEN, d),
            "mlp.up_proj": (HIDDEN, d),
            "mlp.down_proj": (d, HIDDEN),
        }
        shapes |= {f"{prefix}layers.{i}.{name}.weight": shape for name, shape in of_block.items()}
    if not tied:
        shapes["lm_head.weight"] = (VOCAB, d)
    return {name: torch.randn(shape, generator=generator, dtype=dtype).mul(0.5) for name, shape in shapes.items()}


def llama_by_the_papers(w, ids, kv_heads, base):
    """Touvron et al. 2023 with Su et al. 2021: one sentence, head by head, no nn.Module."""

    def norm(x, name):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w[f"model.{name}.weight"]

    def turned(x, p):
        """Column i with column i + d/2, as transformers has them."""
        half = D_HEAD // 2
        angle = p * base ** (-2 * torch.arange(half, dtype=torch.float64) / D_HEAD)
        a, b = x[:half], x[half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()])

    n, x = len(ids), w["model.embed_tokens.weight"][ids]
    for i in range(DEPTH):
        at, y = f"layers.{i}", norm(x, f"layers.{i}.input_layernorm")
        q, k, v = (y @ w[f"model.{at}.self_attn.{name}_proj.weight"].T for name in "qkv")
        heads = []
        for head in range(HEADS):
            shared = head // (HEADS // kv_heads)
            mine, theirs = slice(head * D_HEAD, (head + 1) * D_HEAD), slice(shared * D_HEAD, (shared + 1) * D_HEAD)
            queries = torch.stack([turned(row, p) for p, row in enumerate(q[:, mine])])
            keys = torch.stack([turned(row, p) for p, row in enumerate(k[:, theirs])])
            scores = (queries @ keys.T / math.sqrt(D_HEAD)).masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
            heads.append(torch.softmax(scores, dim=-1) @ v[:, theirs])
        x = x + torch.cat(heads, dim=-1) @ w[f"model.{at}.self_attn.o_proj.weight"].T
        y = norm(x, f"{at}.post_attention_layernorm")
        gate, up = (y @ w[f"model.{at}.mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (gate * torch.sigmoid(gate) * up) @ w[f"model.{at}.mlp.down_proj.weight"].T
    return norm(x, "norm") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def sentences():
    return torch.randint(0, VOCAB, (3, 7), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("kv_heads", "base", "tied"), [(4, 10000.0, False), (2, 500000.0, False), (1, 100.0, True)])
def test_the_logits_of_the_papers(kv_heads, base, tied):
    w, ids = weights(kv_heads, tied), sentences()
    model = from_llama(w, num_heads=HEADS, base=base)
    expected = torch.stack([llama_by_the_papers(w, sentence, kv_heads, base) for sentence in ids])
    assert_agrees(model(ids), expected, tolerance=1e-10)
    assert not model.training
    assert (model.head.weight is model.embed.weight) == tied


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_the_cache_gives_the_same(kv_heads):
    model, ids = from_llama(weights(kv_heads), num_heads=HEADS), sentences()
    caches = model.caches(len(ids))
    parts = [model(part, caches=caches) for part in (ids[:, :3], ids[:, 3:4], ids[:, 4:])]
    assert_agrees(torch.cat(parts, dim=1), model(ids), tolerance=1e-10)


@pytest.mark.parametrize(("kv_heads", "base"), [(4, 10000.0), (2, 500000.0), (1, 1000.0)])
def test_transformers_says_the_same(kv_heads, base):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: NOT COMPARED with it")
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=D_MODEL,
        intermediate_size=HIDDEN,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        head_dim=D_HEAD,
        rope_theta=base,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    theirs, ids = transformers.LlamaForCausalLM(config).eval(), sentences()
    ours = from_llama(theirs.state_dict(), num_heads=HEADS, base=base, eps=1e-5)
    with torch.no_grad():
        expected = theirs(ids)
        caches = ours.caches(len(ids))
        assert_agrees(ours(ids, caches=caches), expected.logits, tolerance=1e-5)
        more = torch.tensor([[1], [2], [3]])
        then = theirs(torch.cat([ids, more], dim=1)).logits[:, -1:]
        assert_agrees(ours(more, caches=caches), then, tolerance=1e-5)


def test_columns_in_their_order_would_show():
    w, ids = weights(), sentences()
    model = from_llama(w, num_heads=HEADS)
    expected = model(ids)
    with torch.no_grad():
        model.blocks.layers[0].attn.w_q.weight.copy_(w["model.layers.0.self_attn.q_proj.weight"])
    assert (model(ids) - expected).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("model.norm.weight"), r"missing or unknown: \['blocks.norm.weight'\]"),
        (
            lambda w: w.update({"model.layers.0.self_attn.q_proj.bias": torch.ones(24)}),
            "missing or unknown: .*w_q.bias",
        ),
        (lambda w: w.pop("model.embed_tokens.weight"), "a LLaMA has embed_tokens.weight, got "),
    ],
)
def test_weights_of_another_model_are_refused(change, message):
    w = weights()
    change(w)
    with pytest.raises(ValueError, match=message):
        from_llama(w, num_heads=HEADS)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="num_heads must divide the 24 columns of queries, got 5"):
        from_llama(weights(), num_heads=5)
    with untyped(), pytest.raises(TypeError, match=r"num_heads must be an int, got 4\.0"):
        from_llama(weights(), num_heads=4.0)
