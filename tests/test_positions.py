import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import DTYPES, TOLERANCE, assert_agrees, devices, quick, randoms, untyped

from attnlib import (
    LearnedPositions,
    Rotary,
    SinusoidalPositions,
    alibi_bias,
    alibi_slopes,
    apply_rotary,
    rotate,
    sinusoidal_positions,
    to_half_pairs,
)


@pytest.mark.parametrize("d_model", [6, 7])
def test_sinusoids_by_the_paper(d_model):
    table = sinusoidal_positions(11, d_model, dtype=torch.float64)
    for position in range(11):
        for i in range(d_model):
            angle = position / 10000 ** (2 * (i // 2) / d_model)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert abs(table[position, i].item() - expected) < 1e-12


def test_a_step_is_the_same_rotation_everywhere():
    table = sinusoidal_positions(101, 6, dtype=torch.float64)
    angle = 3 / 10000 ** (2 / 6)
    turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    assert_agrees(table[3:, 2:4], table[:-3, 2:4] @ turn.T)


@devices
def test_added_positions_and_their_offset(device):
    (x,) = randoms((2, 11, 7), dtype=torch.float32, device=device)
    for module in (SinusoidalPositions(13, 7), LearnedPositions(13, 7)):
        module.to(device)
        assert_agrees(module(x), x + module.table[:11])
        assert_agrees(module(x[:, 5:], offset=5), module(x)[:, 5:])
        with pytest.raises(ValueError, match="positions must be within max_len = 13, got 3 to 13"):
            module(x, offset=3)
        with untyped(), pytest.raises(ValueError, match=r"x must have d_model = 7 features .* got \(2, 3, 5\)"):
            module(torch.zeros(2, 3, 5, device=device))


def test_learned_positions_learn_and_sinusoids_do_not():
    learned = LearnedPositions(13, 7)
    learned(torch.zeros(2, 5, 7)).sum().backward()
    assert learned.table.grad[:, 0].tolist() == [2.0] * 5 + [0.0] * 8
    assert list(SinusoidalPositions(13, 7).parameters()) == []
    assert SinusoidalPositions(13, 7).state_dict() == {}


@quick
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 1000))
def test_rotary_products_depend_on_the_distance_alone(m, n, shift):
    rotary = Rotary(6)
    q, k = randoms((1, 6), (1, 6), seed=m)
    near = rotary(q, offset=m) @ rotary(k, offset=n).T
    far = rotary(q, offset=m + shift) @ rotary(k, offset=n + shift).T
    assert_agrees(far, near, tolerance=1e-11)
    assert_agrees(rotary(q, offset=m).norm(), q.norm())


def test_rotary_is_multiplication_by_a_unit_complex_number():
    (x,) = randoms((2, 3, 11, 6))
    angles = torch.arange(11)[:, None] / 10000 ** (torch.arange(0, 6, 2).double() / 6)
    turned = torch.view_as_complex(x.unflatten(-1, (3, 2))) * torch.polar(torch.ones_like(angles), angles)
    expected = torch.view_as_real(turned).flatten(-2)
    assert_agrees(Rotary(6)(x), expected)
    assert_agrees(apply_rotary(x, angles.cos(), angles.sin()), expected)
    assert_agrees(Rotary(6)(x[:, :, 5:], offset=5), expected[:, :, 5:])
    assert torch.autograd.gradcheck(Rotary(6), x)


def test_rotating_at_any_positions():
    (x,) = randoms((2, 3, 11, 6))
    positions = torch.arange(11)
    assert_agrees(rotate(x, positions), Rotary(6)(x))
    assert_agrees(rotate(x, positions + 7, base=500.0), Rotary(6, base=500.0)(x, offset=7))
    of_each = torch.stack([positions - 3, 2 * positions])[:, None]  # (b, 1, n)
    assert_agrees(rotate(x, of_each)[1], rotate(x[1], 2 * positions))
    assert_agrees(rotate(rotate(x, positions / 4), positions * 3 / 4), rotate(x, positions))
    assert torch.autograd.gradcheck(lambda x: rotate(x, positions), x)
    with untyped(), pytest.raises(ValueError, match=r"d must be even \(columns are rotated in pairs\), got 7"):
        rotate(torch.zeros(5, 7), torch.arange(5))


