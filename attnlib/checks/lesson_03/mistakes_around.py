"""What goes wrong around multi-head attention: its layers, what goes into them, and what is returned."""

from torch import Tensor, nn

from attnlib.checks.exercise import Misconception
from attnlib.checks.lesson_03.plain_multi_head import Plain, after, but
from attnlib.checks.usual import wrong


def _scores_returned(self: Plain, x: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = (self.split(projected) for projected in self.project(x))
    scores = q @ k.mT * self.scale(x)
    return self.w_o(self.merge(scores.softmax(dim=-1) @ v)), scores


class _NoBias(Plain):
    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, d_head, False)


class _AlwaysBias(Plain):
    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, d_head, True)


class _InputCutFirst(Plain):
    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, d_head, bias)
        self.w_q, self.w_k, self.w_v = (nn.Linear(self.d_head, self.d_head, bias=bias) for _ in range(3))


def _asserted(self: Plain, d_model: int, num_heads: int, d_head: int | None) -> int:
    assert d_head is not None or d_model % num_heads == 0, "num_heads must divide d_model"
    return d_head or d_model // num_heads


def results_mistakes() -> tuple[Misconception, ...]:
    """What is projected, and what is returned."""
    return (
        wrong(
            "no_output_projection",
            "The output projection is forgotten",
            "The heads stand side by side and are returned like that. w_o is made but never called: it is what lets "
            "the findings of different heads be mixed.",
            but(finish=lambda self, x: x),
        ),
        wrong(
            "output_projection_transposed",
            "The output projection is transposed",
            "nn.Linear computes x @ weight.T. You multiplied by the weight as it is stored. Call the layer instead.",
            but(finish=lambda self, x: x @ self.w_o.weight + (0 if self.w_o.bias is None else self.w_o.bias)),
        ),
        wrong(
            "biases_unused",
            "The biases are there, but not used",
            "You multiplied by the weights alone. Call the layers instead, self.w_q(x): they add their bias.",
            but(
                project=lambda self, x: tuple(x @ w.weight.mT for w in (self.w_q, self.w_k, self.w_v)),
                finish=lambda self, x: x @ self.w_o.weight.mT,
            ),
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "The queries come from w_k and the keys from w_q. Each word then listens to those that look for it.",
            but(project=lambda self, x: (self.w_k(x), self.w_q(x), self.w_v(x))),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is made of weights @ k: w_v is never used.",
            but(project=lambda self, x: (self.w_q(x), self.w_k(x), self.w_k(x))),
        ),
        wrong(
            "residual_added",
            "The input is added to the output",
            "A residual connection belongs to the block around attention (lesson 06), not to attention itself.",
            after(lambda self, x, output, weights: (output + x, weights)),
        ),
        wrong(
            "scores_returned",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the scores before the softmax.",
            but(forward=_scores_returned),
        ),
        wrong(
            "weights_mean_returned",
            "The weights are averaged over the heads",
            "The output is right. But you return one (n, n) for each sentence, as nn.MultiheadAttention does unless "
            "it is told otherwise. The contract keeps the heads: (b, h, n, n).",
            after(lambda self, x, output, weights: (output, weights.mean(dim=1))),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The weights came first. The contract is (output, weights).",
            after(lambda self, x, output, weights: (weights, output)),
        ),
        wrong(
            "weights_forgotten",
            "Only the output is returned",
            "The contract is (output, weights): you will want to look at the weights of each head.",
            after(lambda self, x, output, weights: output),
        ),
    )


def layers_mistakes() -> tuple[Misconception, ...]:
    """The constructor and its arguments."""
    return (
        wrong(
            "never_a_bias",
            "The layers have no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            _NoBias,
        ),
        wrong(
            "always_a_bias",
            "`bias` is not passed on",
            "With bias=False none of the four layers has one: hand it to nn.Linear.",
            _AlwaysBias,
        ),
        wrong(
            "d_head_ignored",
            "`d_head` is not used",
            "When d_head is given, the heads are that wide, whatever d_model is. w_q, w_k and w_v go from d_model to "
            "num_heads * d_head, and w_o goes back.",
            but(
                width_of_a_head=lambda self, d_model, num_heads, d_head: Plain.width_of_a_head(
                    self, d_model, num_heads, None
                )
            ),
        ),
        wrong(
            "input_cut_first",
            "The input is cut into heads, and one small matrix serves them all",
            "Some published code does this, and it is cheaper. But in the paper's multi-head attention each head has "
            "matrices of its own and reads the whole word: the layers go from d_model to num_heads * d_head.",
            _InputCutFirst,
        ),
        wrong(
            "no_error",
            "A width that does not divide is accepted",
            "`d_model // num_heads` rounds down, and columns are lost without a word. Where d_head is not given and "
            "num_heads does not divide d_model, raise a ValueError that says both numbers.",
            but(width_of_a_head=lambda self, d_model, num_heads, d_head: d_head or d_model // num_heads),
        ),
        wrong(
            "assertion",
            "An assertion instead of a ValueError",
            "`assert` is for what cannot happen, and Python drops it when it runs with -O. What a caller did wrong is "
            "a ValueError: `raise ValueError(...)`.",
            but(width_of_a_head=_asserted),
        ),
    )
