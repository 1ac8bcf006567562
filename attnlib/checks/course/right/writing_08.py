"""Right answers of lesson 08, written in other ways: drawing a token, and writing a text."""

import math
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import attnlib


def drawn_by_gumbel(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0:
        return torch.argmax(logits, -1)
    p = kept(logits / temperature, top_k, top_p)
    noise = torch.rand(p.shape, generator=generator, dtype=torch.float64, device=p.device)
    return (p.double().log() - (-noise.log()).log()).argmax(-1)


def kept(logits, top_k, top_p):
    if top_k is not None and top_k < logits.shape[-1]:
        logits = torch.where(logits < torch.topk(logits, top_k)[0][..., -1, None], -math.inf, logits)
    p = F.softmax(logits, dim=-1)
    if top_p is not None:
        ordered, order = torch.sort(p, descending=True)
        closed = ordered.cumsum(-1) >= top_p
        closed[..., 1:] = closed[..., :-1].clone()
        closed[..., 0] = False
        p = p.masked_fill(closed.scatter(-1, order, closed), 0.0)
        p = p / p.sum(-1, keepdim=True)
    return p


def drawn_by_cumsum(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0.0:
        return logits.max(dim=-1).indices
    p = kept(logits / temperature, top_k, top_p).double()
    u = torch.rand(len(p), 1, generator=generator, dtype=torch.float64, device=p.device)
    return (
        torch.searchsorted(p.cumsum(-1), u * p.sum(-1, keepdim=True), right=True).squeeze(1).clamp(max=p.shape[1] - 1)
    )


def drawn_among_the_sorted(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0:
        return (logits == logits.amax(-1, keepdim=True)).int().argmax(-1)
    values, ids = (logits / temperature).sort(-1, descending=True)
    if top_k is not None:
        least = values[:, min(top_k, values.shape[1]) - 1, None]
        values = values.masked_fill(values < least, float("-inf"))
    p = values.softmax(-1)
    if top_p is not None:
        p = p * (p.cumsum(-1) - p < top_p)
    place = torch.multinomial(p, num_samples=1, generator=generator)
    return ids.gather(1, place).flatten()


def drawn_row_by_row(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0:
        return torch.stack([row.argmax() for row in logits])
    p = kept(logits / temperature, None, None) if top_k is None and top_p is None else None
    if p is None:
        p = kept(logits.div(temperature), top_k, top_p)
    return torch.cat([torch.multinomial(row, 1, generator=generator) for row in p])


def drawn_from_a_categorical(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature < 1e-8:
        return logits.argmax(dim=1)
    p = kept(logits * (1 / temperature), top_k, top_p)
    if generator is None:
        return torch.distributions.Categorical(probs=p).sample()
    return torch.multinomial(p, 1, replacement=True, generator=generator).view(-1)


def wrote_by_list(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None):
    mode = model.training
    model.eval()
    columns, done = list(ids.unbind(1)), [False] * len(ids)
    for _ in range(num_tokens):
        with torch.no_grad():
            logits = model(torch.stack(columns[-model.max_len :], dim=1))
        drawn = attnlib.sample_next(logits[:, -1, :], temperature, top_k, top_p, generator).tolist()
        new = [stop_id if over else token for over, token in zip(done, drawn, strict=True)]
        done = [token == stop_id for token in new]
        columns.append(torch.tensor(new, device=ids.device))
        if all(done):
            break
    model.train(mode)
    return torch.stack(columns, dim=1)


@torch.inference_mode()
def wrote_in_a_buffer(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None):
    b, n = ids.shape
    text = torch.cat([ids, ids.new_zeros(b, num_tokens)], dim=1)
    was = model.training
    model.train(False)
    try:
        for end in range(n, n + num_tokens):
            logits = model(text[:, max(0, end - model.max_len) : end])
            text[:, end] = drawn_among_the_sorted(logits[:, -1], temperature, top_k, top_p, generator)
            if stop_id is not None:
                over = (text[:, n:end] == stop_id).any(1)
                text[over, end] = stop_id
                if bool((text[:, n : end + 1] == stop_id).any(1).all()):
                    return text[:, : end + 1].clone()
        return text.clone()
    finally:
        model.train(was)


def wrote_with_while(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None):
    was_training, text, going = model.training, ids.clone(), ids.new_ones(len(ids)).bool()
    model.eval()
    while text.shape[1] < ids.shape[1] + num_tokens and bool(going.any()):
        window = text if text.shape[1] <= model.max_len else text[:, -model.max_len :]
        token = attnlib.sample_next(model(window)[:, -1].detach(), temperature, top_k, top_p, generator)
        if stop_id is not None:
            token = torch.where(going, token, stop_id)
            going = going & (token != stop_id)
        text = torch.hstack([text, token[:, None]])
    if was_training:
        model.train()
    return text


def wrote_by_recursion(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None):
    was = model.training
    model.eval()

    def more(text, left, over):
        if left == 0 or bool(over.all()):
            return text
        with torch.no_grad():
            new = drawn_among_the_sorted(model(text[:, -model.max_len :])[:, -1], temperature, top_k, top_p, generator)
        if stop_id is not None:
            new[over] = stop_id
            over = over | (new == stop_id)
        return more(torch.cat((text, new.unsqueeze(1)), 1), left - 1, over)

    result = more(ids, num_tokens, torch.zeros(ids.shape[0], device=ids.device).bool())
    model.train(mode=was)
    return result


class Writer:
    def __call__(self, model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None):
        mode, stop = model.training, -1 if stop_id is None else stop_id
        model.eval()
        over = torch.zeros(ids.shape[0], dtype=torch.long, device=ids.device)
        with torch.inference_mode(False), torch.no_grad():
            for step in count():
                if step == num_tokens or bool(over.prod()):
                    break
                new = drawn_by_cumsum(model(ids[:, -model.max_len :])[:, -1], temperature, top_k, top_p, generator)
                new = new * (1 - over) + stop * over
                over = over | (new == stop).long()
                ids = torch.concat([ids, new.reshape(-1, 1)], 1)
        model.train(mode)
        return ids


def sample_next(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """In sorted order, top_k and top_p keep a run at the front; a place in it is drawn, and `ids` names its token."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    ordered, ids = (logits / temperature).sort(dim=-1, descending=True)
    if top_k is not None:
        ordered = ordered.masked_fill(ordered < ordered[:, :top_k].amin(dim=-1, keepdim=True), -torch.inf)
    p = ordered.softmax(dim=-1)
    p = p if top_p is None else p * (p.cumsum(dim=-1) - p < top_p)
    return ids.gather(-1, torch.multinomial(p, 1, generator=generator))[:, 0]


def generate(
    model: Any,
    ids: Tensor,
    num_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_id: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """A row has stopped if its new part holds stop_id, so nothing has to be remembered."""
    n, was_training, stop = ids.shape[1], model.training, -1 if stop_id is None else stop_id
    model.eval()
    while ids.shape[1] < n + num_tokens and not (stopped := (ids[:, n:] == stop).any(dim=1)).all():
        with torch.no_grad():
            logits = model(ids[:, -model.max_len :])[:, -1]
        new = attnlib.sample_next(logits, temperature, top_k, top_p, generator)
        ids = torch.cat([ids, new.masked_fill(stopped, stop)[:, None]], dim=1)
    model.train(was_training)
    return ids


ALTERNATIVES = {
    "sample_next": [
        sample_next,
        drawn_by_gumbel,
        drawn_by_cumsum,
        drawn_among_the_sorted,
        drawn_row_by_row,
        drawn_from_a_categorical,
    ],
    "generate": [generate, wrote_by_list, wrote_in_a_buffer, wrote_with_while, wrote_by_recursion, Writer()],
}
