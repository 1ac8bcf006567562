"""What a GPU would refuse is noticed without a GPU, and what it would not is let pass."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from attnlib.checks import exercises, run
from attnlib.checks.asking.other_device import OtherDevice, on_other_device
from attnlib.checks.verdict.judge import run_exercise

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


def _mixed(meet: Meet, *, inference: bool) -> bool:
    x = on_other_device(torch.ones(2, 3))
    with OtherDevice() as gpu, torch.inference_mode(inference):
        meet(x, torch.ones(2, 3))
    return gpu.mixed


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("meet", ALLOWED.values(), ids=ALLOWED)
def test_what_a_gpu_allows_is_not_noticed(meet: Meet, inference: bool) -> None:
    assert not _mixed(meet, inference=inference)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("meet", REFUSED.values(), ids=REFUSED)
def test_what_a_gpu_refuses_is_noticed(meet: Meet, inference: bool) -> None:
    assert _mixed(meet, inference=inference)


COMPUTED: dict[str, Callable[[Tensor], object]] = {
    "a number": lambda x: x.sum().item(),
    "a condition": lambda x: bool((x > 0).any()),
    "a list": lambda x: (x * 2).tolist(),
    "a copy on the CPU": lambda x: x.softmax(-1).cpu().tolist(),
    "as many as are positive": lambda x: x[x > 0].shape,
    "a view written to": lambda x: _written_to_a_view(x).tolist(),
    "an axis put in front in place": lambda x: x.clone().unsqueeze_(0).tolist(),
    "a result put elsewhere": lambda x: torch.add(x, x, out=x.new_empty(0)).tolist(),
    "a gradient": lambda x: _gradient(x).tolist(),
    "a layer": lambda x: torch.func.functional_call(_LAYER, _moved_to(x), (x,)).tolist(),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]).tolist(),
    "one call for each row": lambda x: torch.vmap(lambda row: row.cumsum(-1))(x).tolist(),
    "einsum": lambda x: torch.einsum("ij, kj -> ik", x, x).tolist(),
}
_LAYER = nn.Linear(3, 4)


def _written_to_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    y.view(3, 2)[0].add_(1.0)
    return y


def _gradient(x: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    (leaf**2).sum().backward()
    assert leaf.grad is not None
    return leaf.grad


def _moved_to(x: Tensor) -> dict[str, Tensor]:
    return {name: p.detach().to(x.device) for name, p in _LAYER.named_parameters()}


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
def test_the_other_device_computes_what_the_cpu_does(compute: Callable[[Tensor], object]) -> None:
    x = torch.randn(2, 3)
    there = on_other_device(x.clone())
    with OtherDevice() as gpu:
        found = compute(there)
    assert found == compute(x)
    assert not gpu.mixed


@pytest.mark.slow
def test_it_needs_nothing_of_torch_that_is_slow_to_import() -> None:
    code = (
        "import sys, torch; from attnlib.checks import run;"
        "report = run('attention_scores', lambda q, k: q @ k.mT * q.shape[-1] ** -0.5); assert report.passed, report;"
        "sys.exit(' '.join({'sympy', 'torch._dynamo', 'torch._inductor'} & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_what_torch_has_compiled_is_not_compiled_with_the_other_device() -> None:
    def scores(x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1)

    x = torch.randn(2, 3)
    there = on_other_device(x.clone())
    compiled = torch.compile(scores, backend="eager")
    with OtherDevice() as gpu:
        found = compiled(there)
        assert found.is_meta
        torch.testing.assert_close(found.cpu(), scores(x))
    assert not gpu.mixed


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


def test_on_another_device_only_what_passes_on_the_cpu_is_tried(monkeypatch) -> None:
    module, devices = sys.modules["attnlib.checks.check"], []

    def noted(exercise, attempt, asking, **how):
        devices.append(asking.device)
        return run_exercise(exercise, attempt, replace(asking, device="cpu"), **how)

    monkeypatch.setattr(module, "run_exercise", noted)
    assert run("pairwise_dot", lambda x, y: x @ y.mT, device="meta").passed
    assert not run("pairwise_dot", lambda x, y: x @ y.mT + 1, device="meta").passed
    assert run("company", exercises()["company"].reference, device="meta").passed  # its inputs' device isn't asked for
    assert devices == ["cpu", "meta", "cpu", "cpu"]
