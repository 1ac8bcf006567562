from functools import partial

import pytest
import torch
from oracles import assert_agrees, randoms, slow_attention

from attnlib import scaled_dot_product_attention, tiled_attention
from attnlib.attention import equation

eager = partial(scaled_dot_product_attention, backend="eager")


@pytest.mark.parametrize("attend", [eager, lambda *x: equation(*x)[0], tiled_attention])
def test_autocast_does_not_take_the_scores_back_to_half_precision(attend):
    q, k, v = randoms((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 7))
    large = [(x.detach() * 1000).half() for x in (q, k)] + [v.detach().half()]
    with torch.autocast("cpu", dtype=torch.float16):
        output = attend(*large)
    assert output.dtype == torch.float16
    assert_agrees(output, slow_attention(*[x.double() for x in large])[0])
