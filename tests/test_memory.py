"""What a call takes: the largest tensor that it makes, and what is kept for its backward pass."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import attnlib
from attnlib.memory import bytes_kept, largest_tensor


def by_table(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1) @ v


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_table_of_weights_is_the_largest_tensor_and_tiles_make_none(dtype: torch.dtype) -> None:
    q, k, v = torch.randn(3, 97, 5, dtype=dtype).unbind()
    assert largest_tensor(by_table, q, k, v) == 97 * 97 * dtype.itemsize
    tiled = largest_tensor(lambda *qkv: attnlib.tiled_attention(*qkv, block_q=11, block_k=11), q, k, v)
    assert 0 < tiled < 97 * 97 * dtype.itemsize / 4


def test_tensors_in_a_tuple_count_and_so_do_those_that_are_freed_at_once() -> None:
    x = torch.randn(13, 7)
    assert largest_tensor(lambda x: x.repeat(3, 1).sort(dim=0), x) == 3 * 13 * 7 * 8  # the indices
    assert largest_tensor(lambda x: x.repeat(5, 1).sum(), x) == 5 * 13 * 7 * 4


def test_the_weights_are_kept_for_the_backward_pass_and_nothing_is_without_gradients() -> None:
    q, k, v = (torch.randn(53, 3, requires_grad=True) for _ in range(3))
    kept = bytes_kept(by_table, q, k, v)
    assert 53 * 53 * 4 <= kept < 2.5 * 53 * 53 * 4
    assert bytes_kept(by_table, *(x.detach() for x in (q, k, v))) == 0


def test_views_of_one_storage_count_once() -> None:
    x = torch.randn(11, 3, requires_grad=True)
    assert bytes_kept(lambda x: x * x.view(11, 3), x) == 11 * 3 * 4
    assert bytes_kept(lambda x: F.softmax(x, dim=-1), x) == 11 * 3 * 4
