"""Right answers of lesson 05 that train and measure, written in other ways."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def trained_with_an_optimiser(model, excerpts, rates, make=torch.optim.SGD):
    optimiser = make(model.parameters(), lr=0.1)
    losses = []
    model.train()
    for i in range(len(excerpts)):
        seen, following = excerpts[i][:, :-1], excerpts[i][:, 1:]
        loss = F.cross_entropy(model(seen).transpose(1, 2), following)
        optimiser.param_groups[0]["lr"] = float(rates[i])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def trained_by_given_gradients(model, excerpts, rates, make=torch.optim.SGD):
    losses = torch.zeros(len(rates), dtype=next(model.parameters()).dtype)
    weights = [*model.train(True).parameters()]
    optimiser = make([{"params": [weight]} for weight in weights], lr=0.1)
    for step, (excerpt, rate) in enumerate(zip(excerpts, rates, strict=True)):
        shares = model(excerpt[:, :-1]).log_softmax(-1)
        loss = -shares.gather(-1, excerpt[:, 1:, None]).mean()
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, allow_unused=True), strict=True):
            weight.grad = gradient
        for group in optimiser.param_groups:
            group["lr"] = float(rate)
        optimiser.step()
        losses[step] = loss.item()
    return losses


def trained_by_a_schedule(model, excerpts, rates, make=torch.optim.SGD):
    """LambdaLR multiplies a rate of 1 by what the function says of a step."""
    model.train()
    optimiser = make(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rates[min(step, len(rates) - 1)].item())
    losses = []
    for excerpt in excerpts:
        model.zero_grad()
        loss = F.cross_entropy(model(excerpt[:, :-1]).flatten(0, 1), excerpt[:, 1:].flatten())
        losses += [loss.detach()]
        loss.backward()
        optimiser.step()
        schedule.step()
    return torch.stack(losses)


def trained_from_a_state(model, excerpts, rates, make=torch.optim.SGD):
    """The rate is changed in a copy of all that the optimiser remembers."""
    losses, optimiser = [], make(model.parameters(), lr=rates[0].item())
    model.train()
    for excerpt, rate in zip(excerpts.unbind(0), rates.tolist(), strict=True):
        state = optimiser.state_dict()
        optimiser.load_state_dict({**state, "param_groups": [{**g, "lr": rate} for g in state["param_groups"]]})
        optimiser.zero_grad(set_to_none=False)
        logits = model(excerpt[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), excerpt[:, 1:].reshape(-1))
        loss.backward()
        optimiser.step()
        losses.append(loss)
    return torch.stack(losses).detach()


class Trainer:
    def __call__(self, model, excerpts, rates, make=torch.optim.SGD):
        model.train()
        self.optimiser = make(model.parameters(), lr=0.0)
        return torch.stack([self.step(model, *pair) for pair in zip(excerpts, rates.tolist(), strict=True)])

    def step(self, model, excerpt, rate):
        self.optimiser.param_groups[0].update(lr=rate)
        self.optimiser.zero_grad()
        guesses = model(excerpt[:, :-1])
        loss = F.cross_entropy(guesses.permute(0, 2, 1), excerpt[:, 1:], reduction="sum") / excerpt[:, 1:].numel()
        loss.backward()
        self.optimiser.step()
        return loss.detach()


@torch.no_grad()
def measured_twice(model, excerpts):
    seen, following = excerpts[:, :-1], excerpts[:, 1:]
    training = F.cross_entropy(model(seen).transpose(1, 2), following, reduction="none").mean(dim=0)
    last = [model(seen[:, : t + 1])[:, -1] for t in range(seen.shape[1])]
    writing = [F.cross_entropy(logits, following[:, t]) for t, logits in enumerate(last)]
    return training, torch.stack(writing)


def measured_place_by_place(model, excerpts):
    n = excerpts.size(1) - 1
    with torch.no_grad():
        whole = model(excerpts[:, :n])
        training = [F.cross_entropy(whole[:, t], excerpts[:, t + 1]) for t in range(n)]
        writing = []
        for t in range(1, n + 1):
            writing.append(F.cross_entropy(model(excerpts[:, :t])[:, t - 1], excerpts[:, t]))
    return torch.stack(training), torch.stack(writing)


def measured_by_gathering(model, excerpts):
    def surprise(logits, ids):
        return -logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0].mean(0)

    n = excerpts.shape[1] - 1
    training = surprise(model(excerpts[:, :-1]), excerpts[:, 1:])
    writing = [surprise(model(excerpts[:, : t + 1])[:, -1], excerpts[:, t + 1]) for t in range(n)]
    return training.detach(), torch.stack(writing).detach()


@torch.inference_mode()
def measured_by_stacking(model, excerpts):
    """The last guesses of all lengths make one tensor of logits, and are measured like the others."""
    mode, n = model.training, excerpts.shape[1] - 1
    model.eval()
    logits = torch.stack([model(excerpts[:, : t + 1])[:, -1] for t in range(n)], dim=1)
    tables = model(excerpts[:, :-1]), logits
    model.train(mode)
    losses = [F.cross_entropy(table.mT, excerpts[:, 1:], reduction="none").mean(0) for table in tables]
    return losses[0], losses[1]


@torch.no_grad()
def measured_text_by_text(model, excerpts):
    training, writing = [], []
    for text in excerpts:
        seen = text[None, :-1]
        training.append(F.cross_entropy(model(seen)[0], text[1:], reduction="none"))
        last = torch.cat([model(text[None, : t + 1])[0, -1:] for t in range(len(text) - 1)])
        writing.append(F.cross_entropy(last, text[1:], reduction="none"))
    return torch.stack(training).mean(0), torch.stack(writing).mean(0)


def reached_by_changing(model, ids, vocab):
    n = len(ids)
    found = torch.zeros(n, n, dtype=torch.bool)
    with torch.no_grad():
        before = model(ids[None])[0]
        for j in range(n):
            changed = ids.clone()
            changed[j] = (ids[j] + 1) % vocab
            after = model(changed[None])[0]
            found[:, j] = ((after - before).abs() > 1e-5).any(dim=-1)
    return found


def reached_pair_by_pair(model, ids, vocab):
    def changes(i, j):
        other = [*ids.tolist()]
        other[j] = vocab - 1 - other[j] if 2 * other[j] != vocab - 1 else (other[j] + 1) % vocab
        return bool((model(torch.tensor([other]))[0, i] - model(ids.unsqueeze(0))[0, i]).abs().max() > 1e-5)

    places = range(len(ids))
    return torch.tensor([[changes(i, j) for j in places] for i in places])


@torch.inference_mode()
def reached_in_one_batch(model, ids, vocab):
    other = torch.where(torch.eye(len(ids), dtype=torch.bool), (ids - 1) % vocab, ids)
    change = model(torch.cat([ids[None], other]))
    return torch.linalg.vector_norm(change[1:] - change[:1], dim=-1).gt(1e-5).mT


def reached_by_probabilities(model, ids, vocab):
    """Where the logits change, so does what the softmax makes of them."""
    before = model(ids[None])[0].log_softmax(-1).detach()
    columns = []
    for j, token in enumerate(ids.tolist()):
        changed = torch.cat([ids[:j], torch.tensor([token + 1 if token + 1 < vocab else 0]), ids[j + 1 :]])
        columns.append(~torch.isclose(model(changed[None])[0].log_softmax(-1), before, rtol=0, atol=1e-5).all(-1))
    return torch.stack(columns, -1)


class Probe:
    """All other characters are tried, not just one."""

    def __call__(self, model, ids, vocab):
        with torch.no_grad():
            start = model(ids[None])
            return torch.stack([self.column(model, ids, vocab, j, start) for j in range(ids.numel())]).T

    def column(self, model, ids, vocab, j, start):
        texts = ids.expand(vocab, -1).clone()
        texts[:, j] = torch.arange(vocab)
        return (model(texts) - start).abs().amax(dim=(0, 2)) > 1e-5


def reach(model: torch.nn.Module, ids: Tensor, vocab: int) -> Tensor:
    """All n changed texts are one batch: the text n times, with a different character along the diagonal."""
    texts = ids.repeat(len(ids), 1)
    texts.diagonal().copy_((ids + 1) % vocab)
    with torch.no_grad():
        after, before = model(texts), model(ids[None])  # (j, i, vocab), (1, i, vocab)
    found: Tensor = (after - before).abs().amax(dim=-1).T > 1e-5
    return found


def train_writer(model: torch.nn.Module, excerpts: Tensor, rates: Tensor, make: Any = torch.optim.SGD) -> Tensor:
    """LambdaLR does the same bookkeeping: at each step it multiplies the optimiser's rate, here 1, by a factor."""
    optimiser, losses = make(model.train().parameters(), lr=1.0), []
    factors = [*rates.tolist(), 0.0]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: factors[step])
    for excerpt in excerpts:
        loss = F.cross_entropy(model(excerpt[:, :-1]).mT, excerpt[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def losses_by_place(model: torch.nn.Module, excerpts: Tensor) -> tuple[Tensor, Tensor]:
    """The last predictions of all lengths, stacked, are logits like those of one pass, so one line measures both."""
    with torch.no_grad():
        one_pass = model(excerpts[:, :-1])
        one_by_one = torch.stack([model(excerpts[:, :t])[:, -1] for t in range(1, excerpts.shape[1])], dim=1)
    losses = (F.cross_entropy(x.mT, excerpts[:, 1:], reduction="none") for x in (one_pass, one_by_one))
    training, writing = (loss.mean(dim=0) for loss in losses)
    return training, writing


ALTERNATIVES = {
    "reach": [
        reach,
        reached_by_changing,
        reached_pair_by_pair,
        reached_in_one_batch,
        reached_by_probabilities,
        Probe(),
    ],
    "train_writer": [
        train_writer,
        trained_with_an_optimiser,
        trained_by_given_gradients,
        trained_by_a_schedule,
        trained_from_a_state,
        Trainer(),
    ],
    "losses_by_place": [
        losses_by_place,
        measured_twice,
        measured_place_by_place,
        measured_by_gathering,
        measured_by_stacking,
        measured_text_by_text,
    ],
}
