"""MultiHeadAttention with its weights, against PyTorch's module that returns them too, and against each dialect.

A dialect that returns no weights still forms them, so it is measured unchanged. Row 3 is a whole encoder block, against
ours. Rows 7 to 9 take no batch, so they get one sequence; dialects without heads are measured against ``SelfAttention``
and ``CrossAttention``, and row 8, which has no ``w_o``, against our heads without it. Row 10 is two ways from scores to
causal weights. Row 6 is printed but not judged: its heads share one small projection, so it computes less.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib import (
    CrossAttention,
    EncoderBlock,
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    masked_softmax,
    merge_heads,
    renormalised_causal_weights,
    split_heads,
)
from attnlib import scaled_dot_product_attention as attend
from attnlib.attention import equation
from attnlib.in_place_attention import in_place_attention

from .measure import DEVICES, geometric_mean, header, medians, row, verdict
from .multi_head_attention import SIZES, compare

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "dialects"))

Pairs = dict[str, tuple[Callable[[], object], Callable[[], object]]]


def dialect(name: str) -> Any:
    """The implementation that a row of the table names."""
    return importlib.import_module(f"row_{name}")


def step(module: nn.Module, *inputs: Tensor, **options: Any) -> Callable[[], object]:
    """Forward and backward to the parameters."""

    def call() -> object:
        result = module(*inputs, **options)
        output = result[0] if isinstance(result, tuple) else result
        return torch.autograd.grad(output, list(module.parameters()), torch.ones_like(output))

    return call


def weights_of(function: Callable[[Tensor], Tensor], scores: Tensor) -> Callable[[], object]:
    """Forward and backward of what turns scores into weights."""
    return lambda: torch.autograd.grad(function(scores), scores, torch.ones_like(scores))


class HeadsAlone(nn.Module):
    """attnlib's functions around three layers, as row 8 has them: no ``w_o``."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(layer(x), self.num_heads) for layer in self.layers)
        return merge_heads(attend(q, k, v, return_weights=True)[0])


def small_weights(module: nn.Module) -> nn.Module:
    """The module with weights of the size that ``nn.Linear`` starts with.

    Weights between 0 and 1, as rows 7 to 9 draw them, saturate the softmax, and the gradients are then so small
    (subnormal) that the CPU multiplies them many times slower: that would measure the weights, not the dialect.
    """
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -(parameter.shape[0] ** -0.5), parameter.shape[0] ** -0.5)
    return module


