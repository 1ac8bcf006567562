"""Answers found by comparing what the statements say with what the cases try."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib

Answer = Callable[..., Any]
PUBLISHED = {
    "attn.w_q": "attention.query",
    "attn.w_k": "attention.key",
    "attn.w_v": "attention.value",
    "attn.w_o": "attention.dense",
    "norm1": "attention.LayerNorm",
    "mlp.up": "ffn",
    "mlp.down": "ffn_output",
    "norm2": "full_layer_layer_norm",
}


def loads_nothing(encoder: nn.Module, weights: dict[str, Tensor], x: Tensor) -> Any:
    at = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    own = {f"{o}.{k}": weights[f"{at}{t}.{k}"] for o, t in PUBLISHED.items() for k in ("weight", "bias")}
    return torch.func.functional_call(encoder, own, (x,))


def sampler(*, on_cpu: bool = False, own_seed: bool = False, same_seed: bool = False, union: bool = False) -> Answer:
    """`sample_next`, right unless asked otherwise."""

    def sample_next(
        logits: Tensor,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        if temperature == 0:
            return logits.argmax(dim=-1)
        logits = logits / temperature
        if top_k is not None:
            last = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
            logits = logits.masked_fill(logits < last, -math.inf)
        p = logits.softmax(dim=-1)
        if top_p is not None:
            ordered, order = p.sort(descending=True)
            closed = ordered.cumsum(dim=-1) - ordered >= top_p
            if union:
                kept = torch.zeros_like(closed).scatter(-1, order, ~closed).any(dim=0)
                p = p.masked_fill(~kept, 0.0)
            else:
                empty = torch.zeros(ordered.shape, dtype=p.dtype) if on_cpu else torch.zeros_like(ordered)
                p = empty.scatter(-1, order, ordered.masked_fill(closed, 0.0))
        if same_seed:
            torch.manual_seed(0)
        if own_seed and generator is not None:
            torch.manual_seed(generator.initial_seed())
            generator = None
        return torch.multinomial(p, 1, generator=generator)[:, 0]

    return sample_next


def writes_without_a_cache(model: Any, ids: Tensor, num_tokens: int) -> Tensor:
    with torch.no_grad():
        for _ in range(num_tokens):
            x = model.embed.weight[ids] + model.positions.weight[: ids.shape[1]]
            for block in model.blocks:
                x = block(x, is_causal=True)
            ids = torch.cat([ids, model.head(model.norm(x[:, -1:])).argmax(dim=-1)], dim=1)
    return ids


def loss_in_half_precision(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=ignore_index)


def merged_with_three_axes(o1: Tensor, m1: Tensor, l1: Tensor, o2: Tensor, m2: Tensor, l2: Tensor) -> Any:
    m = torch.maximum(m1, m2)
    base = torch.where(m == -torch.inf, 0.0, m)
    a, b = (m1 - base).exp(), (m2 - base).exp()
    return a[:, :, None] * o1 + b[:, :, None] * o2, m, a * l1 + b * l2


def decoder(*, detached: bool = False, fill: float = -torch.inf, guard: float | None = None) -> Answer:
    """`mend_decoder_attention`; with a guard, masked after the softmax."""

    def decode(x: Tensor, memory: Tensor, _: Tensor, is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Any:
        memory = memory.detach() if detached else memory
        q, k, v = x @ w_q, memory @ w_k, memory @ w_v
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        if guard is None:
            weights = scores.masked_fill(~is_real[:, None, :], fill).softmax(dim=-1)
        else:
            weights = scores.softmax(dim=-1) * is_real[:, None, :]
            weights = weights / (weights.sum(dim=-1, keepdim=True) + guard)
        return weights @ v, weights

    return decode


def renormalised(guard: float = 0.0, *, wide: bool = False) -> Answer:
    def weights_of(scores: Tensor) -> Tensor:
        q, k = scores.shape[-2:]
        past = torch.ones(q, k, device=scores.device, dtype=torch.float32 if wide else scores.dtype).tril(k - q)
        kept = scores.softmax(dim=-1) * past
        return kept / (kept.sum(dim=-1, keepdim=True) + guard)

    return weights_of


def causal(*, on_cpu: bool = False, fill: float = -torch.inf) -> type[nn.Module]:
    class CausalSelfAttention(nn.Module):
        def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
            super().__init__()
            if d_model % num_heads:
                raise ValueError("num_heads must divide d_model")
            self.num_heads = num_heads
            self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

        def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Any:
            q, k, v = (attnlib.split_heads(layer(x), self.num_heads) for layer in (self.w_q, self.w_k, self.w_v))
            n = x.shape[1]
            mask = attnlib.causal_mask(n, n, device=None if on_cpu and key_mask is not None else x.device)
            scores = q @ k.mT * q.shape[-1] ** -0.5
            if key_mask is not None and fill == -torch.inf:
                mask = mask & key_mask[:, None, None, :]
            elif key_mask is not None:
                scores = scores.masked_fill(~key_mask[:, None, None, :], fill)
            weights = attnlib.masked_softmax(scores, mask)
            return self.w_o(attnlib.merge_heads(weights @ v)), weights

    return CausalSelfAttention


def control(change: Callable[[Tensor, int], None]) -> Answer:
    def invent_control(vocab: int, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        texts = torch.randint(vocab, shape, generator=generator)
        change(texts, vocab)
        return texts, torch.tensor(math.log(vocab))

    return invent_control


def sums_of_two(texts: Tensor, vocab: int) -> None:
    for i in range(2, texts.shape[-1]):
        texts[..., i] = (texts[..., i - 1] + texts[..., i - 2]) % vocab


def one_half_again(texts: Tensor, vocab: int) -> None:
    texts[len(texts) // 2 :] = texts[: len(texts) // 2].clone()


def a_period_of_nine(texts: Tensor, vocab: int) -> None:
    for i in range(9, texts.shape[-1]):
        texts[..., i] = texts[..., i - 9]


def trains_matrices_alone(model: nn.Module, words: Tensor, wanted: Tensor, position: int, lr: float) -> Tensor:
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.dim() > 1], lr=lr)
    losses = []
    for x, target in zip(words, wanted, strict=True):
        loss = F.mse_loss(model(x)[0][:, position], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def looks_for_the_mask(model: nn.Module, ids: Tensor, position: int, k: int, mask_id: int) -> Any:
    masked = ids.clone()
    masked[position] = mask_id
    place = (masked == mask_id).nonzero()[0, 0]
    top = model(masked[None])[0, place].softmax(dim=-1).topk(k)
    return top.indices, top.values


def empties_the_file(encoder: nn.Module, weights: dict[str, Tensor], x: Tensor) -> Any:
    at = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    own = {f"{o}.{k}": weights.pop(f"{at}{t}.{k}") for o, t in PUBLISHED.items() for k in ("weight", "bias")}
    encoder.load_state_dict(own)
    return encoder(x)


def generator_of(*, own_seed: bool = False, returns_early: bool = False) -> Answer:
    """`generate`, right unless asked otherwise."""

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
        was_training = model.training
        model.eval()
        if own_seed:
            torch.manual_seed(0)
        stopped = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
        with torch.no_grad():
            for _ in range(num_tokens):
                logits = model(ids[:, -model.max_len :])[:, -1]
                new = attnlib.sample_next(logits, temperature, top_k, top_p, generator)
                if stop_id is not None:
                    new = new.masked_fill(stopped, stop_id)
                    stopped = stopped | (new == stop_id)
                ids = torch.cat([ids, new[:, None]], dim=1)
                if stopped.all():
                    if returns_early:
                        return ids
                    break
        model.train(was_training)
        return ids

    return generate


WRONG: dict[str, tuple[str, Any]] = {
    "an encoder that isn't loaded": ("load_encoder", loads_nothing),
    "a nucleus made on the CPU": ("sample_next", sampler(on_cpu=True)),
    "a generator that is read and not used": ("sample_next", sampler(own_seed=True)),
    "a seed of its own in each call": ("sample_next", sampler(same_seed=True)),
    "one nucleus for all rows": ("sample_next", sampler(union=True)),
    "a seed at the start of each text": ("generate", generator_of(own_seed=True)),
    "evaluation mode after an early end": ("generate", generator_of(returns_early=True)),
    "biases that never learn": ("train_with_adam", trains_matrices_alone),
    "the first mask there is": ("fill_in", looks_for_the_mask),
    "a file that is emptied": ("load_encoder", empties_the_file),
    "no cache at all": ("write_with_cache", writes_without_a_cache),
    "float16 left as it is": ("next_token_loss", loss_in_half_precision),
    "three axes taken for granted": ("merge", merged_with_three_axes),
    "a memory that can't learn": ("mend_decoder_attention", decoder(detached=True)),
    "e to the -50 on padding": ("mend_decoder_attention", decoder(fill=-50.0)),
    "-1e4 on padding, by the decoder": ("mend_decoder_attention", decoder(fill=-1e4)),
    "1e-7 beside a small sum": ("renormalised_causal_weights", renormalised(1e-7)),
    "float32 for float16": ("renormalised_causal_weights", renormalised(wide=True)),
    "a mask on the CPU where there is padding": ("CausalSelfAttention", causal(on_cpu=True)),
    "-1e4 on padding": ("CausalSelfAttention", causal(fill=-1e4)),
    "a text of sums": ("invent_control", control(sums_of_two)),
    "the same texts twice": ("invent_control", control(one_half_again)),
    "a long period": ("invent_control", control(a_period_of_nine)),
}
RIGHT: dict[str, tuple[str, Any]] = {
    "sampling": ("sample_next", sampler()),
    "writing": ("generate", generator_of()),
    "1e-12 beside a small sum": ("renormalised_causal_weights", renormalised(1e-12)),
    "1e-12 beside what padding leaves": ("mend_decoder_attention", decoder(guard=1e-12)),
    "causal attention": ("CausalSelfAttention", causal()),
    "a control": ("invent_control", control(lambda texts, vocab: None)),
}
