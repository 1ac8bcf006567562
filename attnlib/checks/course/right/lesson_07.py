"""Right answers of lesson 07, written in other ways."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from einops import einsum, rearrange, repeat
from torch import Tensor, nn

import attnlib


def table_by_columns(n, d_model, base=10000.0):
    pos = torch.arange(n, dtype=torch.float64).unsqueeze(1)
    div = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(base) / d_model))
    pe = torch.zeros(n, d_model, dtype=torch.float64)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)[:, : d_model // 2]
    return pe.float()


def table_by_loop(n, d_model, base=10000.0):
    rows = []
    for pos in range(n):
        row = []
        for column in range(d_model):
            angle = pos / base ** (2 * (column // 2) / d_model)
            row.append(math.cos(angle) if column % 2 else math.sin(angle))
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float32)


def table_by_numpy(n, d_model, base=10000.0):
    columns = np.arange(d_model)
    angles = np.arange(n)[:, None] / np.power(base, 2 * (columns // 2) / np.float64(d_model))
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return torch.from_numpy(angles).to(torch.float32)


def table_by_complex(n, d_model, base=10000.0):
    speeds = base ** (-torch.arange(0, d_model, 2).double() / d_model)
    hands = torch.polar(torch.ones(n, len(speeds)).double(), torch.outer(torch.arange(n).double(), speeds))
    return torch.view_as_real(hands).flip(-1).flatten(1).float()[:, :d_model]


def table_by_shift(n, d_model, base=10000.0):
    column = torch.arange(d_model, dtype=torch.float64)
    angles = einsum(torch.arange(n).double(), base ** -((column - column % 2) / d_model), "n, d -> n d")
    return torch.sin(angles + column % 2 * math.pi / 2).to(torch.float32)


def angles_of(x, positions, base):
    if x.shape[-1] % 2:
        raise ValueError("odd width")
    d = x.shape[-1]
    freqs = 1.0 / (base ** (torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d))
    return positions.double().unsqueeze(-1) * freqs


def rotated_by_stack(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    sin, cos = angles.sin().type_as(x), angles.cos().type_as(x)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).reshape(x.shape)


def rotated_by_complex(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    turn = torch.complex(angles.cos().to(x.dtype), angles.sin().to(x.dtype))
    return torch.view_as_real(pairs * turn).flatten(-2)


def rotated_by_partner(x, positions, base=10000.0):
    angles = repeat(angles_of(x, positions, base), "... c -> ... (c two)", two=2)
    a, b = rearrange(x, "... (c two) -> two ... c", two=2)
    partner = rearrange(torch.stack([-b, a]), "two ... c -> ... (c two)")
    return x * torch.cos(angles).to(x.dtype) + partner * torch.sin(angles).to(x.dtype)


def rotated_by_matrices(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    turn = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    return (turn @ x.unflatten(-1, (-1, 2)).unsqueeze(-1)).squeeze(-1).flatten(-2)


def rotated_in_a_new_tensor(x, positions, base=10000.0):
    print(x.shape, positions.shape)
    *_, d = x.size()
    if d % 2 != 0:
        raise ValueError(f"d must be even, not {d}")
    result = torch.empty_like(x)
    for i in range(d // 2):
        angle = positions.to(torch.float64) / base ** (2 * i / d)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        result[..., 2 * i] = x[..., 2 * i] * cos - x[..., 2 * i + 1] * sin
        result[..., 2 * i + 1] = x[..., 2 * i] * sin + x[..., 2 * i + 1] * cos
    return result


def slopes_by_recursion(num_heads):
    if math.log2(num_heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(num_heads) - 3)))
        return torch.tensor([start * start**i for i in range(num_heads)])
    below = 2 ** math.floor(math.log2(num_heads))
    return torch.cat([slopes_by_recursion(below), slopes_by_recursion(2 * below)[0::2][: num_heads - below]])


def slopes_by_bits(num_heads):
    below = 1 << (num_heads.bit_length() - 1)
    first = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    others = [2 ** (-4 * i / below) for i in range(1, 2 * below, 2)]
    return torch.tensor((first + others)[:num_heads], dtype=torch.float32)


def slopes_by_doubling(num_heads):
    below = 1
    while 2 * below <= num_heads:
        below *= 2
    exponents = torch.arange(1, below + 1) * (8 / below)
    between = exponents - 4 / below
    return 2 ** -torch.cat([exponents, between])[:num_heads]


def slopes_by_numpy(num_heads):
    below = 2 ** int(np.floor(np.log2(num_heads)))
    slopes = np.exp2(-8 * np.arange(1, below + 1) / below)
    more = np.exp2(-8 * np.arange(1, 2 * below + 1, 2) / (2 * below))
    return torch.from_numpy(np.concatenate([slopes, more[: num_heads - below]])).float()


def slopes_by_loop(num_heads):
    below = max(p for p in (2**i for i in range(12)) if p <= num_heads)
    slopes = []
    for head in range(num_heads):
        if head < below:
            slopes.append(0.5 ** (8 * (head + 1) / below))
        else:
            slopes.append(0.5 ** (4 * (2 * (head - below) + 1) / below))
    return torch.tensor(slopes)


def bias_by_loop(num_heads, q_len, k_len):
    slopes = slopes_by_recursion(num_heads)
    bias = torch.zeros(num_heads, q_len, k_len)
    for h in range(num_heads):
        for i in range(q_len):
            for j in range(k_len):
                bias[h, i, j] = -slopes[h] * (i + k_len - q_len - j)
    return bias


def bias_by_relative(num_heads, q_len, k_len):
    relative = torch.arange(k_len)[None, :] - torch.arange(k_len - q_len, k_len)[:, None]
    return slopes_by_bits(num_heads).view(-1, 1, 1) * relative


def bias_by_einsum(num_heads, q_len, k_len):
    distance = (torch.arange(q_len)[:, None] + k_len - q_len - torch.arange(k_len)).abs().float()
    return -torch.einsum("h, q k -> h q k", slopes_by_numpy(num_heads), distance)


def bias_with_the_future_blocked(num_heads, q_len, k_len):
    distance = torch.arange(k_len - q_len, k_len).unsqueeze(1) - torch.arange(k_len)
    return (-slopes_by_loop(num_heads)[:, None, None] * distance).masked_fill(distance < 0, -math.inf)


def bias_clamped(num_heads, q_len, k_len):
    distance = torch.arange(q_len).add(k_len - q_len).unsqueeze(1).sub(torch.arange(k_len)).clamp(min=0)
    return torch.stack([distance * -slope for slope in slopes_by_doubling(num_heads)])


def trained_by_a_schedule(model, ids, targets, lr, warmup, make=torch.optim.SGD):
    steps = len(ids)
    optimiser = make(model.parameters(), lr=lr)
    shape = lambda step: min(1, (step + 1) / warmup) * (1 - step / steps)  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, shape)
    losses = []
    for x, wanted in zip(ids, targets, strict=True):
        loss = F.cross_entropy(model(x)[:, -wanted.shape[1] :].transpose(1, 2), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=next(model.parameters()).dtype)


def trained_at_given_rates(model, ids, targets, lr, warmup, make=torch.optim.SGD):
    steps = len(ids)
    counts = torch.arange(steps, dtype=torch.float64)
    rates = lr * ((counts + 1) / warmup).clamp(max=1) * (1 - counts / steps)
    optimiser, losses = make(model.parameters(), lr=1.0), []
    for i, rate in enumerate(rates.tolist()):
        optimiser.param_groups[0]["lr"] = rate
        model.zero_grad()
        left_out = ids.shape[2] - targets.shape[2]
        logits = model(ids[i])[:, left_out:]
        losses.append(F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets[i].reshape(-1)))
        losses[-1].backward()
        optimiser.step()
    return torch.stack(losses).detach()


def trained_by_given_gradients(model, ids, targets, lr, warmup, make=torch.optim.SGD):
    weights = [*model.parameters()]
    optimiser, losses = make(weights, lr=lr), []
    for step in range(len(ids)):
        share = (step + 1) / warmup if step + 1 < warmup else 1.0
        optimiser.param_groups[0].update(lr=share * lr * (len(ids) - step) / len(ids))
        chances = model(ids[step])[:, -targets.shape[2] :].log_softmax(-1)
        loss = -chances.gather(-1, targets[step][..., None]).mean()
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, allow_unused=True), strict=True):
            weight.grad = gradient
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def trained_with_padded_targets(model, ids, targets, lr, warmup, make=torch.optim.SGD):
    """The first tokens get a target that does not count."""
    padded = F.pad(targets, (ids.shape[2] - targets.shape[2], 0), value=-100)
    optimiser, losses = make(model.parameters(), lr=lr), torch.zeros(len(ids), dtype=next(model.parameters()).dtype)
    for step in range(len(ids)):
        for group in optimiser.param_groups:
            group["lr"] = lr * min(step + 1, warmup) / warmup * (1 - step / len(ids))
        loss = F.cross_entropy(model(ids[step]).mT, padded[step])
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        optimiser.step()
        losses[step] = loss.detach()
    return losses


class Trainer:
    def __call__(self, model, ids, targets, lr, warmup, make=torch.optim.SGD):
        optimiser = make(model.parameters(), lr=lr)
        return torch.stack(
            [
                self.step(model, optimiser, ids[i], targets[i], lr * min(1, (i + 1) / warmup) * (1 - i / len(ids)))
                for i in range(len(ids))
            ]
        )

    def step(self, model, optimiser, x, wanted, rate):
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        logits = model(x)[:, x.shape[1] - wanted.shape[1] :]
        loss = F.cross_entropy(logits.permute(0, 2, 1), wanted, reduction="sum") / wanted.numel()
        loss.backward()
        optimiser.step()
        return loss.detach()


@torch.no_grad()
def read_by_slices(model, ids, window):
    losses = []
    for i in range(ids.shape[1] - 1):
        seen = ids[:, : i + 1][:, -window:]
        losses.append(F.cross_entropy(model(seen)[:, -1, :], ids[:, i + 1]).item())
    return torch.tensor(losses, dtype=next(model.parameters()).dtype)


@torch.inference_mode()
def read_by_gathering(model, ids, window):
    losses = torch.zeros(ids.shape[1] - 1, dtype=next(model.parameters()).dtype)
    for i, target in enumerate(ids.T[1:]):
        first = i + 1 - window if i + 1 > window else 0
        chances = model(ids[:, first : i + 1])[:, -1].log_softmax(-1)
        losses[i] = -chances.gather(-1, target[:, None]).mean()
    return losses.clone()


def read_text_by_text(model, ids, window):
    rows = []
    for text in ids:
        row = []
        for i in range(1, len(text)):
            logits = model(text[None, max(i - window, 0) : i])[0, -1]
            row.append(logits.logsumexp(-1) - logits[text[i]])
        rows.append(torch.stack(row).detach())
    return torch.stack(rows).mean(dim=0)


def read_the_whole_first(model, ids, window):
    """As long as the window holds all, one pass gives every guess; after that, windows of one length."""
    n = ids.shape[1]
    with torch.no_grad():
        guesses = [*model(ids[:, : min(window, n - 1)]).unbind(dim=1)]
        for i in range(window + 1, n):
            guesses.append(model(ids[:, i - window : i])[:, -1])
        return torch.stack([F.cross_entropy(g, ids[:, i]) for i, g in enumerate(guesses, 1)])


def read_by_unfolding(model, ids, window):
    b, n = ids.shape
    with torch.no_grad():
        early = [model(ids[:, :i])[:, -1] for i in range(1, min(window, n))]
        late = []
        if n > window:
            pieces = ids[:, :-1].unfold(1, window, 1)  # (b, pieces, window)
            logits = model(pieces.flatten(0, 1))[:, -1].unflatten(0, (b, -1))
            late = [*logits.unbind(dim=1)]
        logits = torch.stack([*early, *late], dim=1)
        return F.cross_entropy(logits.mT, ids[:, 1:], reduction="none").mean(dim=0)


def mended_by_loop(q, k, v, past_k, past_v):
    m, n = past_k.shape[-2], q.shape[-2]
    outputs = []
    for i in range(n):
        positions = torch.arange(m, m + i + 1, device=q.device)
        keys = torch.cat([past_k, attnlib.rotate(k[..., : i + 1, :], positions)], dim=-2)
        values = torch.cat([past_v, v[..., : i + 1, :]], dim=-2)
        query = attnlib.rotate(q[..., i : i + 1, :], positions[-1:])
        outputs.append(attnlib.scaled_dot_product_attention(query, keys, values))
    return torch.cat(outputs, dim=-2)


def mended_by_matmul(q, k, v, past_k, past_v):
    m, n, d = past_k.shape[2], q.shape[2], q.shape[3]
    places = m + torch.arange(n, device=q.device)
    keys = torch.cat((past_k, attnlib.rotate(k, places)), 2)
    scores = attnlib.rotate(q, places) @ keys.transpose(-2, -1) / math.sqrt(d)
    blocked = torch.ones(n, m + n, dtype=torch.bool, device=q.device).triu(m + 1)
    return scores.masked_fill(blocked, -math.inf).softmax(-1) @ torch.cat((past_v, v), 2)


def mended_with_torch(q, k, v, past_k, past_v):
    length = past_k.shape[-2] + k.shape[-2]
    rotary = attnlib.Rotary(q.shape[-1])
    q, k = rotary(q, offset=past_k.shape[-2]), rotary(k, offset=past_k.shape[-2])
    mask = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()[-q.shape[-2] :]
    return F.scaled_dot_product_attention(
        q, torch.cat([past_k, k], dim=-2), torch.cat([past_v, v], dim=-2), attn_mask=mask
    )


def mended_by_distance(q, k, v, past_k, past_v):
    """Use that only the difference counts: all keys may be turned back, and the queries with them."""
    n, m = q.size(-2), past_k.size(-2)
    positions = torch.arange(n, device=q.device)
    back = torch.full((m,), -m, device=q.device)
    keys = torch.cat([attnlib.rotate(past_k, back), attnlib.rotate(k, positions)], dim=-2)
    values = torch.cat([past_v, v], dim=-2)
    return attnlib.scaled_dot_product_attention(attnlib.rotate(q, positions), keys, values, is_causal=True)


class Mended:
    def __call__(self, q, k, v, past_k, past_v):
        new = range(past_k.shape[-2], past_k.shape[-2] + q.shape[-2])
        positions = torch.tensor([*new], device=q.device)
        q, k = attnlib.rotate(q, positions), rotated_by_stack(k, positions)
        keys, values = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
        mask = attnlib.causal_mask(q.shape[2], keys.shape[2], device=q.device)
        return attnlib.scaled_dot_product_attention(q, keys, values, mask=mask)


def sinusoidal_positions(n: int, d_model: int, base: float = 10000.0) -> Tensor:
    """A cosine is a sine a quarter turn ahead: one formula for all columns, odd ones shifted by π/2."""
    column = torch.arange(d_model, dtype=torch.float64)
    speeds = base ** (-(column - column % 2) / d_model)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * speeds
    return torch.sin(angles + column % 2 * torch.pi / 2).float()


def rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Two columns are one complex number, and turning it means multiplying by e^{iθ}, as LLaMA's own code does."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"d must be even (columns are rotated in pairs), got {d}")
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d)
    angles = positions.double()[..., None] * speeds
    pairs = torch.view_as_complex(rearrange(x, "... (d two) -> ... d two", two=2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles).to(pairs.dtype)).flatten(-2)


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """`bit_length` finds the power of two in whole numbers, where a logarithm could be rounded the wrong way."""
    below = 1 << (num_heads.bit_length() - 1)
    series, longer = ([2 ** (-8 * i / h) for i in range(1, h + 1)] for h in (below, 2 * below))
    slopes = torch.tensor([*series, *longer[::2]][:num_heads])
    ahead = torch.arange(k_len) - torch.arange(k_len - q_len, k_len)[:, None]
    return torch.einsum("h,qk->hqk", slopes, ahead.float())


def train_with_warmup(
    model: nn.Module, ids: Tensor, targets: Tensor, lr: float, warmup: int, make: Any = torch.optim.SGD
) -> Tensor:
    """A scheduler multiplies `lr` by what the function says of a step; `schedule.step()` goes to the next one."""
    optimiser, losses = make(model.parameters(), lr=lr), []
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / warmup) * (1 - step / len(ids))
    )
    for x, wanted in zip(ids, targets, strict=True):
        loss = F.cross_entropy(model(x)[:, -wanted.shape[1] :].mT, wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def read_in_windows(model: nn.Module, ids: Tensor, window: int) -> Tensor:
    """Two slices replace `max`: everything before the token, and of that the last `window`."""
    seen = (ids[:, :i][:, -window:] for i in range(1, ids.shape[1]))
    with torch.no_grad():
        return torch.stack([F.cross_entropy(model(x)[:, -1], ids[:, i]) for i, x in enumerate(seen, 1)])


def mend_rotary(q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor) -> Tensor:
    """The mask written out: new word i is word m + i of the text, and sees everything up to itself."""
    m, n = past_k.shape[-2], q.shape[-2]
    new = torch.arange(m, m + n, device=q.device)
    keys = torch.cat([past_k, attnlib.rotate(k, new)], dim=-2)
    scores = attnlib.rotate(q, new) @ keys.mT / math.sqrt(q.shape[-1])
    past = torch.arange(m + n, device=q.device) <= new[:, None]
    return scores.masked_fill(~past, -torch.inf).softmax(dim=-1) @ torch.cat([past_v, v], dim=-2)


ALTERNATIVES = {
    "sinusoidal_positions": [
        sinusoidal_positions,
        table_by_columns,
        table_by_loop,
        table_by_numpy,
        table_by_complex,
        table_by_shift,
    ],
    "rotate": [
        rotate,
        rotated_by_stack,
        rotated_by_complex,
        rotated_by_partner,
        rotated_by_matrices,
        rotated_in_a_new_tensor,
    ],
    "alibi_bias": [
        alibi_bias,
        bias_by_loop,
        bias_by_relative,
        bias_by_einsum,
        bias_with_the_future_blocked,
        bias_clamped,
    ],
    "train_with_warmup": [
        train_with_warmup,
        trained_by_a_schedule,
        trained_at_given_rates,
        trained_by_given_gradients,
        trained_with_padded_targets,
        Trainer(),
    ],
    "read_in_windows": [
        read_in_windows,
        read_by_slices,
        read_by_gathering,
        read_text_by_text,
        read_the_whole_first,
        read_by_unfolding,
    ],
    "mend_rotary": [mend_rotary, mended_by_loop, mended_by_matmul, mended_with_torch, mended_by_distance, Mended()],
}
