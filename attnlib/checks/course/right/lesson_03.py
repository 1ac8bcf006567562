"""Right answers to lesson 03, differently written: all of them must be accepted."""

import itertools
import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange, repeat
from einops.layers.torch import Rearrange
from torch import Tensor, nn

from attnlib.checks.course import find


def _need_whole_heads(width: int, num_heads: int) -> None:
    if width % num_heads != 0:
        raise ValueError(f"width {width}, heads {num_heads}")


def split_by_view(x: Tensor, num_heads: int) -> Tensor:
    b, n, width = x.shape
    _need_whole_heads(width, num_heads)
    return x.view(b, n, num_heads, width // num_heads).transpose(1, 2)


def split_by_einops(x, num_heads):
    _need_whole_heads(x.shape[-1], num_heads)
    return rearrange(x, "b n (heads d) -> b heads n d", heads=num_heads)


def split_by_slices(x: Tensor, num_heads: int) -> Tensor:
    d, rest = divmod(x.size(-1), num_heads)
    if rest:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.size(-1)}")
    return torch.stack([x[:, :, i * d : (i + 1) * d] for i in range(num_heads)], dim=1)


def split_by_chunks(x: Tensor, num_heads: int) -> Tensor:
    try:
        return torch.stack(x.split([x.shape[2] // num_heads] * num_heads, dim=2), 1)
    except RuntimeError as error:
        raise ValueError(f"{x.shape} is not divisible into {num_heads} heads") from error


def split_one_number_at_a_time(x: Tensor, num_heads: int) -> Tensor:
    b, n, width = x.shape
    _need_whole_heads(width, num_heads)
    d = width // num_heads
    result = x.new_zeros(b, num_heads, n, d)
    for column in range(width):
        result[:, column // d, :, column % d] = x[..., column]
    return result


class SplitWithALayer:
    def __call__(self, x: Tensor, num_heads: int) -> Tensor:
        print("splitting", tuple(x.shape))
        if x.shape[-1] % num_heads > 0:
            raise ValueError(num_heads, x.shape[-1])
        return Rearrange("b n (h d) -> b h n d", h=num_heads)(x).contiguous()


def split_by_strides(x: Tensor, num_heads: int) -> Tensor:
    _need_whole_heads(x.shape[-1], num_heads)
    return x.unflatten(2, (num_heads, -1)).permute(0, 2, 1, 3)


class LoopOverHeads(nn.Module):
    """Layers made in another order, heads one after the other, an extra buffer."""

    def __init__(self, d_model, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None:
            _need_whole_heads(d_model, num_heads)
            d_head = d_model // num_heads
        self.w_o = nn.Linear(num_heads * d_head, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, num_heads * d_head, bias=bias)
        self.w_k = nn.Linear(d_model, num_heads * d_head, bias=bias)
        self.w_q = nn.Linear(d_model, num_heads * d_head, bias=bias)
        self.h = num_heads
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        print("x:", x.shape)
        outputs, all_weights = [], []
        q, k, v = (w(x).chunk(self.h, dim=-1) for w in (self.w_q, self.w_k, self.w_v))
        for one_q, one_k, one_v in zip(q, k, v, strict=True):
            weights = F.softmax(one_q @ one_k.transpose(1, 2) / torch.sqrt(torch.tensor(one_k.shape[-1])), -1)
            outputs.append(weights @ one_v)
            all_weights.append(weights)
        return self.w_o(torch.cat(outputs, -1)), torch.stack(all_weights, dim=1)


class SumOverHeads(LoopOverHeads):
    """Concat(heads) W^O as a sum over heads; the weights handed back without a gradient, in a list."""

    def forward(self, x: Tensor) -> list[Tensor]:
        d = self.w_q.out_features // self.h
        total, kept = 0, []
        for head in range(self.h):
            rows = slice(head * d, (head + 1) * d)
            q, k, v = (
                F.linear(x, w.weight[rows], None if w.bias is None else w.bias[rows])
                for w in (self.w_q, self.w_k, self.w_v)
            )
            scores = torch.einsum("bqd,bkd->bqk", q, k) * d**-0.5
            weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
            total = total + weights @ v @ self.w_o.weight[:, rows].T
            kept.append(weights.detach())
        return [total if self.w_o.bias is None else total + self.w_o.bias, torch.stack(kept, 1)]


class Einops(nn.Module):
    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True):
        if d_head is None and d_model % num_heads:
            raise ValueError("no")
        super().__init__()
        width = num_heads * (d_head or d_model // num_heads)
        for name in ("w_q", "w_k", "w_v"):
            setattr(self, name, nn.Linear(d_model, width, bias))
        self.w_o = nn.Linear(width, d_model, bias)
        self.split = Rearrange("b n (h d) -> b h n d", h=num_heads)

    def forward(self, x):
        q, k, v = map(self.split, (self.w_q(x), self.w_k(x), self.w_v(x)))
        scores = einsum(q, k, "b h q d, b h k d -> b h q k") / q.shape[-1] ** 0.5
        weights = torch.softmax(scores, dim=3)
        mixed = einsum(weights, v, "b h q k, b h k d -> b h q d")
        return self.w_o(rearrange(mixed, "b h n d -> b n (h d)")), weights


class FoldedIntoBatch(Einops):
    """One fused product for q, k and v, heads folded into the batch, torch.baddbmm for scale and product at once."""

    def forward(self, x):
        layers, h = (self.w_q, self.w_k, self.w_v), self.split.axes_lengths["h"]
        bias = None if self.w_q.bias is None else torch.cat([w.bias for w in layers])
        packed = F.linear(x, torch.cat([w.weight for w in layers]), bias)
        q, k, v = rearrange(packed, "b n (three h d) -> three (b h) n d", three=3, h=h).unbind(0)
        zeros = repeat(q.new_zeros(1), "1 -> bh n m", bh=q.shape[0], n=q.shape[1], m=q.shape[1])
        weights = torch.baddbmm(zeros, q, k.transpose(1, 2), beta=0, alpha=q.shape[-1] ** -0.5).softmax(-1)
        joined = rearrange(weights @ v, "(b h) n d -> b n (h d)", h=h)
        return self.w_o(joined), rearrange(weights, "(b h) n m -> b h n m", h=h)


class QueriesScaledFirst(Einops):
    """Scaled before the product; raw weights and matrix products instead of calls of the layers."""

    def forward(self, x):
        def project(layer):
            product = x @ layer.weight.T
            return self.split(product if layer.bias is None else product + layer.bias)

        q = project(self.w_q)
        q = q * q.shape[-1] ** -0.5
        weights = torch.matmul(q, project(self.w_k).mT).softmax(-1)
        return self.w_o((weights @ project(self.w_v)).transpose(1, 2).flatten(2)), weights


def mended_by_patterns(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1)
    heads = rearrange(weights @ v, "(h b) n d -> b n (h d)", h=num_heads)
    return heads @ w_o, rearrange(weights, "(h b) q k -> b h q k", h=num_heads)


def mended_by_permute(x, w_q, w_k, w_v, w_o, num_heads):
    b, n, _ = x.shape
    q, k, v = (rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1)
    heads = (weights @ v).view(num_heads, b, n, -1).permute(1, 2, 0, 3).reshape(b, n, -1)
    return heads @ w_o, weights.reshape(num_heads, b, n, n).transpose(0, 1)


def mended_by_folding_the_other_way(x, w_q, w_k, w_v, w_o, num_heads):
    b, n, _ = x.shape
    q, k, v = (rearrange(x @ w, "b n (h d) -> (b h) n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1)
    heads = (weights @ v).reshape(b, num_heads, n, -1).transpose(1, 2).reshape(b, n, -1)
    return heads @ w_o, weights.reshape(b, num_heads, n, n)


def mended_without_folding(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (rearrange(x @ w, "b n (h d) -> b h n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5, dim=-1)
    return torch.einsum("bhqk,bhkd,hdm->bqm", weights, v, w_o.unflatten(0, (num_heads, -1))), weights


def mended_by_cat(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (torch.cat((x @ w).chunk(num_heads, dim=-1)) for w in (w_q, w_k, w_v))
    weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5, dim=-1)
    heads = torch.cat(torch.bmm(weights, v).chunk(num_heads), dim=-1)
    return heads @ w_o, torch.stack(weights.chunk(num_heads), dim=1)


def unpack_by_permute(weight, packing, num_heads):
    order = packing.strip("()").split(" ")
    sizes = {"3": 3, "h": num_heads, "d": weight.shape[0] // (3 * num_heads)}
    cut = weight.reshape([sizes[name] for name in order] + [weight.shape[1]])
    return tuple(cut.permute(*map(order.index, "3hd"), 3).flatten(1, 2))


def unpack_by_index(weight, packing, num_heads):
    d, rows = len(weight) // 3 // num_heads, []
    sizes = {"3": 3, "h": num_heads, "d": d}
    for places in itertools.product(range(3), range(num_heads), range(d)):
        row, place = 0, dict(zip("3hd", places, strict=True))
        for name in packing[1:-1].split():
            row = row * sizes[name] + place[name]
        rows.append(row)
    return list(weight[rows].chunk(3))


def unpack_numbered(weight, packing, num_heads):
    ids = rearrange(torch.arange(len(weight)), f"{packing.replace('3', 'k')} -> k (h d)", k=3, h=num_heads)
    return tuple(weight[ids.to(weight.device)])


def unpack_by_einsum(weight, packing, num_heads):
    sizes = {"3": 3, "h": num_heads, "d": weight.shape[0] // 3 // num_heads}
    letters = packing.strip("()").replace(" ", "").replace("3", "k")
    cut = weight.unflatten(0, [sizes[name] for name in packing.strip("()").split()])
    return torch.einsum(f"{letters}m->khdm", cut).flatten(1, 2).unbind(0)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """A head is a run of neighbouring columns: cut the runs, and stack them on an axis of their own."""
    if x.shape[-1] % num_heads:
        raise ValueError(f"num_heads must divide the width, got {num_heads} and {x.shape[-1]}")
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


class AnotherMultiHeadSelfAttention(find("MultiHeadSelfAttention").reference):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each head has its own rows of w_o: multiply by those and add the heads up, and there is nothing to merge."""
        layers, h = (self.w_q, self.w_k, self.w_v), self.num_heads
        q, k, v = (rearrange(layer(x), "b n (h d) -> b h n d", h=h) for layer in layers)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        rows = rearrange(self.w_o.weight, "d_model (h d) -> h d d_model", h=h)
        output = (weights @ v @ rows).sum(dim=1)
        return output if self.w_o.bias is None else output + self.w_o.bias, weights


def mend_multi_head(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> tuple[Tensor, Tensor]:
    """With an axis of their own, the heads need not be folded into the batch, nor unfolded again in the same order."""
    q, k, v = (rearrange(x @ w, "b n (h d) -> b h n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return rearrange(weights @ v, "b h n d -> b n (h d)") @ w_o, weights


def from_packed(weight: Tensor, packing: str, num_heads: int) -> tuple[Tensor, ...]:
    """Rearrange the row numbers instead of the rows: print them, and you can see which row goes where."""
    numbers = torch.arange(len(weight), device=weight.device)
    pattern = f"{packing.replace('3', 'three')} -> three (h d)"
    return tuple(weight[rows] for rows in rearrange(numbers, pattern, three=3, h=num_heads))


ALTERNATIVES = {
    "from_packed": [
        from_packed,
        unpack_by_permute,
        unpack_by_index,
        unpack_numbered,
        unpack_by_einsum,
        lambda w, packing, h: (*rearrange(w, f"{packing.replace('3', 'k')} m -> k (h d) m", k=3, h=h),),
    ],
    "split_heads": [
        split_heads,
        split_by_view,
        split_by_einops,
        split_by_slices,
        split_by_chunks,
        split_one_number_at_a_time,
        SplitWithALayer(),
        split_by_strides,
    ],
    "MultiHeadSelfAttention": [
        AnotherMultiHeadSelfAttention,
        LoopOverHeads,
        SumOverHeads,
        Einops,
        FoldedIntoBatch,
        QueriesScaledFirst,
    ],
    "mend_multi_head": [
        mend_multi_head,
        mended_by_patterns,
        mended_by_permute,
        mended_by_folding_the_other_way,
        mended_without_folding,
        mended_by_cat,
    ],
    "predict_reshaped_heads": ["B", " b", "B "],
}
