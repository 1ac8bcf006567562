"""A random GPT-2 of the published names and shapes, against the equations of the papers."""

import math

import pytest
import torch
from oracles import assert_agrees

from attnlib import from_gpt2

VOCAB, D_MODEL, HEADS, DEPTH, MAX_LEN = 17, 12, 3, 2, 11


def weights(prefix="", dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    d = D_MODEL
    shapes = {"wte.weight": (VOCAB, d), "wpe.weight": (MAX_LEN, d), "ln_f.weight": (d,), "ln_f.bias": (d,)}
    for i in range(DEPTH):
        of_block = {
            "ln_1": (d,),
            "attn.c_attn": (d, 3 * d),
            "attn.c_proj": (d, d),
            "ln_2": (d,),
            "mlp.c_fc": (d, 4 * d),
            "mlp.c_proj": (4 * d, d),
        }
        for name, shape in of_block.items():
            shapes[f"h.{i}.{name}.weight"], shapes[f"h.{i}.{name}.bias"] = shape, shape[-1:]
    return {
        prefix + name: torch.randn(shape, generator=generator, dtype=torch.float64).mul(0.5).to(dtype)
        for name, shape in shapes.items()
    }


def gpt2_by_the_papers(w, ids):
    """Radford et al. 2018 and 2019 with Vaswani et al. 2017: one sentence, head by head, no nn.Module."""

    def norm(x, name):
        centred = x - x.mean(-1, keepdim=True)
        return (
            centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]
        )

    def conv1d(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    n = len(ids)
    x = w["wte.weight"][ids] + w["wpe.weight"][:n]
    for i in range(DEPTH):
        qkv, d = conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), D_MODEL // HEADS
        heads = []
        for head in range(HEADS):
            q, k, v = (qkv[:, part * D_MODEL + head * d : part * D_MODEL + (head + 1) * d] for part in range(3))
            scores = (q @ k.T / math.sqrt(d)).masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
            heads.append(torch.softmax(scores, dim=-1) @ v)
        x = x + conv1d(torch.cat(heads, dim=-1), f"h.{i}.attn.c_proj")
        hidden = conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        hidden = 0.5 * hidden * (1 + torch.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
        x = x + conv1d(hidden, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_the_logits_of_the_papers(prefix):
    ids = torch.randint(0, VOCAB, (2, 7), generator=torch.Generator().manual_seed(1))
    model = from_gpt2(weights(prefix), num_heads=HEADS)
    expected = torch.stack([gpt2_by_the_papers(weights(), sentence) for sentence in ids])
    assert_agrees(model(ids), expected, tolerance=1e-10)
    assert not model.training
    assert model.head.weight is model.embed.weight


def test_each_trap_would_show():
    ids = torch.arange(7)[None]
    expected = gpt2_by_the_papers(weights(), ids[0])

    def apart(change):
        model = from_gpt2(weights(), num_heads=HEADS)
        with torch.no_grad():
            change(model)
            return (model(ids)[0] - expected).abs().max().item()

    first = "layers.0.attn"
    assert apart(lambda model: None) < 1e-10
    assert apart(lambda model: model.blocks.get_submodule(f"{first}.w_o").weight.t_()) > 0.01
    assert apart(lambda model: model.blocks.get_submodule(f"{first}.w_q").weight.t_()) > 0.01
    assert apart(lambda model: setattr(model.blocks.layers[0].mlp, "activation", "gelu")) > 1e-4
    assert apart(lambda model: setattr(model.head, "weight", torch.nn.Parameter(-model.head.weight))) > 0.01
    packed = weights()
    packed["h.0.attn.c_attn.weight"] = packed["h.0.attn.c_attn.weight"].unflatten(1, (3, 3, 4)).mT.flatten(1)
    assert (from_gpt2(packed, num_heads=HEADS)(ids)[0] - expected).abs().max() > 0.01


def test_what_a_file_may_hold_besides():
    saved = weights(dtype=torch.float32)
    saved |= {"h.0.attn.bias": torch.ones(1, 1, MAX_LEN, MAX_LEN).tril(), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    saved["lm_head.weight"] = saved["wte.weight"]
    model = from_gpt2(saved, num_heads=HEADS)
    assert model.embed.weight.dtype == torch.float32
    assert model.embed.weight.data_ptr() != saved["wte.weight"].data_ptr()


def test_errors():
    with pytest.raises(
        ValueError, match="num_heads must be given unless d_model is a multiple of 64, got d_model = 12"
    ):
        from_gpt2(weights())
    with pytest.raises(ValueError, match=r"a GPT-2 has wpe\.weight, wte\.weight, got h\.0"):
        from_gpt2({name: w for name, w in weights().items() if name.startswith("h.")})
    lacking = weights()
    del lacking["h.1.ln_2.bias"]
    with pytest.raises(ValueError, match=r"with 2 blocks; missing or unknown: \['blocks.layers.1.norm2.bias'\]"):
        from_gpt2(lacking, num_heads=HEADS)
    with pytest.raises(ValueError, match=r"missing or unknown: .*rotary"):
        from_gpt2(weights() | {"h.0.attn.rotary.weight": torch.ones(3)}, num_heads=HEADS)
    with pytest.raises(ValueError, match="lm_head must be its embedding"):
        from_gpt2(weights() | {"lm_head.weight": torch.zeros(VOCAB, D_MODEL).double()}, num_heads=HEADS)


def test_the_width_of_the_mlp_is_the_file_s():
    packed = weights()
    for i in range(DEPTH):
        for name, kept in (
            ("c_fc.weight", (slice(None), slice(20))),
            ("c_fc.bias", slice(20)),
            ("c_proj.weight", slice(20)),
        ):
            packed[f"h.{i}.mlp.{name}"] = packed[f"h.{i}.mlp.{name}"][kept]
    ids = torch.arange(7)[None]
    assert_agrees(from_gpt2(packed, num_heads=HEADS)(ids)[0], gpt2_by_the_papers(packed, ids[0]), tolerance=1e-10)
