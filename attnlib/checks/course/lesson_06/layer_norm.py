"""`layer_norm`: every vector brought to mean 0 and variance 1."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import NORMS
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """The contract's form: eps may be given by position."""
    return attnlib.layer_norm(x, gain, bias, eps=eps)


def _vectors(draw: Draw, *, shape: tuple[int, ...], spread: float = 1.7, eps: float | None = None) -> tuple[Any, ...]:
    d_model = shape[-1]
    x = draw.normal(*shape, scale=spread, shift=0.6 if spread > 1 else 0.0)
    arguments = (x, draw.normal(d_model, scale=1.2, shift=0.4), draw.normal(d_model, scale=0.5, shift=0.4))
    return arguments if eps is None else (*arguments, eps)


def _one_constant(draw: Draw) -> tuple[Tensor, ...]:
    x, gain, bias = _vectors(draw, shape=(2, 3, 7))
    x[1, 2] = 3.0
    return x, gain, bias


def _far_from_zero(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Vectors with a standard deviation of 0.5 around 3000 and -3000, and one whose entries are all 1234.5."""
    x, gain, bias = _vectors(draw, shape=shape, spread=0.5)
    x = x + torch.where(draw.normal(*shape[:-1], 1) > 0, 3000.0, -3000.0).to(x.dtype)
    x[0, 1] = 1234.5  # a mean without rounding, where there are 8 of them
    return x, gain, bias


def _normalise(
    x: Tensor,
    gain: Tensor,
    bias: Tensor,
    eps: float = 1e-5,
    *,
    axis: int | tuple[int, ...] = -1,
    correction: int = 0,
    centre: bool = True,
    outside: bool = False,
    root: bool = True,
) -> Tensor:
    """The right answer, and with other settings the wrong ones."""
    axes = tuple(a for a in ((axis,) if isinstance(axis, int) else axis) if -x.dim() <= a < x.dim()) or (-1,)
    mean = x.mean(dim=axes, keepdim=True)
    variance = x.var(dim=axes, correction=correction, keepdim=True)
    if not centre:
        variance, mean = (x * x).mean(dim=axes, keepdim=True), torch.zeros_like(mean)
    spread = variance**0.5 + eps if outside else (variance + eps) ** (0.5 if root else 1.0)
    return (x - mean) / spread * gain + bias


def _everywhere(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return _normalise(x, gain, bias, eps, axis=tuple(range(-x.dim(), 0)))


def _axis_lost(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return (x - x.mean(dim=-1)) / (x.var(dim=-1, correction=0) + eps).sqrt() * gain + bias


def _divided_by(spread: Callable[[Tensor, float], Tensor]) -> Callable[..., Tensor]:
    """x without its mean, divided by `spread(x, eps)`."""

    def attempt(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
        return (x - x.mean(dim=-1, keepdim=True)) / spread(x, eps) * gain + bias

    return attempt


def _variance(x: Tensor) -> Tensor:
    return x.var(dim=-1, correction=0, keepdim=True)


def _over_axis_1(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * gain + bias


def _bracket_forgotten(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True) / (_variance(x) + eps).sqrt() * gain + bias


def _statistics_detached(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    mean, variance = x.mean(dim=-1, keepdim=True).detach(), _variance(x).detach()
    return (x - mean) / (variance + eps).sqrt() * gain + bias


def _example() -> tuple[Tensor, ...]:
    return torch.tensor([[1.0, 3.0, 4.0, 5.0, 7.0]]), torch.ones(5), torch.zeros(5)


LAYER_NORM = Exercise(
    name="layer_norm",
    lesson="06_encoder_block",
    contract="(…, d_model), gain and bias (d_model), eps -> (…, d_model), normalised along the last axis",
    parts={"values": 2, "small spread": 1, "gradient": 1, "robustness": 1},
    reference=layer_norm,
    forbidden=("attnlib.layer_norm", NORMS),
    cases=(
        *usual_cases(
            _vectors,
            {"shape": (2, 5, 7)},
            one={"shape": (1, 3, 11)},
            word={"shape": (2, 1, 7)},
            more=[{"shape": (3, 2, 5, 13)}, {"shape": (17,)}, {"shape": (7, 5)}, {"shape": (5, 2, 19)}],
        ),
        Case(name="four axes", inputs=partial(_vectors, shape=(2, 3, 5, 7))),
        Case(name="eps given", inputs=partial(_vectors, shape=(2, 3, 7), eps=0.5)),
        Case(
            name="vectors with hardly any spread",
            inputs=partial(_vectors, shape=(2, 5, 7), spread=0.002),
            part="small spread",
        ),
        # the mean of seven threes may be off by a rounding, and that is divided by sqrt(eps): 3 / 0.003
        Case(name="one vector whose entries are all equal", inputs=_one_constant, part="small spread", magnitude=1e3),
        # x · gain / 0.5 may be rounded before the mean is subtracted, as torch does: 3000 · 3 / 0.5
        Case(
            name="vectors far from zero",
            inputs=partial(_far_from_zero, shape=(2, 5, 8)),
            part="small spread",
            magnitude=18e3,
        ),
        Case(
            name="vectors with hardly any spread, gradients",
            inputs=partial(_vectors, shape=(3, 5, 11), spread=0.003),
            part="small spread",
            gradient=True,
            dtype=torch.float64,
            hidden=True,
        ),
    ),
    example=_example,
    misconceptions=(
        wrong(
            "unbiased_variance",
            "The variance is divided by d - 1",
            "`Tensor.var` and `Tensor.std` divide by d - 1 unless you say `correction=0`. That is the estimate for a "
            "sample. Here nothing is estimated: these d numbers are all there are, so divide by d.",
            partial(_normalise, correction=1),
        ),
        wrong(
            "eps_outside_root",
            "eps is added to the standard deviation",
            "eps belongs to the variance, inside the root: sqrt(variance + eps). Outside, the same eps does far less: "
            "where the spread is 0, sqrt(1e-5) is 0.003, and 1e-5 is three hundred times smaller.",
            partial(_normalise, outside=True),
        ),
        wrong(
            "unbiased_and_outside",
            "d - 1 in the variance, and eps outside the root",
            "This is the layer norm of the Annotated Transformer, (x - mean) / (x.std() + eps), and two things in it "
            "differ from the paper's: `std` divides by d - 1, and eps is added after the root.",
            partial(_normalise, correction=1, outside=True),
        ),
        wrong(
            "no_eps",
            "eps is missing",
            "Where all entries of a vector are equal the variance is 0, and 0 / 0 is NaN. Add eps to the variance.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, gain, bias, 0.0),
        ),
        wrong(
            "difference_of_large_numbers",
            "The variance as the mean of x² minus the square of the mean",
            "On paper the two are equal. But where the entries are near 3000, x² is near ten million; float32 has "
            "seven digits, and hardly any of them are left of the difference. It may even be negative, and its root is "
            "NaN. Subtract the mean first, and then square: the mean of (x - mean)².",
            _divided_by(
                lambda x, eps: ((x * x).mean(dim=-1, keepdim=True) - x.mean(dim=-1, keepdim=True) ** 2 + eps).sqrt()
            ),
        ),
        wrong(
            "spread_not_centred",
            "The variance is taken around 0, not around the mean",
            "The mean is subtracted above, but the squares are those of x itself. The variance is the mean of "
            "(x - mean)².",
            _divided_by(lambda x, eps: ((x * x).mean(dim=-1, keepdim=True) + eps).sqrt()),
        ),
        wrong(
            "squares_summed",
            "The squares are added up, not averaged",
            "The variance is the *mean* of (x - mean)²: divide their sum by d_model.",
            _divided_by(lambda x, eps: (_variance(x) * x.shape[-1] + eps).sqrt()),
        ),
        wrong(
            "mean_distance",
            "Divided by the mean distance, not by the root of the variance",
            "The mean of |x - mean| is another measure of spread. Layer norm takes the root of the mean square.",
            _divided_by(lambda x, eps: (x - x.mean(dim=-1, keepdim=True)).abs().mean(dim=-1, keepdim=True) + eps),
        ),
        wrong(
            "bracket_forgotten",
            "Only the mean is divided",
            "/ binds before -: x - mean / root divides the mean alone. Put brackets around x - mean.",
            _bracket_forgotten,
        ),
        wrong(
            "eps_squared",
            "eps is squared",
            "It is sqrt(variance + eps). With eps² the 10⁻⁵ becomes 10⁻¹⁰.",
            _divided_by(lambda x, eps: (_variance(x) + eps**2).sqrt()),
        ),
        wrong(
            "eps_as_floor",
            "eps is not added to the variance",
            "You have seen to it that a vector without any spread does not become 0 / 0 (by clamp, maximum or "
            "nan_to_num). But elsewhere eps has no effect. It is sqrt(variance + eps), for every vector.",
            _divided_by(lambda x, eps: _variance(x).sqrt().clamp(min=eps)),
        ),
        wrong(
            "eps_as_floor_of_variance",
            "eps is a floor, not an addend",
            "Your variance is never below eps, but where it is above, eps has no effect. It is sqrt(variance + eps).",
            _divided_by(lambda x, eps: _variance(x).clamp(min=eps).sqrt()),
        ),
        wrong(
            "root_of_std",
            "Divided by the root of the standard deviation",
            "The standard deviation *is* a root already, that of the variance. Divide by sqrt(variance + eps): take "
            "`var`, not `std`, beneath the root, and one root only.",
            _divided_by(lambda x, eps: (_variance(x).sqrt() + eps).sqrt()),
        ),
        wrong(
            "divided_by_length",
            "Divided by the length of the vector, not by its standard deviation",
            "`norm` is the root of the *sum* of squares; the standard deviation is the root of their mean, smaller by "
            "√d_model.",
            _divided_by(lambda x, eps: (x - x.mean(dim=-1, keepdim=True)).norm(dim=-1, keepdim=True) + eps),
        ),
        wrong(
            "mean_of_everything",
            "One mean for the whole tensor",
            "The variances are right. But `x.mean()` without dim is one number for all words of all sentences. Each "
            "vector has its own: dim=-1, keepdim=True.",
            lambda x, gain, bias, eps=1e-5: (x - x.mean()) / (_variance(x) + eps).sqrt() * gain + bias,
        ),
        wrong(
            "variance_of_everything",
            "One variance for the whole tensor",
            "The means are right. But `x.var(...)` without dim is one number for all words of all sentences. Each "
            "vector has its own: dim=-1, keepdim=True.",
            _divided_by(lambda x, eps: (x.var(correction=0) + eps).sqrt()),
        ),
        wrong(
            "over_axis_1",
            "The mean runs over axis 1",
            "In (b, n, d_model), axis 1 holds the words. Layer norm takes one vector at a time, however many axes "
            "stand in front: dim=-1.",
            _over_axis_1,
        ),
        wrong(
            "mean_detached",
            "The mean is cut from the gradient",
            "The numbers are right. But the mean depends on x, and the gradient flows through it, too: without that "
            "part it is wrong.",
            lambda x, gain, bias, eps=1e-5: (
                (x - x.mean(dim=-1, keepdim=True).detach()) / (_variance(x) + eps).sqrt() * gain + bias
            ),
        ),
        wrong(
            "float32_inside",
            "Computed in float32",
            "`.float()` rounds x to seven digits, and what is lost does not come back when float64 gains are "
            "multiplied. Leave the dtype alone.",
            lambda x, gain, bias, eps=1e-5: _normalise(x.float(), gain, bias, eps),
        ),
        wrong(
            "statistics_detached",
            "Mean and variance are cut from the gradient",
            "The numbers are right. But mean and variance depend on x, and the gradient flows through them, too: "
            "without that part it is wrong.",
            _statistics_detached,
        ),
        wrong(
            "variance_detached",
            "The variance is cut from the gradient",
            "The numbers are right. But the variance depends on x, and the gradient flows through it, too: without "
            "that part it is wrong.",
            _divided_by(lambda x, eps: (_variance(x).detach() + eps).sqrt()),
        ),
        wrong(
            "eps_fixed",
            "eps is not the one that was given",
            "1e-5 is only the default. Use the argument eps.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, gain, bias, 1e-5),
        ),
        wrong(
            "eps_of_other_norms",
            "eps is 1e-6 instead of 1e-5",
            "Other libraries have other defaults; here it is 1e-5. It shows in vectors with a small spread.",
            lambda x, gain, bias, eps=1e-6: _normalise(x, gain, bias, eps),
        ),
        wrong(
            "over_positions",
            "The mean runs over the positions",
            "Each feature is normalised over the sequence. Layer norm takes one position's vector at a time, so that "
            "the words do not mix: dim=-1, not -2.",
            partial(_normalise, axis=-2),
        ),
        wrong(
            "over_batch",
            "The mean runs over the batch",
            "That is batch norm without its running averages: what a sentence becomes depends on the sentences that "
            "happen to be with it. Layer norm looks at one vector at a time: dim=-1.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, gain, bias, eps, axis=-x.dim()),
        ),
        wrong(
            "over_batch_and_positions",
            "The mean runs over batch and positions",
            "Each feature is normalised over all the words of the batch: that is batch norm. Layer norm takes the d "
            "features of one word: dim=-1.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, gain, bias, eps, axis=tuple(range(-x.dim(), -1))),
        ),
        wrong(
            "over_sequence",
            "One mean for a whole sequence",
            "Mean and variance are taken over positions *and* features. Each position has its own: only the last axis.",
            partial(_normalise, axis=(-2, -1)),
        ),
        wrong(
            "over_everything",
            "One mean for the whole tensor",
            "`x.mean()` without dim is one number for all words of all sentences. Each vector has its own mean and "
            "variance: dim=-1, keepdim=True.",
            _everywhere,
        ),
        wrong(
            "words_and_entries",
            "One mean and variance for all words of a sentence",
            "Every axis but the batch is averaged over, words and entries together. Each vector has its own mean and "
            "variance: dim=-1, keepdim=True.",
            lambda x, gain, bias, eps=1e-5: _normalise(
                x, gain, bias, eps, axis=tuple(range(-x.dim() + (x.dim() > 2), 0))
            ),
        ),
        wrong(
            "not_centred",
            "The mean is not subtracted",
            "x is divided by the root of its mean square: that is RMSNorm, which many newer models use. Layer norm "
            "subtracts the mean first.",
            partial(_normalise, centre=False),
        ),
        wrong(
            "mean_kept",
            "The mean is not subtracted from the numerator",
            "The standard deviation is right, but x / std still has its mean. Subtract it: (x - mean) / std.",
            lambda x, gain, bias, eps=1e-5: x / (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt() * gain + bias,
        ),
        wrong(
            "divided_by_variance",
            "Divided by the variance, not by its root",
            "The standard deviation is the root of the variance. Dividing by the variance leaves the spread at "
            "1/standard deviation instead of 1.",
            partial(_normalise, root=False),
        ),
        wrong(
            "only_centred",
            "Not divided by the standard deviation",
            "The mean is subtracted, but the vectors are still as long as before. Divide by sqrt(variance + eps).",
            lambda x, gain, bias, eps=1e-5: (x - x.mean(dim=-1, keepdim=True)) * gain + bias,
        ),
        wrong(
            "no_gain_and_bias",
            "gain and bias are not used",
            "After normalising, each feature is multiplied by its gain, and its bias is added.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, torch.ones_like(gain), torch.zeros_like(bias), eps),
        ),
        wrong(
            "no_bias",
            "The bias is missing",
            "After the gain, each feature gets its bias added.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, gain, torch.zeros_like(bias), eps),
        ),
        wrong(
            "no_gain",
            "The gain is missing",
            "Each feature is multiplied by its gain before the bias is added.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, torch.ones_like(gain), bias, eps),
        ),
        wrong(
            "exchanged_gain_and_bias",
            "Gain and bias are exchanged",
            "The arguments come as (x, gain, bias): multiply by the gain, then add the bias.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, bias, gain, eps),
        ),
        wrong(
            "bias_before_gain",
            "The bias is added before the gain",
            "The order is normalised * gain + bias. With brackets around the sum, the bias is multiplied by the gain, "
            "too.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, gain, gain * bias, eps),
        ),
        wrong(
            "gain_plus_one",
            "The gain is taken for a change from 1",
            "Some models store the gain minus 1. Here it is the factor itself: normalised * gain + bias.",
            lambda x, gain, bias, eps=1e-5: _normalise(x, 1 + gain, bias, eps),
        ),
        wrong(
            "axis_lost",
            "Mean and variance have lost an axis",
            "Without keepdim=True the mean of (…, d) has shape (…), and broadcasting lines it up with the last axis of "
            "x: an error, or the wrong numbers. Keep the axis: x.mean(dim=-1, keepdim=True).",
            _axis_lost,
        ),
        *usual_misconceptions(_normalise, example=_example),
    ),
)
