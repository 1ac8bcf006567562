"""A probe for exercises that train a model: their losses are those before each step, and do not show the last one."""

import torch
from torch import Tensor

from attnlib.checks.exercise import Asked, Inputs


def trained(asked: Asked, inputs: Inputs) -> tuple[Tensor]:
    """All weights of the model as they are after the call: of what is given, they alone are matrices."""
    asked(*inputs)
    return (torch.cat([left.flatten() for left in asked.left() if left.is_floating_point() and left.dim() == 2]),)
