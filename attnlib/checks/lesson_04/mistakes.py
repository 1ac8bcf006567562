"""What goes wrong in multi-head cross-attention because the memory is another text, of another width."""

from torch import Tensor, nn

from attnlib.checks.exercise import Misconception
from attnlib.checks.lesson_03.heads import Heads, after, but, causal
from attnlib.checks.usual import wrong


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
            "weights_summed_returned",
            "The weights are summed over the heads",
            "The output is right. But the rows of your weights add up to the number of heads. The contract keeps the "
            "heads: (b, h, q, k).",
            after(CrossHeads, lambda x, output, weights: (output, weights.sum(dim=1))),
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
            "out_to_d_memory",
            "The output is as wide as the memory",
            "The output stands at the positions of x and goes on where x was: w_o leads to d_model, not to d_memory.",
            but(CrossHeads, make_layers=_out_to_d_memory),
        ),
    )
