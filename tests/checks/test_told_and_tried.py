"""What a statement promises is tried, and what it doesn't forbid passes: answers found by comparing the two."""

from typing import Any

import pytest
import told_and_tried
import told_of_masks_and_models
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from verdict_alone import passes

import attnlib
from attnlib.checks import run

WRONG = told_and_tried.WRONG | told_of_masks_and_models.WRONG
RIGHT = told_and_tried.RIGHT | told_of_masks_and_models.RIGHT


@pytest.mark.parametrize(("name", "answer"), WRONG.values(), ids=WRONG)
def test_what_is_promised_is_tried(name: str, answer: Any) -> None:
    assert not passes(name, answer)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "answer"), RIGHT.values(), ids=RIGHT)
def test_what_nobody_forbids_passes(name: str, answer: Any, seed: int) -> None:
    report = run(name, answer, hidden=True, seed=seed)
    assert report.passed, report.message


def test_a_key_is_counted_and_a_norm_may_be_written_twice() -> None:
    def write_with_cache(model: Any, ids: Tensor, num_tokens: int) -> Tensor:
        kept: list[Any] = [None] * len(model.blocks)
        unread, start = ids, 0
        with torch.no_grad():
            for _ in range(num_tokens):
                x = model.embed(unread) + model.positions.weight[start : start + unread.shape[1]]
                start += unread.shape[1]
                for i, block in enumerate(model.blocks):
                    layers = block.attn.w_q, block.attn.w_k, block.attn.w_v
                    q, k, v = (attnlib.split_heads(layer(block.norm1(x)), block.attn.num_heads) for layer in layers)
                    if kept[i] is not None:
                        k, v = torch.cat([kept[i][0], k], dim=2), torch.cat([kept[i][1], v], dim=2)
                    kept[i] = k, v
                    found = attnlib.scaled_dot_product_attention(q, k, v, is_causal=True)
                    x = x + block.attn.w_o(attnlib.merge_heads(found))
                    x = x + block.mlp(block.norm2(x))
                unread = model.head(model.norm(x[:, -1:])).argmax(dim=-1)
                ids = torch.cat([ids, unread], dim=1)
        return ids

    report = run("write_with_cache", write_with_cache, hidden=True)
    assert report.passed, report.message


def test_what_to_use_instead_is_told_of_what_was_called() -> None:
    class MultiHeadSelfAttention(nn.Module):
        def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
            super().__init__()
            d_head = d_head or d_model // num_heads
            self.h, width = num_heads, num_heads * d_head
            self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, width, bias=bias) for _ in range(3))
            self.w_o = nn.Linear(width, d_model, bias=bias)

        def forward(self, x: Tensor) -> Any:
            q, k, v = (attnlib.split_heads(layer(x), self.h) for layer in (self.w_q, self.w_k, self.w_v))
            weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
            return self.w_o(attnlib.merge_heads(weights @ v)), weights

    message = " ".join(run("MultiHeadSelfAttention", MultiHeadSelfAttention).message.split())
    assert "calls attnlib.merge_heads, which" in message
    assert "F.scaled_dot_product_attention" not in message


@pytest.mark.parametrize("puts_back", [False, True])
def test_a_loop_may_put_the_model_into_training_mode(puts_back: bool) -> None:
    def train_with_warmup(
        model: nn.Module, ids: Tensor, targets: Tensor, lr: float, warmup: int, make: Any = torch.optim.SGD
    ) -> Tensor:
        was_training, losses = model.training, []
        model.train()
        optimiser = make(model.parameters(), lr=lr)
        for step, (seen, wanted) in enumerate(zip(ids, targets, strict=True)):
            for group in optimiser.param_groups:
                group["lr"] = lr * min(1, (step + 1) / warmup) * (1 - step / len(ids))
            loss = F.cross_entropy(model(seen)[:, -wanted.shape[1] :].flatten(0, 1), wanted.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        model.train(was_training if puts_back else True)
        return torch.stack(losses)

    report = run("train_with_warmup", train_with_warmup, hidden=True)
    assert report.passed, report.message


def test_what_is_told_of_an_mlp_holds_for_other_weights() -> None:
    def later(d: int, one: int, other: int, to: int) -> Tensor:
        up, down = torch.zeros(2, d, d)
        up[[one, other], :2] = 20.0
        up[0, 1] = -30.0  # takes away twice a half
        down[0, to], down[1, to] = 1 / 20, -2 / 20
        return torch.stack([up, down])

    def unread(d: int, one: int, other: int, to: int) -> Tensor:
        up, down = torch.zeros(2, d, d)
        up[[one, other], 0] = 20.0
        return torch.stack([up, down])

    message = " ".join(run("mlp_by_hand", later).message.split())
    assert "One that opens above 1.5 holds only a half." in message
    message = " ".join(run("mlp_by_hand", unread).message.split())
    assert "Either `down` is all zeros" in message


def test_what_is_read_off_dropout_is_no_row_of_the_output() -> None:
    class Block(attnlib.EncoderBlock):
        def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
            super().__init__(d_model, num_heads, mlp_ratio=mlp_ratio)
            self.drop = nn.AlphaDropout(dropout)

        def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Any:  # type: ignore[override]
            x = x + self.attn(self.norm1(x), key_mask=key_mask)
            hidden = self.drop(F.gelu(self.mlp.up(self.norm2(x))))
            return x + self.drop(self.mlp.down(hidden))

    report = run("EncoderBlock", Block)
    assert report.diagnosis is None
    assert "a few of the 1,000 outputs, sorted" in " ".join(report.message.split())