def test_half_pairs_and_neighbours_give_the_same_scores():
    """The halves are turned as transformers does it: x cos + (-second half, first half) sin."""
    x, w_q, w_k = randoms((2, 7, 5), (5, 3 * 8), (5, 3 * 8))
    angles = torch.arange(7)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    angles = torch.cat([angles, angles], dim=-1)

    def by_halves(w):
        heads = (x @ w).unflatten(-1, (3, 8)).transpose(1, 2)
        first, second = heads.chunk(2, dim=-1)
        return heads * angles.cos() + torch.cat([-second, first], dim=-1) * angles.sin()

    def by_neighbours(w):
        return rotate((x @ w).unflatten(-1, (3, 8)).transpose(1, 2), torch.arange(7))

    expected = by_neighbours(w_q) @ by_neighbours(w_k).mT
    assert_agrees(by_halves(to_half_pairs(w_q, 3)) @ by_halves(to_half_pairs(w_k, 3)).mT, expected)
    assert_agrees(to_half_pairs(to_half_pairs(w_q, 3), 3, back=True), w_q)
    assert not torch.allclose(by_halves(w_q) @ by_halves(w_k).mT, expected)


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_rotary_keeps_the_dtype_and_is_exact_far_out(dtype, device):
    (x,) = randoms((1, 5, 6), dtype=dtype, device=device)
    turned = Rotary(6)(x, offset=100003)
    assert turned.dtype == dtype
    assert_agrees(turned, Rotary(6)(x.double(), offset=100003), tolerance=2 * TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("num_heads", "exponents"), [(1, [8]), (4, [2, 4, 6, 8]), (8, [1, 2, 3, 4, 5, 6, 7, 8]), (6, [2, 4, 6, 8, 1, 3])]
)
def test_alibi_slopes_by_the_paper(num_heads, exponents):
    assert_agrees(alibi_slopes(num_heads), torch.tensor([2.0**-e for e in exponents]))


def test_alibi_bias_by_its_definition_and_aligned_bottom_right():
    bias, slopes = alibi_bias(3, 5, 7), alibi_slopes(3)
    for h in range(3):
        for i in range(5):
            for j in range(7):
                assert abs(bias[h, i, j] + slopes[h] * abs(i + 2 - j)) < 1e-7
    assert_agrees(alibi_bias(3, 7, 7)[:, -5:], bias)


def test_errors():
    with pytest.raises(ValueError, match=r"d_head must be even \(columns are rotated in pairs\), got 7"):
        Rotary(7)
    with untyped(), pytest.raises(ValueError, match=r"x must have d_head = 6 features .* got \(5, 4\)"):
        Rotary(6)(torch.zeros(5, 4))
    with pytest.raises(ValueError, match="num_heads must be at least 1, got 0"):
        alibi_slopes(0)


def test_sinusoids_are_exact_in_any_dtype_and_after_any_other():
    exact = sinusoidal_positions(50, 7, dtype=torch.float64, base=500.0)
    assert_agrees(SinusoidalPositions(50, 7, base=500.0).double().table, exact)
    back = SinusoidalPositions(50, 7, base=500.0).half().float()
    assert_agrees(back.table, exact.float(), tolerance=1e-9)


def test_chosen_learned_positions_need_the_width_too():
    with untyped(), pytest.raises(ValueError, match=r"x must have d_model = 7 features .* got \(2, 5, 1\)"):
        LearnedPositions(11, 7)(torch.zeros(2, 5, 1), positions=torch.arange(5))
