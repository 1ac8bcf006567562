"""Right answers of lesson 04 that write character by character, in other ways."""

from typing import Any

import torch
from torch import Tensor


def written_by_max(model, memory, start_id, stop_id, longest):
    ids = torch.full((len(memory), 1), start_id)
    ended = torch.zeros(len(memory), dtype=torch.bool)
    total = memory.new_zeros(len(memory))
    with torch.no_grad():
        for _ in range(longest):
            gained, new = model(memory, ids)[:, -1].log_softmax(-1).max(-1)
            new = torch.where(ended, stop_id, new)
            total += torch.where(ended, 0.0, gained)
            ids = torch.cat([ids, new[:, None]], dim=1)
            ended |= new == stop_id
            if ended.all():
                break
    return ids[:, 1:], total


@torch.no_grad()
def written_row_by_row(model, memory, start_id, stop_id, longest):
    """One text after the other; the short ones are filled up at the end."""
    texts, totals = [], []
    for row in memory.split(1):
        text, total = [start_id], 0.0
        while len(text) <= longest and (len(text) == 1 or text[-1] != stop_id):
            shares = model(row, torch.tensor([text]))[0, -1].log_softmax(0)
            text.append(int(shares.argmax()))
            total = total + shares[text[-1]]
        texts.append(text[1:])
        totals.append(total)
    length = max(map(len, texts))
    filled = [text + [stop_id] * (length - len(text)) for text in texts]
    return torch.tensor(filled), torch.stack(totals)


@torch.inference_mode()
def written_into_a_table(model, memory, start_id, stop_id, longest):
    """Everything is stop_id until something is written; the sum is taken once, at the end."""
    b = memory.size(0)
    ids = torch.full((b, longest + 1), stop_id, dtype=torch.int64)
    ids[:, 0], writing = start_id, torch.ones(b, dtype=torch.bool)
    gains, t = [], 0
    while t < longest and writing.any():
        shares = torch.softmax(model(memory, ids[:, : t + 1])[:, t], dim=1)
        best = shares.argmax(dim=1)
        ids[writing, t + 1] = best[writing]
        gains.append(shares.gather(1, best[:, None])[:, 0].log() * writing)
        writing = writing & (best != stop_id)
        t += 1
    return ids[:, 1 : t + 1].clone(), torch.stack(gains).sum(0)


def written_and_measured(model, memory, start_id, stop_id, longest):
    """The texts first; one more call says how likely they were."""
    ids = torch.tensor([[start_id]] * len(memory))
    while ids.shape[1] <= longest:
        new = model(memory, ids)[:, -1:].argmax(dim=-1).detach()
        over = (ids[:, 1:] == stop_id).any(dim=1, keepdim=True)
        ids = torch.cat((ids, new.masked_fill(over, stop_id)), dim=1)
        if (ids[:, 1:] == stop_id).any(dim=1).all():
            break
    written = ids[:, 1:]
    gains = model(memory, ids[:, :-1]).log_softmax(-1).gather(-1, written[..., None])[..., 0]
    counted = (written == stop_id).long().cumsum(1) - (written == stop_id).long() == 0
    return written, (gains * counted).sum(dim=1).detach()


class Scribe:
    def __call__(self, model, memory, start_id, stop_id, longest):
        self.ids = memory.new_full((memory.shape[0], 1), start_id, dtype=torch.long)
        self.going, self.total = [True] * len(memory), [torch.zeros((), dtype=memory.dtype) for _ in memory]
        for _ in range(longest):
            self.step(model(memory, self.ids).detach()[:, -1, :], stop_id)
            if not any(self.going):
                break
        return [self.ids[:, 1:], torch.stack(self.total)]

    def step(self, logits, stop_id):
        column = []
        for row, scores in enumerate(logits):
            new = int(scores.topk(1).indices) if self.going[row] else stop_id
            if self.going[row]:
                self.total[row] = self.total[row] + scores[new] - scores.logsumexp(0)
            self.going[row] = self.going[row] and new != stop_id
            column.append([new])
        self.ids = torch.hstack([self.ids, torch.tensor(column)])


def write_greedily(model: Any, memory: Tensor, start_id: int, stop_id: int, longest: int) -> tuple[Tensor, Tensor]:
    """Write first, measure later: one call with the whole text gives the probabilities of all its characters."""
    ids, ended = torch.full((len(memory), 1), start_id), torch.zeros(len(memory), 1, dtype=torch.bool)
    with torch.no_grad():
        while ids.shape[1] <= longest and not bool(ended.all()):
            new = model(memory, ids)[:, -1:].argmax(dim=-1).masked_fill(ended, stop_id)
            ids, ended = torch.cat([ids, new], dim=1), ended | (new == stop_id)
        gained = model(memory, ids[:, :-1]).log_softmax(dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    stops = (ids[:, 1:] == stop_id).long()
    return ids[:, 1:], (gained * (stops.cumsum(dim=1) - stops == 0)).sum(dim=1)


ALTERNATIVES = {
    "write_greedily": [
        write_greedily,
        written_by_max,
        written_row_by_row,
        written_into_a_table,
        written_and_measured,
        Scribe(),
    ],
}
