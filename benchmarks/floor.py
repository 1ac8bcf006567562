"""The fused path against its floor: the bare matrix products around ``F.scaled_dot_product_attention``."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib import MultiHeadAttention

from .measure import DEVICES, geometric_mean, header, medians, row, verdict
from .multi_head_attention import MODES, SIZES, in_mode


def main() -> None:
    for device in DEVICES:
        for mode in MODES:
            header(f"{device}, floor, {mode}", "(b, n, d_model, h)", "ours ms", "floor ms", "ratio")
            ratios = []
            for b, n, d_model, h in SIZES:
                torch.manual_seed(0)
                x = torch.randn(b, n, d_model, device=device, requires_grad=True)
                module = MultiHeadAttention(d_model, h).to(device)

                def floor(module: MultiHeadAttention = module, x: Tensor = x, h: int = h) -> Tensor:
                    b, n, d_model = x.shape
                    layers = (module.w_q, module.w_k, module.w_v)
                    q, k, v = (F.linear(x, w.weight, w.bias).view(b, n, h, -1).transpose(1, 2) for w in layers)
                    output = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d_model)
                    return F.linear(output, module.w_o.weight, module.w_o.bias)

                calls = {
                    "ours": in_mode(mode, module, lambda module=module, x=x: module(x), [x]),
                    "floor": in_mode(mode, module, floor, [x]),
                }
                times = medians(calls, device)
                ratios.append(times["ours"] / times["floor"])
                row(f"{(b, n, d_model, h)}", times["ours"] * 1e3, times["floor"] * 1e3, ratios[-1])
            verdict("geometric mean", geometric_mean(ratios), 1.05)


if __name__ == "__main__":
    main()