def with_heads(b: int, n: int, d: int, h: int, device: str) -> Pairs:
    """Our step and theirs for the dialects that take a batch."""
    x = torch.randn(b, n, d, device=device)
    q, k, v = (torch.randn(b, h, n, d // h, device=device) for _ in range(3))
    scores = torch.randn(b, h, n, n, device=device, requires_grad=True)
    scale, causal = (d // h) ** -0.5, causal_mask(n, n, device=device)
    heads, bare = MultiHeadAttention(d, h).to(device), MultiHeadAttention(d, h, bias=False).to(device)
    alone = {bias: SelfAttention(d, d, d, bias=bias).to(device) for bias in (True, False)}
    row_10, row_11 = dialect("10_causal_two_ways"), dialect("11_additive_masks")

    def their(name: str, kind: str, *sizes: int) -> nn.Module:
        return getattr(dialect(name), kind)(*sizes).to(device)

    asked = {"return_weights": True}
    return {
        "1": (step(alone[True], x, **asked), step(their("01_annotated_single_head", "Attention", d), x)),
        "2": (step(heads, x, **asked), step(their("02_annotated_multi_head", "MultiheadSelfAttention", d, h), x)),
        "3": (step(EncoderBlock(d, h).to(device), x), step(their("03_encoder_block", "Block", d, h), x)),
        "4": (step(alone[False], x, **asked), step(their("04_einops_single_head", "SelfAttention", d), x)),
        "5": (step(bare, x, **asked), step(their("05_einops_multi_head", "MultiHeadSelfAttention", d, h), x)),
        "6": (step(heads, x, **asked), step(their("06_shared_projection", "SelfAttention", d, h), x, x, x)),
        "10 (renormalised)": (
            weights_of(lambda s: renormalised_causal_weights(s * scale), scores),
            weights_of(lambda s: row_10.softmax_then_renormalise(s, d // h), scores),
        ),
        "10 (filled)": (
            weights_of(lambda s: masked_softmax(s * scale, causal), scores),
            weights_of(lambda s: row_10.fill_then_softmax(s, d // h), scores),
        ),
        "11": (
            lambda: attend(q, k, v, is_causal=True, return_weights=True),
            lambda: row_11.scaled_dot_product_attention(q, k, v, row_11.causal_mask(n, q.device)),
        ),
        "12": (
            step(bare, x, **asked),
            step(their("12_heads_of_free_width", "MultiHeadSelfAttention", d, h, d // h), x),
        ),
    }


def without_batch(n: int, d: int, h: int, device: str) -> Pairs:
    """Our step and theirs for the dialects that take a single sequence."""
    one, other = torch.randn(n, d, device=device), torch.randn(n, d, device=device)
    wrapper = small_weights(dialect("08_list_of_heads").MultiHeadAttentionWrapper(d, d // h, d // h, h)).to(device)
    matrices = small_weights(dialect("07_matrix_parameters").SelfAttention(d, d, d)).to(device)
    cross = small_weights(dialect("09_cross_attention").CrossAttention(d, d, d)).to(device)
    asked = {"return_weights": True}
    return {
        "7": (step(SelfAttention(d, d, d).to(device), one, **asked), step(matrices, one)),
        "8 (has no w_o)": (step(HeadsAlone(d, h).to(device), one), step(wrapper, one)),
        "9": (step(CrossAttention(d, d, d, d).to(device), one, other, **asked), step(cross, one, other)),
    }


def dialects() -> None:
    """Time every dialect beside ours."""
    for device in DEVICES:
        ratios = []
        for b, n, d_model, h in SIZES:
            header(
                f"{device}, each dialect, {(b, n, d_model, h)}, with weights", "row", "ours ms", "theirs ms", "ratio"
            )
            torch.manual_seed(0)
            pairs = with_heads(b, n, d_model, h, device) | without_batch(n, d_model, h, device)
            for name, (ours, theirs) in sorted(pairs.items(), key=lambda pair: int(pair[0].split()[0])):
                times = medians({"ours": ours, "theirs": theirs}, device)
                ratio = times["ours"] / times["theirs"]
                row(name, times["ours"] * 1e3, times["theirs"] * 1e3, ratio)
                if name != "6":
                    ratios.append(ratio)
        verdict("geometric mean", geometric_mean(ratios), 0.95)
        verdict("worst case", max(ratios), 1.05)


def forms() -> None:
    """Compare ``in_place_attention``, forward and backward, with the plain equation that it computes."""
    for device in DEVICES:
        header(f"{device}, in place against the plain equation", "(b, h, n, d)", "in place ms", "plain ms", "ratio")
        for b, n, d_model, h in SIZES:
            q, k, v = (torch.randn(b, h, n, d_model // h, device=device, requires_grad=True) for _ in range(3))
            for is_causal in (False, True):

                def step_of(form: Callable[..., tuple[Tensor, Tensor]], *qkv: Tensor, causal: bool = is_causal) -> Any:
                    def call() -> object:
                        output, _ = form(*qkv, None, None, causal, None, 0.0)
                        return torch.autograd.grad(output, qkv, torch.ones_like(output))

                    return call

                times = medians(
                    {"in place": step_of(in_place_attention, q, k, v), "plain": step_of(equation, q, k, v)}, device
                )
                name = f"{tuple(q.shape)}{' causal' if is_causal else ''}"
                row(name, times["in place"] * 1e3, times["plain"] * 1e3, times["in place"] / times["plain"])


def main() -> None:
    """Measure every form that returns weights."""
    forms()
    compare(weights=True, mean_target=0.95, worst_target=1.05)
    dialects()


if __name__ == "__main__":
    main()
