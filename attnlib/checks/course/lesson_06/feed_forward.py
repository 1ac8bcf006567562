"""`FeedForward`: the perceptron of a block."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Exercise

MANY = 1000  # equal vectors, so that the shares of what dropout makes of them can be read off
SHARES = (150, 405, 755)  # places in the sorted results, far from every step: see `_dropped`
PROBABILITY = 0.3


class FeedForward(attnlib.FeedForward):
    """The contract's form: dropout may be given by position."""

    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, d_hidden, dropout=dropout)


def _inputs(draw: Draw, *, b: int, n: int, sizes: tuple[int, int]) -> tuple[tuple, tuple[Tensor]]:
    return sizes, (draw.normal(b, n, sizes[0], scale=1.3),)


def _equal_vectors(draw: Draw, *, given: bool = True) -> tuple[tuple, tuple[Tensor]]:
    return (3, 5, PROBABILITY) if given else (3, 5), (torch.ones(1, MANY, 3, dtype=draw.dtype),)


def plain_perceptron(shapes: dict[str, tuple[int, ...]], prefix: str = "") -> dict[str, Tensor]:
    """Weights with which each entry x becomes dropout(dropout(gelu(x + 1/2)) + 1)."""
    return {
        f"{prefix}up.weight": torch.eye(*shapes[f"{prefix}up.weight"]),
        f"{prefix}down.weight": torch.eye(*shapes[f"{prefix}down.weight"]),
        f"{prefix}up.bias": torch.full(shapes[f"{prefix}up.bias"], 0.5),
        f"{prefix}down.bias": torch.ones(shapes[f"{prefix}down.bias"]),
    }


def _dropped(asked: Asked, inputs: tuple[Any, ...], *, training: bool) -> tuple[Tensor, ...]:
    """What dropout makes of many equal vectors, sorted: not a matter of chance, but for once in 10^9.

    Where p = 0.3 is dropped, 30 % of the results are 0, 21 % are what the bias of `down` becomes alone, and 49 % come
    through whole. `SHARES` are the middles of these three stretches, six standard deviations from their ends.

    Two more rows tell whether the entries of a vector are dropped each by itself: in 63 % of the vectors some are 0 and
    some are not, and in 40 % some of those that are not are whole and some are the bias alone.
    """
    assert asked.shapes is not None
    asked.load(plain_perceptron(asked.shapes))
    asked.train(training)
    (output,) = asked(*inputs)
    entries = output.reshape(MANY, -1)
    none = entries == 0
    kept = ~none & ~torch.isclose(entries, entries.amax(dim=-1, keepdim=True))
    apart = torch.stack([none.any(dim=-1) & ~none.all(dim=-1), kept.any(dim=-1)]).to(entries.dtype).sort().values
    each = torch.stack([apart[0, MANY // 2], apart[1, MANY * 85 // 100]])
    return (torch.cat([entries.sort(dim=0).values[list(SHARES)], each[:, None].expand(-1, entries.shape[-1])]),)


def _drawn_twice(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Of many equal vectors, sorted: where one of two calls in training drops an entry and the other does not.

    With p = 0.3 that is so in 42 % of them; the two places are the middles of the shares that are alike and apart.
    """
    assert asked.shapes is not None
    asked.load(plain_perceptron(asked.shapes))
    asked.train(True)
    (first,), (second,) = asked(*inputs), asked(*inputs)
    apart = ((first == 0) != (second == 0)).reshape(MANY, -1).to(first.dtype).sort(dim=0).values
    return (apart[[MANY * 29 // 100, MANY * 79 // 100]],)


def in_training(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The plain result in training: without a dropout given, the same as at evaluation."""
    asked.train(True)
    return asked(*inputs)


class _Plain(nn.Module):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up, self.down, self.p = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model), dropout

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)


def _perceptron(forward: Callable[[Any, Tensor], Tensor]) -> type[nn.Module]:
    class Wrong(_Plain):
        def forward(self, x: Tensor) -> Tensor:
            return forward(self, x)

    return Wrong


def _bent(activation: Callable[[Tensor], Tensor]) -> type[nn.Module]:
    return _perceptron(lambda s, x: s.drop(s.down(s.drop(activation(s.up(x))))))


def _unscaled(s: Any, x: Tensor) -> Tensor:
    return x * (torch.rand_like(x) >= s.p) if s.training else x


def _kept_by_p(s: Any, x: Tensor) -> Tensor:
    return x * (torch.rand_like(x) < s.p) / s.p if s.training and s.p else x


def _dropped_in_all(s: Any, x: Tensor) -> Tensor:
    return x * (torch.rand_like(x[:1, :1]) >= s.p) / (1 - s.p) if s.training else x


class _DrawnOnce(_Plain):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, d_hidden, dropout)
        self.kept: dict[torch.Size, Tensor] = {}

    def drop(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        kept = self.kept.setdefault(x.shape, torch.rand_like(x) >= self.p)
        return x * kept / (1 - self.p)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.down(self.drop(F.gelu(self.up(x)))))


class _WithoutBias(_Plain):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, d_hidden, dropout)
        self.up = nn.Linear(d_model, d_hidden, bias=False)
        self.down = nn.Linear(d_hidden, d_model, bias=False)


