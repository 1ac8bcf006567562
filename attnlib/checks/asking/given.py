"""Inputs that aren't tensors (a model, a generator, an iterator), sent as tensors and made where the attempt lives.

A case writes `described(kind, sizes, weights)` for a model, a seed, `{GENERATOR: seed}`, the name of a class of
torch.optim, `{OPTIMISER: "Adam"}`, or tensors that come one after another, `{BLOCKS: [...]}`; those of `{FLEETING:
[...]}` may not be kept. What the attempt does to the model is written back into its description: its weights and how
many of them are frozen, its mode, and how many hooks it has; unless it is to learn, how many of its weights have
gradients. Whatever is not restored is a changed input. Or a case writes `{HELD: {…}}`: the attempt gets another
dictionary with the same tensors, and new ones that are put into that one leave these as they are.
"""

import gc
import importlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .failure import ContractBroken

MODEL, GENERATOR, HELD, BLOCKS = "a model", "a generator", "held by the caller", "blocks, one by one"
FLEETING, OPTIMISER = "blocks, each gone when the next but two comes", "an optimiser's class"


def described(
    kind: str,
    sizes: tuple[Any, ...],
    weights: Mapping[str, Tensor],
    *,
    training: bool = True,
    hooks: int = 0,
    learns: bool = False,
) -> dict[str, Any]:
    """Describe a model: one of `OWN`, or a class of attnlib, by name; its constructor's arguments; and all its weights.

    It comes in training mode, as a new module does. Somebody else's hooks, which do nothing, are on the first so many
    of its linear layers. Unless it is to learn, it must come back without gradients.
    """
    left = {"mode": torch.tensor(training), "hooks": torch.tensor(hooks), "frozen weights": torch.tensor(0)}
    if not learns:
        left["gradients"] = torch.tensor(0)
    return {MODEL: {"kind": kind, "sizes": sizes, "weights": dict(weights), **left}}


class SmallModel(nn.Module):
    """Ids (b, n), positions (n) -> logits (b, n, vocab), each from all ids up to its own: no attention, but causal.

    If it leaks, each sees `ahead` ids more, where there are any; with `window`, no more than the last so many. In
    training, unless `dropout` is false, it is as if dropout took every other column. It has `max_len` positions, and
    raises for more.
    """

    def __init__(
        self, vocab: int, max_len: int, d: int, ahead: int = 0, window: int | None = None, dropout: bool = True
    ) -> None:
        super().__init__()
        self.max_len, self.ahead, self.window, self.dropout = max_len, ahead, window or max_len, dropout
        self.embed, self.places = nn.Parameter(torch.empty(vocab, d)), nn.Parameter(torch.empty(max_len, d))
        self.shift = nn.Parameter(torch.zeros(d))

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        if ids.shape[1] > self.max_len or bool((positions >= self.max_len).any()):
            raise IndexError(f"the model has max_len = {self.max_len} positions, got {positions.tolist()}")
        x = (self.embed[ids] + self.places[positions] + self.shift).tanh()
        if self.training and self.dropout:
            x = 2 * x * (torch.arange(x.shape[-1], device=x.device) % 2)
        seen = torch.ones(ids.shape[1], ids.shape[1], dtype=x.dtype, device=x.device)
        seen = seen.tril(self.ahead).triu(1 - self.window)
        mixed = x + seen / seen.sum(dim=1, keepdim=True) @ x
        return mixed @ self.embed.mT


class SmallHeads(nn.Module):
    """Words (b, n, d_model) -> output (b, n, d_model), weights (b, h, n, n): self-attention, its bias on the output."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Parameter(torch.empty(d_model, d_model)) for _ in range(4))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        projected = (x @ w for w in (self.w_q, self.w_k, self.w_v))
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in projected)
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2) @ self.w_o + self.shift, weights


class FourLayers(nn.Module):
    """The linear layers of an attention layer, to be called one by one; it has no `forward` of its own."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))


