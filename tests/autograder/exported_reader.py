"""The other half of the export: weights as the page has them, in a reader of PyTorch's."""

import base64
from typing import Any

import numpy as np
import torch
from torch import nn


def load(reader: nn.Module, exported: dict[str, Any]) -> nn.Module:
    """The reader with the exported weights, in double precision."""
    state = {}
    for name, numbers in reader.state_dict().items():
        each = exported["weights"][name]
        whole = np.frombuffer(base64.b64decode(each["data"]), "<i2").astype(float)
        state[name] = torch.from_numpy(whole * each["scale"]).reshape(numbers.shape)
    reader.double().load_state_dict(state)
    return reader


@torch.no_grad()
def read(reader: Any, text: str) -> tuple[list[Any], list[Any]]:
    """The logits (10, 11) and the weights (h, 10, k) for one text; what has no number is masked, as padding is."""
    ids = torch.tensor([[reader.number_of.get(character, 0) for character in text]])
    logits, weights = reader(ids)
    return logits[0].tolist(), weights[0].tolist()
