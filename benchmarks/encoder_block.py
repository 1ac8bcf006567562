"""EncoderBlock against ``nn.TransformerEncoderLayer(norm_first=True)``: a training step, and inference.

In eval mode, without gradients, PyTorch's layer runs a single fused operator, its "fast path".
"""

from functools import partial

import torch
from torch import Tensor, nn

from attnlib import EncoderBlock

from .measure import DEVICES, geometric_mean, header, medians, row, verdict
from .multi_head_attention import SIZES, in_mode

TARGETS = {"forward+backward": 0.95, "inference": 1.05}


def blocks(b: int, n: int, d_model: int, h: int, device: str) -> tuple[nn.Module, nn.Module, Tensor]:
    """Our block, theirs, and an input."""
    torch.manual_seed(0)
    x = torch.randn(b, n, d_model, device=device, requires_grad=True)
    ours = EncoderBlock(d_model, h).to(device)
    theirs = nn.TransformerEncoderLayer(
        d_model, h, 4 * d_model, dropout=0.0, activation="gelu", norm_first=True, batch_first=True
    ).to(device)
    return ours, theirs, x


def main() -> None:
    """Time our block beside PyTorch's, in every mode."""
    for device in DEVICES:
        for mode, target in TARGETS.items():
            header(f"{device}, encoder block, {mode}", "(b, n, d_model, h)", "ours ms", "theirs ms", "ratio")
            ratios = []
            for size in SIZES:
                ours, theirs, x = blocks(*size, device)
                calls = {
                    "ours": in_mode(mode, ours, partial(ours, x), [x]),
                    "theirs": in_mode(mode, theirs, partial(theirs, x), [x]),
                }
                times = medians(calls, device)
                ratios.append(times["ours"] / times["theirs"])
                row(f"{size}", times["ours"] * 1e3, times["theirs"] * 1e3, ratios[-1])
            verdict("geometric mean", geometric_mean(ratios), target)


if __name__ == "__main__":
    main()
