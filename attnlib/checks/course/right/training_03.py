"""Right answers of lesson 03 that train with Adam, written in other ways."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def trained_by_an_optimiser(model, words, wanted, position, lr):
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    losses = torch.zeros(len(words), dtype=words.dtype)
    for i in range(len(words)):
        optimiser.zero_grad()
        output, _ = model(words[i])
        loss = F.mse_loss(output[:, position], wanted[i])
        loss.backward()
        optimiser.step()
        losses[i] = loss.item()
    return losses


def trained_by_hand(model, words, wanted, position, lr):
    weights = list(model.parameters())
    means = [torch.zeros_like(w) for w in weights]
    squares = [torch.zeros_like(w) for w in weights]
    losses = []
    for step, (x, target) in enumerate(zip(words, wanted, strict=True), 1):
        loss = F.mse_loss(model(x)[0][:, position], target)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for w, mean, square in zip(weights, means, squares, strict=True):
                mean.mul_(0.9).add_(w.grad, alpha=0.1)
                square.mul_(0.999).addcmul_(w.grad, w.grad, value=0.001)
                w -= lr * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        losses.append(loss.detach())
    return torch.stack(losses)


def trained_by_grad(model, words, wanted, position, lr):
    """The corrections are kept as products, and a dictionary remembers the means by name."""
    remembered = {name: [torch.zeros_like(p), torch.zeros_like(p)] for name, p in model.named_parameters()}
    named, losses, left = dict(model.named_parameters()), [], [1.0, 1.0]
    for x, target in zip(words.unbind(0), wanted.unbind(0), strict=True):
        loss = ((model(x)[0][:, position] - target) ** 2).mean()
        gradients = torch.autograd.grad(loss, list(named.values()))
        left = [left[0] * 0.9, left[1] * 0.999]
        for (name, weight), g in zip(named.items(), gradients, strict=True):
            m, v = remembered[name]
            remembered[name] = [0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g]
            m, v = (kept / (1 - share) for kept, share in zip(remembered[name], left, strict=True))
            weight.data = weight.data - lr * m / (v**0.5 + 1e-8)
        losses += [loss.detach()]
    return torch.stack(losses)


def trained_without_decay(model, words, wanted, position, lr):
    """AdamW without decay is Adam."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    losses = []
    for x, target in zip(words, wanted, strict=True):
        loss = F.mse_loss(model(x)[0].select(1, position), target)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss)
    return torch.stack(losses).detach()


class Adam:
    """All weights in one vector."""

    def __call__(self, model, words, wanted, position, lr):
        weights = list(model.parameters())
        flat = torch.nn.utils.parameters_to_vector(weights).detach()
        m, v, losses = torch.zeros_like(flat), torch.zeros_like(flat), []
        for t in range(len(words)):
            loss = (model(words[t])[0][:, position] - wanted[t]).pow(2).mean()
            g = torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights)])
            m, v = torch.lerp(m, g, 0.1), torch.lerp(v, g.square(), 0.001)
            flat = flat - lr * (m / (1 - 0.9 ** (t + 1))) / (torch.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
            torch.nn.utils.vector_to_parameters(flat, weights)
            losses.append(loss.detach())
        return torch.stack(losses)


def train_with_adam(model: Any, words: Tensor, wanted: Tensor, position: int, lr: float) -> Tensor:
    """PyTorch's optimiser keeps both means for you, and in each step does the same to all weights at once."""
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for x, target in zip(words, wanted, strict=True):
        loss = F.mse_loss(model(x)[0][:, position], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


ALTERNATIVES = {
    "train_with_adam": [
        train_with_adam,
        trained_by_an_optimiser,
        trained_by_hand,
        trained_by_grad,
        trained_without_decay,
        Adam(),
    ],
}
