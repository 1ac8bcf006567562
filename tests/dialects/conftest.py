"""The settings in which a dialect and attnlib are compared: device, precision, and attnlib's two ways to compute."""

import pytest
import torch
from agreement import Setting

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: compared on the CPU only"),
        ],
    ),
]


@pytest.fixture(params=["eager", "fused"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def setting(request: pytest.FixtureRequest, device: str, backend: str) -> Setting:
    return Setting(device, request.param, backend)
