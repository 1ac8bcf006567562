"""Lesson 00: the programs whose lines `slips.md` replaces."""

import einops
import torch

import attnlib


def pairwise_dot(x, y):
    table = x @ y.mT
    return table


def mend_squared_distances(x, y):
    dots = attnlib.attention_scores(x, y, scale=1.0)
    x_squared = einops.reduce(x**2, "b q d -> b q 1", "sum")
    y_squared = einops.reduce(y**2, "b k d -> b 1 k", "sum")
    return x_squared + y_squared - 2 * dots


def search(questions, texts):
    def words(line):
        return line.lower().split()

    vocabulary = sorted({word for text in texts for word in words(text)})
    asked = torch.tensor([[words(question).count(word) for word in vocabulary] for question in questions]).float()
    offered = torch.tensor([[words(text).count(word) for word in vocabulary] for text in texts]).float()
    texts_with_word = (offered > 0).sum(dim=0)
    rarity = torch.log(len(texts) / texts_with_word)
    x, y = asked * rarity, offered * rarity
    lengths = x.norm(dim=-1)[:, None] * y.norm(dim=-1)
    cosines = x @ y.T / lengths.clamp(min=1e-9)
    return cosines


def little_einsum(x, y, pattern):
    inputs, output = pattern.split("->")
    first, second = inputs.split(",")
    names_x, names_y, kept = first.split(), second.split(), output.split()
    summed = [name for name in dict.fromkeys(names_x + names_y) if name not in kept]
    names = kept + summed

    def line_up(tensor, own):
        ordered = [name for name in names if name in own]
        moved = tensor.permute([own.index(name) for name in ordered])
        return moved[tuple(slice(None) if name in own else None for name in names)]

    product = line_up(x, names_x) * line_up(y, names_y)
    last = list(range(len(kept), len(names)))
    result = product.sum(dim=last) if last else product
    return result
