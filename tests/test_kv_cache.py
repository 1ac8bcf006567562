import pytest
import torch
from oracles import assert_agrees, devices, randoms, untyped

from attnlib import KVCache, LanguageModel, RollingKVCache


@pytest.mark.parametrize("kind", [KVCache, RollingKVCache])
def test_what_was_appended_comes_back_in_order(kind):
    cache = kind(2, 3, 11, 5, dtype=torch.float64)
    pieces = [randoms((2, 3, n, 5), (2, 3, n, 5), seed=n) for n in (4, 1, 6)]
    for i, (k, v) in enumerate(pieces, start=1):
        k_all, v_all = cache.append(k, v)
        assert cache.length == sum(piece[0].shape[2] for piece in pieces[:i])
        assert torch.equal(k_all, torch.cat([piece[0] for piece in pieces[:i]], dim=2))
        assert torch.equal(v_all, torch.cat([piece[1] for piece in pieces[:i]], dim=2))
        assert not k_all.requires_grad


def test_a_later_append_leaves_earlier_views_alone():
    cache = KVCache(1, 2, 5, 3)
    first, _ = cache.append(torch.ones(1, 2, 2, 3), torch.ones(1, 2, 2, 3))
    cache.append(torch.full((1, 2, 3, 3), 7.0), torch.zeros(1, 2, 3, 3))
    assert_agrees(first, torch.ones(1, 2, 2, 3))


def test_truncate_and_reset_forget():
    cache = KVCache(1, 2, 5, 3)
    cache.append(torch.ones(1, 2, 4, 3), torch.ones(1, 2, 4, 3))
    cache.truncate(1)
    k, _ = cache.append(torch.zeros(1, 2, 1, 3), torch.zeros(1, 2, 1, 3))
    assert k[0, 0, :, 0].tolist() == [1.0, 0.0]
    cache.reset()
    assert cache.length == 0


@devices
def test_autocast_fills_a_cache_of_the_default_dtype(device):
    torch.manual_seed(0)
    model = LanguageModel(11, 12, 3, depth=2, max_len=7).to(device)
    ids = torch.randint(11, (2, 5), device=device)
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        caches = model.caches(2)
        pieces = [model(ids[:, :3], caches=caches), model(ids[:, 3:], caches=caches)]
        assert caches[0].k.dtype == torch.float32
        assert pieces[0].dtype == torch.bfloat16
        assert_agrees(torch.cat(pieces, dim=1), model(ids), tolerance=0.01)


@devices
@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 8), (torch.float32, 4), (torch.bfloat16, 2)])
def test_bytes_and_fewer_of_them_for_grouped_queries(dtype, size, device):
    whole, grouped = (KVCache(2, heads, 13, 5, dtype=dtype, device=device) for heads in (8, 2))
    assert whole.nbytes == 2 * 2 * 8 * 13 * 5 * size
    assert grouped.nbytes * 4 == whole.nbytes
    assert whole.k.device.type == device


def test_errors():
    cache = KVCache(2, 3, 5, 7)
    cache.append(torch.zeros(2, 3, 4, 7), torch.zeros(2, 3, 4, 7))
    with pytest.raises(ValueError, match=r"room for max_len = 5 positions, got 4 \+ 2"):
        cache.append(torch.zeros(2, 3, 2, 7), torch.zeros(2, 3, 2, 7))
    assert cache.length == 4
    with (
        untyped(),
        pytest.raises(ValueError, match=r"v must have shape .* = \(2, 3, n, 7\), got \(2, 1, 1, 7\)"),
    ):
        cache.append(torch.zeros(2, 3, 1, 7), torch.zeros(2, 1, 1, 7))
    with untyped(), pytest.raises(ValueError, match="same number of positions, got 1 and 2"):
        cache.append(torch.zeros(2, 3, 1, 7), torch.zeros(2, 3, 2, 7))
    with pytest.raises(TypeError, match=r"k must have the cache's dtype torch.float32, got torch.float64"):
        cache.append(torch.zeros(2, 3, 1, 7).double(), torch.zeros(2, 3, 1, 7))
    with pytest.raises(ValueError, match="length must be between 0 and 4, got 5"):
        cache.truncate(5)
