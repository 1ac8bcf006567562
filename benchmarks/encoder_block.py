"""EncoderBlock against ``nn.TransformerEncoderLayer(norm_first=True)``: a training step, and inference.

In eval mode without gradients PyTorch's layer runs one fused operator of its own, its "fast path".
"""

import torch
from torch import nn

from attnlib import EncoderBlock

from .measure import DEVICES, geometric_mean, header, medians, row, verdict
from .multi_head_attention import SIZES, in_mode

TARGETS = {"forward+backward": 0.95, "inference": 1.05}


def main() -> None:
    for device in DEVICES:
        for mode, target in TARGETS.items():
            header(f"{device}, encoder block, {mode}", "(b, n, d_model, h)", "ours ms", "theirs ms", "ratio")
            ratios = []
            for b, n, d_model, h in SIZES:
                torch.manual_seed(0)
                x = torch.randn(b, n, d_model, device=device, requires_grad=True)
                ours = EncoderBlock(d_model, h).to(device)
                theirs = nn.TransformerEncoderLayer(
                    d_model, h, 4 * d_model, dropout=0.0, activation="gelu", norm_first=True, batch_first=True
                ).to(device)
                modules = {"ours": ours, "theirs": theirs}
                calls = {
                    name: in_mode(mode, module, lambda module=module, x=x: module(x), [x])
                    for name, module in modules.items()
                }
                times = medians(calls, device)
                ratios.append(times["ours"] / times["theirs"])
                row(f"{(b, n, d_model, h)}", times["ours"] * 1e3, times["theirs"] * 1e3, ratios[-1])
            verdict("geometric mean", geometric_mean(ratios), target)


if __name__ == "__main__":
    main()
