"""`layer_norm`: every vector brought to mean 0 and variance 1."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import NORMS
from attnlib.checks.course.slips.norm import Centre, Divide, GainAndBias, Statistics
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case


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


def _example() -> tuple[Tensor, ...]:
    return torch.tensor([[1.0, 3.0, 4.0, 5.0, 7.0]]), torch.ones(5), torch.zeros(5)


LAYER_NORM = CourseExercise(
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
    made_of=(Statistics, Centre, Divide, GainAndBias),
    pairs=("unbiased_variance", "over_positions", "no_eps", "no_gain_and_bias", "no_bias"),
)
