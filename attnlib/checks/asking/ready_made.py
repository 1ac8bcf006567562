"""Functions that torch and other libraries have ready-made, and that an exercise may ask you to write yourself.

A family is known by the names of its functions and of the operators that torch runs for them: `F.softmax`,
`torch.ops.aten._softmax`, `nn.Softmax` and `scipy.special.softmax` are one. The check in a notebook, the reading of the
source and the sandbox all ask here. Nothing in this file knows an answer: it runs beside a student's code, too.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import torch

SOFTMAX = "every ready-made softmax"
MASKED_SOFTMAX = "every ready-made masked softmax"
ATTENTION = "every ready-made attention"
NORMS = "every ready-made norm"
BLOCKS = "every ready-made Transformer block"
EINSUM = "every ready-made einsum"


@dataclass(frozen=True)
class Family:
    """Functions that do the same work: a pattern that finds them (see `plain`), and what to use instead."""

    pattern: str
    instead: str


FAMILIES = {
    SOFTMAX: Family(
        r"softmax|softmin|attention|transformer(en|de)coder|autograd::engine|makedual",
        "Here you write the softmax itself, from `torch.exp`, `sum` and `amax`; `torch.logsumexp` is allowed, too. "
        "But nothing may take a softmax for you: not torch's own in any of its forms, nor its logarithm, nor "
        "attention, nor a derivative (that of `logsumexp` is a softmax), nor another library.",
    ),
    MASKED_SOFTMAX: Family(
        r"maskedsoftmax|masked\.(ops\.)?(log)?softm|safesoftmax|attention|transformer(en|de)coder",
        "Here you write what a mask does to a softmax. `torch.softmax` is allowed, but nothing that takes the "
        "mask as well, such as `torch.masked.softmax` or PyTorch's attention, or that turns rows of -inf into zeros "
        "by itself, as `torch._safe_softmax` does.",
    ),
    ATTENTION: Family(
        r"attention|transformer(en|de)coder",
        "Here you write attention itself: matrix products, a scale, `torch.softmax`. A function or layer that does "
        "all of it for you, such as `F.scaled_dot_product_attention` or `nn.MultiheadAttention`, is not allowed.",
    ),
    NORMS: Family(
        r"(layer|group|batch|instance|rms|weight|localresponse)norm|transformer(en|de)coder",
        "Here you write the norm itself, from `mean`, `var` and `sqrt`. Nothing that normalises for you is allowed: "
        "neither torch's layer norm nor its group, batch, instance and RMS norms, any of which can be made to do it.",
    ),
    BLOCKS: Family(
        r"transformer(en|de)coder",
        "Here you put the block together from its layers. A ready-made block, such as "
        "`nn.TransformerEncoderLayer`, is not allowed.",
    ),
    EINSUM: Family(
        r"einsum|tensordot",
        "Here you write einsum itself: line the axes up, multiply, sum. A ready-made one is not allowed, whether "
        "torch's, einops's or NumPy's, and neither is `tensordot`.",
    ),
}
ENGINE = "autograd::engine"  # in the profiler's name for each step of the backward pass
ELSEWHERE = (
    *("cupy", "flax", "jax", "jaxlib", "keras", "mlx", "mxnet", "onnxruntime", "paddle"),
    *("scipy", "sklearn", "tensorflow", "tinygrad"),
)
"""Libraries whose compiled functions have no names by which they could be known: they are not to be imported at all."""
DATA = "sklearn.datasets."  # may be read where sklearn is imported already

BACKWARD = "backward"  # in an operator's name: autograd runs it, and no result comes from it


class Elsewhere(MetaPathFinder, Loader):
    """Refuses those libraries, while it is the first of `sys.meta_path`; one that is imported already stays so.

    Only who imports one meets an error: torch's compiler looks which of them are installed.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, *_target: ModuleType | None) -> ModuleSpec | None:
        """A specification of a module that cannot be executed."""
        if name.partition(".")[0] not in ELSEWHERE or name.startswith(DATA):
            return None
        return ModuleSpec(name, self) if PathFinder.find_spec(name, path) is not None else None

    def exec_module(self, module: ModuleType) -> None:
        """Raises ModuleNotFoundError, which says why it cannot be had."""
        library = module.__name__.partition(".")[0]
        told = f"{library} is not available: this exercise asks you to do without what libraries have ready-made"
        raise ModuleNotFoundError(told, name=library)


def plain(name: str) -> str:
    """The name as the patterns read it: `nn.LayerNorm`, `F.layer_norm` and `native_layer_norm` are alike.

    >>> plain("torch.nn.LayerNorm")
    'torch.nn.layernorm'
    """
    return name.replace("_", "").lower()


@functools.cache
def pattern_of(forbidden: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern for the functions of the families that are forbidden; None if none of them is."""
    found = [FAMILIES[name].pattern for name in forbidden if name in FAMILIES]
    return re.compile("|".join(found)) if found else None


def instead(forbidden: Iterable[str], said: str = "") -> str:
    """Say what to use instead, in the student's terms; `said` tells which function was called."""
    of_ours = re.match(r"calls attnlib\.(?!\w*attention)[a-z_]+,", said)
    found = [] if of_ours else [FAMILIES[name].instead for name in forbidden if name in FAMILIES]
    return " ".join(found) or "Here you write what the library has ready-made. Compare with it once yours is right."


@functools.cache
def operators(family: str) -> tuple[str, ...]:
    """All of torch's operators that belong to the family, with their overloads: `aten::_softmax.out`."""
    pattern = re.compile(FAMILIES[family].pattern)
    names = torch._C._dispatch_get_all_op_names()
    return tuple(sorted(n for n in names if pattern.search(plain(n)) and BACKWARD not in n))


@functools.cache
def operator_called(operator: str) -> str:
    """An operator by the name that it has in Python.

    >>> operator_called("aten::softmax.int"), operator_called("aten::_softmax")
    ('torch.softmax', 'torch.ops.aten._softmax')
    """
    if operator.startswith(ENGINE) or operator == "aten::_make_dual":
        return "torch.autograd"
    namespace, _, name = operator.partition("::")
    name = name.partition(".")[0]
    if name.startswith("special_"):
        return f"torch.special.{name.removeprefix('special_')}"
    for home, owner in (("torch", torch), ("torch.nn.functional", torch.nn.functional)):
        if not name.startswith("_") and hasattr(owner, name):
            return f"{home}.{name}"
    return f"torch.ops.{namespace}.{name}"