class SmallTranslator(nn.Module):
    """A memory (b, k, d), ids (b, n) -> logits (b, n, vocab): the ids up to each ask the memory."""

    def __init__(self, vocab: int, max_len: int, d: int) -> None:
        super().__init__()
        self.embed, self.places = nn.Parameter(torch.empty(vocab, d)), nn.Parameter(torch.empty(max_len, d))

    def forward(self, memory: Tensor, ids: Tensor) -> Tensor:
        counts = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        x = (self.embed[ids] + self.places[counts - 1]).tanh()
        asks = x + x.cumsum(dim=1) / counts[:, None].to(x.dtype)
        return (asks + (asks @ memory.mT).softmax(dim=-1) @ memory) @ self.embed.mT


class SmallReader(nn.Module):
    """Ids (b, k) -> logits (b, places, signs), weights (b, places, k): so many learned questions ask the ids."""

    def __init__(self, vocab: int, places: int, signs: int, d: int) -> None:
        super().__init__()
        self.embed, self.questions = nn.Parameter(torch.empty(vocab, d)), nn.Parameter(torch.empty(places, d))
        self.answer, self.shift = nn.Parameter(torch.empty(d, signs)), nn.Parameter(torch.zeros(signs))

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.embed[ids]
        weights = (self.questions @ memory.mT).softmax(dim=-1)
        return (self.questions + weights @ memory).tanh() @ self.answer + self.shift, weights


class SmallWriter(nn.Module):
    """Ids (b, n) -> logits (b, n, vocab), in the layout of lesson 08's LanguageModel; each token may be read once.

    Its embedding and its blocks' keys count what goes through them, and refuse more than `reads` positions, those of
    all texts together.
    """

    def __init__(self, vocab: int, d_model: int, heads: int, depth: int, max_len: int, reads: int) -> None:
        super().__init__()
        from attnlib import EncoderBlock

        self.max_len = max_len
        self.embed, self.positions = _ReadOnce(vocab, d_model, reads), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(EncoderBlock(d_model, heads) for _ in range(depth))
        block: Any
        for block in self.blocks:
            block.attn.w_k = _KeyOnce(d_model, reads)
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, is_causal=True)
        logits: Tensor = self.head(self.norm(x))
        return logits


class _Once(nn.Module):
    left: int

    def count(self, positions: int) -> None:
        self.left -= positions
        if self.left < 0:
            details = "the prompt goes through once, and then each new token; the cache holds what they left behind"
            raise ContractBroken("memory", "reads tokens again that it has read before", details=details)


class _ReadOnce(_Once, nn.Embedding):
    def __init__(self, vocab: int, d_model: int, reads: int) -> None:
        super().__init__(vocab, d_model)
        self.left = reads

    def forward(self, ids: Tensor) -> Tensor:
        self.count(ids.numel())
        return super().forward(ids)


