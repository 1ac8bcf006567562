import pytest
import torch
from oracles import assert_agrees, slow_attention

from attnlib import AttentionOnly, causal_mask, rotate

VOCAB, WIDTH, HEADS = 13, 12, 3


def model(depth=2):
    torch.manual_seed(0)
    return AttentionOnly(VOCAB, WIDTH, HEADS, depth).double()


def tokens(b=2, n=7):
    return torch.randint(0, VOCAB, (b, n), generator=torch.Generator().manual_seed(1))


def test_head_by_head_with_the_slow_loop():
    ids, ours = tokens(), model()
    d, x, expected = WIDTH // HEADS, ours.embed.weight[ids], []
    for layer in ours.layers:
        written, of_layer = 0, []
        for head in range(HEADS):
            own = slice(head * d, (head + 1) * d)
            q, k, v = (x @ w.weight[own].T for w in (layer.w_q, layer.w_k, layer.w_v))
            mixed, weights = slow_attention(
                rotate(q, torch.arange(7)), rotate(k, torch.arange(7)), v, causal_mask(7, 7)
            )
            written = written + mixed @ layer.w_o.weight[:, own].T
            of_layer.append(weights)
        x = x + written
        expected.append(torch.stack(of_layer, dim=1))
    logits, weights = ours(ids, return_weights=True)
    assert_agrees(logits, x @ ours.unembed.weight.T)
    assert_agrees(ours(ids), logits)
    for actual, right in zip(weights, expected, strict=True):
        assert_agrees(actual, right)


def test_nothing_but_matrices():
    count = 2 * VOCAB * WIDTH + 2 * 4 * WIDTH**2
    assert sum(p.numel() for p in model().parameters()) == count
    assert all(p.dim() == 2 for p in model().parameters())
    assert_agrees(model(depth=0)(tokens()), model(0).embed.weight[tokens()] @ model(0).unembed.weight.T)


def test_the_future_changes_nothing():
    ids, ours = tokens(), model()
    other = ids.clone()
    other[:, 5:] = (other[:, 5:] + 1) % VOCAB
    assert_agrees(ours(ids)[:, :5], ours(other)[:, :5])
    assert not torch.allclose(ours(ids)[:, 5:], ours(other)[:, 5:])


def test_hooks_see_the_merged_heads_and_can_silence_a_layer():
    ids, ours, seen = tokens(), model(depth=1), []

    def silence(_, inputs):
        seen.append(inputs[0].shape)
        return torch.zeros_like(inputs[0])

    with ours.layers[0].w_o.register_forward_pre_hook(silence):
        assert_agrees(ours(ids), ours.embed.weight[ids] @ ours.unembed.weight.T)
    assert seen == [(2, 7, WIDTH)]


@pytest.mark.parametrize(("d_model", "num_heads"), [(12, 5), (9, 3), (12, 0)])
def test_sizes_that_do_not_divide(d_model, num_heads):
    message = rf"divisible by 2 \* num_heads .*, got d_model = {d_model} and num_heads = {num_heads}"
    with pytest.raises(ValueError, match=message):
        AttentionOnly(VOCAB, d_model, num_heads, 2)
