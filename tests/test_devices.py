"""Everything public computes where its inputs are: on a GPU, and, where there is none, on a device that plays one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import test_albert
import test_gpt2
import test_llama
import torch
from oracles import on_gpu
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

import attnlib
from attnlib.checks.asking.other_device import OtherDevice, on_other_device

Move = Callable[[Any], Any]
Prepared = Callable[[Move], Callable[[], Any]]
PLAYED = "a device that plays a GPU"


def _mover(device: str) -> Move:
    change = on_other_device if device == PLAYED else (lambda x: x.to(device))

    def move(thing: Any) -> Any:
        if isinstance(thing, nn.Module):
            return thing._apply(change)
        return tree_map(lambda x: change(x) if isinstance(x, Tensor) else x, thing)

    return move


def _x(*shape: int) -> Tensor:
    return torch.randn(shape)


def _ids(n: int = 5) -> Tensor:
    return torch.randint(0, 7, (2, n))


def _key_mask() -> Tensor:
    return torch.arange(5) < torch.tensor([[3], [5]])


def _module(module: nn.Module, *inputs: Any, **named: Any) -> Prepared:
    return lambda to: partial(to(module), *to(inputs), **to(named))


def _function(name: str, *inputs: Any, **named: Any) -> Prepared:
    return lambda to: partial(getattr(attnlib, name), *to(inputs), **to(named))


def _made_there(name: str, *sizes: Any, **named: Any) -> Prepared:
    return lambda to: partial(getattr(attnlib, name), *sizes, **named, device=to(torch.zeros(1)).device)


def _with_cache(cache: Callable[..., Any]) -> Prepared:
    def prepared(to: Move) -> Callable[[], Any]:
        attention, x = to(attnlib.MultiHeadAttention(8, 2, num_kv_heads=1, is_causal=True)), to(_x(2, 5, 8))

        def call() -> Any:
            kept = cache(2, 1, 6, 4, device=x.device)
            return attention(x[:, :3], cache=kept), attention(x[:, 3:], cache=kept)

        return call

    return prepared


def _converted(convert: Callable[[nn.Module], nn.Module], module: nn.Module) -> Prepared:
    def prepared(to: Move) -> Callable[[], Any]:
        moved, x = to(module), to(_x(2, 5, 8))
        return lambda: convert(moved)(x)

    return prepared


def _language_model(**options: Any) -> attnlib.LanguageModel:
    return attnlib.LanguageModel(7, 8, 2, 2, 9, **options).eval()


def _samples(to: Move) -> Callable[[], Any]:
    logits = to(_x(2, 7))
    return lambda: [attnlib.sample_next(logits, *how) for how in ((0,), (1.0,), (1.0, 3, 0.9))]


def _writes(to: Move) -> Callable[[], Any]:
    model, ids = to(_language_model()), to(_ids(3))
    return lambda: attnlib.generate(model, ids, 4, 0)


def _albert() -> nn.Module:
    return attnlib.from_albert(test_albert.weights(torch.float32), num_heads=test_albert.HEADS, depth=2).eval()


WIDE, LEFT = (lambda: _x(2, 2, 5, 4)), (lambda: _x(2, 5, 8))
POSITIONS = torch.tensor([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]])
PLOTS = {"plot_attention", "plot_heads", "plot_links", "plot_mask"}
"""Drawn from a copy on the CPU, whatever the device: test_plot."""


def calls() -> dict[str, Prepared]:
    """A call of everything public; of its options those that make a tensor of their own."""
    torch.manual_seed(0)
    return modules() | functions()


def modules() -> dict[str, Prepared]:
    rotary = attnlib.Rotary(4)
    return {
        "AttentionOnly": _module(attnlib.AttentionOnly(7, 8, 2, 2), _ids(), return_weights=True),
        "CrossAttention": _module(attnlib.CrossAttention(8, 6, 4, 3), LEFT(), _x(2, 4, 6)),
        "Decoder": _module(attnlib.Decoder(2, 8, 2), LEFT(), LEFT(), key_mask=_key_mask(), memory_key_mask=_key_mask()),
        "DecoderBlock": _module(attnlib.DecoderBlock(8, 2, norm="rms", gated=True), LEFT(), LEFT()),
        "Encoder": _module(attnlib.Encoder(2, 8, 2, rotary=rotary), LEFT(), key_mask=_key_mask(), positions=POSITIONS),
        "EncoderBlock": _module(attnlib.EncoderBlock(8, 2, window=2), LEFT(), key_mask=_key_mask()),
        "FeedForward": _module(attnlib.FeedForward(8, 12, gated=True), LEFT()),
        "KVCache": _with_cache(attnlib.KVCache),
        "LanguageModel": _module(_language_model(), _ids(), key_mask=_key_mask(), positions=POSITIONS),
        "LearnedPositions": _module(attnlib.LearnedPositions(9, 8), LEFT(), offset=2),
        "MaskedLanguageModel": _module(
            attnlib.MaskedLanguageModel(7, 3, 8, 2, 12, 2, 9).eval(), _ids(), return_weights=True
        ),
        "MultiHeadAttention": _module(
            attnlib.MultiHeadAttention(8, 4, num_kv_heads=2, alibi=True, window=3, is_causal=True),
            LEFT(),
            key_mask=_key_mask(),
            return_weights=True,
        ),
        "QKVProjection": _module(attnlib.QKVProjection(8, 4, 3), LEFT()),
        "RollingKVCache": _with_cache(attnlib.RollingKVCache),
        "Rotary": _module(rotary, WIDE(), offset=3),
        "SelfAttention": _module(attnlib.SelfAttention(8, 4, 3), LEFT()),
        "SharedEncoder": _module(attnlib.SharedEncoder(8, 2, 12, 2), LEFT()),
        "SinusoidalPositions": _module(attnlib.SinusoidalPositions(9, 8), LEFT(), offset=2),
    }


def functions() -> dict[str, Prepared]:
    return {
        "alibi_bias": _made_there("alibi_bias", 3, 4, 5),
        "alibi_slopes": _made_there("alibi_slopes", 3),
        "apply_rotary": _function("apply_rotary", WIDE(), _x(5, 2), _x(5, 2)),
        "attention_scores": _function("attention_scores", WIDE(), WIDE()),
        "attention_sink_mask": _made_there("attention_sink_mask", 3, 5, 1, window=2),
        "causal_mask": _made_there("causal_mask", 3, 5),
        "cross_attention": _function("cross_attention", LEFT(), LEFT(), _x(8, 4), _x(8, 4), _x(8, 3)),
        "embed": _function("embed", _ids(), _x(7, 8)),
        "from_additive": _function("from_additive", torch.tensor([0.0, -torch.inf])),
        "from_albert": _module(_albert(), _ids()),
        "from_blocked": _function("from_blocked", _key_mask()),
        "from_gpt2": _module(attnlib.from_gpt2(test_gpt2.weights(), num_heads=test_gpt2.HEADS), _ids()),
        "from_keep": _function("from_keep", _key_mask().long()),
        "from_llama": _module(attnlib.from_llama(test_llama.weights(), num_heads=test_llama.HEADS), _ids()),
        "from_padding": _function("from_padding", _key_mask()),
        "from_torch": _converted(attnlib.from_torch, nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()),
        "generate": _writes,
        "layer_norm": _function("layer_norm", LEFT(), _x(8), _x(8)),
        "masked_softmax": _function("masked_softmax", _x(2, 3, 5), torch.zeros(3, 5, dtype=torch.bool)),
        "merge_heads": _function("merge_heads", WIDE()),
        "padding_mask": _function("padding_mask", torch.tensor([2, 5]), 5),
        "project_qkv": _function("project_qkv", LEFT(), _x(8, 4), _x(8, 4), _x(8, 3)),
        "project_qkv_fused": _function("project_qkv_fused", LEFT(), _x(8, 11), 4, 3),
        "renormalised_causal_weights": _function("renormalised_causal_weights", _x(2, 5, 5)),
        "rms_norm": _function("rms_norm", LEFT(), _x(8)),
        "rotate": _function("rotate", LEFT(), POSITIONS),
        "sample_next": _samples,
        "scaled_dot_product_attention": _function(
            "scaled_dot_product_attention", WIDE(), _x(2, 1, 5, 4), _x(2, 1, 5, 3), mask=_key_mask()[0], is_causal=True
        ),
        "sinusoidal_positions": _made_there("sinusoidal_positions", 5, 8),
        "sliding_window_mask": _made_there("sliding_window_mask", 3, 5, 2),
        "softmax": _function("softmax", _x(2, 5)),
        "split_heads": _function("split_heads", LEFT(), 2),
        "stack_head_weights": _function("stack_head_weights", [_x(8, 2), _x(8, 2)]),
        "tiled_attention": _function(
            "tiled_attention", WIDE(), WIDE(), WIDE(), mask=_key_mask()[0], is_causal=True, block_q=2, block_k=2
        ),
        "to_additive": _function("to_additive", _key_mask()),
        "to_blocked": _function("to_blocked", _key_mask()),
        "to_half_pairs": _function("to_half_pairs", _x(3, 8), 2),
        "to_keep": _function("to_keep", _key_mask()),
        "to_padding": _function("to_padding", _key_mask()),
        "to_torch": _converted(attnlib.to_torch, attnlib.EncoderBlock(8, 2).eval()),
    }


def test_nothing_public_is_left_out():
    assert set(calls()) | PLOTS == set(attnlib.__all__)


@pytest.mark.parametrize("name", sorted(set(attnlib.__all__) - PLOTS))
def test_no_tensor_of_its_own_stays_on_the_cpu(name):
    call = calls()[name](_mover(PLAYED))
    with OtherDevice() as gpu:
        answer = call()
    assert not gpu.mixed
    assert all(t.is_meta for t in tree_flatten(answer)[0])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=on_gpu) for name in sorted(set(attnlib.__all__) - PLOTS - {"sample_next"})]
)
def test_a_gpu_says_what_the_cpu_says(name):
    here, there = (calls()[name](_mover(device))() for device in ("cpu", "cuda"))
    assert {t.device.type for t in tree_flatten(there)[0]} == {"cuda"}
    torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5, check_device=False)