class _KeyOnce(_Once, nn.Linear):
    def __init__(self, d_model: int, reads: int) -> None:
        super().__init__(d_model, d_model)
        self.left = reads

    def forward(self, x: Tensor) -> Tensor:
        self.count(x.numel() // x.shape[-1])
        return super().forward(x)


class Fleeting:
    """An iterator of blocks that refuses the next one to anybody who still holds three, or copies of many.

    A loop's variable holds the last block while the next is made, and some begin with the first: two are no mistake.
    What is computed of a block is as large, and a few such tensors may be left at the end: not as many as half of them.
    """

    def __init__(self, blocks: Sequence[Tensor]) -> None:
        self.left = iter(blocks)
        self.given: list[weakref.ref[Tensor]] = []
        self.size = blocks[0].numel()
        gc.collect(1)  # what there is already is old then, and what is made from here on is young

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        held = sum(given() is not None for given in self.given)
        if held > 2:
            details = "three were still held when the next one was asked for, and there may be thousands"
            raise ContractBroken("memory", "holds the blocks that it has read", details=details)
        if (block := next(self.left, None)) is None:
            if _young(self.size) > len(self.given) / 2:
                details = "copies of more than half of them were still held at the end, and there may be thousands"
                raise ContractBroken("memory", "holds the blocks that it has read", details=details)
            raise StopIteration
        block = block.clone()
        self.given.append(weakref.ref(block))
        return block


def _young(size: int) -> int:
    """Count the tensors of so many numbers that the garbage collector holds to be young, whoever has them."""
    young = [held for generation in (0, 1) for held in gc.get_objects(generation)]
    return sum(issubclass(type(held), Tensor) and held.numel() == size for held in young)


MODELS = (SmallModel, SmallHeads, FourLayers, SmallTranslator, SmallReader, SmallWriter)
OWN: dict[str, type[nn.Module]] = {model.__name__: model for model in MODELS}


def made(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with objects for their descriptions; a generator is on the inputs' device."""
    devices = {t.device for t in inputs if isinstance(t, Tensor) and t.device.type != "meta"}  # where nothing is drawn
    return tuple(_made(value, *devices) for value in inputs)


def _made(value: Any, device: torch.device | str = "cpu", *_others: torch.device) -> Any:
    if isinstance(value, dict) and MODEL in value:
        return _model(value[MODEL])
    if isinstance(value, dict) and GENERATOR in value:
        return torch.Generator(device).manual_seed(value[GENERATOR])
    if isinstance(value, dict) and HELD in value:
        return dict(value[HELD])
    if isinstance(value, dict) and BLOCKS in value:
        return iter(value[BLOCKS])
    if isinstance(value, dict) and FLEETING in value:
        return Fleeting(value[FLEETING])
    if isinstance(value, dict) and OPTIMISER in value:
        return getattr(torch.optim, value[OPTIMISER])
    return value


def _model(value: Mapping[str, Any]) -> nn.Module:
    kind = OWN.get(value["kind"]) or getattr(importlib.import_module("attnlib"), value["kind"])
    model: nn.Module = kind(*value["sizes"])
    weights = {name: weight.detach().clone() for name, weight in value["weights"].items()}
    if "shift" in dict(model.named_parameters()):  # a parameter with one axis, for those who train only matrices
        weights["shift"] = next(iter(weights.values())).new_zeros(model.get_parameter("shift").shape)
    model.load_state_dict(weights, assign=True)
    linear = (layer for layer in model.modules() if isinstance(layer, nn.Linear))
    for layer, _ in zip(linear, range(int(value["hooks"])), strict=False):
        layer.register_forward_pre_hook(lambda _layer, _inputs: None)
    return model.train(bool(value["mode"]))


def seen(value: Any) -> Any:
    """Return what a person is to see of an input: a model's weights, or the name of what is made from a description."""
    if isinstance(value, dict) and MODEL in value:
        return list(value[MODEL]["weights"].values())
    if isinstance(value, dict) and GENERATOR in value:
        return f"torch.Generator().manual_seed({value[GENERATOR]})"
    if isinstance(value, dict) and OPTIMISER in value:
        return f"torch.optim.{value[OPTIMISER]}"
    return value


def note(objects: tuple[Any, ...], inputs: tuple[Any, ...]) -> None:
    """Write into the inputs how each model was left, and whether a generator has moved where the case asks.

    Weights that a model no longer has become NaN.
    """
    for model, value in zip(objects, inputs, strict=True):
        if isinstance(model, nn.Module):
            left, now = value[MODEL], dict(model.named_parameters())
            for name, weight in left["weights"].items():
                has_it = name in now and (now[name].shape, now[name].dtype) == (weight.shape, weight.dtype)
                weight.detach().copy_(now[name].detach() if has_it else torch.full_like(weight, torch.nan))
            left["mode"].fill_(model.training)
            left["frozen weights"].fill_(sum(not weight.requires_grad for weight in now.values()))
            left["hooks"].fill_(sum(map(_hooks, model.modules())))
            if "gradients" in left:
                left["gradients"].fill_(sum(weight.grad is not None for weight in now.values()))
        if isinstance(model, torch.Generator) and "moved" in value:
            unused = torch.Generator(model.device).manual_seed(value[GENERATOR])
            value["moved"].fill_(not torch.equal(model.get_state(), unused.get_state()))


def _hooks(layer: nn.Module) -> int:
    """The number of hooks a layer has, plus one if its `forward` has been replaced."""
    kinds = (layer._forward_pre_hooks, layer._forward_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return sum(map(len, kinds)) + ("forward" in vars(layer))
