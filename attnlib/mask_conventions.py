"""Conversions from and to the mask conventions of other libraries.

Here a mask is bool, True = may attend. Elsewhere True may mean the opposite, 1 and 0 may stand for True and False, or a
mask may be added to the scores. All of them are tensors of the right shape, and mistaking one for another often raises
no error.
"""

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor


def from_blocked(blocked: Bool[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    """From True = blocked, as in ``nn.MultiheadAttention``'s attn_mask.

    >>> from_blocked(torch.tensor([[False, True], [False, False]]))
    tensor([[ True, False],
            [ True,  True]])

    Any shape; raises TypeError for a mask that is not bool.
    """
    return ~_check_bool("a mask with True = blocked", blocked)


def to_blocked(mask: Bool[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    """To True = blocked, as in ``nn.MultiheadAttention``'s attn_mask.

    >>> to_blocked(torch.tensor([[True, False], [True, True]]))
    tensor([[False,  True],
            [False, False]])

    Any shape; raises TypeError for a mask that is not bool.
    """
    return ~_check_bool("mask", mask)


def from_additive(additive: Float[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    """From a mask that is added to the scores: 0 = may attend, -inf = blocked.

    >>> from_additive(torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]))
    tensor([[ True, False],
            [ True,  True]])

    Any shape. Raises ValueError for any other number, even a very negative one such as ``torch.finfo(dtype).min``: it
    is a bias, which no bool can hold (see ``score_bias`` in ``scaled_dot_product_attention``). Raises TypeError for a
    mask that is not floating point.
    """
    if not additive.is_floating_point():
        raise TypeError(f"an additive mask must be floating point, 0 or -inf, got {additive.dtype}")
    attend = additive == 0
    _check_values("an additive mask", "0 or -inf", additive, attend | (additive == -torch.inf))
    return attend


def to_additive(mask: Bool[Tensor, "*shape"], *, dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape"]:
    """To a mask that is added to the scores: 0 = may attend, -inf = blocked.

    >>> to_additive(torch.tensor([[True, False], [True, True]]))
    tensor([[0., -inf],
            [0., 0.]])

    A row without a True is all -inf, and its softmax is NaN: if that can happen, keep the bool mask.

    Any shape; raises TypeError for a mask that is not bool, and for a dtype that is not floating point.
    """
    if not dtype.is_floating_point:
        raise TypeError(f"an additive mask must be floating point, got dtype = {dtype}")
    blocked = ~_check_bool("mask", mask)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(blocked, -torch.inf)


def from_keep(keep: Num[Tensor, "*shape"] | Bool[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    """From numbers: 1 = may attend, 0 = blocked, as tokenizers return it.

    >>> from_keep(torch.tensor([[1, 0], [1, 1]]))
    tensor([[ True, False],
            [ True,  True]])

    Any shape, integers or floating point; raises ValueError for any other number.
    """
    attend = keep == 1
    _check_values("a mask of numbers", "0 or 1", keep, attend | (keep == 0))
    return attend


def to_keep(
    mask: Bool[Tensor, "*shape"], *, dtype: torch.dtype = torch.int64
) -> Num[Tensor, "*shape"] | Bool[Tensor, "*shape"]:
    """To numbers: 1 = may attend, 0 = blocked.

    >>> to_keep(torch.tensor([[True, False], [True, True]]))
    tensor([[1, 0],
            [1, 1]])

    Any shape; raises TypeError for a mask that is not bool.
    """
    return _check_bool("mask", mask).to(dtype)


def from_padding(padding: Bool[Tensor, "b k"]) -> Bool[Tensor, "b k"]:
    """From True = padding, as in ``nn.MultiheadAttention``'s key_padding_mask, to a key mask, True = real.

    >>> from_padding(torch.tensor([[False, False, True]]))
    tensor([[ True,  True, False]])

    Shapes: (b, k) -> (b, k); raises ValueError for another number of axes, TypeError for a mask that is not bool.
    """
    return ~_check_keys("a padding mask", _check_bool("a padding mask", padding))


def to_padding(key_mask: Bool[Tensor, "b k"]) -> Bool[Tensor, "b k"]:
    """From a key mask, True = real, to True = padding, as in ``nn.MultiheadAttention``'s key_padding_mask.

    >>> to_padding(torch.tensor([[True, True, False]]))
    tensor([[False, False,  True]])

    Shapes: (b, k) -> (b, k); raises ValueError for another number of axes, TypeError for a mask that is not bool.
    """
    return ~_check_keys("key_mask", _check_bool("key_mask", key_mask))


def _check_bool(name: str, mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"{name} must be bool, got {mask.dtype}")
    return mask


def _check_keys(name: str, mask: Tensor) -> Tensor:
    if mask.ndim != 2:
        raise ValueError(f"{name} must have shape (b, k), got {tuple(mask.shape)}")
    return mask


def _check_values(name: str, allowed: str, mask: Tensor, right: Tensor) -> None:
    if not bool(right.all()):
        raise ValueError(f"{name} must hold {allowed} and nothing else, got {mask[~right][0].item()}")
