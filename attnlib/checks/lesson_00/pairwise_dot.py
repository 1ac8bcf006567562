"""The exercise `pairwise_dot` of lesson 00."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong


def two_sets(draw: Draw, *, b: int, q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, q, d), draw.normal(b, k, d)


def _pairwise_dot(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("b q d, b k d -> b q k", x, y)


def _small_sets() -> tuple[Tensor, Tensor]:
    return torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 1.0], [3.0, 0.0], [0.0, -1.0]]])


PAIRWISE_DOT = Exercise(
    name="pairwise_dot",
    lesson="00_start_here",
    contract="(b, q, d), (b, k, d) -> (b, q, k)",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=_pairwise_dot,
    cases=usual_cases(
        two_sets,
        {"b": 2, "q": 5, "k": 7, "d": 3},
        one={"b": 1, "q": 3, "k": 2, "d": 5},
        more=[{"b": 3, "q": 2, "k": 11, "d": 7}, {"b": 5, "q": 13, "k": 3, "d": 2}, {"b": 3, "q": 7, "k": 7, "d": 7}],
    ),
    example=_small_sets,
    misconceptions=(
        wrong(
            "exchanged",
            "Rows and columns are exchanged",
            "Row i of the result has to hold the dot products of x[i] with every y. Yours has the y's as rows: "
            "(b, k, q) instead of (b, q, k). The order of the letters after the arrow decides.",
            lambda x, y: torch.einsum("b q d, b k d -> b k q", x, y),
        ),
        wrong(
            "batches_mixed",
            "The batches are mixed",
            "The dot products run over every pair of batch entries and are added up. Each entry of the batch is a "
            "world of its own: the letter b has to stand in both inputs and in the output.",
            lambda x, y: torch.einsum("b q d, c k d -> b q k", x, y),
        ),
        wrong(
            "first_batch_only",
            "Only the first batch entry of y is used",
            "Every x is compared with y[0], whichever batch entry it belongs to. With a batch of one nobody notices; "
            "with two, the second sentence is compared with the first one's words.",
            lambda x, y: torch.einsum("b q d, k d -> b q k", x, y[0]),
        ),
        wrong(
            "reshaped",
            "reshape where a transpose was needed",
            "`reshape` keeps the numbers in their order in memory and only draws the lines between rows anew; a "
            "column of the result is then not one of the vectors of y. To exchange axes, use `.mT`, `transpose` or "
            "einsum.",
            lambda x, y: x @ y.reshape(y.shape[0], y.shape[2], y.shape[1]),
        ),
        wrong(
            "normalised",
            "Cosine similarity instead of the dot product",
            "The vectors are brought to length 1 first. The dot product is wanted as it is: long vectors may speak "
            "louder.",
            lambda x, y: F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).mT,
        ),
        wrong(
            "averaged",
            "A mean where a sum was needed",
            "The products are averaged over d. A dot product is their sum; dividing by d makes it d times too small.",
            lambda x, y: (x.unsqueeze(2) * y.unsqueeze(1)).mean(dim=-1),
        ),
        wrong(
            "scaled",
            "Scaled too early",
            "The result is divided by the root of d. That belongs to lesson 02, where you will see why; here the "
            "plain dot product is wanted.",
            lambda x, y: x @ y.mT / x.shape[-1] ** 0.5,
        ),
        wrong(
            "distances",
            "Squared distances instead of dot products",
            "The result is the squared distance between each pair, small where vectors are alike. The dot product is "
            "large where they are alike: multiply entry by entry, then add.",
            lambda x, y: ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(dim=-1),
        ),
        wrong(
            "same_set",
            "x is compared with itself",
            "The second set of vectors is never used: the result holds the dot products of x with x, of shape (b, q, "
            "q).",
            lambda x, y: x @ x.mT,
        ),
        wrong(
            "not_summed",
            "The products are not added up",
            "Each pair still has d products instead of one number: the result has a fourth axis, d. In einsum, a "
            "letter that is missing after the arrow is summed over.",
            lambda x, y: x.unsqueeze(2) * y.unsqueeze(1),
        ),
        wrong(
            "all_axes_reversed",
            "All axes were reversed, not only two",
            "`y.T` turns the order of all axes round: (b, k, d) becomes (d, k, b). Only the last two are to change "
            "places: y.mT, or y.transpose(-2, -1).",
            lambda x, y: x @ y.permute(2, 1, 0),
        ),
        *usual_misconceptions(_pairwise_dot, example=_small_sets),
    ),
)
