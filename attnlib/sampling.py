"""Writing: choose the next token, append it, and ask again."""

import math
from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .half_precision import wide


def sample_next(
    logits: Float[Tensor, "b vocab"],
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, " b"]:
    """Draw one token per row: logits / temperature, then the best ``top_k``, then softmax, then the nucleus ``top_p``.

    The nucleus is the smallest set of the likeliest tokens whose probabilities, after ``top_k``, add up to at least
    ``top_p``.

    >>> sample_next(torch.tensor([[0.0, 2.0, 1.0]]), temperature=0)
    tensor([1])

    Temperature 0 takes the largest logit, or the first of several. ``top_k`` also keeps tokens that tie with the last
    one kept, and keeps all of them if it is larger than the vocabulary.
    Raises ValueError for a negative temperature, ``top_k`` below 1, ``top_p`` outside (0, 1], and NaN in the logits.
    Holtzman et al. 2019, "The Curious Case of Neural Text Degeneration"; top-k: Fan et al. 2018.
    """
    if temperature < 0:
        raise ValueError(f"temperature must not be negative, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be in (0, 1], got {top_p}")
    if not torch.compiler.is_compiling() and (rows := logits.isnan().any(dim=-1)).any():
        raise ValueError(f"logits must be numbers, got NaN in {int(rows.sum())} of {len(rows)} rows")
    if temperature == 0:
        return logits.argmax(dim=-1)
    scores = wide(logits) / temperature
    if top_k is not None:
        last_kept = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]
        scores = scores.masked_fill(scores < last_kept, -math.inf)
    probabilities = scores.softmax(dim=-1)
    if top_p is not None:
        ordered, ids = probabilities.sort(descending=True, stable=True)
        before = ordered.cumsum(dim=-1) - ordered
        probabilities = torch.zeros_like(ordered).scatter(-1, ids, ordered.masked_fill(before >= top_p, 0.0))
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]


def generate(
    model: nn.Module,
    ids: Int[Tensor, "b n"],
    num_tokens: int,
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_id: int | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "b more"]:
    """The ids and up to ``num_tokens`` more, each drawn by ``sample_next`` from the model's logits for the text so far.

    >>> from attnlib import LanguageModel
    >>> generate(LanguageModel(11, 12, 3, depth=1, max_len=4), torch.tensor([[1, 2, 3]]), 5).shape
    torch.Size([1, 8])

    The model, (b, n) -> (b, n, vocab), is called in evaluation mode on the last ``model.max_len`` tokens, and each of
    its modules is put back into the mode it was in. A row that has drawn ``stop_id`` is filled with it; once all rows
    have, generation stops. Up to ``max_len`` tokens, a cache (``LanguageModel.caches``) would give the same ones with
    less work. Raises ValueError for ids without a token.
    """
    if ids.shape[-1] == 0:
        raise ValueError(f"ids must have at least one token in each row, got {tuple(ids.shape)}")
    modes, max_len = [(module, module.training) for module in model.modules()], cast(int, model.max_len)
    ask = cast(Callable[[Tensor], Tensor], model.eval())
    stopped = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    try:
        for _ in range(num_tokens):
            with torch.no_grad():
                logits = ask(ids[:, -max_len:])[:, -1]
            new = sample_next(logits, temperature, top_k, top_p, generator)
            if stop_id is not None:
                new = new.masked_fill(stopped, stop_id)
                stopped = stopped | (new == stop_id)
            ids = torch.cat([ids, new[:, None]], dim=1)
            if stopped.all():
                break
    finally:
        for module, was_training in modes:
            module.training = was_training
    return ids
