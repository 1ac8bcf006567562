"""Right answers of lesson 08, written in other ways: a loop that trains, and counting."""

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def next_loss(model, batch):
    ids, targets = batch
    return F.cross_entropy(model(ids)[:, :-1].transpose(1, 2), targets[:, 1:], ignore_index=-100)


def shaped(rate, step, warmup, steps):
    return rate * min((step + 1) / warmup, 1) * (steps - step) / steps


@torch.no_grad()
def looked_at(model, batch):
    model.eval()
    return next_loss(model, batch)


def trained_with_a_scheduler(model, batches, held_out, rate, warmup, every):
    mode, losses = model.training, [looked_at(model, held_out)]
    optimiser = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: shaped(rate, step, warmup, len(batches)))
    for step, batch in enumerate(batches):
        model.train()
        optimiser.zero_grad()
        next_loss(model, batch).backward()
        optimiser.step()
        schedule.step()
        if not (step + 1) % every:
            losses.append(looked_at(model, held_out))
    model.train(mode)
    return torch.stack(losses)


def trained_with_a_loop_over_groups(model, batches, held_out, rate, warmup, every):
    mode = model.training
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    losses = [looked_at(model, held_out).item()]
    for step in range(batches.shape[0]):
        for group in optimiser.param_groups:
            group["lr"] = shaped(rate, step, warmup, batches.shape[0])
        loss = next_loss(model.train(), batches[step])
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        optimiser.step()
        if (step + 1) % every == 0:
            losses.append(looked_at(model, held_out).item())
    model.train(mode)
    return torch.tensor(losses, dtype=loss.dtype)


def trained_with_gradients_by_hand(model, batches, held_out, rate, warmup, every):
    mode, weights = model.training, list(model.parameters())
    losses = [looked_at(model, held_out)]
    optimiser = torch.optim.AdamW(weights, lr=rate)  # a decay of 0.01 is its default
    for step, batch in enumerate(batches):
        model.train()
        gradients = torch.autograd.grad(next_loss(model, batch), weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        optimiser.param_groups[0]["lr"] = shaped(rate, step, warmup, len(batches))
        optimiser.step()
        if (step + 1) % every == 0:
            losses.append(looked_at(model, held_out))
    model.train(mode)
    return torch.stack(losses)


def trained_without_an_optimiser(model, batches, held_out, rate, warmup, every):
    """AdamW in five lines."""
    mode, weights = model.training, list(model.parameters())
    means, squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    losses = [looked_at(model, held_out)]
    for step, batch in enumerate(batches):
        lr, model = shaped(rate, step, warmup, len(batches)), model.train()
        gradients = torch.autograd.grad(next_loss(model, batch), weights)
        with torch.no_grad():
            for weight, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
                mean.lerp_(gradient, 0.1)
                square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                weight.mul_(1 - lr * 0.01)
                root = (square / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
                weight.sub_(lr * mean / (1 - 0.9 ** (step + 1)) / root)
        if (step + 1) % every == 0:
            losses.append(looked_at(model, held_out))
    model.train(mode)
    return torch.stack(losses)


class Trainer:
    def __call__(self, model, batches, held_out, rate, warmup, every):
        mode, steps, losses = model.training, len(batches), []
        optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-2)
        for step in range(steps + 1):
            if step % every == 0:
                losses.append(looked_at(model, held_out).detach())
            if step < steps:
                self.step(model, optimiser, batches[step], shaped(rate, step, warmup, steps))
        model.train(mode)
        return torch.stack(losses)

    def step(self, model, optimiser, batch, lr):
        model.train()
        log_p, targets = model(batch[0])[:, :-1].log_softmax(-1), batch[1, :, 1:]
        real = targets >= 0
        loss = -log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0][real].mean()
        optimiser.zero_grad()
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = lr
        optimiser.step()


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


def witten_bell(text: Tensor, test: Tensor, order: int, vocab: int) -> Tensor:
    """A table of which context occurs where, times a table of what comes next there, is a table of counts."""
    p = torch.full((len(test) - order + 1,), 1 / vocab)
    for k in range(order):
        seen, asked = (ids.unfold(0, k + 1, 1) for ids in (text, test[order - 1 - k :]))
        same = (seen[:, :k] == asked[:, None, :k]).all(dim=-1)
        counts = same.float() @ F.one_hot(seen[:, k], vocab).float()
        total, kinds = counts.sum(dim=1), (counts > 0).sum(dim=1)
        mixed = (counts.gather(1, asked[:, k:])[:, 0] + kinds * p) / (total + kinds)
        p = torch.where(total > 0, mixed, p)
    return p


def train_language_model(model: Any, batches: Tensor, held_out: Tensor, rate: float, warmup: int, every: int) -> Tensor:
    """PyTorch's scheduler holds the shape of the rate, and one function computes both losses, so they cannot differ."""

    def loss_of(batch: Tensor) -> Tensor:
        return F.cross_entropy(model(batch[0])[:, :-1].mT, batch[1, :, 1:], ignore_index=-100)

    was_training, losses = model.training, [loss_of(held_out).detach() for _ in [model.eval()]]
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / warmup) * (1 - step / len(batches))
    )
    for step, batch in enumerate(batches, 1):
        model.train()
        optimiser.zero_grad()
        loss_of(batch).backward()
        optimiser.step()
        schedule.step()
        if step % every == 0:
            model.eval()
            losses.append(loss_of(held_out).detach())
    model.train(was_training)
    return torch.stack(losses)


ALTERNATIVES = {
    "train_language_model": [
        train_language_model,
        trained_with_a_scheduler,
        trained_with_a_loop_over_groups,
        trained_with_gradients_by_hand,
        trained_without_an_optimiser,
        Trainer(),
    ],
    "witten_bell": [
        witten_bell,
        counted_by_recursion,
        counted_with_strings,
        counted_by_tables,
        counted_by_comparison,
        counted_with_weights,
    ],
}
