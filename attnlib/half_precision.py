"""Half precision, float16 and bfloat16: some of what is given in it has to be computed in float32 all the same."""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """Use float32 for half precision, which has too little range or too few digits for scores, squares and long sums.

    >>> wide(torch.ones(2, dtype=torch.float16)).dtype, wide(torch.ones(2, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def without_autocast(x: Tensor) -> torch.autocast:
    """Keep autocast from taking products of what is ``wide`` back to half precision."""
    kind = x.device.type
    return torch.autocast(kind if torch.amp.is_autocast_available(kind) else "cpu", enabled=False)