class _DownWithoutBias(_Plain):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, d_hidden, dropout)
        self.down = nn.Linear(d_hidden, d_model, bias=False)


class _OtherDefault(_Plain):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, d_hidden, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.down(self.drop(F.gelu(self.up(x)))))


class _WidthIgnored(_Plain):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, 4 * d_model, dropout)


def _whole_vectors(s: Any, x: Tensor) -> Tensor:
    return x * F.dropout(torch.ones_like(x[..., :1]), s.p, s.training)


def _scaled_later(s: Any, x: Tensor) -> Tensor:
    return x * (torch.rand_like(x) >= s.p) if s.training else x * (1 - s.p)


class _Exchanged(_Plain):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(d_hidden, d_model, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.down(self.drop(F.gelu(self.up(x)))))


FEED_FORWARD = Exercise(
    name="FeedForward",
    lesson="06_encoder_block",
    contract="FeedForward(d_model, d_hidden, dropout=0.0), forward: (b, n, d_model) -> (b, n, d_model)",
    parts={"values": 2, "dropout": 1, "gradient": 1, "robustness": 1},
    kind="module",
    reference=FeedForward,
    forbidden=("attnlib.FeedForward.forward",),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "n": 5, "sizes": (7, 13)},
            one={"b": 1, "n": 3, "sizes": (5, 11)},
            more=[
                {"b": 3, "n": 11, "sizes": (13, 5)},
                {"b": 5, "n": 2, "sizes": (3, 7)},
                {"b": 2, "n": 7, "sizes": (7, 11)},
            ],
        ),
        Case(
            name="in training, with dropout 0.3",
            inputs=_equal_vectors,
            part="dropout",
            probe=partial(_dropped, training=True),
        ),
        Case(
            name="two calls in training, with dropout 0.3",
            inputs=_equal_vectors,
            part="dropout",
            probe=_drawn_twice,
        ),
        Case(
            name="at evaluation, with dropout 0.3",
            inputs=_equal_vectors,
            part="dropout",
            probe=partial(_dropped, training=False),
        ),
        Case(
            name="in training, dropout not given",
            inputs=partial(_equal_vectors, given=False),
            part="dropout",
            probe=partial(_dropped, training=True),
        ),
    ),
    misconceptions=(
        wrong(
            "gelu_by_tanh",
            "GELU by tanh instead of the exact one",
            "`approximate='tanh'` (the formula with tanh and 0.044715) is a stand-in from the time when erf was slow. "
            "It is off by up to 0.0005. Use F.gelu(x) as it is, or x/2 · (1 + erf(x/√2)).",
            _bent(partial(F.gelu, approximate="tanh")),
        ),
        wrong(
            "gelu_by_sigmoid",
            "GELU by sigmoid instead of the exact one",
            "x · sigmoid(1.702 x) is a quick approximation of GELU, off by up to 0.02. Use F.gelu(x).",
            _bent(lambda x: x * torch.sigmoid(1.702 * x)),
        ),
        wrong(
            "relu",
            "ReLU instead of GELU",
            "The first transformer used ReLU, max(0, x). The contract asks for GELU, x · Φ(x), which lets small "
            "negative numbers through.",
            _bent(torch.relu),
        ),
        wrong(
            "silu",
            "SiLU instead of GELU",
            "SiLU is x · sigmoid(x); GELU is x · Φ(x), with the normal distribution's Φ. They look alike and are not.",
            _bent(F.silu),
        ),
        wrong(
            "tanh_activation",
            "tanh instead of GELU",
            "tanh squeezes everything into (-1, 1). GELU is x · Φ(x): large numbers pass as they are.",
            _bent(torch.tanh),
        ),
        wrong(
            "phi_alone",
            "Φ(x) instead of x · Φ(x)",
            "Φ(x) is the gate, between 0 and 1; GELU is what comes through it. The factor x is missing.",
            _bent(lambda x: 0.5 * (1 + torch.erf(x / 2**0.5))),
        ),
        wrong(
            "erf_without_root",
            "erf(x) instead of erf(x/√2)",
            "Φ(x) = (1 + erf(x/√2)) / 2: the √2 turns the error function into the normal distribution. Without it the "
            "step is too steep.",
            _bent(lambda x: 0.5 * x * (1 + torch.erf(x))),
        ),
        wrong(
            "sigmoid",
            "A sigmoid instead of GELU",
            "The sigmoid squeezes everything into (0, 1). GELU is x · Φ(x): large numbers pass as they are.",
            _bent(torch.sigmoid),
        ),
        wrong(
            "leaky_relu",
            "Leaky ReLU instead of GELU",
            "Leaky ReLU lets a hundredth of every negative number through. GELU is x · Φ(x).",
            _bent(F.leaky_relu),
        ),
        wrong(
            "half_lost",
            "GELU without its factor 1/2",
            "Φ(x) = (1 + erf(x/√2)) / 2 lies between 0 and 1. Without the half, large numbers come out doubled.",
            _bent(lambda x: 2 * F.gelu(x)),
        ),
        wrong(
            "no_activation",
            "There is no activation between the layers",
            "Two linear layers in a row are one linear layer. GELU goes between `up` and `down`.",
            _bent(lambda x: x),
        ),
        wrong(
            "activation_after_down",
            "GELU comes after the second layer",
            "The order is up, GELU, down. With nothing in between, the two layers are one, and a GELU at the end "
            "lets hardly any negative number into the residual stream.",
            _perceptron(lambda s, x: s.drop(F.gelu(s.down(s.drop(s.up(x)))))),
        ),
        wrong(
            "activated_twice",
            "GELU after both layers",
            "The second layer's result goes back to the residual stream as it is, negative numbers and all. GELU only "
            "after `up`.",
            _perceptron(lambda s, x: s.drop(F.gelu(s.down(s.drop(F.gelu(s.up(x))))))),
        ),
        wrong(
            "activation_first",
            "GELU comes before the first layer",
            "GELU acts on the hidden layer, after `up`, where there is room for many features.",
            _perceptron(lambda s, x: s.drop(s.down(s.drop(s.up(F.gelu(x)))))),
        ),
        wrong(
            "residual_inside",
            "The input is added already here",
            "x + … is the block's task. If the perceptron does it, too, x is counted twice there.",
            _perceptron(lambda s, x: x + s.drop(s.down(s.drop(F.gelu(s.up(x)))))),
        ),
        wrong(
            "norm_inside",
            "The input is normalised already here",
            "The norm is the block's task, and has weights of its own. The perceptron takes x as it comes.",
            _perceptron(lambda s, x: s.drop(s.down(s.drop(F.gelu(s.up(F.layer_norm(x, x.shape[-1:]))))))),
        ),
        wrong(
            "layers_exchanged",
            "up and down are exchanged",
            "`up` widens, from d_model to d_hidden; `down` brings it back. nn.Linear takes (in, out).",
            _Exchanged,
        ),
        wrong(
            "called_in_reverse",
            "down is called before up",
            "`up` comes first: it widens. Then GELU, and `down` brings the result back to d_model.",
            _perceptron(lambda s, x: s.drop(s.up(s.drop(F.gelu(s.down(x)))))),
        ),
        wrong(
            "down_forgotten",
            "The second layer is not called",
            "The result is still d_hidden wide. `down` brings it back to d_model.",
            _perceptron(lambda s, x: s.drop(F.gelu(s.up(x)))),
        ),
        wrong(
            "hidden_detached",
            "The hidden layer is cut from the gradient",
            "The numbers are right. But what `down` gets was detached, or made under torch.no_grad(): `up` and all "
            "that came before can never learn.",
            _bent(lambda x: F.gelu(x).detach()),
        ),
        wrong(
            "up_bias_unused",
            "The bias of `up` is not used",
            "You multiplied by its weight alone. Call the layer instead, self.up(x): it adds its bias.",
            _perceptron(lambda s, x: s.drop(s.down(s.drop(F.gelu(x @ s.up.weight.mT))))),
        ),
        wrong(
            "down_bias_unused",
            "The bias of `down` is not used",
            "You multiplied by its weight alone. Call the layer instead, self.down(x): it adds its bias.",
            _perceptron(lambda s, x: s.drop(s.drop(F.gelu(s.up(x))) @ s.down.weight.mT)),
        ),
        wrong(
            "down_without_bias",
            "`down` has no bias",
            "The contract asks for two nn.Linear layers as they are, with a bias.",
            _DownWithoutBias,
        ),
        wrong(
            "width_ignored",
            "d_hidden is not used",
            "The hidden layer is always 4 · d_model wide. How wide it is, the caller says: d_hidden.",
            _WidthIgnored,
        ),
        wrong(
            "without_bias",
            "The layers have no bias",
            "The contract asks for two nn.Linear layers as they are, with a bias.",
            _WithoutBias,
        ),
        wrong(
            "dropout_always",
            "Dropout is active at evaluation, too",
            "F.dropout(x, p) drops always unless you pass training=self.training, and so does an nn.Dropout that is "
            "made inside forward: it never hears of eval(). Make nn.Dropout in __init__, or pass self.training.",
            _perceptron(lambda s, x: F.dropout(s.down(F.dropout(F.gelu(s.up(x)), s.p)), s.p)),
        ),
        wrong(
            "no_dropout",
            "dropout is ignored",
            "Nothing is dropped in training. Dropout acts twice there, after GELU and after `down`, and what it gives "
            "has to be kept.",
            _perceptron(lambda s, x: s.down(F.gelu(s.up(x)))),
        ),
        wrong(
            "dropout_only_inside",
            "Dropout after `down` is missing",
            "The contract asks for dropout in two places: after GELU, and after `down`.",
            _perceptron(lambda s, x: s.down(s.drop(F.gelu(s.up(x))))),
        ),
        wrong(
            "dropout_only_at_the_end",
            "Dropout after GELU is missing",
            "The contract asks for dropout in two places: after GELU, and after `down`.",
            _perceptron(lambda s, x: s.drop(s.down(F.gelu(s.up(x))))),
        ),
        wrong(
            "dropout_before_gelu",
            "Dropout comes before GELU",
            "Dropout scales up what it keeps, by 1/(1 - p). GELU bends, so scaling before it is not scaling after it, "
            "and the average is no longer what evaluation computes. First GELU, then dropout.",
            _perceptron(lambda s, x: s.drop(s.down(F.gelu(s.drop(s.up(x)))))),
        ),
        wrong(
            "dropout_of_the_input",
            "The input is dropped, too",
            "The contract asks for dropout in two places: after GELU, and after `down`. The input comes in whole.",
            _perceptron(lambda s, x: s.drop(s.down(s.drop(F.gelu(s.up(s.drop(x))))))),
        ),
        wrong(
            "dropout_of_the_input_instead",
            "The input is dropped, not the hidden layer",
            "The contract asks for dropout in two places: after GELU, and after `down`. The input comes in whole.",
            _perceptron(lambda s, x: s.drop(s.down(F.gelu(s.up(s.drop(x)))))),
        ),
        wrong(
            "whole_vectors_dropped",
            "Whole vectors are dropped, not single entries",
            "nn.Dropout1d, or a random mask with one number for each word, sets all entries of a word to 0 together. "
            "Each entry is dropped by itself: nn.Dropout.",
            _perceptron(lambda s, x: _whole_vectors(s, s.down(_whole_vectors(s, F.gelu(s.up(x)))))),
        ),
        wrong(
            "dropout_by_default",
            "dropout has another default",
            "Where the caller says nothing, nothing is dropped: dropout=0.0.",
            _OtherDefault,
        ),
        wrong(
            "a_tenth_dropped",
            "Dropout drops a tenth, whatever it is told",
            "0.1 is what many models take. Here the caller says how much: hand `dropout` on.",
            _perceptron(lambda s, x: F.dropout(s.down(F.dropout(F.gelu(s.up(x)), 0.1, s.training)), 0.1, s.training)),
        ),
        wrong(
            "probability_not_passed",
            "Dropout drops one half, whatever it is told",
            "F.dropout and nn.Dropout drop with probability 0.5 unless you pass p. Hand `dropout` on.",
            _perceptron(
                lambda s, x: F.dropout(s.down(F.dropout(F.gelu(s.up(x)), training=s.training)), training=s.training)
            ),
        ),
        wrong(
            "dropout_only_at_evaluation",
            "Dropout acts at evaluation, and not in training",
            "self.training is True in training, which is when dropout acts: training=self.training, without a `not`.",
            _perceptron(
                lambda s, x: F.dropout(s.down(F.dropout(F.gelu(s.up(x)), s.p, not s.training)), s.p, not s.training)
            ),
        ),
        wrong(
            "scaled_at_evaluation",
            "Scaled down at evaluation instead of up in training",
            "The first paper on dropout did it so. Today what is kept is divided by 1 - p in training, and evaluation "
            "leaves the numbers alone.",
            _perceptron(lambda s, x: _scaled_later(s, s.down(_scaled_later(s, F.gelu(s.up(x)))))),
        ),
        wrong(
            "dropout_not_scaled",
            "What is kept is not scaled up",
            "With a share p set to 0, everything after it is smaller by 1 - p on average in training than at "
            "evaluation. Divide what is kept by 1 - p, as F.dropout does.",
            _perceptron(lambda s, x: _unscaled(s, s.down(_unscaled(s, F.gelu(s.up(x)))))),
        ),
        wrong(
            "keep_probability",
            "dropout is taken for the share that is kept",
            "dropout is the probability that an entry is set to 0, as in nn.Dropout(p). Yours keeps that share, "
            "and without dropout nothing at all.",
            _perceptron(
                lambda s, x: F.dropout(s.down(F.dropout(F.gelu(s.up(x)), 1 - s.p, s.training)), 1 - s.p, s.training)
            ),
        ),
        wrong(
            "keep_probability_guarded",
            "dropout is taken for the share that is kept",
            "dropout is the probability that an entry is set to 0, as in nn.Dropout(p). Yours keeps that share, and "
            "drops the rest.",
            _perceptron(lambda s, x: _kept_by_p(s, s.down(_kept_by_p(s, F.gelu(s.up(x)))))),
        ),
        wrong(
            "dropped_for_all_words",
            "The same entries are dropped in all words",
            "One mask is drawn and used for every word and sentence: an entry is missing everywhere or nowhere. "
            "Each entry of each word is dropped by itself: the mask has the shape of x, as torch.rand_like(x) has.",
            _perceptron(lambda s, x: _dropped_in_all(s, s.down(_dropped_in_all(s, F.gelu(s.up(x)))))),
        ),
        wrong(
            "dropped_once_for_all",
            "What is dropped is drawn only once",
            "The entries that are set to 0 are drawn at the first call and kept: from then on the same ones are always "
            "missing, and the others never learn without them. Draw anew at each call.",
            _DrawnOnce,
        ),
        *usual_misconceptions(_bent(F.gelu)),
    ),
)
