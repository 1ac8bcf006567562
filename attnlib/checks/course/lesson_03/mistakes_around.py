"""What goes wrong around attention with heads, in lessons 03 to 05: the layers, and what is returned."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.lesson_03.heads import Heads, after, but
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception

LAYERS = ("w_q", "w_k", "w_v", "w_o")


def _scores_returned(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    q, k, v = (self.split(projected) for projected in self.project(x, memory))
    scores = q @ k.mT * self.scale(x, memory)
    return self.w_o(self.merge(self.share(scores, allowed) @ v)), scores


def _with_layers(plain: type[Heads], change: Callable[..., None]) -> type[Heads]:
    """The plain module, whose layers `change(module, d_model, d_memory, bias)` has replaced."""

    def make_layers(self: Heads, d_model: int, d_memory: int, width: int, bias: bool) -> None:
        plain.make_layers(self, d_model, d_memory, width, bias)
        change(self, d_model, d_memory, bias)

    return but(plain, make_layers=make_layers)


def _bias(plain: type[Heads], has: bool, *names: str) -> type[Heads]:
    """These layers have a bias, or have none, whatever the caller asks for."""

    def change(self: Heads, d_model: int, d_memory: int, bias: bool) -> None:
        for name in names:
            layer = getattr(self, name)
            setattr(self, name, nn.Linear(layer.in_features, layer.out_features, bias=has))

    return _with_layers(plain, change)


def _all_to_d_model(self: Heads, d_model: int, d_memory: int, bias: bool) -> None:
    self.w_q = nn.Linear(d_model, d_model, bias=bias)
    self.w_k, self.w_v = (nn.Linear(d_memory, d_model, bias=bias) for _ in range(2))
    self.w_o = nn.Linear(d_model, d_model, bias=bias)


def _out_from_d_model(self: Heads, d_model: int, d_memory: int, bias: bool) -> None:
    self.w_o = nn.Linear(d_model, d_model, bias=bias)


def _layers_of_one_head(self: Heads, d_model: int, d_memory: int, bias: bool) -> None:
    self.w_q = nn.Linear(d_model, self.d_head, bias=bias)
    self.w_k, self.w_v = (nn.Linear(d_memory, self.d_head, bias=bias) for _ in range(2))


def _without_bias(x: Tensor, layer: nn.Linear) -> Tensor:
    return x @ layer.weight.mT


def _as_stored(x: Tensor, layer: nn.Linear) -> Tensor:
    return x @ layer.weight if layer.bias is None else x @ layer.weight + layer.bias


def _projected(how: Callable[[Tensor, nn.Linear], Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    return lambda self, x, memory: (how(x, self.w_q), how(memory, self.w_k), how(memory, self.w_v))


def _bias_for_each_head(self: Heads, x: Tensor) -> Tensor:
    return self.w_o(x) if self.w_o.bias is None else self.w_o(x) + (self.num_heads - 1) * self.w_o.bias


def _normalised(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _no_bias_by_default(plain: type[Heads]) -> type[Heads]:
    def __init__(self: Heads, *sizes: Any) -> None:
        given = signature(plain.__init__).bind(self, *sizes).arguments
        plain.__init__(**{"bias": False} | given)

    return but(plain, __init__=__init__)


def _input_cut_first(self: Heads, d_model: int, d_memory: int, bias: bool) -> None:
    self.w_q, self.w_k, self.w_v = (nn.Linear(self.d_head, self.d_head, bias=bias) for _ in range(3))


def _asserted(self: Heads, d_model: int, num_heads: int, d_head: int | None) -> int:
    assert d_head is not None or d_model % num_heads == 0, "num_heads must divide d_model"
    return d_head or d_model // num_heads


def _overwritten(self: Heads, d_model: int, num_heads: int, d_head: int | None) -> int:
    Heads.width_of_a_head(self, d_model, num_heads, d_head)
    return d_model // num_heads


def _refused(self: Heads, d_model: int, num_heads: int, d_head: int | None) -> int:
    width = Heads.width_of_a_head(self, d_model, num_heads, None)
    return d_head or width


def projection_mistakes(plain: type[Heads]) -> tuple[Misconception, ...]:
    """What is projected, before the heads and behind them."""
    return (
        wrong(
            "no_output_projection",
            "The output projection is forgotten",
            "The heads stand side by side and are returned like that. w_o is made but never called: it is what lets "
            "the findings of different heads be mixed.",
            but(plain, finish=lambda self, x: x),
        ),
        wrong(
            "output_projection_transposed",
            "The output projection is transposed",
            "nn.Linear computes x @ weight.T. You multiplied by the weight as it is stored. Call the layer instead.",
            but(plain, finish=lambda self, x: _as_stored(x, self.w_o)),
        ),
        wrong(
            "projections_transposed",
            "The projections are transposed",
            "nn.Linear computes x @ weight.T. You multiplied by the weights as they are stored, which fits by chance "
            "where they are square. Call the layers instead: self.w_q(x).",
            but(plain, project=_projected(_as_stored)),
        ),
        wrong(
            "all_layers_transposed",
            "All four weights are used as they are stored",
            "nn.Linear computes x @ weight.T. You multiplied by the weight itself, which fits by chance where it is "
            "square. Call the layers instead: self.w_q(x).",
            but(plain, project=_projected(_as_stored), finish=lambda self, x: _as_stored(x, self.w_o)),
        ),
        wrong(
            "projections_transposed_without_bias",
            "The weights are used as they are stored, without their biases",
            "nn.Linear computes x @ weight.T + bias. You multiplied by the weight itself, and left the bias out. Call "
            "the layers instead: self.w_q(x).",
            but(plain, project=_projected(lambda x, layer: x @ layer.weight)),
        ),
        wrong(
            "biases_unused",
            "The biases are there, but not used",
            "You multiplied by the weights alone. Call the layers instead, self.w_q(x): they add their bias.",
            but(plain, project=_projected(_without_bias), finish=lambda self, x: _without_bias(x, self.w_o)),
        ),
        wrong(
            "biases_unused_before",
            "The biases of w_q, w_k and w_v are not used",
            "You multiplied by the weights alone. Call the layers instead, self.w_q(x): they add their bias.",
            but(plain, project=_projected(_without_bias)),
        ),
        wrong(
            "bias_unused_behind",
            "The bias of w_o is not used",
            "You multiplied by its weight alone. Call the layer instead, self.w_o(x): it adds its bias.",
            but(plain, finish=lambda self, x: _without_bias(x, self.w_o)),
        ),
        wrong(
            "heads_detached",
            "What the heads found is cut from the gradient",
            "The numbers are right. But w_o gets a detached tensor: w_o can learn, and nothing before it.",
            but(plain, finish=lambda self, x: self.w_o(x.detach())),
        ),
        wrong(
            "bias_for_each_head",
            "The bias of w_o is added once for each head",
            "Each head went through its own rows of w_o, and the parts were added up: that is right but for the bias, "
            "which came along h times. Join the heads and call w_o once.",
            but(plain, finish=_bias_for_each_head),
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "The queries come from w_k and the keys from w_q. Each position then listens to those that look for it.",
            but(plain, project=lambda self, x, memory: (self.w_k(x), self.w_q(memory), self.w_v(memory))),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is made of weights @ k: w_v is never used.",
            but(plain, project=lambda self, x, memory: (self.w_q(x), self.w_k(memory), self.w_k(memory))),
        ),
        wrong(
            "keys_for_queries",
            "The queries are made by w_k",
            "Queries and keys come from the same layer, and w_q is never used: then what is looked for is what is "
            "offered. The queries are made by w_q.",
            but(plain, project=lambda self, x, memory: (self.w_k(x), self.w_k(memory), self.w_v(memory))),
        ),
        wrong(
            "q_v_exchanged",
            "Queries and values are exchanged",
            "The queries come from w_v and the values from w_q. A query asks; a value is what is brought back.",
            but(plain, project=lambda self, x, memory: (self.w_v(x), self.w_k(memory), self.w_q(memory))),
        ),
        wrong(
            "nothing_projected",
            "The vectors themselves are cut into heads",
            "w_q, w_k and w_v are made and never called: the heads are cut from what came in. Project first.",
            but(plain, project=lambda self, x, memory: (x, memory, memory)),
        ),
        wrong(
            "normalised_inputs",
            "The vectors are normalised first",
            "What comes in is brought to mean 0 and variance 1 before the projections. A norm belongs to the block "
            "around attention (lesson 06), not to attention itself.",
            but(plain, project=lambda self, x, memory: plain.project(self, _normalised(x), _normalised(memory))),
        ),
        wrong(
            "k_v_exchanged",
            "Keys and values are exchanged",
            "The keys come from w_v and the values from w_k. Trained from scratch nobody would notice. With given "
            "weights it is wrong.",
            but(plain, project=lambda self, x, memory: (self.w_q(x), self.w_v(memory), self.w_k(memory))),
        ),
        wrong(
            "queries_for_keys",
            "The keys are made by w_q",
            "Queries and keys come from the same layer, and w_k is never used: then what is looked for is what is "
            "offered. The keys are made by w_k.",
            but(plain, project=lambda self, x, memory: (self.w_q(x), self.w_q(memory), self.w_v(memory))),
        ),
        wrong(
            "values_for_keys",
            "The keys are made by w_v",
            "Keys and values come from the same layer, and w_k is never used. The keys are made by w_k.",
            but(plain, project=lambda self, x, memory: (self.w_q(x), self.w_v(memory), self.w_v(memory))),
        ),
        wrong(
            "queries_for_values",
            "The values are made by w_q",
            "The weights are right, but they mix what w_q has made: w_v is never used.",
            but(plain, project=lambda self, x, memory: (self.w_q(x), self.w_k(memory), self.w_q(memory))),
        ),
        wrong(
            "values_not_projected",
            "The vectors themselves are mixed, not their values",
            "The weights are right, but they mix what came in, cut into heads: w_v is never used.",
            but(plain, project=lambda self, x, memory: (self.w_q(x), self.w_k(memory), memory)),
        ),
    )


def result_mistakes(plain: type[Heads], axes: str) -> tuple[Misconception, ...]:
    """What is returned; `axes` are those of one head's weights, as the contract calls them."""
    return (
        wrong(
            "residual_added",
            "The input is added to the output",
            "A residual connection belongs to the block around attention (lesson 06), not to attention itself.",
            after(plain, lambda x, output, weights: (output + x, weights)),
        ),
        wrong(
            "scores_returned",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the scores before the softmax.",
            but(plain, attend=_scores_returned),
        ),
        wrong(
            "weights_mean_returned",
            "The weights are averaged over the heads",
            f"The output is right. But you return one ({axes}) for each entry of the batch, as nn.MultiheadAttention "
            f"does unless it is told otherwise. The contract keeps the heads: (b, h, {axes}).",
            after(plain, lambda x, output, weights: (output, weights.mean(dim=1))),
        ),
        wrong(
            "weights_summed_returned",
            "The weights are summed over the heads",
            "The output is right. But the rows of your weights add up to the number of heads. The contract keeps the "
            f"heads: (b, h, {axes}).",
            after(plain, lambda x, output, weights: (output, weights.sum(dim=1))),
        ),
        wrong(
            "weights_heads_first",
            "The heads' weights are stacked in front of the batch",
            f"The output is right. But torch.stack puts the new axis first, (h, b, {axes}). The batch comes first: "
            f"(b, h, {axes}), so stack with dim=1.",
            after(plain, lambda x, output, weights: (output, weights.transpose(0, 1))),
        ),
        wrong(
            "weights_heads_last",
            "The heads' weights are stacked behind the keys",
            f"The output is right, but the weights are (b, {axes}, h). The heads stand in front, "
            f"(b, h, {axes}): stack with dim=1.",
            after(plain, lambda x, output, weights: (output, weights.movedim(1, -1))),
        ),
        wrong(
            "weights_of_the_last_head",
            "Only the last head's weights are returned",
            f"The output is right. But what your loop leaves behind are the weights of its last round, (b, {axes}). "
            f"Collect those of every head and stack them: (b, h, {axes}).",
            after(plain, lambda x, output, weights: (output, weights[:, -1])),
        ),
        wrong(
            "weights_listed",
            "The weights are a list, one entry for each head",
            f"The contract wants one tensor, (b, h, {axes}): torch.stack(the_list, dim=1).",
            after(plain, lambda x, output, weights: (output, list(weights.unbind(1)))),
        ),
        wrong(
            "weights_returned_transposed",
            "The weights are returned transposed",
            "The output is right. But row i of what you return belongs to key i. Rows are queries, columns are keys.",
            after(plain, lambda x, output, weights: (output, weights.mT)),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The weights came first. The contract is (output, weights).",
            after(plain, lambda x, output, weights: (weights, output)),
        ),
        wrong(
            "weights_forgotten",
            "Only the output is returned",
            "The contract is (output, weights): you will want to look at the weights of each head.",
            after(plain, lambda x, output, weights: output),
        ),
    )


