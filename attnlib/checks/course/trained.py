"""A probe for exercises that change a model: losses come before each step, and so don't show the last one."""

import torch
from torch import Tensor

from attnlib.checks.exercise import Asked, Inputs


def trained(asked: Asked, inputs: Inputs) -> tuple[Tensor]:
    """Return all matrices among the inputs after the call: a model's weights, and other matrices it was given."""
    asked(*inputs)
    return (torch.cat([left.flatten() for left in asked.left() if left.is_floating_point() and left.dim() == 2]),)
