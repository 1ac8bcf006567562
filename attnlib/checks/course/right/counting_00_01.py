"""Right answers to what counts words in lessons 00 and 01, differently written."""

import math
from collections import Counter
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor


def company_by_three_loops(texts, vocabulary, window):
    counts = torch.zeros(vocabulary, vocabulary)
    for text in texts.tolist():
        for i, word in enumerate(text):
            for j in range(max(0, i - window), min(len(text), i + window + 1)):
                if i != j:
                    counts[word, text[j]] += 1
    often = counts.sum(dim=1)
    by_chance = often[:, None] * often / counts.sum()
    table = torch.zeros_like(counts)
    met = counts > 0
    table[met] = (counts[met] / by_chance[met]).log()
    return table.clamp(min=0)


def company_by_counter(texts, vocabulary, window):
    met = Counter()
    for text in texts.tolist():
        for i, j in combinations(range(len(text)), 2):
            if j - i <= window:
                met[text[i], text[j]] += 1
                met[text[j], text[i]] += 1
    often, table = Counter(), torch.zeros(vocabulary, vocabulary)
    for (word, _), times in met.items():
        often[word] += times
    for (word, other), times in met.items():
        table[word, other] = max(0.0, math.log(times * met.total() / (often[word] * often[other])))
    return table


def company_by_one_hot(texts, vocabulary, window):
    one_hot = F.one_hot(texts, vocabulary).float()
    places = torch.arange(texts.shape[1])
    apart = (places[:, None] - places).abs()
    near = ((apart > 0) & (apart <= window)).float()
    counts = torch.einsum("bnv,nm,bmw->vw", one_hot, near, one_hot)
    share = counts / counts.sum()
    ratio = share / (share.sum(0) * share.sum(1, keepdim=True))
    return ratio.log().nan_to_num(nan=0.0, neginf=0.0).relu()


def company_by_slices(texts, vocabulary, window):
    counts = torch.zeros(vocabulary, vocabulary)
    for distance in range(1, window + 1):
        left, right = texts[:, :-distance].flatten(), texts[:, distance:].flatten()
        counts.index_put_((left, right), torch.ones(len(left)), accumulate=True)
    counts = counts + counts.T
    often = counts.sum(0)
    logarithm = counts.log() + counts.sum().log() - often.log() - often[:, None].log()
    return torch.where(counts > 0, logarithm, torch.tensor(0.0)).clamp_min(0)


def company_by_scatter(texts, vocabulary, window):
    pairs = []
    for text in texts:
        for i in range(len(text)):
            near = torch.cat([text[max(0, i - window) : i], text[i + 1 : i + 1 + window]])
            pairs.append(text[i] * vocabulary + near)
    met = torch.bincount(torch.cat(pairs), minlength=vocabulary * vocabulary).view(vocabulary, -1).float()
    chance = torch.outer(met.sum(1), met.sum(0)) / met.sum().clamp(min=1)
    return torch.log((met / chance.clamp(min=1e-9)).clamp(min=1))


def search_by_counting(questions, texts):
    words = sorted({word for text in texts for word in text.lower().split()})

    def count(lines):
        rows = [[line.lower().split().count(word) for word in words] for line in lines]
        return torch.tensor(rows, dtype=torch.float32)

    asked, offered = count(questions), count(texts)
    texts_with = (offered > 0).sum(dim=0)
    rarity = torch.log(len(texts) / texts_with)
    asked, offered = asked * rarity, offered * rarity
    lengths = asked.norm(dim=-1)[:, None] * offered.norm(dim=-1)
    return asked @ offered.T / lengths.clamp(min=1e-9)


def search_by_dictionaries(questions, texts):
    bags = [Counter(text.lower().split()) for text in texts]
    rarity = {w: math.log(len(bags) / sum(w in bag for bag in bags)) for bag in bags for w in bag}

    def weighed(bag):
        vector = {w: times * rarity.get(w, 0.0) for w, times in bag.items()}
        length = math.sqrt(sum(number**2 for number in vector.values()))
        return {w: number / length for w, number in vector.items()} if length else {}

    asked = [weighed(Counter(question.lower().split())) for question in questions]
    offered = [weighed(bag) for bag in bags]
    return torch.tensor([[sum(x.get(w, 0.0) * y[w] for w in y) for y in offered] for x in asked])


