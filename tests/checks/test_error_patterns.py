"""The words of other libraries' errors, as far as `naming.errors` reads them: each is raised here for real.

A new torch that says it in other words makes a test fail, and not an explanation fall silent.
"""

import importlib
import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import einops
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlib.checks.naming.errors import PARTS


class Bare(nn.Module):
    """It never calls nn.Module's own `__init__`."""

    def __init__(self, name: str = "w", value: Any = 1) -> None:
        setattr(self, name, value)


class NoForward(nn.Module):
    pass


def leaf() -> torch.Tensor:
    return torch.ones(2, 3, requires_grad=True)


def changed_before_the_gradient() -> None:
    y = leaf().exp()
    y.mul_(2)
    y.sum().backward()


def backwards_twice(loss: torch.Tensor) -> None:
    loss.backward()
    loss.backward()


def before_its_value() -> None:
    print(value)  # noqa: F821
    value = 1  # noqa: F841


def of_two(x: Any, y: Any) -> None:
    pass


def unpacked(count: int) -> None:
    one, other = range(count)  # noqa: RUF059


NOTHING: Any = None
X, IDS = torch.ones(2, 3), torch.zeros(2, dtype=torch.long)
RAISED: list[Callable[[], Any]] = [
    lambda: undefined,  # noqa: F821
    before_its_value,
    lambda: importlib.import_module("nobodys_attention"),
    lambda: Bare("w", nn.Linear(2, 2)),
    lambda: Bare().w_q,
    lambda: Bare()(X),
    lambda: list(Bare().parameters()),
    lambda: list(Bare().buffers()),
    lambda: list(Bare().modules()),
    lambda: torch.softmx,
    lambda: X.softmx,
    lambda: NoForward()(X),
    lambda: X(X),
    lambda: nn.Parameter(X)(X),
    lambda: torch.exp(1),
    lambda: torch.exp(1.0),
    lambda: torch.exp([1.0]),
    lambda: torch.exp((1.0,)),
    lambda: operator.add(X, (X, X)),
    lambda: operator.add((X, X), X),
    lambda: setattr(nn.Linear(2, 2), "weight", X),
    lambda: X[:, 1:1][:, -1],
    lambda: torch.exp(None),
    lambda: torch.exp("x"),
    lambda: torch.exp(nn.GELU()),
    lambda: torch.zeros([2.0, 3]),
    lambda: X.view(2, 3.0),
    lambda: X.reshape(6 / 2, 2),
    lambda: range(2.0),
    lambda: math.sqrt(X),
    lambda: float(X),
    lambda: int(X),
    lambda: X.item(),
    lambda: [1, 2][X],
    lambda: range(X),
    lambda: bool(X),
    lambda: einops.einsum("i j -> i", X),
    lambda: einops.rearrange("i j -> j i", X),
    lambda: X.size[0],
    lambda: X.shape(0),
    lambda: operator.matmul(X, nn.Linear(3, 3)),
    lambda: X.masked_fill(X, 0.0),
    lambda: ~X,
    lambda: X & (X > 0),
    lambda: leaf().add_(1),
    lambda: X.sum().backward(),
    lambda: backwards_twice(leaf().exp().sum()),
    lambda: torch.zeros(2, dtype=torch.long).add_(0.5),
    lambda: leaf().numpy(),
    changed_before_the_gradient,
    lambda: NOTHING[0],
    lambda: -NOTHING,
    lambda: X + NOTHING,
    lambda: NOTHING + 1,
    lambda: of_two(1),
    lambda: of_two(1, 2, 3),
    lambda: of_two(1, 2, z=3),
    lambda: X.max(1, 2, 3),
    lambda: X.gather(0, torch.full((1, 3), 5)),
    lambda: F.embedding(torch.tensor([5]), X),
    lambda: X.unsqueeze(5),
    lambda: X[5],
    lambda: X[X],
    lambda: torch.Tensor.softmx,
    lambda: X[0, 0, 0],
    lambda: X.numpy()[1.5],
    lambda: X.T.view(-1),
    lambda: torch.view_as_complex(torch.ones(2, 4).T),
    lambda: torch.view_as_complex(torch.ones(3, 3)[:, :2]),
    lambda: torch.view_as_complex(torch.ones(7)[1:].view(3, 2)),
    lambda: X.double() @ X.T,
    lambda: X @ X.T.long(),
    lambda: F.linear(X, X.double()),
    lambda: F.layer_norm(X.double(), (3,), torch.ones(3)),
    lambda: F.cross_entropy(X, X.int()),
    lambda: F.embedding(X, X),
    lambda: torch.zeros(2, 3).index_put_((IDS,), X.double()),
    lambda: torch.zeros(2, dtype=torch.long).scatter_(0, IDS, torch.ones(2)),
    lambda: F.scaled_dot_product_attention(X[None], X[None], X[None].double()),
    lambda: torch.zeros(2).masked_scatter_(torch.tensor([True, False]), torch.ones(2, dtype=torch.long)),
    lambda: X.index_add(0, IDS, X.double()),
    lambda: X.double().index_copy(0, IDS, X),
    lambda: torch.bmm(X[None], X.T[None].double()),
    lambda: torch.lerp(X, X.double(), 0.5),
    lambda: X.T.half() @ X.float(),
    lambda: X.T.long() @ X.float(),
    lambda: einops.rearrange(X, "a b c -> a"),
    lambda: einops.rearrange(X, "(a b) c -> a b c"),
    lambda: einops.rearrange(X, "a (3 c) -> 3 a c"),
    lambda: torch.einsum("ijk->i", X),
    lambda: X.permute(0),
    lambda: X.unflatten(1, (2, 2)),
    lambda: X.reshape(4, 2),
    lambda: operator.getitem((X, X), (0, 0)),
    lambda: torch.optim.SGD([X.clone().requires_grad_().exp()]),
    lambda: unpacked(1),
    lambda: unpacked(3),
    lambda: torch.stack([X, X.T]),
    lambda: torch.cat([X, torch.ones(2, 4)]),
    lambda: torch.cat([X, torch.ones(2)]),
    lambda: F.cross_entropy(torch.ones(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)),
    lambda: X[torch.ones(3, dtype=torch.bool)],
    lambda: X @ X,
    lambda: X + torch.ones(2),
    lambda: X.expand(3, 3),
    lambda: torch.broadcast_shapes((2,), (3,)),
    lambda: torch.dot(X, X),
    lambda: F.cross_entropy(X, torch.zeros(3, dtype=torch.long)),
    lambda: [1][5],
    lambda: torch.tensor(1.0)[0],
]


def errors() -> list[str]:
    found = []
    for action in RAISED:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            action()
        found.append(f"{type(caught.value).__name__}: {caught.value}")
    return found


def alternatives(pattern: str) -> Iterator[str]:
    """The pattern with one alternative of one group, for each alternative of each group, and of the whole."""
    depth, pieces = 0, [""]
    for letter in pattern:
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    for piece in pieces:
        groups = [m for m in re.finditer(r"\((\?P<\w+>)?([^()]*)\)", piece) if "|" in m[2]]
        yield from (piece[: m.start(2)] + one + piece[m.end(2) :] for m in groups for one in m[2].split("|"))
        if not groups:
            yield piece


def test_every_error_that_is_read_is_raised_by_the_libraries_in_use() -> None:
    said = errors()
    first = {error: next((words for words, _ in PARTS if re.match(words, error, re.DOTALL)), None) for error in said}
    silent = [
        one
        for words, _ in PARTS
        for one in alternatives(words)
        if not any(first[error] == words and re.match(one, error, re.DOTALL) for error in said)
    ]
    assert silent == []


def test_every_error_that_is_raised_here_is_read() -> None:
    assert [e for e in errors() if not any(re.match(words, e, re.DOTALL) for words, _ in PARTS)] == []
