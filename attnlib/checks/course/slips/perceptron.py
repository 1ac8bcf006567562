"""The MLP of a block: widen, GELU, narrow, and dropout after both.

`drop` is the function that drops, wherever it is called.
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.course.slips.projections import Layer
from attnlib.checks.course.steps import Step, along_with, discussed_at, each, spells

TwoLayers = tuple[nn.Module, nn.Module]


class Probability(Step):
    """The share of the entries that dropout sets to 0."""

    makes = ("p",)
    in_constructor = True

    def right(self, dropout: float) -> float:
        return dropout

    def no_dropout(self) -> float:
        """`dropout` is ignored.

        Nothing is dropped in training. FeedForward drops twice, after GELU and after `down`, if it is told to: a block
        has to pass `dropout` on to it, and F.dropout(x, …) changes nothing in place.
        """
        return 0.0

    @each(p=(0.1, 0.5))
    def fixed_share_dropped(self, p: float) -> float:
        """Dropout drops a fixed share, whatever it is told.

        F.dropout and nn.Dropout drop one half unless you pass p, and many models take a tenth. Here the caller says how
        much: pass `dropout` on.
        """
        return p

    def dropout_by_default(self, given: dict[str, Any]) -> float:
        """`dropout` has another default.

        Where the caller says nothing, nothing is dropped: dropout=0.0.
        """
        return float(given.get("dropout", 0.1))

    def keep_probability(self, dropout: float) -> float:
        """`dropout` is taken for the share that is kept.

        `dropout` is the probability that an entry is set to 0, as in nn.Dropout(p). Yours keeps that share, and drops
        the rest.
        """
        return 1 - dropout


class HiddenLayers(Step):
    """Two layers, with a wide one between them."""

    makes = ("up", "down")
    in_constructor = True

    def right(self, d_model: int, d_hidden: int, bias: str = "up down") -> TwoLayers:
        return nn.Linear(d_model, d_hidden, "up" in bias), nn.Linear(d_hidden, d_model, "down" in bias)

    @each(with_bias=("", "up", "down"))
    def without_bias(self, d_model: int, d_hidden: int, with_bias: str) -> TwoLayers:
        """`up` or `down` has no bias.

        The contract asks for two nn.Linear layers as they are, with a bias.
        """
        return self.right(d_model, d_hidden, with_bias)

    def layers_exchanged(self, d_model: int, d_hidden: int) -> TwoLayers:
        """`up` and `down` are exchanged.

        `up` widens, from d_model to d_hidden; `down` brings it back. nn.Linear takes (in, out).
        """
        return self.right(d_hidden, d_model)

    def width_ignored(self, d_model: int) -> TwoLayers:
        """d_hidden is not used.

        The hidden layer is always 4 · d_model wide. The caller says how wide it is: d_hidden.
        """
        return self.right(d_model, 4 * d_model)


class Drop(Step):
    """Dropout, in training only."""

    makes = ("drop",)

    def right(self, p: float, module: nn.Module) -> Layer:
        return partial(F.dropout, p=p, training=module.training)

    @discussed_at("https://github.com/karpathy/nanoGPT/pull/240")
    def dropout_always(self, p: float) -> Layer:
        """Dropout is active at evaluation, too.

        F.dropout(x, p) always drops unless you pass training=self.training, and so does an nn.Dropout that is made
        inside forward: it never hears of eval(). Make nn.Dropout in __init__, or pass self.training.
        """
        return partial(F.dropout, p=p)

    def dropout_only_at_evaluation(self, p: float, module: nn.Module) -> Layer:
        """Dropout acts at evaluation, and not in training.

        self.training is True in training, which is when dropout acts: training=self.training, without a `not`.
        """
        return partial(F.dropout, p=p, training=not module.training)

    def dropout_not_scaled(self, p: float, module: nn.Module) -> Layer:
        """What is kept is not scaled up.

        With a share p set to 0, everything after it is smaller by the factor 1 - p on average in training
        than at evaluation. Divide what is kept by 1 - p, as F.dropout does.
        """
        return lambda x: x * (torch.rand_like(x) >= p) if module.training else x

    def scaled_at_evaluation(self, p: float, module: nn.Module) -> Layer:
        """Scaled down at evaluation instead of up in training.

        The first paper on dropout did so. Today what is kept is divided by 1 - p in training, and evaluation leaves the
        numbers alone.
        """
        return lambda x: x * (torch.rand_like(x) >= p) if module.training else x * (1 - p)

    @spells(Probability.keep_probability)
    def kept_with_probability_p(self, p: float, module: nn.Module) -> Layer:
        return lambda x: x * (torch.rand_like(x) < p) / p if module.training and p else x

    def whole_vectors_dropped(self, p: float, module: nn.Module) -> Layer:
        """Whole vectors are dropped, not single entries.

        nn.Dropout1d, or a random mask with one number for each word, sets all entries of a word to 0 together. Each
        entry is dropped by itself: nn.Dropout.
        """
        return lambda x: x * F.dropout(torch.ones_like(x[..., :1]), p, module.training)

    def dropped_for_all_words(self, p: float, module: nn.Module) -> Layer:
        """The same entries are dropped in all words.

        One mask is drawn and used for every word and sentence: an entry is missing everywhere or nowhere. Each entry of
        each word is dropped by itself: the mask has the shape of x, as torch.rand_like(x) has.
        """
        return lambda x: x * F.dropout(torch.ones_like(x[:1, :1]), p, module.training)

    def dropped_once_for_all(self, p: float, module: Any) -> Layer:
        """What is dropped is drawn only once.

        The entries that are set to 0 are drawn at the first call and kept: from then on the same ones are always
        missing, and the others never learn without them. Draw anew at each call.
        """
        masks: dict[torch.Size, Tensor] = module.__dict__.setdefault("masks", {})
        return lambda x: x * masks.setdefault(x.shape, F.dropout(torch.ones_like(x), p)) if module.training else x


class Widen(Step):
    """The first layer."""

    makes = ("hidden",)

    def right(self, x: Tensor, up: Layer) -> Tensor:
        return up(x)

    def norm_inside(self, x: Tensor, up: Layer) -> Tensor:
        """The MLP normalises what it gets.

        The norm is the block's task, and has weights of its own. The MLP takes x as it comes.
        """
        return up(F.layer_norm(x, x.shape[-1:]))

    @along_with("no_activation")
    def activation_first(self, x: Tensor, up: Layer) -> Tensor:
        """GELU comes before the first layer.

        GELU acts on the hidden layer, after `up`, where there is room for many features.
        """
        return up(F.gelu(x))

    def called_in_reverse(self, x: Tensor, down: Layer) -> Tensor:
        """`down` is called before `up`.

        `up` comes first: it widens. Then GELU, and `down` brings the result back to d_model.
        """
        return down(x)

    def up_bias_unused(self, x: Tensor, up: nn.Linear) -> Tensor:
        """The bias of `up` is not used.

        You multiplied by its weight alone. Call the layer instead, self.up(x): it adds its bias.
        """
        return x @ up.weight.mT

    def dropout_of_the_input(self, x: Tensor, up: Layer, drop: Layer) -> Tensor:
        """The input is dropped, too.

        The contract asks for dropout in two places: after GELU, and after `down`. The input comes in whole.
        """
        return up(drop(x))

    @along_with("dropout_only_at_the_end")
    def dropout_of_the_input_instead(self, x: Tensor, up: Layer, drop: Layer) -> Tensor:
        """The input is dropped, not the hidden layer.

        The contract asks for dropout in two places: after GELU, and after `down`. The input comes in whole.
        """
        return up(drop(x))


class Bend(Step):
    """GELU, the exact one."""

    makes = ("hidden",)

    def right(self, hidden: Tensor) -> Tensor:
        return F.gelu(hidden)

    def gelu_by_tanh(self, hidden: Tensor) -> Tensor:
        """GELU by tanh instead of the exact one.

        `approximate='tanh'` (the formula with tanh and 0.044715) is a stand-in from the time when erf was slow. It is
        off by up to 0.0005. Use F.gelu(x) as it is, or x/2 · (1 + erf(x/√2)).
        """
        return F.gelu(hidden, approximate="tanh")

    def gelu_by_sigmoid(self, hidden: Tensor) -> Tensor:
        """GELU by sigmoid instead of the exact one.

        x · sigmoid(1.702 x) is a quick approximation of GELU, off by up to 0.02. Use F.gelu(x).
        """
        return hidden * torch.sigmoid(1.702 * hidden)

    def relu(self, hidden: Tensor) -> Tensor:
        """ReLU instead of GELU.

        The first transformer used ReLU, max(0, x). The contract asks for GELU, x · Φ(x), which lets small negative
        numbers through.
        """
        return F.relu(hidden)

    def leaky_relu(self, hidden: Tensor) -> Tensor:
        """Leaky ReLU instead of GELU.

        Leaky ReLU lets a hundredth of every negative number through. GELU is x · Φ(x).
        """
        return F.leaky_relu(hidden)

    def silu(self, hidden: Tensor) -> Tensor:
        """SiLU instead of GELU.

        SiLU is x · sigmoid(x); GELU is x · Φ(x), with the normal distribution's Φ. They look alike and are not.
        """
        return F.silu(hidden)

    def sigmoid_activation(self, hidden: Tensor) -> Tensor:
        """A sigmoid instead of GELU.

        The sigmoid squeezes everything into (0, 1). GELU is x · Φ(x): large numbers pass as they are.
        """
        return hidden.sigmoid()

    def tanh_activation(self, hidden: Tensor) -> Tensor:
        """tanh instead of GELU.

        tanh squeezes everything into (-1, 1). GELU is x · Φ(x): large numbers pass as they are.
        """
        return hidden.tanh()

    def phi_alone(self, hidden: Tensor) -> Tensor:
        """Φ(x) instead of x · Φ(x).

        Φ(x) is the gate, between 0 and 1; GELU is what comes through it. The factor x is missing.
        """
        return 0.5 * (1 + torch.erf(hidden / 2**0.5))

    def erf_without_root(self, hidden: Tensor) -> Tensor:
        """erf(x) instead of erf(x/√2).

        Φ(x) = (1 + erf(x/√2)) / 2: the √2 turns the error function into the normal distribution. Without it the step is
        too steep.
        """
        return 0.5 * hidden * (1 + torch.erf(hidden))

    def half_lost(self, hidden: Tensor) -> Tensor:
        """GELU without its factor 1/2.

        Φ(x) = (1 + erf(x/√2)) / 2 lies between 0 and 1. Without the half, large numbers come out doubled.
        """
        return 2 * F.gelu(hidden)

    def no_activation(self, hidden: Tensor) -> Tensor:
        """There is no activation between the layers.

        Two linear layers in a row are one linear layer. GELU goes between `up` and `down`.
        """
        return hidden

    @along_with("dropout_only_at_the_end")
    def dropout_before_gelu(self, hidden: Tensor, drop: Layer) -> Tensor:
        """Dropout comes before GELU.

        Dropout scales up what it keeps, by 1/(1 - p). GELU is not linear, so scaling before it is not scaling after it,
        and the average is no longer what evaluation computes. First GELU, then dropout.
        """
        return F.gelu(drop(hidden))

    def hidden_detached(self, hidden: Tensor) -> Tensor:
        """The hidden layer is cut from the gradient.

        The numbers are right. But what `down` gets was detached, or made under torch.no_grad(): `up` and all that came
        before can never learn.
        """
        return F.gelu(hidden).detach()


class DropHidden(Step):
    """Dropout after GELU."""

    makes = ("hidden",)

    def right(self, hidden: Tensor, drop: Layer) -> Tensor:
        return drop(hidden)

    def dropout_only_at_the_end(self, hidden: Tensor) -> Tensor:
        """Dropout after GELU is missing.

        The contract of FeedForward asks for dropout in two places: after GELU, and after `down`.
        """
        return hidden


class Narrow(Step):
    """The second layer."""

    makes = ("output",)

    def right(self, hidden: Tensor, down: Layer) -> Tensor:
        return down(hidden)

    def down_forgotten(self, hidden: Tensor) -> Tensor:
        """The second layer is not called.

        The result is still d_hidden wide. `down` brings it back to d_model.
        """
        return hidden

    def down_bias_unused(self, hidden: Tensor, down: nn.Linear) -> Tensor:
        """The bias of `down` is not used.

        You multiplied by its weight alone. Call the layer instead, self.down(x): it adds its bias.
        """
        return hidden @ down.weight.mT

    @along_with("no_activation")
    def activation_after_down(self, hidden: Tensor, down: Layer) -> Tensor:
        """GELU comes after the second layer.

        The order is up, GELU, down. With nothing in between, the two layers are one, and a GELU at the end lets hardly
        any negative number into the residual stream.
        """
        return F.gelu(down(hidden))

    def activated_twice(self, hidden: Tensor, down: Layer) -> Tensor:
        """GELU after both layers.

        The second layer's result goes back to the residual stream as it is, negative numbers and all. GELU only after
        `up`.
        """
        return F.gelu(down(hidden))


class DropOutput(Step):
    """Dropout after `down`."""

    makes = ("output",)

    def right(self, output: Tensor, drop: Layer) -> Tensor:
        return drop(output)

    def dropout_only_inside(self, output: Tensor) -> Tensor:
        """Dropout after `down` is missing.

        The contract of FeedForward asks for dropout in two places: after GELU, and after `down`.
        """
        return output

    def residual_inside(self, x: Tensor, output: Tensor, drop: Layer) -> Tensor:
        """The MLP adds its input.

        x + … is the block's task. If the MLP does it, too, x is counted twice there.
        """
        return x + drop(output)