def search_by_cosine_similarity(questions, texts):
    split = [[line.lower().split() for line in lines] for lines in (questions, texts)]
    words = list(dict.fromkeys(word for text in split[1] for word in text))
    asked, offered = (torch.tensor([[float(line.count(w)) for w in words] for line in lines]) for lines in split)
    rarity = math.log(len(texts)) - offered.bool().sum(0).log()
    return torch.cosine_similarity((asked * rarity)[:, None], (offered * rarity)[None], dim=-1)


def search_by_normalizing(questions, texts):
    ids = {}
    for text in texts:
        for word in text.lower().split():
            ids.setdefault(word, len(ids))

    def bag(line):
        known = torch.tensor([ids[word] for word in line.lower().split() if word in ids], dtype=torch.long)
        return torch.bincount(known, minlength=len(ids)).float()

    offered = torch.stack([bag(text) for text in texts])
    rarity = -offered.gt(0).float().mean(0).log()
    asked = torch.stack([bag(question) for question in questions])
    return torch.einsum("qd,kd->qk", F.normalize(asked * rarity, dim=1), F.normalize(offered * rarity, dim=1))


class Engine:
    """Reads the texts first, and answers one question after the other."""

    def __call__(self, questions, texts):
        self.texts = [text.lower().split() for text in texts]
        self.words = set().union(*self.texts)
        return torch.tensor([[self.score(q.lower().split(), text) for text in self.texts] for q in questions])

    def weight(self, word, line):
        return line.count(word) * math.log(len(self.texts) / sum(word in text for text in self.texts))

    def score(self, question, text):
        x, y = ([self.weight(word, line) for word in self.words] for line in (question, text))
        length = math.hypot(*x) * math.hypot(*y)
        return sum(a * b for a, b in zip(x, y, strict=True)) / length if length > 0 else 0.0


def search(questions: list[str], texts: list[str]) -> Tensor:
    """A dictionary holds only the words that a text has, which is how a real engine keeps millions of them."""
    bags = [Counter(text.lower().split()) for text in texts]
    rarity = {word: math.log(len(bags) / sum(word in bag for bag in bags)) for bag in bags for word in bag}

    def weighed(line: str) -> dict[str, float]:
        vector = {word: times * rarity.get(word, 0.0) for word, times in Counter(line.lower().split()).items()}
        length = math.hypot(*vector.values()) or 1.0
        return {word: number / length for word, number in vector.items()}

    asked, offered = [weighed(line) for line in questions], [weighed(line) for line in texts]
    return torch.tensor([[sum(x.get(word, 0.0) * y[word] for word in y) for y in offered] for x in asked])


def company(texts: Tensor, vocabulary: int, window: int) -> Tensor:
    """One-hot rows, times a table of what is near, times one-hot rows: matrix products count all pairs at once."""
    one_hot, places = F.one_hot(texts, vocabulary).float(), torch.arange(texts.shape[1], device=texts.device)
    apart = (places[:, None] - places).abs()
    counts = (one_hot.mT @ ((apart > 0) & (apart <= window)).float() @ one_hot).sum(dim=0)
    by_chance = counts.sum(dim=1, keepdim=True) * counts.sum(dim=0) / counts.sum()
    return torch.where(counts > 0, counts / by_chance, 1.0).log().clamp(min=0)


ALTERNATIVES = {
    "search": [
        search,
        search_by_counting,
        search_by_dictionaries,
        search_by_cosine_similarity,
        search_by_normalizing,
        Engine(),
    ],
    "company": [
        company,
        company_by_three_loops,
        company_by_counter,
        company_by_one_hot,
        company_by_slices,
        company_by_scatter,
    ],
}
