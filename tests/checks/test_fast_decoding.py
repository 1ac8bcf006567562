"""Lesson 09: what its exercises ask for is equal to what attnlib and PyTorch compute in other ways."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

import attnlib
from attnlib.checks.asking.attempt import Local, Terms
from attnlib.checks.asking.failure import ContractBroken
from attnlib.checks.asking.given import SmallWriter
from attnlib.checks.course import find
from attnlib.checks.course.lesson_09.exercises import Cache


def empty(*, b: int, h: int, room: int, d: int) -> Cache:
    k, v = torch.full((2, b, h, room, d), torch.nan)  # whatever is not written must not be read
    return {"k": k, "v": v, "length": 0}


@pytest.mark.parametrize("chunk", [1, 3, 11])
def test_a_cache_changes_no_number(chunk: int) -> None:
    layer = attnlib.MultiHeadAttention(12, 3, is_causal=True).requires_grad_(False)
    x, cache = torch.randn(2, 11, 12), empty(b=2, h=3, room=11, d=4)
    pieces = [find("cached_attention").reference(piece, layer, cache) for piece in x.split(chunk, dim=1)]
    assert_close(torch.cat(pieces, dim=1), layer(x), atol=1e-5, rtol=0)
    assert cache["length"] == 11


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_groups_are_those_of_pytorch_and_of_attnlib(groups: int) -> None:
    q, k, v = torch.randn(2, 6, 5, 8), torch.randn(2, groups, 7, 8), torch.randn(2, groups, 7, 8)
    found = find("grouped_query_attention").reference(q, k, v)
    assert_close(found, F.scaled_dot_product_attention(q, k, v, enable_gqa=True), atol=1e-5, rtol=0)
    assert_close(found, attnlib.scaled_dot_product_attention(q, k, v), atol=1e-5, rtol=0)


def test_a_ring_is_a_full_buffer_with_a_window() -> None:
    q, k, v = torch.randn(3, 2, 3, 17, 4).unbind()
    ring, roll = empty(b=2, h=3, room=5, d=4), find("mend_rolling_cache").reference
    found = torch.cat([roll(*(t[:, :, i : i + 1] for t in (q, k, v)), ring) for i in range(17)], dim=2)
    mask = attnlib.sliding_window_mask(17, 17, 5)
    assert_close(found, attnlib.scaled_dot_product_attention(q, k, v, mask=mask), atol=1e-5, rtol=0)


def test_what_is_written_with_a_cache_is_what_the_whole_model_writes() -> None:
    torch.manual_seed(0)
    writer = SmallWriter(11, 12, 3, 2, 20, reads=1000)
    ids = torch.randint(0, 11, (3, 5))
    assert torch.equal(find("write_with_cache").reference(writer, ids, 12), attnlib.generate(writer, ids, 12, 0.0))


def test_a_token_that_is_read_again_is_refused() -> None:
    writer = SmallWriter(11, 12, 3, 1, 20, reads=18)
    writer(torch.zeros(2, 5, dtype=torch.long))
    with pytest.raises(ContractBroken, match="reads tokens again"):
        writer(torch.zeros(2, 6, dtype=torch.long))


def test_what_is_accepted_has_the_distribution_of_the_target() -> None:
    torch.manual_seed(0)
    draft, target = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.0, 0.4]])
    many = 40_000
    tokens = torch.multinomial(draft, many, replacement=True).T
    row = find("accept").reference(draft.expand(many, 1, 3), target.expand(many, 2, 3), tokens)
    assert_close(torch.bincount(row[:, 0]) / many, target[0], atol=0.015, rtol=0)
    behind = row[row[:, 1] >= 0, 1]
    assert_close(torch.tensor([len(behind) / many]), torch.minimum(draft, target[:1]).sum(dim=1), atol=0.015, rtol=0)
    assert_close(torch.bincount(behind, minlength=3) / len(behind), target[1], atol=0.02, rtol=0)


def test_tensors_and_numbers_are_seen_as_the_attempt_left_them() -> None:
    def append(cache: Cache, k: Tensor) -> Tensor:
        cache["length"] += 1
        cache["k"][0] = k
        return k

    given = {"k": torch.zeros(3), "length": 4}
    session = Local(append).open(Terms(outputs=("output",)))
    session.call((given, torch.tensor(7.0)))
    assert [value.tolist() for value in session.inputs()] == [[7.0, 0.0, 0.0], 5, 7.0]
    assert given["length"] == 4


def test_where_an_entry_is_missing_nothing_is_taken_for_another() -> None:
    session = Local(lambda cache: cache.pop("k")).open(Terms(outputs=("output",)))
    session.call(({"k": torch.zeros(3), "length": 4},))
    assert [value.numel() for value in session.inputs()] == [0, 0]
