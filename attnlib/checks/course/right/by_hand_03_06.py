"""Right answers to the exercises of lessons 03 and 06 that ask for matrices by hand: other designs, not spellings."""

import math

import torch
from torch import Tensor


def two_heads_one_column_each(n, who, whom):
    """Queries and keys use a single column of each head."""
    w_q, w_k, w_v, w_o = (torch.zeros(2 * n, 2 * n) for _ in range(4))
    w_q[n - 1, 0] = w_q[n - 1, n] = 12 * n**0.5
    w_k[who, 0] = 1.0
    w_k[whom, n] = 1.0
    for i in range(n):
        w_v[n + i, i] = w_v[n + i, n + i] = w_o[i, i] = w_o[n + i, n + i] = 1.0
    return torch.stack([w_q, w_k, w_v, w_o])


def two_heads_with_plain_keys(n, who, whom):
    """Each key says where it is, and the last word's query names the position."""
    eye, nothing = torch.eye(n), torch.zeros(n, n)
    ask_0, ask_1 = torch.zeros(n, n), torch.zeros(n, n)
    ask_0[-1, who], ask_1[-1, whom] = 30.0, 30.0
    w_q = torch.cat([torch.cat([ask_0, ask_1], 1), torch.zeros(n, 2 * n)])
    w_k = torch.cat([torch.cat([eye, eye], 1), torch.zeros(n, 2 * n)])
    w_v = torch.cat([torch.zeros(n, 2 * n), torch.cat([eye, eye], 1)])
    w_o = torch.cat([torch.cat([eye, nothing], 1), torch.cat([nothing, eye], 1)])
    return torch.stack([w_q, w_k, w_v, w_o])


def two_heads_exchanged(n, who, whom):
    """Head 0 finds the second name, and W^O puts it where it belongs."""
    matrices = two_heads_one_column_each(n, whom, who)
    matrices[3] = matrices[3].roll(n, dims=1)
    return matrices


def two_heads_that_all_words_ask(n, who, whom):
    """Every word asks, since only the last one is looked at; the scores are in the keys."""
    w_q, w_k, w_v, w_o = torch.zeros(4, 2 * n, 2 * n, dtype=torch.float64)
    w_q[:n, ::n] = 1
    w_k[who, 0] = w_k[whom, n] = 10 * math.sqrt(n)
    w_v[n:] = torch.eye(n).repeat(1, 2)
    w_o += torch.eye(2 * n)
    return torch.stack([w_q, w_k, w_v, w_o])


def two_heads_that_push_away(n, who, whom):
    """All other words get a large negative score; the values are halved, and W^O doubles them."""
    w_q, w_k, w_v, w_o = torch.zeros(4, 2 * n, 2 * n).unbind()
    w_q[n - 1, 1 % n] = w_q[n - 1, n + 1 % n] = 5 * n
    w_k[:n, 1 % n] = w_k[:n, n + 1 % n] = -1
    w_k[who, 1 % n] = w_k[whom, n + 1 % n] = 0
    w_v[n:, :n].fill_diagonal_(0.5)
    w_v[n:, n:].fill_diagonal_(0.5)
    w_o.fill_diagonal_(2)
    return torch.stack([w_q, w_k, w_v, w_o])


def mlp_by_counting(d, one, other, to):
    """How many of the two there are, less twice what is above one."""
    up, down = torch.zeros(2, d, d)
    up[one, :2] = up[other, :2] = 20.0
    up[0, 1] = -20.0
    down[0, to], down[1, to] = 1 / 20, -2 / 20
    return torch.stack([up, down])


def mlp_by_differences(d, one, other, to):
    """One neuron for each of the two without the other: neither needs the constant."""
    up, down = torch.zeros(2, d, d)
    up[[one, other], [0, 1]], up[[one, other], [1, 0]] = 16.0, -16.0
    down[[0, 1], to] = 1 / 16
    return torch.stack([up, down])


def mlp_by_or_and_and(d, one, other, to):
    """Either of the two, from three neurons, less both."""
    up, down = torch.zeros(2, d, d)
    up[one, :3] = torch.tensor([30.0, 0, 30])
    up[other, :3] = torch.tensor([0, 30.0, 30])
    up[0, 2] = -30.0
    down[:3, to] = torch.tensor([1 / 30, 1 / 30, -2 / 30])
    return torch.stack([up, down])


def mlp_from_the_back(d, one, other, to):
    """The neurons are the last two, and the numbers float64."""
    up, down = torch.zeros(2, d, d, dtype=torch.float64)
    for feature in (one, other):
        up[feature, -1] = up[feature, -2] = 12
    up[0, -2] -= 12
    down[-1, to] = 1 / 12
    down[-2, to] = -1 / 6
    return torch.stack((up, down))


def mlp_that_takes_away(d, one, other, to):
    """One, less what is above one, less what is below it."""
    s = 25.0
    up, down = torch.zeros(d, d), torch.zeros(d, d)
    up[0, :3] = torch.tensor([s, -s, s])
    up[one, 1:3] = up[other, 1:3] = torch.tensor([s, -s])
    down[:3, to] = torch.tensor([1 / s, -1 / s, -1 / s])
    return torch.stack([up, down])


def two_heads_by_hand(n: int, who: int, whom: int) -> Tensor:
    """Every key says where it is, once for each head, so a query only has to name a position."""
    w_q, w_k, w_v, w_o = torch.zeros(4, 2 * n, 2 * n)
    w_q[n - 1, who] = w_q[n - 1, n + whom] = 10 * math.sqrt(n)
    w_k[:n] = w_v[n:] = torch.eye(n).repeat(1, 2)
    w_o += torch.eye(2 * n)
    return torch.stack([w_q, w_k, w_v, w_o])


def mlp_by_hand(d: int, one: int, other: int, to: int) -> Tensor:
    """A neuron for each of the two without the other: both are shut where the features agree, and no bias is needed."""
    up, down = torch.zeros(2, d, d)
    up[one, 0] = up[other, 1] = 20.0
    up[one, 1] = up[other, 0] = -20.0
    down[:2, to] = 1 / 20
    return torch.stack([up, down])


ALTERNATIVES = {
    "two_heads_by_hand": [
        two_heads_by_hand,
        two_heads_one_column_each,
        two_heads_with_plain_keys,
        two_heads_exchanged,
        two_heads_that_all_words_ask,
        two_heads_that_push_away,
    ],
    "mlp_by_hand": [
        mlp_by_hand,
        mlp_by_counting,
        mlp_by_differences,
        mlp_by_or_and_and,
        mlp_from_the_back,
        mlp_that_takes_away,
    ],
}
