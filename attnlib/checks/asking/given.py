"""Inputs that are no tensors, a model, a generator, an iterator: sent as tensors, and made where the attempt lives.

A case writes `{MODEL: (embed, places, mode)}`, where the mode is a bool tensor, True for training; behind it may stand
how many ids each position sees too many. Or it writes a seed, `{GENERATOR: seed}`, or tensors that come one after
another, `{BLOCKS: [...]}`. The mode in which the attempt leaves the model is written back: one that is not restored is
a changed input. Or it writes `{HELD: {…}}`: the attempt gets another dictionary with the same tensors, and new ones
that are put into that one leave these as they are.
"""

from typing import Any

import torch
from torch import Tensor, nn

MODEL, GENERATOR, HELD, BLOCKS = "a model", "a generator", "held by the caller", "blocks, one by one"


class SmallModel(nn.Module):
    """Ids (b, n), positions (n) -> logits (b, n, vocab), each from all ids up to its own: no attention, but causal.

    If it leaks, each sees `ahead` ids more, where there are any. In training it is as if dropout took every other
    column. It has `max_len` positions, and raises for more.
    """

    def __init__(self, embed: Tensor, places: Tensor, mode: Tensor, ahead: int = 0) -> None:
        super().__init__()
        self.max_len, self.ahead = len(places), ahead
        self.embed, self.places = nn.Parameter(embed.detach().clone()), nn.Parameter(places.detach().clone())
        self.train(bool(mode))

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        if ids.shape[1] > self.max_len or bool((positions >= self.max_len).any()):
            raise IndexError(f"the model has max_len = {self.max_len} positions, got {positions.tolist()}")
        x = (self.embed[ids] + self.places[positions]).tanh()
        if self.training:
            x = 2 * x * (torch.arange(x.shape[-1], device=x.device) % 2)
        counts = torch.arange(1, ids.shape[1] + 1, device=x.device)
        seen = (counts + self.ahead).clamp(max=len(counts))
        mixed = x + x.cumsum(dim=1)[:, seen - 1] / seen[:, None].to(x.dtype)
        return mixed @ self.embed.mT


def made(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs, with objects in place of what describes them; a generator is on their device."""
    devices = {t.device for t in inputs if isinstance(t, Tensor) and t.device.type != "meta"}  # where nothing is drawn
    return tuple(_made(value, *devices) for value in inputs)


def _made(value: Any, device: torch.device | str = "cpu", *_others: torch.device) -> Any:
    if isinstance(value, dict) and MODEL in value:
        return SmallModel(*value[MODEL])
    if isinstance(value, dict) and GENERATOR in value:
        return torch.Generator(device).manual_seed(value[GENERATOR])
    if isinstance(value, dict) and HELD in value:
        return dict(value[HELD])
    if isinstance(value, dict) and BLOCKS in value:
        return iter(value[BLOCKS])
    return value


def note(objects: tuple[Any, ...], inputs: tuple[Any, ...]) -> None:
    """Write into the inputs in which mode each model was left."""
    for made_of, value in zip(objects, inputs, strict=True):
        if isinstance(made_of, SmallModel):
            value[MODEL][2].fill_(made_of.training)
