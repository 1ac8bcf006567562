"""Right answers to the exercise `block_cost` of lesson 06, written in many ways; its check must accept them all."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

import attnlib


def cost_by_parts(lengths, d_model, num_heads, d_hidden):
    d_head = d_model // num_heads
    projections = 4 * lengths * d_model**2
    mlp = lengths * d_model * d_hidden + lengths * d_hidden * d_model
    scores = num_heads * lengths * lengths * d_head
    mixture = num_heads * lengths * lengths * d_head
    return projections + mlp, scores + mixture, num_heads * lengths * lengths


def cost_in_closed_form(n, d, h, wide):
    return 2 * n * d * (2 * d + wide), 2 * n**2 * d, h * n**2


def cost_by_loop_over_lengths(lengths, d_model, num_heads, d_hidden):
    word_by_word, between, tables = [], [], []
    for n in lengths.tolist():
        word_by_word.append(n * (4 * d_model * d_model + 2 * d_model * d_hidden))
        between.append(2 * n * n * d_model)
        tables.append(num_heads * n * n)
    return torch.tensor(word_by_word), torch.tensor(between), torch.tensor(tables)


def cost_head_by_head(lengths, d_model, num_heads, d_hidden):
    between, tables = torch.zeros_like(lengths), torch.zeros_like(lengths)
    word_by_word = lengths * d_model * d_model  # w_o
    for _ in range(num_heads):
        word_by_word = word_by_word + 3 * lengths * d_model * (d_model // num_heads)
        tables += lengths.square()
        between += 2 * (d_model // num_heads) * lengths.square()
    for wide_in, wide_out in pairwise((d_model, d_hidden, d_model)):
        word_by_word = word_by_word + lengths * wide_in * wide_out
    return [word_by_word, between, tables]


def cost_of_real_layers(lengths, d_model, num_heads, d_hidden):
    """A matrix multiplies every word by each of its numbers once."""
    with torch.device("meta"):
        layers = [attnlib.MultiHeadAttention(d_model, num_heads), attnlib.FeedForward(d_model, d_hidden)]
    numbers = sum(p.numel() for layer in layers for p in layer.parameters() if p.dim() == 2)
    tables = torch.mul(lengths, lengths).mul(num_heads)
    return lengths.mul(numbers), torch.div(2 * tables * d_model, num_heads, rounding_mode="floor"), tables


class Products:
    """A product (n, a) @ (a, b) costs n·a·b."""

    def __call__(self, lengths, d_model, num_heads, d_hidden):
        matrices = torch.tensor([[d_model, d_model]] * 4 + [[d_model, d_hidden]] * 2)
        pairs = torch.einsum("n,n->n", lengths, lengths) * num_heads
        two_products = torch.stack([pairs, pairs]) * (d_model // num_heads)
        return matrices.prod(dim=1).sum() * lengths, two_products.sum(dim=0), pairs


def block_cost(lengths: Tensor, d_model: int, num_heads: int, d_hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """A block is eight products, and (n, a) @ (a, b) takes n·a·b multiplications; a head's width cancels in the sum."""
    matrices: Any = [(d_model, d_model)] * 4 + [(d_model, d_hidden), (d_hidden, d_model)]
    pairs: Any = [(d_model, lengths), (lengths, d_model)]  # all heads side by side
    word_by_word, between = (torch.stack([lengths * a * b for a, b in each]).sum(0) for each in (matrices, pairs))
    return word_by_word, between, num_heads * lengths.square()


ALTERNATIVES = {
    "block_cost": [
        block_cost,
        cost_by_parts,
        cost_in_closed_form,
        cost_by_loop_over_lengths,
        cost_head_by_head,
        cost_of_real_layers,
        Products(),
    ]
}
