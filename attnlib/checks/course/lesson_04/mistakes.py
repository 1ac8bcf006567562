"""What goes wrong in multi-head cross-attention because the memory is another text, of another width."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attnlib.checks.course.lesson_03.heads import Heads, but, causal
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception


class CrossHeads(Heads):
    """The module of this lesson: x asks a memory."""

    def __init__(
        self, d_model: int, d_memory: int, num_heads: int, d_head: int | None = None, bias: bool = True
    ) -> None:
        super().__init__(d_model, d_memory, num_heads, d_head, bias)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.attend(x, memory)


def _layers_of_d_model(self: Heads, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    CrossHeads.make_layers(self, d_model, d_model, width, bias)


def _widths_exchanged(self: Heads, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    CrossHeads.make_layers(self, d_memory, d_model, width, bias)


def _out_to_d_memory(self: Heads, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    CrossHeads.make_layers(self, d_model, d_memory, width, bias)
    self.w_o = nn.Linear(width, d_memory, bias=bias)


def _kept(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if not hasattr(self, "first"):
        self.first = self.w_k(memory), self.w_v(memory)
    return self.w_q(x), *self.first


def _width(choose: Callable[[int, int, int], int]) -> type[Heads]:
    """Without a d_head, a head is `choose(d_model, d_memory, num_heads)` wide."""

    class Mistaken(CrossHeads):
        def __init__(
            self, d_model: int, d_memory: int, num_heads: int, d_head: int | None = None, bias: bool = True
        ) -> None:
            d_head = choose(d_model, d_memory, num_heads) if d_head is None else d_head
            super().__init__(d_model, d_memory, num_heads, d_head, bias)

    return Mistaken


def _divided(width: int, num_heads: int) -> int:
    if width % num_heads:
        raise ValueError(f"num_heads = {num_heads} does not divide {width}")
    return width // num_heads


class _ArgumentsExchanged(CrossHeads):
    def __init__(
        self, d_memory: int, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True
    ) -> None:
        super().__init__(d_model, d_memory, num_heads, d_head, bias)


def own_mistakes() -> tuple[Misconception, ...]:
    """The scale, the widths, and what is returned."""
    return (
        wrong(
            "scaled_by_root_d_memory",
            "Scaled by √d_memory instead of √d",
            "A head's scores are sums of d products, because its keys are d wide. The width of the memory takes no "
            "part.",
            but(CrossHeads, scale=lambda self, x, memory: memory.shape[-1] ** -0.5),
        ),
        wrong(
            "scaled_by_root_k",
            "Scaled by the length of the memory",
            "A head's scores are sums of d products. How many positions the memory has does not matter to any of them.",
            but(CrossHeads, scale=lambda self, x, memory: memory.shape[-2] ** -0.5),
        ),
        wrong(
            "scaled_by_root_q",
            "Scaled by the length of x",
            "A head's scores are sums of d products. How many positions ask does not matter to any of them.",
            but(CrossHeads, scale=lambda self, x, memory: x.shape[-2] ** -0.5),
        ),
        wrong(
            "causal",
            "A causal mask on the memory",
            "Query i sees only the first i + 1 positions of the memory. The memory is there as a whole, and its "
            "positions have nothing to do with those of x: every query sees all of it.",
            but(CrossHeads, share=causal),
        ),
        wrong(
            "memory_detached",
            "The memory is cut from the gradient",
            "The numbers are right. But the encoder that made the memory learns only through it: do not detach it.",
            but(
                CrossHeads,
                project=lambda self, x, memory: (self.w_q(x), self.w_k(memory.detach()), self.w_v(memory.detach())),
            ),
        ),
        wrong(
            "input_detached",
            "x is cut from the gradient",
            "The numbers are right, and the layers can learn. But what made x cannot: no gradient reaches it. Do not "
            "detach what you are given.",
            but(CrossHeads, project=lambda self, x, memory: CrossHeads.project(self, x.detach(), memory)),
        ),
        wrong(
            "memory_kept",
            "Keys and values of the first memory are kept",
            "They are stored at the first call and used again at the next, although another memory has come. Compute "
            "them from the arguments.",
            but(CrossHeads, project=_kept),
        ),
        wrong(
            "memory_width_forgotten",
            "w_k and w_v are made for x, not for the memory",
            "They get the memory, whose vectors are d_memory wide: nn.Linear(d_memory, num_heads * d_head).",
            but(CrossHeads, make_layers=_layers_of_d_model),
        ),
        wrong(
            "widths_exchanged",
            "d_model and d_memory are exchanged",
            "w_q reads x, which is d_model wide; w_k and w_v read the memory, which is d_memory wide. w_o goes back "
            "to d_model, because the output stands at the positions of x.",
            but(CrossHeads, make_layers=_widths_exchanged),
        ),
        wrong(
            "arguments_exchanged",
            "The constructor takes d_memory before d_model",
            "The contract's order is d_model, d_memory, num_heads. Where the two widths differ, every layer is made "
            "for the other text.",
            _ArgumentsExchanged,
        ),
        wrong(
            "d_memory_shared_out",
            "The heads share d_memory, not d_model",
            "Without a d_head, each head is d_model // num_heads wide: all together they are as wide as x. The width "
            "of the memory takes no part.",
            _width(lambda d_model, d_memory, num_heads: _divided(d_memory, num_heads)),
        ),
        wrong(
            "d_memory_shared_out_unchecked",
            "The heads share d_memory, not d_model",
            "Without a d_head, each head is d_model // num_heads wide: all together they are as wide as x. The width "
            "of the memory takes no part.",
            _width(lambda d_model, d_memory, num_heads: d_memory // num_heads),
        ),
        wrong(
            "d_memory_checked",
            "d_memory is checked, not d_model",
            "It is d_model that the heads share out among themselves, so it is d_model that num_heads has to divide.",
            _width(lambda d_model, d_memory, num_heads: _divided(d_memory, num_heads) and d_model // num_heads),
        ),
        wrong(
            "out_to_d_memory",
            "The output is as wide as the memory",
            "The output stands at the positions of x and goes on where x was: w_o leads to d_model, not to d_memory.",
            but(CrossHeads, make_layers=_out_to_d_memory),
        ),
    )
