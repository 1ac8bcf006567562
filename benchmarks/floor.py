"""The fused path against its floor: the bare matrix products around ``F.scaled_dot_product_attention``.

The last column is the floor against PyTorch's own module: no code around the same kernels can do much better than that.
"""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from attnlib import EncoderBlock, MultiHeadAttention

from .encoder_block import blocks
from .measure import DEVICES, geometric_mean, header, medians, row, verdict
from .multi_head_attention import KINDS, MODES, SIZES, in_mode, inputs, pair


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear layer without the module around it."""
    return F.linear(x, layer.weight, layer.bias)


def heads(module: MultiHeadAttention, x: Tensor, memory: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Four products and the kernel, with nothing around them."""
    q, k, v = (
        linear(layer, source).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
        for layer, source in ((module.w_q, x), (module.w_k, memory), (module.w_v, memory))
    )
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
    return linear(module.w_o, output.transpose(1, 2).flatten(2))


def block(module: EncoderBlock, x: Tensor) -> Tensor:
    """A pre-LN block, with nothing around it either."""
    normed = F.layer_norm(x, x.shape[-1:], module.norm1.weight, module.norm1.bias)
    x = x + heads(module.attn, normed, normed, None, False)
    normed = F.layer_norm(x, x.shape[-1:], module.norm2.weight, module.norm2.bias)
    return x + linear(module.mlp.down, F.gelu(linear(module.mlp.up, normed)))


def compare_attention(device: str, mode: str) -> None:
    """Compare attention with its floor."""
    header(f"{device}, attention, {mode}", "(b, n, d_model, h)", "ours ms", "floor ms", "ratio", "floor/torch")
    ratios, left = [], []
    for size in SIZES:
        for kind in KINDS:
            ours, theirs, our_forward, their_forward, [x] = pair(kind, *size, device)
            _, other, key_mask = inputs(kind, *size[:3], device)
            memory = other if kind == "cross" else x
            mask = None if key_mask is None else key_mask[:, None, None, :]
            times = medians(
                {
                    "ours": in_mode(mode, ours, our_forward, [x]),
                    "floor": in_mode(mode, ours, partial(heads, ours, x, memory, mask, kind == "causal"), [x]),
                    "theirs": in_mode(mode, theirs, their_forward, [x]),
                },
                device,
            )
            ratios.append(times["ours"] / times["floor"])
            left.append(times["floor"] / times["theirs"])
            row(f"{size} {kind}", times["ours"] * 1e3, times["floor"] * 1e3, ratios[-1], left[-1])
    verdict("geometric mean", geometric_mean(ratios), 1.05)
    row("geometric mean, floor / torch", geometric_mean(left))


def compare_block(device: str, mode: str) -> None:
    """Compare the encoder block with its floor."""
    header(f"{device}, encoder block, {mode}", "(b, n, d_model, h)", "ours ms", "floor ms", "ratio", "floor/torch")
    ratios, left = [], []
    for size in SIZES:
        ours, theirs, x = blocks(*size, device)
        calls = {
            "ours": in_mode(mode, ours, partial(ours, x), [x]),
            "floor": in_mode(mode, ours, partial(block, ours, x), [x]),
            "theirs": in_mode(mode, theirs, partial(theirs, x), [x]),
        }
        times = medians(calls, device)
        ratios.append(times["ours"] / times["floor"])
        left.append(times["floor"] / times["theirs"])
        row(f"{size}", times["ours"] * 1e3, times["floor"] * 1e3, ratios[-1], left[-1])
    verdict("geometric mean", geometric_mean(ratios), 1.05)
    row("geometric mean, floor / torch", geometric_mean(left))


def main() -> None:
    """Compare in every mode, on every device."""
    for device in DEVICES:
        for mode in MODES:
            compare_attention(device, mode)
        compare_block(device, "forward+backward")


if __name__ == "__main__":
    main()
