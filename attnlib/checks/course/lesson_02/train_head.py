"""The exercise `train_head` of lesson 02: the training loop, by plain gradient descent."""

from functools import partial

from torch import Tensor

from attnlib.checks.course.slips.training import GiveTrained, MeasureError, TakeSteps, descend
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case


def train_head(
    words: Tensor, wanted: Tensor, position: int, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    losses, (trained_q, trained_k, trained_v) = descend(
        words, wanted, (w_q, w_k, w_v), MeasureError().right(position), [lr] * 3
    )
    return losses, trained_q, trained_k, trained_v


def _examples(
    draw: Draw, *, steps: int, b: int, n: int, widths: tuple[int, int, int], position: int, lr: float = 0.4
) -> tuple[Tensor | int | float, ...]:
    d_model, d_k, d_v = widths
    words, wanted = draw.normal(steps, b, n, d_model), draw.normal(steps, b, d_v)
    matrices = (draw.normal(d_model, width, scale=1.2 * d_model**-0.5) for width in (d_k, d_k, d_v))
    return words, wanted, position, *matrices, lr


OUTPUTS = ("losses", "w_q", "w_k", "w_v")

TRAIN_HEAD = CourseExercise(
    name="train_head",
    lesson="02_scaled_dot_product_attention",
    contract="words (steps, b, n, d_model), wanted (steps, b, d_v), position, w_q, w_k, w_v, lr -> "
    "losses (steps,) and the three matrices after the last step",
    parts={"values": 3, "robustness": 1},
    stretch=True,
    reference=train_head,
    excused={"large scores": "With such scores every softmax is saturated, and nothing is trained."},
    outputs=OUTPUTS,
    detachable=OUTPUTS,
    cases=(
        *usual_cases(
            _examples,
            {"steps": 5, "b": 3, "n": 7, "widths": (11, 2, 5), "position": 4},
            one={"steps": 2, "b": 1, "n": 3, "widths": (5, 3, 2), "position": 1},
            more=[
                {"steps": 7, "b": 2, "n": 5, "widths": (3, 7, 2), "position": 1, "lr": 0.3},
                {"steps": 3, "b": 5, "n": 2, "widths": (7, 2, 3), "position": 0},
            ],
            word={"steps": 5, "b": 3, "n": 1, "widths": (11, 2, 5), "position": 0},
            gradient=False,
        ),
        Case(name="one step", inputs=partial(_examples, steps=1, b=2, n=5, widths=(7, 3, 2), position=3)),
        Case(name="every width is 1", inputs=partial(_examples, steps=3, b=2, n=5, widths=(1, 1, 1), position=3)),
        Case(
            name="matrices that require a gradient already",  # as a layer's weights do
            inputs=partial(_examples, steps=3, b=2, n=5, widths=(7, 3, 2), position=1),
            gradient=True,
            mutation=True,
            part="robustness",
        ),
        Case(
            name="a small learning rate",
            inputs=partial(_examples, steps=3, b=2, n=5, widths=(7, 3, 2), position=2, lr=0.03),
        ),
    ),
    made_of=(MeasureError, TakeSteps, GiveTrained),
    pairs=("gradients_pile_up", "all_positions_compared", "uphill", "error_summed"),
)
