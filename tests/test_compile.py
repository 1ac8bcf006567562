"""torch.compile takes every entry point as one graph. In a process of its own: there, no annotation is enforced."""

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import torch
from attnlib import *

torch.manual_seed(0)
torch.set_num_threads(1)
x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
mask = torch.rand(2, 3, 5, 5) < 0.6
mask[0, :, 1] = False
keys = torch.tensor([[True, False, True, True, False], [False] * 5])
attention, grouped = MultiHeadAttention(12, 3), MultiHeadAttention(12, 3, num_kv_heads=1, rotary=Rotary(4))
encoder, decoder = Encoder(1, 12, 3), Decoder(1, 12, 3, norm_first=False)
cases = {
    "padded": lambda x, y: attention(x, key_mask=keys, is_causal=True),
    "cross": lambda x, y: attention(x, y),
    "weights": lambda x, y: grouped(x, mask=mask, return_weights=True)[0],
    "encoder": lambda x, y: encoder(x, is_causal=True),
    "decoder": lambda x, y: decoder(x, y),
    "tiled": lambda x, y: tiled_attention(x, y, y + 1, is_causal=True, block_q=2, block_k=3),
}
for backend, name in ASKED:
    function = cases[name]
    inputs = [x.clone().requires_grad_(), memory.clone().requires_grad_()]
    compiled, expected = torch.compile(function, fullgraph=True, backend=backend)(*inputs), function(*inputs)
    torch.testing.assert_close(compiled, expected, atol=1e-5, rtol=0)
    ours, theirs = (torch.autograd.grad(y.pow(2).sum(), inputs, allow_unused=True) for y in (compiled, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
    print(backend, name, flush=True)
"""


GRAPHS = ["padded", "cross", "weights", "encoder", "decoder", "tiled"]
COMPILED = ["padded", "weights"] if shutil.which("g++") else []
ASKED = [*(("aot_eager", name) for name in GRAPHS), *(("inductor", name) for name in COMPILED)]


@pytest.fixture(scope="module")
def done() -> subprocess.CompletedProcess[str]:
    """Both compilers in one process, one after the other, which takes half of its time to load them."""
    command = [sys.executable, "-c", PROGRAM.replace("ASKED", repr(ASKED))]
    one_thread = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # with more, all headers are compiled first
    return subprocess.run(command, capture_output=True, text=True, env=one_thread)


def named(done: subprocess.CompletedProcess[str], backend: str) -> list[str]:
    return [name for by, name in map(str.split, done.stdout.splitlines()) if by == backend]


def test_everything_is_one_graph(done):
    assert named(done, "aot_eager") == GRAPHS, done.stderr[-3000:]


@pytest.mark.skipif(not COMPILED, reason="NO C++ COMPILER: torch.compile's own backend was not tested")
def test_inductor_computes_the_same(done):
    assert named(done, "inductor") == COMPILED, done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
