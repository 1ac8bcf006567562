"""A case may limit the largest tensor: its shape is told, and what cannot be measured fails."""

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from attnlib.checks import exercises, run
from attnlib.checks.asking.attempt import Local, Terms
from attnlib.checks.asking.failure import Failed, Failure
from attnlib.checks.asking.given import BLOCKS, made
from attnlib.checks.asking.watch import Watch
from autograder.sandbox.remote import failure_from


def joined(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    return at_once(torch.cat([*blocks], dim=-1))


def grown(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Joined one by one: no block is kept, and the row grows all the same."""
    row = next(iter(blocks))
    for block in blocks:
        row = torch.cat([row, block], dim=-1)
    return at_once(row)


def at_once(row: Tensor) -> tuple[Tensor, Tensor]:
    m = row.amax(dim=-1)
    return m, (row - m.masked_fill(m.isinf(), 0)[..., None]).exp().sum(dim=-1)


def product(x: Tensor) -> Tensor:
    return (x @ x.mT).sum()


def test_a_tensor_that_is_too_large_costs_its_part_and_its_shape_is_told() -> None:
    report = run("online_softmax", grown)
    assert report.points == exercises()["online_softmax"].points - 1
    assert "makes too large a tensor" in report.message
    assert "One of shape (2, 3, 800) has 4,800 numbers; the largest that is allowed here has 480" in report.message


def test_whoever_keeps_the_blocks_loses_the_part_too() -> None:
    report = run("online_softmax", joined)
    assert report.diagnosis == "joined_first"
    assert report.points == exercises()["online_softmax"].points - 1
    assert "holds the blocks that it has read" in report.message


@pytest.mark.parametrize(("largest", "fails"), [(0, False), (24, True), (25, False)])
def test_as_many_numbers_as_are_allowed_are_not_too_many(largest: int, fails: bool) -> None:
    session = Local(product).open(Terms(outputs=("output",), largest=largest))
    if fails:
        with pytest.raises(Failed, match="makes too large a tensor"):
            session.call([torch.ones(5, 2)])
    else:
        session.call([torch.ones(5, 2)])


def test_what_cannot_be_measured_does_not_pass() -> None:
    session = Local(product).open(Terms(outputs=("output",), largest=100))
    with torch.profiler.profile(), pytest.raises(Failed, match="cannot be measured"):
        session.call([torch.ones(5, 2)])


def test_sizes_and_forbidden_calls_are_watched_together() -> None:
    with Watch(("every ready-made softmax",), sizes=True) as watch:
        (torch.ones(7, 2) @ torch.ones(2, 3)).softmax(dim=-1)
    assert (watch.largest, watch.called[0]) == ((7, 3), "torch.softmax")


def test_the_failure_is_the_same_when_it_comes_out_of_the_sandbox() -> None:
    failure = Failure("memory", "makes too large a tensor", details="one of shape (5, 5) has 25 numbers")
    assert failure_from(vars(failure)) == failure


def test_blocks_come_once() -> None:
    (blocks,) = made(({BLOCKS: [torch.ones(2), torch.zeros(3)]},))
    assert [len(block) for block in blocks] == [2, 3]
    assert not [*blocks]
