"""What a GPU would refuse is noticed without a GPU, and what it would not is let pass."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnlib.checks.asking.watch import DeviceWatch

Meet = Callable[[Tensor, Tensor], object]

ALLOWED: dict[str, Meet] = {
    "moved by to": lambda gpu, cpu: gpu + cpu.to(gpu),
    "moved by type_as": lambda gpu, cpu: gpu + cpu.type_as(gpu),
    "moved after it was expanded like x": lambda gpu, cpu: gpu + cpu[:1].expand_as(gpu).to(gpu.device),
    "viewed like x": lambda gpu, cpu: cpu.view_as(gpu),
    "made from x": lambda gpu, cpu: gpu + gpu.new_tensor([1.0]) + gpu.new_zeros(3) + torch.ones_like(gpu),
    "a number without axes": lambda gpu, cpu: gpu * torch.tensor(2.0) + cpu.sum(),
    "an index": lambda gpu, cpu: gpu[torch.tensor([0, 1])],
    "an index to write to": lambda gpu, cpu: gpu.clone().index_put_((torch.tensor([0]),), torch.tensor(1.0)),
    "copied over": lambda gpu, cpu: (torch.empty_like(gpu).copy_(cpu), cpu.clone().copy_(gpu)),
    "assigned to a slice": lambda gpu, cpu: (gpu.clone().__setitem__(slice(1), cpu[:1]), cpu.__setitem__(0, gpu[0])),
    "taken to the CPU and back": lambda gpu, cpu: (gpu.cpu() + cpu).to(gpu.device),
}
REFUSED: dict[str, Meet] = {
    "added": lambda gpu, cpu: gpu + cpu,
    "a number on the GPU": lambda gpu, cpu: gpu.sum() * cpu,
    "multiplied": lambda gpu, cpu: gpu @ cpu.mT,
    "a mask": lambda gpu, cpu: gpu.masked_fill(cpu > 0, 0.0),
    "a condition": lambda gpu, cpu: torch.where(cpu > 0, gpu, gpu),
    "joined": lambda gpu, cpu: torch.cat([gpu, cpu]),
    "added in place": lambda gpu, cpu: gpu.clone().add_(cpu),
    "an index on the GPU": lambda gpu, cpu: cpu[gpu.long()],
    "written to an index": lambda gpu, cpu: gpu.clone().index_put_((torch.tensor([0]),), cpu[:1]),
    "looked up": lambda gpu, cpu: torch.nn.functional.embedding(torch.zeros(2, 3, dtype=torch.long), gpu),
}


def _watched(meet: Meet, gpu: Tensor, cpu: Tensor) -> bool:
    watch = DeviceWatch(gpu=gpu.device.type)
    try:
        with watch:
            meet(gpu, cpu)
    except (RuntimeError, NotImplementedError):
        assert watch.mixed
    return watch.mixed


@pytest.mark.parametrize("meet", ALLOWED.values(), ids=ALLOWED)
def test_what_a_gpu_allows_is_not_noticed(meet: Meet) -> None:
    assert not _watched(meet, torch.ones(2, 3, device="meta"), torch.ones(2, 3))


@pytest.mark.parametrize("name", sorted(ALLOWED.keys() - {"taken to the CPU and back"}))  # the CPU is not where it was
def test_the_parts_can_be_exchanged(name: str) -> None:
    with torch.device("meta"):
        assert not _watched(ALLOWED[name], torch.ones(2, 3, device="cpu"), torch.ones(2, 3))


@pytest.mark.parametrize("meet", REFUSED.values(), ids=REFUSED)
def test_what_a_gpu_refuses_is_noticed(meet: Meet) -> None:
    assert _watched(meet, torch.ones(2, 3, device="meta"), torch.ones(2, 3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: what one allows was not compared")
@pytest.mark.parametrize(("meet", "refused"), [(m, m in REFUSED.values()) for m in (ALLOWED | REFUSED).values()])
def test_a_gpu_agrees(meet: Meet, refused: bool) -> None:
    gpu, cpu = torch.ones(2, 3, device="cuda"), torch.ones(2, 3)
    if refused:
        with pytest.raises((RuntimeError, IndexError)):
            meet(gpu, cpu)
    else:
        meet(gpu, cpu)
