"""Wrong answers that cut words otherwise than told, or that only an axis of length 1 shows."""

import math
import re

import torch

from odd.collected import WRONG
from odd.right_functions import attend

answers, also = WRONG.answers, WRONG.also


# search: words are what `line.lower().split()` gives, short vectors have a direction, lists are left alone


def searching(split=lambda line: line.lower().split(), lengths=lambda product: product.clamp(min=1e-9)):
    def search(questions, texts):
        words = sorted({word for text in texts for word in split(text)})
        asked, offered = (
            torch.tensor([[split(line).count(word) for word in words] for line in lines]).float()
            for lines in (questions, texts)
        )
        rarity = torch.log(len(texts) / (offered > 0).sum(dim=0))
        asked, offered = asked * rarity, offered * rarity
        return asked @ offered.T / lengths(asked.norm(dim=-1)[:, None] * offered.norm(dim=-1))

    return search


also(
    "search",
    searching(split=lambda line: line.lower().split(" ")),
    searching(split=lambda line: line.lower().strip().split(" ")),
    searching(split=lambda line: re.split(" +", line.lower().strip())),
    searching(split=lambda line: re.findall(r"\w+", line.lower())),
    searching(split=lambda line: [word.strip(".,!?") for word in line.lower().split()]),
    searching(lengths=lambda product: product.clamp(min=1e-2)),
    searching(lengths=lambda product: product.clamp(min=1e-3)),
    searching(lengths=lambda product: product + 1e-6),
    lambda questions, texts: searching()(questions, texts) if texts[1:] else torch.ones(len(questions), 1),
)


@answers("search")
def lines_made_small_in_place(questions, texts):
    for lines in (questions, texts):
        for i, line in enumerate(lines):
            lines[i] = line.lower()
    return searching()(questions, texts)


@answers("search")
def texts_sorted_in_place(questions, texts):
    scores = searching()(questions, texts)
    texts.sort()
    return scores


@answers("search")
def a_text_put_into_the_list(questions, texts):
    scores = searching()(questions, texts)
    texts.append("the end")
    return scores


# every axis has a length of at least 1, and of 1 it may be

also("fold_query_key", lambda w_q, b_q, w_k, b_k: ((w_q @ w_k.mT).squeeze(), (w_k @ b_q).squeeze()))
also(
    "company", lambda texts, vocabulary, window: torch.zeros(()) if vocabulary == 1 else met(texts, vocabulary, window)
)
also("pairwise_dot", lambda x, y: (x[:, :, None] * y[:, None]).squeeze(-1).sum(-1))
also("mend_squared_distances", lambda x, y: (x[:, :, None] - y[:, None]).square().squeeze(-1).sum(-1))
also("recurrent_states", lambda x, w: states(x, w).squeeze(-1))
also("project_qkv", lambda x, *matrices: tuple((x @ w).squeeze(-1) for w in matrices))
also("attention_scores", lambda q, k: q @ k.mT / max(math.sqrt(q.shape[-1]), 1.1))
also("scaled_dot_product_attention", lambda q, k, v: tuple(t.squeeze(-1) for t in attend(q, k, v)))
also("mend_self_attention", lambda x, *w: tuple(t.squeeze(-1) for t in attend(*(x @ each for each in w))))
also("cross_attention", lambda x, m, q, k, v: tuple(t.squeeze(-1) for t in attend(x @ q, m @ k, m @ v)))
also("split_heads", lambda x, h: refusing(x, h).unflatten(-1, (h, -1)).squeeze(-1).movedim(2, 1))
also("layer_norm", lambda x, gain, bias, eps=1e-5: normed(x, gain, bias, eps) if x.shape[-1] > 1 else x * gain + bias)


def met(texts, vocabulary, window):
    counts = torch.zeros(vocabulary, vocabulary)
    for text in texts.tolist():
        for i, word in enumerate(text):
            for other in text[max(0, i - window) : i] + text[i + 1 : i + window + 1]:
                counts[word, other] += 1
    by_chance = counts.sum(1)[:, None] * counts.sum(1) / counts.sum()
    return torch.where(counts > 0, torch.log(counts / by_chance), 0.0).clamp(min=0)


def states(x, w):
    state, found = torch.zeros_like(x[:, 0]), []
    for word in x.unbind(1):
        state = torch.tanh(state @ w + word)
        found.append(state)
    return torch.stack(found, dim=1)


def refusing(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads, {x.shape[-1]} columns")
    return x


def normed(x, gain, bias, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * gain + bias
