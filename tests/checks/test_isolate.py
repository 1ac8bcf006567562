"""Where no misconception fits, the report says which property is off."""

import re

import pytest
import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks import Report, exercises, run

SENTENCES = ("What this looks like", "What your result shows")


def what_it_looks_like(report: Report) -> list[str]:
    """The sentences about properties: those that have a name stand in a heading."""
    told = [f"{section.heading}. {section.body}" for section in report.sections]
    found = " ".join(text for text in told if text.startswith(SENTENCES))
    return [said.strip().rstrip(".") for said in re.split(r"[.:] (?=[A-Z`])", found)]


def sentences(said: str) -> list[str]:
    return [each.rstrip(".") for each in said.split(". ")]


def is_a_misconception(report: Report) -> bool:
    return report.diagnosis in {m.id for m in exercises()[report.exercise].misconceptions}


class ShiftedMask(nn.Module):
    """The block of lesson 06, whose key mask is off by one word."""

    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        shifted = None if key_mask is None else key_mask.roll(1, dims=-1)
        x = x + self.attn(self.norm1(x), key_mask=shifted)
        return x + self.mlp(self.norm2(x))


class ShiftedMaskDetached(ShiftedMask):
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        return super().forward(x, key_mask) if key_mask is not None else super().forward(x).detach()


def dots(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.mT


def wrong_strides_and_gradient(x: Tensor, y: Tensor) -> Tensor:
    return dots(0.5 * x + 0.5 * x.detach(), y) if x.is_contiguous() else dots(x, y).cos()


def half_of_the_gradient(x: Tensor, y: Tensor) -> Tensor:
    return dots(0.5 * x + 0.5 * x.detach(), y)


def rounded_on_the_way(x: Tensor, y: Tensor) -> Tensor:
    return dots(x.float(), y.float()).to(x.dtype)


def first_entry_apart(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([dots(x, y)[:1], dots(x, y)[1:].cos()])


def lonely_batch(x: Tensor, y: Tensor) -> Tensor:
    return dots(x, y).cos() if x.shape[0] == 1 else dots(x, y)


class Counting:
    def __init__(self) -> None:
        self.calls: dict[tuple, int] = {}

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        key = tuple(x.shape), x.dtype, x.stride(), x.device.type, x.requires_grad
        self.calls[key] = self.calls.get(key, 0) + 1
        return dots(x, y).cos() if self.calls[key] > 2 else dots(x, y)


def sharper_weights(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights**2


def large_scores_cut(scores: Tensor) -> Tensor:
    grown = (scores - scores.amax(-1, keepdim=True)).clamp(min=-20).exp()
    return (grown / grown.sum(-1, keepdim=True)).where(scores.abs().amax() < 50, grown.sin())


def all_wrong(x: Tensor, y: Tensor) -> Tensor:
    return dots(x, y).cos()


@pytest.mark.parametrize(
    ("name", "attempt", "said"),
    [
        ("EncoderBlock", ShiftedMask, "Right without a mask; wrong as soon as one is given."),
        ("pairwise_dot", half_of_the_gradient, "The values are right; the gradient is not."),
        ("pairwise_dot", first_entry_apart, "Right for a batch of one; wrong for a larger batch."),
        ("pairwise_dot", lonely_batch, "Right for larger batches; wrong for a batch of one."),
        ("pairwise_dot", Counting(), "Right at the first call; wrong at the second."),
        ("scaled_dot_product_attention", sharper_weights, "Right: output. Wrong: weights."),
        ("softmax", large_scores_cut, "All else is right; wrong is only what counts as “large scores”."),
    ],
)
def test_one_property_is_isolated(name: str, attempt: object, said: str) -> None:
    report = run(name, attempt)
    assert not is_a_misconception(report)
    assert set(sentences(said)) <= set(what_it_looks_like(report))


@pytest.mark.parametrize(
    ("name", "attempt", "said"),
    [
        (
            "pairwise_dot",
            wrong_strides_and_gradient,
            "The values are right; the gradient is not. "
            "Right as long as the memory is contiguous; wrong for a transposed input.",
        ),
        (
            "EncoderBlock",
            ShiftedMaskDetached,
            "The values are right; the gradient is not. Right without a mask; wrong as soon as one is given.",
        ),
    ],
)
def test_two_mistakes_are_told_apart(name: str, attempt: object, said: str) -> None:
    report = run(name, attempt)
    assert not is_a_misconception(report)
    assert set(sentences(said)) <= set(what_it_looks_like(report))


def test_a_difference_in_the_last_digits_is_seen() -> None:
    report = run("pairwise_dot", rounded_on_the_way)
    assert {"The numbers agree to four digits or so", "Right in float32; wrong in float64"} <= set(
        what_it_looks_like(report)
    )
    shown = re.search(r"expected (\S+), got (\S+);", " ".join(report.message.split()))
    assert shown is not None
    assert shown[1] != shown[2]


def test_where_everything_is_wrong_nothing_is_isolated() -> None:
    report = run("pairwise_dot", all_wrong)
    assert not any(said.startswith(("Right", "All")) for said in what_it_looks_like(report))


def test_right_cases_are_listed_where_they_have_nothing_in_common() -> None:
    def sometimes(x: Tensor, y: Tensor) -> Tensor:
        return dots(x, y) if x.dtype == torch.float64 or x.shape[0] == 1 else dots(x, y).cos()

    message = " ".join(run("pairwise_dot", sometimes).message.split())
    assert "All is right in: a batch of one; " in message
