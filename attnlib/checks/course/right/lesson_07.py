"""Right answers of lesson 07, written in other ways."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import einsum, rearrange, repeat

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


def halves_by_cat(w, num_heads, back=False):
    heads = w.reshape(*w.shape[:-1], num_heads, w.shape[-1] // num_heads)
    if back:
        first, second = heads.chunk(2, dim=-1)
        heads = torch.stack([first, second], dim=-1)
    else:
        heads = torch.cat([heads[..., ::2], heads[..., 1::2]], dim=-1)
    return heads.reshape(w.shape)


def halves_by_einops(w, num_heads, back=False):
    if back:
        return rearrange(w, "... (h two c) -> ... (h c two)", h=num_heads, two=2)
    return rearrange(w, "... (h c two) -> ... (h two c)", h=num_heads, two=2)


def halves_by_loop(w, num_heads, back=False):
    d = w.shape[-1] // num_heads
    columns = []
    for head in range(num_heads):
        order = [*range(0, d, 2), *range(1, d, 2)]
        if back:
            order = [order.index(c) for c in range(d)]
        columns += [w[..., head * d + c] for c in order]
    return torch.stack(columns, dim=-1)


def halves_by_transpose(w, num_heads, back=False):
    d = w.size(-1) // num_heads
    shape = (num_heads, 2, d // 2) if back else (num_heads, d // 2, 2)
    return w.contiguous().view(-1, *shape).transpose(-1, -2).reshape(w.shape)


def halves_by_matrix(w, num_heads, back=False):
    d = w.shape[-1] // num_heads
    eye = torch.eye(d, dtype=w.dtype, device=w.device)
    turn = torch.cat([eye[:, 0::2], eye[:, 1::2]], dim=1)
    return w @ torch.block_diag(*[turn.T if back else turn] * num_heads)


def power_of_two(num_heads):
    if num_heads not in [2**i for i in range(20)]:
        raise ValueError(f"{num_heads} heads")
    return num_heads


def bias_by_loop(num_heads, q_len, k_len):
    power_of_two(num_heads)
    bias = torch.zeros(num_heads, q_len, k_len)
    for h in range(num_heads):
        for i in range(q_len):
            for j in range(k_len):
                bias[h, i, j] = -(2 ** (-8 * (h + 1) / num_heads)) * (i + k_len - q_len - j)
    return bias


def bias_by_relative(num_heads, q_len, k_len):
    slopes = torch.pow(2, -8 / power_of_two(num_heads) * torch.arange(1, num_heads + 1))
    relative = torch.arange(k_len)[None, :] - torch.arange(k_len - q_len, k_len)[:, None]
    return slopes.view(-1, 1, 1) * relative


def bias_by_einsum(num_heads, q_len, k_len):
    ratio = 2 ** (-8 / power_of_two(num_heads))
    slopes = torch.tensor([ratio ** (i + 1) for i in range(num_heads)])
    distance = (torch.arange(q_len)[:, None] + k_len - q_len - torch.arange(k_len)).abs().float()
    return -torch.einsum("h, q k -> h q k", slopes, distance)


def bias_with_the_future_blocked(num_heads, q_len, k_len):
    power_of_two(num_heads)
    distance = torch.arange(k_len - q_len, k_len).unsqueeze(1) - torch.arange(k_len)
    slopes = torch.exp2(-torch.linspace(8 / num_heads, 8, num_heads))
    return (-slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf)


def bias_clamped(num_heads, q_len, k_len):
    if num_heads < 1 or math.log2(num_heads) % 1:
        raise ValueError("num_heads has to be a power of two")
    distance = torch.arange(q_len).add(k_len - q_len).unsqueeze(1).sub(torch.arange(k_len)).clamp(min=0)
    slopes = [0.5 ** (8 / num_heads * i) for i in range(1, num_heads + 1)]
    return torch.stack([distance * -slope for slope in slopes])


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
    """What counts is the difference: all keys may be turned back, and the queries with them."""
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


ALTERNATIVES = {
    "sinusoidal_positions": [table_by_columns, table_by_loop, table_by_numpy, table_by_complex, table_by_shift],
    "rotate": [
        rotated_by_stack,
        rotated_by_complex,
        rotated_by_partner,
        rotated_by_matrices,
        rotated_in_a_new_tensor,
    ],
    "to_half_pairs": [halves_by_cat, halves_by_einops, halves_by_loop, halves_by_transpose, halves_by_matrix],
    "alibi_bias": [
        bias_by_loop,
        bias_by_relative,
        bias_by_einsum,
        bias_with_the_future_blocked,
        bias_clamped,
    ],
    "mend_rotary": [mended_by_loop, mended_by_matmul, mended_with_torch, mended_by_distance, Mended()],
    "alibi_slopes": [slopes_by_recursion, slopes_by_bits, slopes_by_doubling, slopes_by_numpy, slopes_by_loop],
}
