"""MultiHeadAttention without weights, against ``nn.MultiheadAttention(batch_first=True, need_weights=False)``.

In eval mode, without gradients, PyTorch's module uses its own fast path instead of the fused kernel, and forms the
whole matrix of weights; "inference" measures it like that.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnlib import MultiHeadAttention

from .measure import DEVICES, geometric_mean, header, medians, row, verdict

SIZES = [(8, 128, 512, 8), (2, 1024, 512, 8), (1, 4096, 256, 4)]
KINDS = ["self", "causal", "padded", "cross"]
MODES = ["forward", "forward+backward", "inference"]


def inputs(kind: str, b: int, n: int, d_model: int, device: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """x, memory (x itself unless the kind is cross) and the key mask."""
    torch.manual_seed(0)
    x = torch.randn(b, n, d_model, device=device)
    memory = torch.randn(b, n, d_model, device=device) if kind == "cross" else x
    lengths = torch.linspace(n / 2, n, b, device=device).long()
    key_mask = torch.arange(n, device=device) < lengths[:, None] if kind == "padded" else None
    return x, memory, key_mask


def pair(
    kind: str, b: int, n: int, d_model: int, h: int, device: str, *, weights: bool = False
) -> tuple[nn.Module, nn.Module, Callable[[], Tensor], Callable[[], Tensor], list[Tensor]]:
    """Our module and theirs, a forward call of each, and the tensors that need a gradient."""
    ours = MultiHeadAttention(d_model, h).to(device)
    theirs = nn.MultiheadAttention(d_model, h, batch_first=True).to(device)
    x, memory, key_mask = inputs(kind, b, n, d_model, device)
    x.requires_grad_()
    causal = torch.ones(n, n, dtype=torch.bool, device=device).triu(1) if kind == "causal" else None
    padding = None if key_mask is None else ~key_mask

    def our_forward() -> Tensor:
        source = memory if kind == "cross" else None
        result = ours(x, source, key_mask=key_mask, is_causal=kind == "causal", return_weights=weights)
        return result[0] if weights else result

    def their_forward() -> Tensor:
        return theirs(
            x,
            memory,
            memory,
            key_padding_mask=padding,
            attn_mask=causal,
            is_causal=causal is not None,
            need_weights=weights,
            average_attn_weights=False,
        )[0]

    return ours, theirs, our_forward, their_forward, [x]


def in_mode(mode: str, module: nn.Module, forward: Callable[[], Tensor], needs: list[Tensor]) -> Callable[[], object]:
    """Put the module in the mode, and return a call that does what the mode says."""
    module.train(mode != "inference")
    if mode == "inference":
        return torch.inference_mode()(forward)

    def train() -> object:
        output = forward()
        if mode == "forward":
            return output
        return torch.autograd.grad(output, [*needs, *module.parameters()], torch.ones_like(output))

    return train


def compare(weights: bool, mean_target: float, worst_target: float) -> None:
    """Time our attention beside PyTorch's, for every size and kind."""
    for device in DEVICES:
        for mode in MODES:
            header(f"{device}, {mode}, weights {weights}", "(b, n, d_model, h)", "ours ms", "theirs ms", "ratio")
            ratios = []
            for size in SIZES:
                for kind in KINDS:
                    ours, theirs, our_forward, their_forward, needs = pair(kind, *size, device, weights=weights)
                    times = medians(
                        {
                            "ours": in_mode(mode, ours, our_forward, needs),
                            "theirs": in_mode(mode, theirs, their_forward, needs),
                        },
                        device,
                    )
                    ratios.append(times["ours"] / times["theirs"])
                    row(f"{size} {kind}", times["ours"] * 1e3, times["theirs"] * 1e3, ratios[-1])
            verdict("geometric mean", geometric_mean(ratios), mean_target)
            verdict("worst case", max(ratios), worst_target)


def main() -> None:
    """Compare without weights."""
    compare(weights=False, mean_target=0.92, worst_target=1.05)


if __name__ == "__main__":
    main()
