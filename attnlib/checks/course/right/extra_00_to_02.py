"""Right answers to the larger exercises without points of lessons 00 to 02, differently written."""

import math
from functools import reduce

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

import attnlib


def einsum_lined_up(x, y, pattern):
    inputs, output = pattern.split("->")
    names_x, names_y = (names.split() for names in inputs.split(","))
    kept = output.split()
    every = kept + [name for name in dict.fromkeys(names_x + names_y) if name not in kept]

    def lined_up(tensor, names):
        moved = tensor.permute([names.index(name) for name in every if name in names])
        return moved.reshape([tensor.shape[names.index(name)] if name in names else 1 for name in every])

    product = lined_up(x, names_x) * lined_up(y, names_y)
    return product.flatten(len(kept)).sum(dim=-1) if len(every) > len(kept) else product


def einsum_by_index(x, y, pattern):
    """Axes of size 1 by indexing with None, and one sum after another."""
    before, after = (part.strip() for part in pattern.split("->"))
    x_names, y_names = (side.split() for side in before.split(","))
    order = list(dict.fromkeys(x_names + y_names))

    def spread(tensor, names):
        tensor = tensor.permute(sorted(range(len(names)), key=lambda i: order.index(names[i])))
        return tensor[tuple(slice(None) if name in names else None for name in order)]

    product = spread(x, x_names) * spread(y, y_names)
    for axis in reversed(range(len(order))):
        if order[axis] not in after.split():
            product = product.sum(axis)
    left = [name for name in order if name in after.split()]
    return product.permute([left.index(name) for name in after.split()])


def einsum_by_products(x, y, pattern):
    """As one batched matrix product: shared and kept, only x's, summed, only y's."""
    inputs, output = pattern.split("->")
    a, b = (side.split() for side in inputs.split(","))
    kept = output.split()
    for tensor_names, other in ((a, b), (b, a)):
        for name in [n for n in tensor_names if n not in other and n not in kept]:
            if tensor_names is a:
                x = x.sum(a.index(name))
            else:
                y = y.sum(b.index(name))
            tensor_names.remove(name)
    batch = [n for n in a if n in b and n in kept]
    own_a, own_b = [n for n in a if n not in b], [n for n in b if n not in a]
    summed = [n for n in a if n in b and n not in kept]
    sizes = dict(zip(a, x.shape, strict=True)) | dict(zip(b, y.shape, strict=True))

    def flat(tensor, names, *groups):
        moved = tensor.permute([names.index(n) for group in groups for n in group])
        return moved.reshape([math.prod(sizes[n] for n in group) for group in groups])

    product = flat(x, a, batch, own_a, summed) @ flat(y, b, batch, summed, own_b)
    found = batch + own_a + own_b
    return product.reshape([sizes[n] for n in found]).permute([found.index(n) for n in kept])


def einsum_by_rearrange(x, y, pattern):
    """einops lines the axes up: a name that is missing becomes 1."""
    inputs, output = pattern.split("->")
    first, second = inputs.split(",")
    kept = output.split()
    rest = [n for n in dict.fromkeys((first + " " + second).split()) if n not in kept]
    aligned = (
        rearrange(t, names + " -> " + " ".join(n if n in names.split() else "1" for n in kept + rest))
        for t, names in ((x, first), (y, second))
    )
    product = reduce(torch.mul, aligned)
    return torch.sum(product, dim=tuple(range(len(kept), product.dim()))) if rest else product


def einsum_by_loop(x, y, pattern):
    """Number by number."""
    inputs, output = pattern.split("->")
    names_x, names_y = (side.split() for side in inputs.split(","))
    kept = output.split()
    sizes = dict(zip(names_x, x.shape, strict=True)) | dict(zip(names_y, y.shape, strict=True))
    rest = [name for name in sizes if name not in kept]
    numbers = []
    for place in torch.cartesian_prod(*(torch.arange(sizes[n]) for n in kept)).reshape(-1, len(kept)) if kept else [[]]:
        at = {name: int(i) for name, i in zip(kept, place, strict=True)}
        part_x = x[tuple(at.get(name, slice(None)) for name in names_x)]
        part_y = y[tuple(at.get(name, slice(None)) for name in names_y)]
        left_x, left_y = ([n for n in names if n not in kept] for names in (names_x, names_y))
        shape_x, shape_y = ([sizes[n] if n in left else 1 for n in rest] for left in (left_x, left_y))
        part_x = part_x.permute([left_x.index(n) for n in rest if n in left_x]).reshape(shape_x)
        part_y = part_y.permute([left_y.index(n) for n in rest if n in left_y]).reshape(shape_y)
        numbers.append((part_x * part_y).sum())
    return torch.stack(numbers).reshape([sizes[n] for n in kept])


def states_in_a_list(x, w):
    state = torch.zeros_like(x[:, 0])
    states = []
    for t in range(x.shape[1]):
        state = torch.tanh(state @ w + x[:, t])
        states.append(state)
    return torch.stack(states, dim=1)


