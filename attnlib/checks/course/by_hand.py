"""Judge matrices that a learner writes by hand by what they do, not by what is in them."""

import torch
from torch import Tensor

NEAR = 0.1
"""The largest error that counts as right: softmax never gives a key exactly 0, nor GELU a neuron."""


def nearly(got: Tensor, wanted: Tensor) -> Tensor:
    """`wanted` where `got` is close enough, so that all right designs give one result, and `got` elsewhere.

    Rounded to two digits, so that the designs of one mistake give one result as well, however sharp they are.

    >>> nearly(torch.tensor([0.97, 0.40001]), torch.tensor([1.0, 0.0]))
    tensor([1.0000, 0.4000])
    """
    return torch.where((got - wanted).abs() < NEAR, wanted, got.round(decimals=2))
