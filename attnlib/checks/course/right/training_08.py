"""Right answers of lesson 08, written in other ways: a loop that trains, and counting."""

from collections import Counter, defaultdict

import numpy as np
import torch
import torch.nn.functional as F


def next_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:])


def trained_by_pieces(model, text, held_out, window, lr):
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for ids in text[:, : text.shape[1] // window * window].split(window, dim=1):
        model.train()
        optimiser.zero_grad()
        next_loss(model(ids, torch.arange(window)), ids).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            losses.append(next_loss(model(held_out, torch.arange(held_out.shape[1])), held_out))
    return torch.stack(losses)


def trained_by_hand(model, text, held_out, window, lr):
    losses = []
    for start in range(0, text.size(1) - window + 1, window):
        ids = text[:, start : start + window]
        loss = next_loss(model.train()(ids, torch.arange(start, start + window) - start), ids)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= lr * gradient
            losses.append(next_loss(model.eval()(held_out, torch.arange(held_out.size(1))), held_out).item())
    return torch.tensor(losses, dtype=loss.dtype)


def trained_without_positions(model, text, held_out, window, lr):
    """The positions 0, 1, 2, ... are what the model takes by itself."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for start in range(0, text.shape[1] - window + 1, window):
        ids = text[:, start : start + window]
        model.train()
        loss = next_loss(model(ids), ids)
        model.zero_grad()
        loss.backward()
        optimiser.step()
        model.eval()
        losses.append(next_loss(model(held_out), held_out).detach())
    return torch.stack(losses)


def trained_with_modulo(model, text, held_out, window, lr):
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for start in range(0, text.shape[1] - window + 1, window):
        ids = text[:, start : start + window]
        was = model.training
        model.train()
        logits = model(ids, torch.arange(start, start + window) % window)
        loss = -logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        optimiser.step()
        model.train(False)
        with torch.no_grad():
            losses += [next_loss(model(held_out, torch.arange(held_out.shape[1])), held_out)]
        model.train(was)
    return torch.stack(losses)


class Trainer:
    def __call__(self, model, text, held_out, window, lr):
        optimiser = torch.optim.SGD(model.parameters(), lr=lr)
        return torch.stack(
            [self.step(model, optimiser, ids, held_out) for ids in text.unfold(1, window, window).unbind(1)]
        )

    def step(self, model, optimiser, ids, held_out):
        model.train()
        logits = model(ids, torch.arange(ids.shape[1]))
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        model.eval()
        return next_loss(model(held_out, torch.arange(held_out.shape[1])), held_out).detach()


def counted_by_recursion(text, test, order, vocab):
    text, test = text.tolist(), test.tolist()
    follows = defaultdict(Counter)
    for i, token in enumerate(text):
        for k in range(min(order, i + 1)):
            follows[tuple(text[i - k : i])][token] += 1

    def p(context, token):
        below = 1 / vocab if not context else p(context[1:], token)
        seen = follows.get(context)
        return below if seen is None else (seen[token] + len(seen) * below) / (sum(seen.values()) + len(seen))

    places = range(order - 1, len(test))
    return torch.tensor([p(tuple(test[i - order + 1 : i]), test[i]) for i in places])


def counted_with_strings(text, test, order, vocab):
    """Tokens as characters: a context is a piece of a string, and counting is what strings are good at."""
    seen, read = ("".join(map(chr, ids.tolist())) for ids in (text, test))
    grams = Counter(seen[i : i + n] for n in range(1, order + 1) for i in range(len(seen) - n + 1))
    totals, kinds = Counter(), Counter()
    for gram, times in grams.items():
        totals[gram[:-1]] += times
        kinds[gram[:-1]] += 1
    result = np.empty(len(read) - order + 1)
    for i in range(order - 1, len(read)):
        p = 1 / vocab
        for k in range(order):
            h = read[i - k : i]
            if totals[h]:
                p = (grams[h + read[i]] + kinds[h] * p) / (totals[h] + kinds[h])
        result[i - order + 1] = p
    return torch.from_numpy(result).float()


def counted_by_tables(text, test, order, vocab):
    """A table (vocab, ..., vocab) for each order."""
    result = torch.full((len(test) - order + 1,), 1 / vocab, dtype=torch.float64)
    for n in range(1, order + 1):
        table = torch.zeros([vocab] * n, dtype=torch.float64)
        table.index_put_(text.unfold(0, n, 1).unbind(1), torch.tensor(1.0).double(), accumulate=True)
        asked = test.unfold(0, n, 1)[order - n :]
        rows = table[tuple(asked[:, :-1].T)] if n > 1 else table.expand(len(asked), vocab)
        count = rows.gather(1, asked[:, -1:]).squeeze(1)
        total, kinds = rows.sum(1), (rows > 0).sum(1)
        result = torch.where(total > 0, (count + kinds * result) / (total + kinds), result)
    return result.float()


def counted_by_comparison(text, test, order, vocab):
    """No table: look through the whole text for each token of the test."""
    found = []
    for i in range(order - 1, len(test)):
        p = torch.tensor(1 / vocab, dtype=torch.float64)
        for k in range(order):
            windows = text.unfold(0, k + 1, 1)
            after = windows[(windows[:, :k] == test[i - k : i]).all(1)][:, -1]
            if len(after):
                kinds = len(after.unique())
                p = ((after == test[i]).sum() + kinds * p) / (len(after) + kinds)
        found.append(p)
    return torch.stack(found).float()


def counted_with_weights(text, test, order, vocab):
    """Witten and Bell as a mixture: lambda of what was counted, and 1 - lambda of the shorter context."""
    text, test, follows = text.tolist(), test.tolist(), {}
    for k in range(order):
        for *context, token in zip(*(text[j:] for j in range(k + 1)), strict=False):
            counts = follows.setdefault(tuple(context), {})
            counts[token] = counts.get(token, 0) + 1
    result = []
    for i in range(order - 1, len(test)):
        p = 1.0 / vocab
        for k in range(order):
            counts = follows.get(tuple(test[i - k : i]), {})
            total = sum(counts.values())
            if total:
                share = total / (total + len(counts))
                p = share * counts.get(test[i], 0) / total + (1 - share) * p
        result.append(p)
    return torch.tensor(result, dtype=torch.float32)


ALTERNATIVES = {
    "mend_training_loop": [
        trained_by_pieces,
        trained_by_hand,
        trained_without_positions,
        trained_with_modulo,
        Trainer(),
    ],
    "witten_bell": [
        counted_by_recursion,
        counted_with_strings,
        counted_by_tables,
        counted_by_comparison,
        counted_with_weights,
    ],
}