def layer_mistakes(plain: type[Heads]) -> tuple[Misconception, ...]:
    """The constructor and its arguments."""
    return (
        wrong(
            "never_a_bias",
            "Layers have no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            _bias(plain, False, *LAYERS),
        ),
        wrong(
            "always_a_bias",
            "`bias` is not passed on",
            "With bias=False none of the four layers has one: hand it to nn.Linear.",
            _bias(plain, True, *LAYERS),
        ),
        wrong(
            "projections_without_bias",
            "w_q, w_k and w_v have no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            _bias(plain, False, "w_q", "w_k", "w_v"),
        ),
        wrong(
            "w_o_without_bias",
            "w_o has no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            _bias(plain, False, "w_o"),
        ),
        *(
            wrong(
                f"{'_'.join(names)}_without_bias",
                f"{' and '.join(names)} {'have' if len(names) > 1 else 'has'} no bias",
                "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
                _bias(plain, False, *names),
            )
            for names in (("w_q",), ("w_k",), ("w_v",), ("w_q", "w_k"), ("w_k", "w_v"), ("w_v", "w_o"))
        ),
        wrong(
            "no_bias_by_default",
            "`bias` is False where nothing is said",
            "In the contract `bias` is True unless the caller says otherwise: `bias=True` in the head of __init__.",
            _no_bias_by_default(plain),
        ),
        wrong(
            "w_k_always_biased",
            "`bias` does not reach w_k",
            "With bias=False none of the four layers has one: hand it to every nn.Linear.",
            _bias(plain, True, "w_k"),
        ),
        wrong(
            "w_v_always_biased",
            "`bias` does not reach w_v",
            "With bias=False none of the four layers has one: hand it to every nn.Linear.",
            _bias(plain, True, "w_v"),
        ),
        wrong(
            "w_o_always_biased",
            "`bias` does not reach w_o",
            "With bias=False none of the four layers has one: hand it to every nn.Linear.",
            _bias(plain, True, "w_o"),
        ),
        wrong(
            "d_head_ignored",
            "`d_head` is not used",
            "When d_head is given, the heads are that wide, whatever d_model is: w_q, w_k and w_v lead to "
            "num_heads * d_head columns, and w_o goes back.",
            but(
                plain,
                width_of_a_head=lambda self, d_model, num_heads, d_head: plain.width_of_a_head(
                    self, d_model, num_heads, None
                ),
            ),
        ),
        wrong(
            "d_head_overwritten",
            "`d_head` is overwritten",
            "d_model // num_heads is only what d_head is without a caller's wish. You compute it also where a d_head "
            "is given: do so only `if d_head is None`.",
            but(plain, width_of_a_head=_overwritten),
        ),
        wrong(
            "d_head_refused",
            "d_model is checked even where `d_head` is given",
            "With a d_head of its own a head may be as wide as it likes: num_heads need not divide d_model then. Raise "
            "the ValueError only `if d_head is None`.",
            but(plain, width_of_a_head=_refused),
        ),
        wrong(
            "d_head_is_d_model",
            "Without `d_head`, each head is d_model wide",
            "The heads share d_model: each is d_model // num_heads wide, unless the caller gives a d_head.",
            but(plain, width_of_a_head=lambda self, d_model, num_heads, d_head: d_head or d_model),
        ),
        wrong(
            "scaled_by_shared_width",
            "Scaled by √(d_model / num_heads), also where `d_head` is given",
            "A head's scores are sums of d products. d is d_model / num_heads only as long as nobody gives a d_head: "
            "scale by the root of how wide the head *is*.",
            but(plain, scale=lambda self, x, memory: (x.shape[-1] // self.num_heads) ** -0.5),
        ),
        wrong(
            "layers_as_wide_as_words",
            "w_q, w_k and w_v lead to d_model columns",
            "That fits as long as nobody gives a d_head. They lead to num_heads * d_head columns, and w_o goes back.",
            _with_layers(plain, _all_to_d_model),
        ),
        wrong(
            "out_from_d_model",
            "w_o is made for vectors of d_model",
            "w_o reads all heads side by side, and these are num_heads * d_head wide. That is d_model only as long as "
            "nobody gives a d_head: nn.Linear(num_heads * d_head, d_model).",
            _with_layers(plain, _out_from_d_model),
        ),
        wrong(
            "layers_of_one_head",
            "The layers are as wide as a single head",
            "w_q, w_k and w_v make the queries, keys and values of *all* heads, side by side: they lead to "
            "num_heads * d_head columns.",
            _with_layers(plain, _layers_of_one_head),
        ),
        wrong(
            "no_output_layer",
            "There is no w_o",
            "The fourth layer is missing: w_o goes from num_heads * d_head back to d_model, and mixes what the heads "
            "have found.",
            _with_layers(plain, lambda self, d_model, d_memory, bias: delattr(self, "w_o")),
        ),
        wrong(
            "input_cut_first",
            "The input is cut into heads, and one small matrix serves them all",
            "Some published code does this, and it is cheaper. But in the paper's multi-head attention each head has "
            "matrices of its own and reads the whole vector: the layers lead to num_heads * d_head columns.",
            _with_layers(plain, _input_cut_first),
        ),
        wrong(
            "no_error",
            "A width that does not divide is accepted",
            "`d_model // num_heads` rounds down, and columns are lost without a word. Where d_head is not given and "
            "num_heads does not divide d_model, raise a ValueError that says both numbers.",
            but(plain, width_of_a_head=lambda self, d_model, num_heads, d_head: d_head or d_model // num_heads),
        ),
        wrong(
            "assertion",
            "An assertion instead of a ValueError",
            "`assert` is for what cannot happen, and Python drops it when it runs with -O. What a caller did wrong is "
            "a ValueError: `raise ValueError(...)`.",
            but(plain, width_of_a_head=_asserted),
        ),
    )
