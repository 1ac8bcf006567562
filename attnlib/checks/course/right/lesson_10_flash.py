"""Right answers of lesson 10 about attention in tiles and its gradients, written in other ways."""

import math

import torch
from einops import einsum
from torch import Tensor

INF = float("inf")


def tiles(n, size):
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def future(rows, columns, like):
    i = torch.arange(*rows, device=like.device)[:, None]
    return torch.arange(*columns, device=like.device) > i


def flash_from_the_diagonal(q, k, v, block_size, is_causal):
    """The block on the diagonal first, then back into the past, then the rest."""
    n, results = q.shape[-2], []
    for a, b in tiles(n, block_size):
        order = sorted(tiles(n, block_size), key=lambda part, a=a: (part[0] > a, -part[0]))
        order = [part for part in order if not (is_causal and part[0] >= b)]
        m = total = o = None
        for c, d in order:
            s = torch.einsum("...qd,...kd->...qk", q[..., a:b, :], k[..., c:d, :]) / math.sqrt(q.shape[-1])
            if is_causal:
                s = s.masked_fill(future((a, b), (c, d), q), -INF)
            new = s.amax(-1, keepdim=True) if m is None else torch.maximum(m, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            if m is None:
                total, o = p.sum(-1, keepdim=True), p @ v[..., c:d, :]
            else:
                total = total * torch.exp(m - new) + p.sum(-1, keepdim=True)
                o = o * torch.exp(m - new) + p @ v[..., c:d, :]
            m = new
        results.append((o / total, (m + torch.log(total)).squeeze(-1)))
    return torch.cat([o for o, _ in results], -2), torch.cat([lse for _, lse in results], -1)


def flash_row_by_row(q, k, v, block_size, is_causal):
    outputs, sums = [], []
    for i in range(q.shape[-2]):
        stop = i + 1 if is_causal else q.shape[-2]
        scores = (k[..., :stop, :] @ q[..., i, :, None])[..., 0] * q.shape[-1] ** -0.5
        lse = torch.logsumexp(scores, dim=-1, keepdim=True)
        outputs.append(((scores - lse).exp()[..., None, :] @ v[..., :stop, :])[..., 0, :])
        sums.append(lse[..., 0])
    return torch.stack(outputs, dim=-2), torch.stack(sums, dim=-1)


@torch.inference_mode()
def flash_keys_outside(q, k, v, block_size, is_causal):
    """The outer loop is over the keys, and the sums of all queries are carried along."""
    n, scale = q.shape[-2], 1 / math.sqrt(q.shape[-1])
    m = torch.full(q.shape[:-1], -INF, dtype=q.dtype, device=q.device)
    total, o = torch.zeros_like(m), torch.zeros(v.shape, dtype=v.dtype, device=v.device)
    for c in range(0, n, block_size):
        first = c if is_causal else 0
        s = q[..., first:, :] @ k[..., c : c + block_size, :].transpose(-2, -1) * scale
        if is_causal:
            s = s.masked_fill(future((first, n), (c, min(c + block_size, n)), q), -INF)
        new = torch.maximum(m[..., first:], s.amax(-1))
        shrink, p = (m[..., first:] - new).exp(), (s - new.unsqueeze(-1)).exp()
        total[..., first:] = total[..., first:] * shrink + p.sum(-1)
        o[..., first:, :] = o[..., first:, :] * shrink.unsqueeze(-1) + p @ v[..., c : c + block_size, :]
        m[..., first:] = new
    return o / total.unsqueeze(-1), m + total.log()


def merged(one, other):
    (o1, m1, l1), (o2, m2, l2) = one, other
    m = torch.maximum(m1, m2)
    a, b = (m1 - m).exp(), (m2 - m).exp()
    return a[..., None] * o1 + b[..., None] * o2, m, a * l1 + b * l2


class FlashByMerging:
    def part(self, q, k, v, rows, columns, is_causal):
        s = einsum(q[..., slice(*rows), :], k[..., slice(*columns), :], "... q d, ... k d -> ... q k")
        s = s * q.size(-1) ** -0.5
        if is_causal and columns[1] > rows[0]:
            s = torch.where(future(rows, columns, q), torch.tensor(-INF, dtype=s.dtype, device=s.device), s)
        m = s.amax(-1)
        p = (s - m[..., None]).exp()
        return p @ v[..., slice(*columns), :], m, p.sum(-1)

    def __call__(self, q, k, v, block_size, is_causal):
        output, lse = torch.empty_like(v), torch.empty_like(q[..., 0])
        every = tiles(q.shape[-2], block_size)
        for i, rows in enumerate(every):
            state = self.part(q, k, v, rows, every[0], is_causal)
            for columns in every[1 : i + 1] if is_causal else every[1:]:
                state = merged(state, self.part(q, k, v, rows, columns, is_causal))
            o, m, total = state
            output[..., slice(*rows), :], lse[..., slice(*rows)] = o / total[..., None], m + torch.log(total)
        return output, lse


def flash_kept_divided(q, k, v, block_size, is_causal):
    """Output and log-sum-exp are right after every block."""
    q = q / q.shape[-1] ** 0.5
    parts = []
    for rows in tiles(q.shape[-2], block_size):
        lse = q.new_full((*q.shape[:-2], rows[1] - rows[0]), -INF)
        o = v.new_zeros(*v.shape[:-2], rows[1] - rows[0], v.shape[-1])
        for columns in tiles(q.shape[-2], block_size):
            if is_causal and columns[0] > rows[1] - 1:
                continue
            s = q[..., rows[0] : rows[1], :] @ k[..., columns[0] : columns[1], :].mT
            s = s.masked_fill(future(rows, columns, q) & is_causal, -INF)
            new = torch.logaddexp(lse, s.logsumexp(-1))
            o = o * (lse - new).exp()[..., None] + (s - new[..., None]).exp() @ v[..., columns[0] : columns[1], :]
            lse = new
        parts.append((o, lse))
    outputs, sums = zip(*parts, strict=True)
    return torch.cat(outputs, dim=-2), torch.cat(sums, dim=-1)


def weights_again(q, k, lse, rows, columns, is_causal):
    (a, b), (c, d) = rows, columns
    s = q[..., a:b, :] @ k[..., c:d, :].mT * q.shape[-1] ** -0.5
    p = torch.exp(s - lse[..., a:b].unsqueeze(-1))
    return p * ~future(rows, columns, q) if is_causal else p


def backward_keys_outside(q, k, v, o, lse, grad_o, block_size, is_causal):
    n, scale = q.shape[-2], q.shape[-1] ** -0.5
    d_q, d_k, d_v, along = torch.zeros_like(q), [], [], (o * grad_o).sum(-1)
    for columns in tiles(n, block_size):
        c, d = columns
        dk = dv = 0
        for a, b in tiles(n, block_size):
            if is_causal and b <= c:
                continue
            p = weights_again(q, k, lse, (a, b), columns, is_causal)
            ds = p * (grad_o[..., a:b, :] @ v[..., c:d, :].mT - along[..., a:b, None]) * scale
            d_q[..., a:b, :] += ds @ k[..., c:d, :]
            dk = dk + ds.mT @ q[..., a:b, :]
            dv = dv + p.mT @ grad_o[..., a:b, :]
        d_k.append(dk)
        d_v.append(dv)
    return d_q, torch.cat(d_k, dim=-2), torch.cat(d_v, dim=-2)


def backward_row_by_row(q, k, v, o, lse, grad_o, block_size, is_causal):
    d_q, d_k, d_v = (torch.zeros(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))
    scale = 1 / math.sqrt(q.shape[-1])
    for i in range(q.shape[-2]):
        stop = i + 1 if is_causal else q.shape[-2]
        s = (k[..., :stop, :] @ q[..., i, :, None])[..., 0] * scale
        p = torch.exp(s - lse[..., i, None])
        dp = (v[..., :stop, :] @ grad_o[..., i, :, None])[..., 0]
        ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * scale
        d_q[..., i, :] = (ds[..., None, :] @ k[..., :stop, :])[..., 0, :]
        d_k[..., :stop, :] += ds[..., None] * q[..., i, None, :]
        d_v[..., :stop, :] += p[..., None] * grad_o[..., i, None, :]
    return d_q, d_k, d_v


@torch.inference_mode()
def backward_by_einsum(q, k, v, o, lse, grad_o, block_size, is_causal):
    along = torch.einsum("...nd,...nd->...n", o, grad_o)
    scaled = q * q.shape[-1] ** -0.5
    d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for a, b in tiles(q.shape[-2], block_size):
        for c, d in tiles(q.shape[-2], block_size):
            if is_causal and c >= b:
                break
            s = torch.einsum("...qd,...kd->...qk", scaled[..., a:b, :], k[..., c:d, :])
            s = s.masked_fill(future((a, b), (c, d), q), -INF) if is_causal else s
            p = (s - lse[..., a:b, None]).exp()
            ds = p * (torch.einsum("...qd,...kd->...qk", grad_o[..., a:b, :], v[..., c:d, :]) - along[..., a:b, None])
            d_q[..., a:b, :] += torch.einsum("...qk,...kd->...qd", ds, k[..., c:d, :])
            d_k[..., c:d, :] += torch.einsum("...qk,...qd->...kd", ds, scaled[..., a:b, :])
            d_v[..., c:d, :] += torch.einsum("...qk,...qd->...kd", p, grad_o[..., a:b, :])
    return d_q * q.shape[-1] ** -0.5, d_k, d_v


def backward_all_queries_by_block_of_keys(q, k, v, o, lse, grad_o, block_size, is_causal):
    n, scale = q.shape[-2], q.shape[-1] ** -0.5
    along, d_q, both = (grad_o * o).sum(dim=-1, keepdim=True), torch.zeros_like(q), []
    for columns in tiles(n, block_size):
        part = slice(*columns)
        p = weights_again(q, k, lse, (0, n), columns, False)
        if is_causal:
            p = p.masked_fill(future((0, n), columns, q), 0)
        ds = scale * p * (grad_o @ v[..., part, :].mT - along)
        d_q = d_q + ds @ k[..., part, :]
        both.append((ds.mT @ q, p.mT @ grad_o))
    return [d_q, *(torch.cat(parts, dim=-2) for parts in zip(*both, strict=True))]


def backward_by_autograd(q, k, v, o, lse, grad_o, block_size, is_causal):
    """Autograd, one block of queries at a time: each of them is a small attention of its own."""
    d_q, d_k, d_v = (torch.zeros_like(t) for t in (q, k, v))
    for a, b in tiles(q.shape[-2], block_size):
        stop = b if is_causal else q.shape[-2]
        with torch.enable_grad():
            given = [t.detach().requires_grad_() for t in (q[..., a:b, :], k[..., :stop, :], v[..., :stop, :])]
            scores = given[0] @ given[1].mT / math.sqrt(q.shape[-1])
            if is_causal:
                scores = scores.masked_fill(future((a, b), (0, stop), q), -INF)
            output = torch.softmax(scores, dim=-1) @ given[2]
            found = torch.autograd.grad(output, given, grad_o[..., a:b, :])
        d_q[..., a:b, :] = found[0]
        d_k[..., :stop, :] += found[1]
        d_v[..., :stop, :] += found[2]
    return d_q, d_k, d_v


def softmax_backward_by_table(weights, grad_weights):
    """The whole table of derivatives of one row, diag(P) - P Pᵀ."""
    table = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return (table @ grad_weights.unsqueeze(-1)).squeeze(-1)


def softmax_backward_in_two_terms(weights, grad_weights):
    grad = weights * grad_weights
    return grad - weights * grad.sum(-1, keepdim=True)


def softmax_backward_by_einsum(weights, grad_weights):
    along = torch.einsum("...k,...k->...", weights, grad_weights)
    return weights * (grad_weights - along[..., None])


def softmax_backward_by_loop(weights, grad_weights):
    columns = []
    for j in range(weights.shape[-1]):
        total = torch.zeros_like(weights[..., 0])
        for i in range(weights.shape[-1]):
            own = 1.0 if i == j else 0.0
            total = total + grad_weights[..., i] * weights[..., i] * (own - weights[..., j])
        columns.append(total)
    return torch.stack(columns, dim=-1)


def softmax_backward_by_autograd(weights, grad_weights):
    """The logarithms of the weights are scores with these weights."""
    with torch.enable_grad():
        scores = weights.detach().log().requires_grad_()
        (grad,) = torch.autograd.grad(scores.softmax(-1), scores, grad_weights)
    return grad.where(weights > 0, 0.0)


class SoftmaxBackward:
    def __call__(self, weights, grad_weights):
        dot = (weights.unsqueeze(-2) @ grad_weights.unsqueeze(-1)).squeeze(-1)
        return (grad_weights - dot).mul(weights)


def flash_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool) -> tuple[Tensor, Tensor]:
    """A finished part is an output and a log-sum-exp; to join two, take a sigmoid of the difference of the latter."""
    outputs, sums, places = torch.zeros_like(v), q.new_full(q.shape[:-1], -torch.inf), torch.arange(q.shape[-2])
    for at in places.split(block_size):
        rows = slice(int(at[0]) if is_causal else 0, None)  # queries before this block of keys see nothing of it
        scores = q[..., rows, :] @ k[..., at, :].mT * q.shape[-1] ** -0.5
        late = at.to(q.device) > places[rows, None].to(q.device)
        scores = scores.masked_fill(late, -torch.inf) if is_causal else scores
        lse = scores.logsumexp(dim=-1)
        share = torch.sigmoid(lse - sums[..., rows])[..., None]
        new = (scores - lse[..., None]).exp() @ v[..., at, :]
        outputs[..., rows, :], sums[..., rows] = outputs[..., rows, :].lerp(new, share), sums[..., rows].logaddexp(lse)
    return outputs, sums


def softmax_gradient(weights: Tensor, grad_weights: Tensor) -> Tensor:
    """The table of all derivatives of a row is diag(P) - P Pᵀ; times dP it need never be made."""
    return weights * grad_weights - weights * (weights[..., None, :] @ grad_weights[..., None])[..., 0]


ALTERNATIVES = {
    "flash_attention": [
        flash_attention,
        flash_row_by_row,
        flash_from_the_diagonal,
        flash_keys_outside,
        FlashByMerging(),
        flash_kept_divided,
    ],
    "softmax_gradient": [
        softmax_gradient,
        softmax_backward_by_table,
        softmax_backward_in_two_terms,
        softmax_backward_by_einsum,
        softmax_backward_by_loop,
        softmax_backward_by_autograd,
        SoftmaxBackward(),
    ],
    "flash_backward": [
        backward_all_queries_by_block_of_keys,
        backward_keys_outside,
        backward_row_by_row,
        backward_by_einsum,
        backward_by_autograd,
    ],
}