def states_by_einsum(x, w):
    found = []
    for word in rearrange(x, "b n d -> n b d"):
        found.append((word if not found else torch.einsum("be,ed->bd", found[-1], w) + word).tanh())
    return rearrange(found, "n b d -> b n d")


def states_by_cells(x, w):
    """torch's own cell, with the identity for its input."""
    state, states = x.new_zeros(len(x), x.size(-1)), []
    for word in x.unbind(1):
        state = torch.rnn_tanh_cell(word, state, torch.eye(len(w), dtype=w.dtype, device=w.device), w.T)
        states += [state.unsqueeze(1)]
    return torch.cat(states, dim=1)


def states_recursively(x, w):
    if x.shape[1] == 1:
        return x.tanh()
    before = states_recursively(x[:, :-1], w)
    return torch.cat([before, torch.tanh(before[:, -1:] @ w + x[:, -1:])], dim=1)


def states_sentence_by_sentence(x, w):
    rows = []
    for sentence in x:
        states = [torch.zeros_like(w[0])]
        for word in sentence:
            states.append(torch.tanh(F.linear(states[-1], w.T) + word))
        rows.append(torch.stack(states[1:]))
    return torch.stack(rows)


def head_by_optimiser(words, wanted, position, w_q, w_k, w_v, lr):
    weights = [w.detach().clone().requires_grad_() for w in (w_q, w_k, w_v)]
    optimiser = torch.optim.SGD(weights, lr=lr)
    losses = []
    for x, target in zip(words, wanted, strict=True):
        q, k, v = (x @ w for w in weights)
        output = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v
        loss = F.mse_loss(output[:, position], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses), *(w.detach() for w in weights)


def head_by_hand(words, wanted, position, w_q, w_k, w_v, lr):
    """No optimiser: subtract, and set the gradients to None."""
    learned = [w.clone().detach().requires_grad_(True) for w in (w_q, w_k, w_v)]
    losses = words.new_zeros(len(words))
    for step in range(len(words)):
        output = attnlib.scaled_dot_product_attention(*(words[step] @ w for w in learned))
        loss = ((output[:, position] - wanted[step]) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for w in learned:
                w -= lr * w.grad
                w.grad = None
        losses[step] = loss.item()
    return [losses, *learned]


def head_by_grad(words, wanted, position, w_q, w_k, w_v, lr):
    losses, weights = [], (w_q, w_k, w_v)
    for i in range(words.shape[0]):
        weights = tuple(w.detach().requires_grad_() for w in weights)
        q, k, v = (torch.einsum("bnm,md->bnd", words[i], w) for w in weights)
        asked = q[:, position, None]
        shares = (asked @ k.transpose(1, 2) * k.shape[-1] ** -0.5).softmax(-1)
        loss = (shares @ v)[:, 0].sub(wanted[i]).pow(2).mean()
        losses.append(loss.detach())
        slopes = torch.autograd.grad(loss, weights)
        weights = tuple(w - lr * slope for w, slope in zip(weights, slopes, strict=True))
    w_q, w_k, w_v = (w.detach() for w in weights)
    return torch.stack(losses), w_q, w_k, w_v


def head_by_module(words, wanted, position, w_q, w_k, w_v, lr):
    head = attnlib.SelfAttention(w_q.shape[0], w_q.shape[1], w_v.shape[1]).to(words)
    head.load_state_dict({"w_q.weight": w_q.T, "w_k.weight": w_k.T, "w_v.weight": w_v.T})
    optimiser, losses = torch.optim.SGD(head.parameters(), lr=lr), []
    for x, name in zip(words, wanted, strict=True):
        loss = nn.functional.mse_loss(head(x)[:, position], name)
        head.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss)
    return torch.stack(losses).detach(), head.w_q.weight.T, head.w_k.weight.T, head.w_v.weight.T


def head_by_functional_gradient(words, wanted, position, w_q, w_k, w_v, lr):
    def loss_of(weights, x, target):
        q, k, v = (x @ w for w in weights)
        output = F.scaled_dot_product_attention(q, k, v)
        return (output[:, position] - target).square().mean()

    losses, weights = [], (w_q, w_k, w_v)
    for x, target in zip(words.unbind(), wanted.unbind(), strict=True):
        slopes, loss = torch.func.grad_and_value(loss_of)(weights, x, target)
        weights = tuple(w - lr * slope for w, slope in zip(weights, slopes, strict=True))
        losses.append(loss)
    return (torch.stack(losses), *weights)


ALTERNATIVES = {
    "little_einsum": [einsum_lined_up, einsum_by_index, einsum_by_products, einsum_by_rearrange, einsum_by_loop],
    "recurrent_states": [
        states_in_a_list,
        states_by_einsum,
        states_by_cells,
        states_recursively,
        states_sentence_by_sentence,
    ],
    "train_head": [head_by_optimiser, head_by_hand, head_by_grad, head_by_module, head_by_functional_gradient],
}
