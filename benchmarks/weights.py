"""MultiHeadAttention with its weights, against PyTorch's module that returns them too, and against each dialect.

A dialect that returns no weights still forms them, so it is measured as it is. Those without heads are measured against
``SelfAttention`` and ``CrossAttention``; row 8, which has no ``w_o``, against our heads without it. Row 6 is printed
and not judged: its heads share one small projection, so it computes less. Rows 3 and 10 are no attention of their own.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib import CrossAttention, MultiHeadAttention, SelfAttention, merge_heads, split_heads
from attnlib import scaled_dot_product_attention as attend

from .measure import DEVICES, geometric_mean, header, medians, row, verdict
from .multi_head_attention import compare

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "dialects"))

B, N, D, H = 8, 128, 512, 8


def dialect(name: str) -> Any:
    return importlib.import_module(f"row_{name}")


def step(module: nn.Module, *inputs: Tensor, **options: Any) -> Callable[[], object]:
    """Forward and backward to the parameters."""

    def call() -> object:
        result = module(*inputs, **options)
        output = result[0] if isinstance(result, tuple) else result
        return torch.autograd.grad(output, list(module.parameters()), torch.ones_like(output))

    return call


class HeadsAlone(nn.Module):
    """attnlib's functions around three layers, as row 8 has them: no ``w_o``."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(D, D, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(layer(x), H) for layer in self.layers)
        return merge_heads(attend(q, k, v, return_weights=True)[0])


def pairs(device: str) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """For each dialect, our step and theirs."""
    torch.manual_seed(0)
    x, one, other = (
        torch.randn(B, N, D, device=device),
        torch.randn(N, D, device=device),
        torch.randn(N, D, device=device),
    )
    q, k, v = (torch.randn(B, H, N, D // H, device=device) for _ in range(3))
    heads = MultiHeadAttention(D, H).to(device)
    bare = MultiHeadAttention(D, H, bias=False).to(device)
    listed = HeadsAlone().to(device)
    alone = {bias: SelfAttention(D, D, D, bias=bias).to(device) for bias in (True, False)}
    cross = CrossAttention(D, D, D, D).to(device)
    weights = {"return_weights": True}
    wrapper = dialect("08_list_of_heads").MultiHeadAttentionWrapper(D, D // H, D // H, H).to(device)
    row_11 = dialect("11_additive_masks")
    return {
        "1": (step(alone[True], x, **weights), step(dialect("01_annotated_single_head").Attention(D).to(device), x)),
        "2": (
            step(heads, x, **weights),
            step(dialect("02_annotated_multi_head").MultiheadSelfAttention(D, H).to(device), x),
        ),
        "4": (step(alone[False], x, **weights), step(dialect("04_einops_single_head").SelfAttention(D).to(device), x)),
        "5": (
            step(bare, x, **weights),
            step(dialect("05_einops_multi_head").MultiHeadSelfAttention(D, H).to(device), x),
        ),
        "6": (
            step(heads, x, **weights),
            step(dialect("06_shared_projection").SelfAttention(D, H).to(device), x, x, x),
        ),
        "7": (
            step(alone[False], one, **weights),
            step(dialect("07_matrix_parameters").SelfAttention(D, D, D).to(device), one),
        ),
        "8 (has no w_o)": (step(listed, one), step(wrapper, one)),
        "9": (
            step(cross, one, other, **weights),
            step(dialect("09_cross_attention").CrossAttention(D, D, D).to(device), one, other),
        ),
        "11": (
            lambda: attend(q, k, v, is_causal=True, return_weights=True),
            lambda: row_11.scaled_dot_product_attention(q, k, v, row_11.causal_mask(N, q.device)),
        ),
        "12": (
            step(bare, x, **weights),
            step(dialect("12_heads_of_free_width").MultiHeadSelfAttention(D, H, D // H).to(device), x),
        ),
    }


def dialects() -> None:
    for device in DEVICES:
        header(f"{device}, each dialect, {(B, N, D, H)}, with weights", "row", "ours ms", "theirs ms", "ratio")
        ratios = []
        for name, (ours, theirs) in pairs(device).items():
            times = medians({"ours": ours, "theirs": theirs}, device)
            ratio = times["ours"] / times["theirs"]
            row(name, times["ours"] * 1e3, times["theirs"] * 1e3, ratio)
            if name != "6":
                ratios.append(ratio)
        verdict("geometric mean", geometric_mean(ratios), 0.95)
        verdict("worst case", max(ratios), 1.05)


def main() -> None:
    compare(weights=True, mean_target=0.95, worst_target=1.05)
    dialects()


if __name__ == "__main__":
    main()
