"""Right answers of lesson 11, written in other ways: two heads by hand, a film, finding heads, breaking repeats."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, einsum


def by_hand_as_sums_of_wires(vocab, n):
    """A wire is an outer product: from one direction of the stream to another."""
    e = torch.eye(3 * vocab + n)
    token, before, guess, position = e.split([vocab, vocab, vocab, n])
    return torch.stack(
        [
            50 * einsum("ia,ib->ab", position[1:], position[:-1]),
            einsum("ta,tb->ab", token, before),
            50 * einsum("ta,tb->ab", token, before),
            einsum("ta,tb->ab", token, guess),
        ]
    )


def by_hand_in_loops(vocab, n):
    result = torch.zeros(4, 3 * vocab + n, 3 * vocab + n)
    for i in range(1, n):
        result[0, 3 * vocab + i, 3 * vocab + i - 1] = 1000.0
    for t in range(vocab):
        result[1, t, vocab + t] = 1.0
        result[2, t, vocab + t] = 1000.0
        result[3, t, 2 * vocab + t] = 1.0
    return result


def by_hand_in_blocks(vocab, n):
    one, none = torch.eye(vocab), torch.zeros(vocab, vocab)

    def wires(start, end, scale=1.0):
        rows = [torch.cat([scale * one if (i, j) == (start, end) else none for j in range(3)], 1) for i in range(3)]
        return torch.block_diag(torch.cat(rows), torch.zeros(n, n))

    look = torch.block_diag(torch.zeros(3 * vocab, 3 * vocab), 80 * torch.eye(n).roll(1, 0).tril())
    return torch.stack([look, wires(0, 1), wires(0, 1, 80), wires(0, 2)])


def by_hand_with_another_note(vocab, n):
    """The note goes, doubled and with a minus, where the guess is read later: what layer 1 adds there is larger."""
    matrices = torch.zeros(4, 3 * vocab + n, 3 * vocab + n)
    token, guess, position = slice(0, vocab), slice(2 * vocab, 3 * vocab), slice(3 * vocab, None)
    matrices[0][position, position] = 60 * torch.ones(n - 1).diag(-1)
    matrices[1][token, guess] = -2 * torch.eye(vocab)
    matrices[2][token, guess] = -60 * torch.eye(vocab)
    matrices[3][token, guess] = 5 * torch.eye(vocab)
    return matrices


def by_hand_through_the_query(vocab, n):
    """Layer 0 fetches where the same token was (Q-composition), and layer 1 asks for the position after that.

    Part of the weight is on the token's own position, and the one after it is closed.
    """
    matrices = torch.zeros(4, 3 * vocab + n, 3 * vocab + n)
    token, guess, position = slice(0, vocab), slice(2 * vocab, 3 * vocab), slice(3 * vocab, None)
    matrices[0][token, token] = 200 * torch.eye(vocab)
    matrices[1][position, position] = 0.5 * torch.eye(n)
    matrices[2][position, position] = 900 * torch.ones(n - 1).diag(1)
    matrices[3][token, guess] = torch.eye(vocab)
    return matrices


def film_by_loops(model, batches, lr, every, make=torch.optim.AdamW):
    def weights():
        return torch.cat([w.detach().clone().reshape(-1) for w in model.parameters()])

    optimiser = make(model.parameters(), lr=lr)
    losses, film = [], [weights()]
    for i in range(len(batches)):
        ids = batches[i]
        logits = model(ids)[:, :-1]
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        model.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if (i + 1) % every == 0:
            film.append(weights())
    return torch.tensor(losses, dtype=film[0].dtype), torch.stack(film)


def film_by_chunks(model, batches, lr, every, make=torch.optim.AdamW):
    """One part of the batches for each frame."""
    optimiser = make(model.parameters(), lr)
    losses, film = [], [torch.nn.utils.parameters_to_vector(model.parameters())]
    for part in batches.split(every):
        for ids in part:
            chances = model(ids).log_softmax(dim=-1)
            loss = -chances[:, :-1].gather(-1, ids[:, 1:, None]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses += [loss.detach()]
        film += [torch.nn.utils.parameters_to_vector(model.parameters())]
    return torch.stack(losses), torch.stack(film).detach()


def film_of_state_dicts(model, batches, lr, every, make=torch.optim.AdamW):
    optimiser = make(params=model.parameters(), lr=lr)
    kept = {0: copy.deepcopy(model.state_dict())}
    losses = torch.zeros(len(batches), dtype=next(model.parameters()).dtype)
    for step, ids in enumerate(batches):
        optimiser.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(ids).transpose(1, 2)[..., :-1], ids[:, 1:])
        losses[step] = loss.detach()
        loss.backward()
        optimiser.step()
        if (step + 1) % every == 0:
            kept[step + 1] = copy.deepcopy(model.state_dict())
    names = [name for name, _ in model.named_parameters()]
    return losses, torch.stack([torch.cat([frame[name].flatten() for name in names]) for frame in kept.values()])


class Camera:
    def __call__(self, model, batches, lr, every, make=torch.optim.AdamW):
        self.model = model
        optimiser = make(model.parameters(), lr=lr)
        frames, losses = torch.empty(1 + len(batches) // every, len(self.shoot()), dtype=self.shoot().dtype), []
        frames[0] = self.shoot()
        for count, ids in enumerate(batches, 1):
            loss = F.cross_entropy(model(ids[:, :-1]).mT, ids[:, 1:])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
            if not count % every:
                frames[count // every] = self.shoot()
        return torch.stack(losses), frames

    @torch.no_grad()
    def shoot(self):
        return torch.hstack([w.ravel() for w in self.model.parameters()])


def film_in_a_buffer(model, batches, lr, every, make=torch.optim.AdamW):
    """Every step is kept, and every so many are returned."""
    optimiser, losses = make(model.parameters(), lr=lr), []
    film = [torch.nn.utils.parameters_to_vector(model.parameters()).detach()]
    for ids in batches.unbind():
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        for weight, gradient in zip(
            model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            weight.grad = gradient
        optimiser.step()
        losses.append(loss.detach())
        film.append(torch.nn.utils.parameters_to_vector(model.parameters()).detach())
    return torch.stack(losses), torch.stack(film)[::every]


def heads_by_index(model, ids, period):
    n = ids.shape[1]
    i, late = torch.arange(2, n), torch.arange(period + 1, n)
    with torch.no_grad():
        _, layers = model(ids, return_weights=True)
    even = torch.ones(n, n, dtype=layers[0].dtype).tril()

    def three(w):
        return torch.stack(
            [
                w[..., i, i - 1].mean(dim=-1),
                w[..., late, late - period + 1].mean(dim=-1),
                w[..., 2 : period + 1, 0].mean(dim=-1),
            ]
        )

    scores = torch.stack([three(w).mean(dim=1) for w in layers], dim=1)
    best = [divmod(s.argmax().item(), s.shape[1]) for s in scores]
    return scores, three(even / even.sum(-1, keepdim=True)), torch.tensor(best)


def heads_in_loops(model, ids, period):
    layers = model(ids, return_weights=True)[1]
    n, (b, h) = ids.shape[1], layers[0].shape[:2]
    kinds = (
        (range(2, n), lambda i: i - 1),
        (range(period + 1, n), lambda i: i - period + 1),
        (range(2, period + 1), None),
    )
    scores, baseline = torch.zeros(3, len(layers), h, dtype=layers[0].dtype), []
    for kind, (queries, key) in enumerate(kinds):
        for i in queries:
            for layer, weights in enumerate(layers):
                scores[kind, layer] += weights[:, :, i, key(i) if key else 0].sum(dim=0).detach() / (b * len(queries))
        baseline.append(sum(1 / (i + 1) for i in queries) / len(queries))
    best = torch.stack([(s == s.max()).nonzero()[0] for s in scores])
    return scores, torch.tensor(baseline, dtype=scores.dtype), best


def heads_by_masks(model, ids, period):
    n = ids.shape[1]
    q, k = torch.arange(n)[:, None], torch.arange(n)
    masks = torch.stack(
        [(q - k == 1) & (q > 1), (q - k == period - 1) & (q > period), (k == 0) & (q > 1) & (q <= period)]
    )
    weights = torch.stack(model(ids, return_weights=True)[1])
    masks = masks.to(weights)
    masks = masks / masks.sum(dim=(1, 2), keepdim=True)
    scores = einsum("lbhqk,sqk->slh", weights, masks) / len(ids)
    even = 1 / torch.arange(1, n + 1).to(weights)
    flat = scores.flatten(1).argmax(1)
    return scores, (masks.sum(-1) * even).sum(-1), torch.stack(torch.unravel_index(flat, scores.shape[1:]), dim=1)


def heads_layer_by_layer(model, ids, period):
    rows = []
    for w in model(ids, return_weights=True)[1]:
        w = w.mean(0)
        back = torch.stack([head.diag(-1)[1:].mean() for head in w])
        copies = torch.stack([head.diag(1 - period)[2:].mean() for head in w])
        rows.append(torch.stack([back, copies, w[:, 2 : 1 + period, 0].mean(1)]))
    scores = torch.stack(rows, 1)
    share = 1 / torch.arange(1, ids.shape[1] + 1).to(scores)
    baseline = torch.stack([share[2:].mean(), share[period + 1 :].mean(), share[2 : period + 1].mean()])
    layers = scores.amax(-1).argmax(-1)
    heads = scores[torch.arange(3), layers].argmax(-1)
    return [scores, baseline, torch.stack([layers, heads], 1)]


def heads_by_a_model_that_is_even(model, ids, period):
    """The baseline is measured as the scores are, on a head that spreads its weight."""

    def measure(weights):
        wanted = [
            weights[..., 1:, :].diagonal(0, dim1=-2, dim2=-1)[..., 1:],
            weights[..., period:, :].diagonal(1, dim1=-2, dim2=-1)[..., 1:],
            weights[..., 1 : period + 1, 0][..., 1:],
        ]
        return torch.stack([w.mean(dim=(0, -1)) for w in wanted])

    measured = [measure(weights) for weights in model(ids, return_weights=True)[1]]
    scores = torch.stack(measured, dim=1)
    even = torch.ones(ids.shape[1], ids.shape[1], dtype=scores.dtype).tril().log().softmax(-1)
    best = scores.flatten(1).max(dim=1).indices
    h = scores.shape[-1]
    rows = torch.stack((torch.div(best, h, rounding_mode="floor"), best.remainder(h)), dim=1)
    return scores, measure(even[None, None]).squeeze(1), rows


def broken_block_by_block(ids, period):
    """Each block is put into an order of its own."""
    control = ids.clone()
    for row in control:
        for start in range(1, len(row), period):
            part = row[start : start + period].clone()
            row[start : start + period] = part[torch.randperm(len(part))]
    return control


def broken_by_turning_blocks(ids, period):
    """Every second block runs backwards; then no two neighbours are alike."""
    blocks = [*ids[:, 1:].split(period, dim=1)]
    for number in range(1, len(blocks), 2):
        blocks[number] = blocks[number].flip(1)
    return torch.cat([ids[:, :1], *blocks], dim=1)


def broken_by_rolling_blocks(ids, period):
    """Each block begins some tokens later than the one before: the tokens come again, but not at this distance."""
    blocks = ids[:, 1:].split(period, dim=1)
    return torch.cat([ids[:, :1], *(block.roll(3 * i, dims=1) for i, block in enumerate(blocks))], dim=1)


def broken_by_sorting(ids, period):
    return torch.cat([ids[:, :1], ids[:, 1:].sort(dim=1).values], dim=1)


def broken_by_one_order(ids, period):
    order = 1 + torch.randperm(ids.shape[1] - 1)
    return ids[:, torch.cat([torch.zeros(1, dtype=torch.long), order])]


def induction_by_hand(vocab: int, n: int) -> Tensor:
    """By way of the query: layer 0 fetches *where* the token was, layer 1 asks for the place after that."""
    token, guess, position = slice(0, vocab), slice(2 * vocab, 3 * vocab), slice(3 * vocab, None)
    matrices = torch.zeros(4, 3 * vocab + n, 3 * vocab + n)
    matrices[0][token, token] = 200 * torch.eye(vocab)
    matrices[1][position, position] = 0.5 * torch.eye(n)
    matrices[2][position, position] = 900 * torch.ones(n - 1).diag(1)
    matrices[3][token, guess] = torch.eye(vocab)
    return matrices


def find_heads(model: Any, ids: Tensor, period: int) -> tuple[Tensor, Tensor, Tensor]:
    """A detector is a table that says where the weight should be, so three masks and one einsum score every head."""
    weights = torch.stack(model(ids, return_weights=True)[1])
    q, k = torch.arange(ids.shape[1])[:, None], torch.arange(ids.shape[1])
    back, copy = (q - k == 1) & (q > 1), (q - k == period - 1) & (q > period)
    masks = torch.stack([back, copy, (k == 0) & (q > 1) & (q <= period)]).to(weights)
    masks = masks / masks.sum(dim=(1, 2), keepdim=True)
    scores = torch.einsum("lbhqk,sqk->slh", weights, masks) / len(ids)
    best = torch.unravel_index(scores.flatten(1).argmax(dim=1), scores.shape[1:])
    return scores, (masks / (q + 1)).sum(dim=(1, 2)), torch.stack(best, dim=1)


def break_repeats(ids: Tensor, period: int) -> Tensor:
    """Every second block runs backwards: next to no token is followed by what followed it before."""
    blocks = ids[:, 1:].split(period, dim=1)
    return torch.cat([ids[:, :1], *(b.flip(1) if i % 2 else b for i, b in enumerate(blocks))], dim=1)


ALTERNATIVES = {
    "induction_by_hand": [
        induction_by_hand,
        by_hand_as_sums_of_wires,
        by_hand_in_loops,
        by_hand_in_blocks,
        by_hand_with_another_note,
        by_hand_through_the_query,
    ],
    "train_and_film": [film_by_loops, film_by_chunks, film_of_state_dicts, Camera(), film_in_a_buffer],
    "find_heads": [
        find_heads,
        heads_by_index,
        heads_in_loops,
        heads_by_masks,
        heads_layer_by_layer,
        heads_by_a_model_that_is_even,
    ],
    "break_repeats": [
        break_repeats,
        broken_block_by_block,
        broken_by_turning_blocks,
        broken_by_rolling_blocks,
        broken_by_sorting,
        broken_by_one_order,
    ],
}
