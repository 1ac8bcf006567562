"""Exercises of lesson 00: the tools."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong

LESSON = "00_start_here"

PREDICT_LARGEST_DOT = Exercise(
    name="predict_largest_dot",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": which word has the largest dot product with “the”, by letter counts?',
    parts={"prediction": 1},
    kind="choice",
    reference="B",
    explanation="“street” has two t and two e, so its dot product with “the” is 2 + 2 = 4. The word “the” gets only "
    "1 + 1 + 1 = 3 from itself. A long vector can beat a perfect match.",
    misconceptions=(
        wrong(
            "self_fits_best",
            "A vector need not fit itself best",
            "That holds for cosines, where all vectors have length 1. The dot product also grows with the length of "
            "the other vector. Work out “the” · “the”, and then “the” · “street”, which has each t and each e twice.",
            "A",
        ),
        wrong(
            "longest_word_wins",
            "Length helps only in the right places",
            "A letter adds to the sum only if both words contain it. “because” has seven letters, but of t, h and e "
            "only the e, twice: the dot product is 2. Look for the letters of “the” in the other words.",
            "C",
        ),
        wrong(
            "counts_letters_once",
            "Multiply the counts; do not only tick off common letters",
            "“street” and “tired” both contain t and e, but “street” contains each of them twice, and the dot "
            "product multiplies these counts: 1·2 + 1·2 for “street”, 1·1 + 1·1 for “tired”.",
            "D",
        ),
    ),
)


def _two_sets(draw: Draw, *, b: int, q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, q, d), draw.normal(b, k, d)


def _pairwise_dot(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("b q d, b k d -> b q k", x, y)


def _small_sets() -> tuple[Tensor, Tensor]:
    return torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 1.0], [3.0, 0.0], [0.0, -1.0]]])


PAIRWISE_DOT = Exercise(
    name="pairwise_dot",
    lesson=LESSON,
    contract="(b, q, d), (b, k, d) -> (b, q, k)",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=_pairwise_dot,
    cases=usual_cases(
        _two_sets,
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
        *usual_misconceptions(_pairwise_dot),
    ),
)


def _squared_distances(x: Tensor, y: Tensor) -> Tensor:
    return ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(dim=-1)


def _lengths(x: Tensor) -> Tensor:
    return (x**2).sum(dim=-1, keepdim=True)


def _lengths_on_rows(x: Tensor, y: Tensor) -> Tensor:
    return _lengths(x) + _lengths(y) - 2 * x @ y.mT


MEND_SQUARED_DISTANCES = Exercise(
    name="mend_squared_distances",
    lesson=LESSON,
    contract="(b, q, d), (b, k, d) -> (b, q, k), squared distances",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=_squared_distances,
    cases=usual_cases(
        _two_sets,
        {"b": 2, "q": 5, "k": 7, "d": 3},
        one={"b": 1, "q": 7, "k": 7, "d": 2},
        more=[{"b": 3, "q": 2, "k": 11, "d": 7}, {"b": 5, "q": 13, "k": 3, "d": 2}, {"b": 3, "q": 7, "k": 7, "d": 7}],
    ),
    example=lambda: (torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 0.0], [3.0, 1.0]]])),
    misconceptions=(
        wrong(
            "y_on_rows",
            "The length of y varies along the rows",
            "`y_squared` has shape (b, k, 1), so row i gets the length of y[i], and all columns the same one. "
            "Column j is the one that belongs to y[j]: its length has to vary along the last axis, (b, 1, k).",
            _lengths_on_rows,
        ),
        wrong(
            "both_moved",
            "The length of x varies along the columns",
            "Row i belongs to x[i], so `x_squared` was right as (b, q, 1). The lengths of x and y have changed "
            "places: look at y instead.",
            lambda x, y: _lengths(x).mT + _lengths(y) - 2 * x @ y.mT,
        ),
        wrong(
            "clamped",
            "The symptom is hidden, the fault is still there",
            "Nothing is below zero any more, but the other numbers are as wrong as before. Ask where the negative "
            "number came from: whose length was added in its column?",
            lambda x, y: _lengths_on_rows(x, y).clamp(min=0),
        ),
        wrong(
            "absolute",
            "The symptom is hidden, the fault is still there",
            "The sign is gone, but a wrong number without its sign is still wrong. Ask where the negative number "
            "came from: whose length was added in its column?",
            lambda x, y: _lengths_on_rows(x, y).abs(),
        ),
        wrong(
            "x_twice",
            "The length of y is not used",
            "The length of x was added twice. That is right only on the diagonal of a comparison of x with itself.",
            lambda x, y: 2 * _lengths(x) - 2 * x @ y.mT,
        ),
        wrong(
            "not_doubled",
            "The factor 2 is missing",
            "(x − y)² = x² + y² − 2xy. With one dot product instead of two, not even the distance of a vector to "
            "itself is 0.",
            lambda x, y: _lengths(x) + _lengths(y).mT - x @ y.mT,
        ),
        wrong(
            "sum_squared",
            "The sign of the dot product is wrong",
            "With a plus you get |x + y|². The dot product says how well two vectors agree, and the more they "
            "agree, the nearer they are.",
            lambda x, y: _lengths(x) + _lengths(y).mT + 2 * x @ y.mT,
        ),
        wrong(
            "root_taken",
            "The root was taken",
            "These are distances. The squared distance is asked for, which has no root.",
            lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
        ),
        *usual_misconceptions(_squared_distances),
    ),
)

EXERCISES = (PREDICT_LARGEST_DOT, PAIRWISE_DOT, MEND_SQUARED_DISTANCES)
