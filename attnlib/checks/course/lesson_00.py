"""Lesson 00, the tools: dot products and squared distances of every x with every y."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.asking.ready_made import EINSUM
from attnlib.checks.course.slips.einsum import LineUp, MultiplyAligned, ReadPattern, SumMissing
from attnlib.checks.course.slips.search import Cosines, CountWords, WeighByRarity, Weighed
from attnlib.checks.course.steps import CourseExercise, Step, along_with, each, spells
from attnlib.checks.course.usual import as_given, usual_cases, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LESSON = "00_start_here"
SIZES = {"b": 2, "q": 5, "k": 7, "d": 3}
LARGER = [{"b": 3, "q": 2, "k": 11, "d": 7}, {"b": 5, "q": 13, "k": 3, "d": 2}, {"b": 3, "q": 7, "k": 7, "d": 7}]


def _two_sets(draw: Draw, *, b: int, q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, q, d), draw.normal(b, k, d)


def _one_in_both(draw: Draw) -> tuple[Tensor, Tensor]:
    x, y = _two_sets(draw, **SIZES)
    y[:, 2] = x[:, 1]
    return x, y


class Pairs(Step):
    """A number for every x and every y, (b, q, k): what becomes of two entries, added up over d."""

    def _entry(self, x: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def _entries(self, x: Tensor, y: Tensor) -> Tensor:
        return self._entry(x.unsqueeze(2), y.unsqueeze(1))

    def _of(self, x: Tensor, y: Tensor) -> Tensor:
        return self._entries(x, y).sum(dim=-1)

    def exchanged(self, x: Tensor, y: Tensor) -> Tensor:
        """Rows and columns are exchanged.

        Row i of the result belongs to x[i], with a column for every y: (b, q, k). Yours has the y's as rows, (b, k, q).
        In einsum, the order of the letters after the arrow decides.
        """
        return self._of(y, x)

    @each(whose=("x", "y"))
    def same_set(self, x: Tensor, y: Tensor, whose: str) -> Tensor:
        """One set is compared with itself.

        The other one is never used: the result holds every x with every x, (b, q, q), or every y with every y,
        (b, k, k).
        """
        return self._of(x, x) if whose == "x" else self._of(y, y)

    def same_position_only(self, x: Tensor, y: Tensor) -> Tensor:
        """Each x meets one y only.

        Without a new axis, x[i] is paired with y[i] alone, as in `(x * y).sum(-1)`. Every x has to meet every y, in a
        table of (q, k).
        """
        return self._entry(x, y).sum(dim=-1)

    @each(entry=(0, -1))
    def first_batch_only(self, x: Tensor, y: Tensor, entry: int) -> Tensor:
        """Only one batch entry of y is used.

        Every x is compared with y[0], or with y[-1], whichever batch entry it belongs to: an index, or a loop that
        overwrites its result. With a batch of one nobody notices. Each entry of the batch has vectors of its own.
        """
        return self._of(x, y[[entry]])

    def not_summed(self, x: Tensor, y: Tensor) -> Tensor:
        """Nothing is added up.

        Each pair still has d numbers instead of one: the result has a fourth axis, d. Sum over it. In einsum, a letter
        that is missing after the arrow is summed over.
        """
        return self._entries(x, y)

    def averaged(self, x: Tensor, y: Tensor) -> Tensor:
        """A mean where a sum was needed.

        The numbers of a pair are averaged over d, which makes the result d times too small. Add them up.
        """
        return self._entries(x, y).mean(dim=-1)

    def summed_first(self, x: Tensor, y: Tensor) -> Tensor:
        """Summed too early.

        Each vector has become a single number, the sum of its entries, before x and y met. Work entry by entry first,
        and add up the results; in einsum, both inputs share the letter d.
        """
        return self._entry(x.sum(dim=-1).unsqueeze(2), y.sum(dim=-1).unsqueeze(1))

    @each(axis=(1, 2))
    def summed_over_positions(self, x: Tensor, y: Tensor, axis: int) -> Tensor:
        """Summed over the positions instead of d.

        The numbers were added up along q or k. The sum runs over the numbers inside the vectors: d, the last axis.
        """
        return self._entries(x, y).sum(dim=axis)

    def last_entry_left_out(self, x: Tensor, y: Tensor) -> Tensor:
        """One number of each vector is left out.

        The first number has the index 0, and range(n) ends at n - 1 already. A loop over all numbers of a vector is
        `for i in range(x.shape[-1])`.
        """
        return self._of(x[..., :-1], y[..., :-1])

    @spells(last_entry_left_out)
    def first_entry_left_out(self, x: Tensor, y: Tensor) -> Tensor:
        return self._of(x[..., 1:], y[..., 1:])

    def axis_of_one_left(self, x: Tensor, y: Tensor) -> Tensor:
        """An axis of length 1 is left over.

        `keepdim=True` keeps the axis that was summed over: (b, q, k, 1). Leave it out here.
        """
        return self._of(x, y).unsqueeze(-1)

    def one_length_only(self, x: Tensor, y: Tensor) -> Tensor:
        """It works only if there are as many y's as x's.

        The number of vectors in x is also used for y: the result is (b, q, q), or an index is too large. Take it from
        y.shape.
        """
        return torch.stack([self._entry(x, y[:, [j]]).sum(dim=-1) for j in range(x.shape[1])], dim=-1)


class Dots(Pairs):
    """The products of the entries, added up."""

    makes = ("dots",)

    def _entry(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    def right(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y.mT

    def reshaped(self, x: Tensor, y: Tensor) -> Tensor:
        """reshape where a transpose was needed.

        `reshape` keeps the numbers in their order in memory and only draws the lines between rows anew: the columns are
        not the vectors of y any more. To exchange axes, use `.mT`, `transpose` or einsum.
        """
        return x @ y.reshape(y.shape[0], y.shape[2], y.shape[1])

    def not_transposed(self, x: Tensor, y: Tensor) -> Tensor:
        """The transpose is missing.

        `x @ y` multiplies the rows of x with the *columns* of y. The vectors of y are its rows: x @ y.mT, or einsum
        with d in both inputs.
        """
        return x @ y

    def all_axes_reversed(self, x: Tensor, y: Tensor) -> Tensor:
        """All axes were reversed, not only two.

        `y.T` reverses all axes: (b, k, d) becomes (d, k, b). Only the last two have to change places: y.mT, or
        y.transpose(-2, -1).
        """
        return x @ y.permute(2, 1, 0)

    def first_axes_exchanged(self, x: Tensor, y: Tensor) -> Tensor:
        """The batch was exchanged, not the last two axes.

        `transpose(0, 1)` makes (k, b, d) of (b, k, d). Count from the end: y.transpose(-2, -1), or y.mT.
        """
        return x @ y.transpose(0, 1)

    @each(which=("xy", "x", "y"))
    def normalised(self, x: Tensor, y: Tensor, which: str) -> Tensor:
        """Vectors are brought to length 1 first.

        They were divided by their lengths; with x and y both, this is cosine similarity. Use the plain dot product:
        long vectors may speak louder.
        """
        return self._of(F.normalize(x, dim=-1) if "x" in which else x, F.normalize(y, dim=-1) if "y" in which else y)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """The numbers are not multiplied.

        They were added, or the smaller of each two was taken. A dot product multiplies entry by entry, x * y, and then
        adds up the products.
        """
        return (x.unsqueeze(2) + y.unsqueeze(1)).sum(dim=-1)

    @spells(added)
    def smaller_taken(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.minimum(x.unsqueeze(2), y.unsqueeze(1)).sum(dim=-1)

    def products_squared(self, x: Tensor, y: Tensor) -> Tensor:
        """The signs are dropped.

        The products, or their sum, were squared or made positive. Two vectors that point in opposite directions have a
        negative dot product: add up the products as they are.
        """
        return (self._entries(x, y) ** 2).sum(dim=-1)

    @spells(products_squared)
    def without_sign(self, x: Tensor, y: Tensor) -> Tensor:
        return (x @ y.mT).abs()

    def distances(self, x: Tensor, y: Tensor) -> Tensor:
        """Distances instead of dot products.

        The result is the distance between each pair, or its square: small where vectors are alike. The dot product is
        large where they are alike: multiply entry by entry, then add.
        """
        return ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(dim=-1)

    @spells(distances)
    def distances_with_root(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


class Plain(Step):
    """The dot products as they are."""

    def right(self, dots: Tensor) -> Tensor:
        return dots

    def scaled(self, dots: Tensor, x: Tensor) -> Tensor:
        """Scaled too early.

        The result is divided by the root of d. That belongs to lesson 02, where you will see why. Use the plain dot
        product here.
        """
        return dots / math.sqrt(x.shape[-1])

    def softmax_taken(self, dots: Tensor) -> Tensor:
        """The softmax is taken already.

        The rows add up to 1: these are weights. Return the plain dot products; the softmax comes in lesson 02.
        """
        return dots.softmax(dim=-1)


class Lengths(Step):
    """The squared lengths: those of x vary along the rows, (b, q, 1), and those of y along the columns, (b, 1, k)."""

    makes = ("x_length", "y_length")

    def right(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x**2).sum(dim=-1, keepdim=True), (y**2).sum(dim=-1).unsqueeze(1)

    def fault_left(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The bug is still there.

        The length of y still varies along the rows, (b, k, 1). It has to vary along the columns, (b, 1, k).
        """
        x_length, y_length = self.right(x, y)
        return x_length, y_length.mT

    def both_on_columns(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The length of x varies along the columns.

        Row i belongs to x[i], so `x_squared` was right as (b, q, 1). Only the length of y has to move.
        """
        x_length, y_length = self.right(x, y)
        return x_length.mT, y_length

    @spells(both_on_columns)
    def both_moved(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x_length, y_length = self.right(x, y)
        return x_length.mT, y_length.mT

    def x_twice(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The length of y is not used.

        The length of x was added twice. The columns belong to y, and need the length of y.
        """
        x_length, _ = self.right(x, y)
        return x_length, x_length

    @spells(x_twice)
    def x_twice_moved(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x_length, _ = self.right(x, y)
        return x_length, x_length.mT

    @each(whose=("y", "x"))
    def y_left_out(self, x: Tensor, y: Tensor, whose: str) -> tuple[Tensor | int, Tensor | int]:
        """One of the lengths is missing.

        The formula has three terms: |x|² along the rows, |y|² along the columns, and −2 x·y.
        """
        x_length, y_length = self.right(x, y)
        return 0 if whose == "x" else x_length, 0 if whose == "y" else y_length

    @each(axes=((1,), (1, 2)))
    def y_over_positions(self, x: Tensor, y: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The squares are summed over the wrong axes.

        Vectors at other positions, or in other sequences of the batch, were added into one length. The length of a
        vector is the sum over its own numbers, d: (b, q, 1) for x and (b, 1, k) for y.
        """
        return self.right(x, y)[0], (y**2).sum(dim=axes, keepdim=True)

    @spells(y_over_positions)
    def y_over_batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.right(x, y)[0], (y**2).sum(dim=(0, 2))

    @spells(y_over_positions)
    def both_over_batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x**2).sum(dim=(0, 2)).unsqueeze(1), (y**2).sum(dim=(0, 2))

    @each(whose=("y", "x"), entry=(0, -1))
    def lengths_of_one_sequence(self, x: Tensor, y: Tensor, whose: str, entry: int) -> tuple[Tensor, Tensor]:
        """The lengths are those of one sequence, for the whole batch.

        `y[0]` or `x[0]` is one sequence, and its lengths were added in all of them. With a batch of one nobody notices;
        each sequence has lengths of its own.
        """
        return self.right(x[[entry]] if whose == "x" else x, y[[entry]] if whose == "y" else y)

    def neither_squared(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers are not squared.

        The squared length of a vector is the sum of its *squared* numbers: reduce(x**2, ...), reduce(y**2, ...).
        """
        return x.sum(dim=-1, keepdim=True), y.sum(dim=-1).unsqueeze(1)

    @spells(neither_squared)
    def y_not_squared(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.right(x, y)[0], y.sum(dim=-1).unsqueeze(1)

    def lengths_squared_too_late(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Squared after the sum.

        The numbers of a vector were added up first, where they cancel one another, and the sum was squared. Square each
        number, then add: reduce(x**2, ...), not reduce(x, ...) ** 2.
        """
        return x.sum(dim=-1, keepdim=True) ** 2, y.sum(dim=-1).unsqueeze(1) ** 2

    def lengths_with_root(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The lengths are not squared.

        `norm` takes the root of the sum of squares. The formula has the *squared* lengths: reduce(x**2, ...),
        reduce(y**2, ...), without a root.
        """
        return x.norm(dim=-1, keepdim=True), y.norm(dim=-1).unsqueeze(1)

    @each(whose=("xy", "x", "y"))
    def lengths_averaged(self, x: Tensor, y: Tensor, whose: str) -> tuple[Tensor, Tensor]:
        """Lengths are means instead of sums.

        The squares are averaged over d; the dot product is a sum, and does not fit them. Use sums in all three terms.
        """
        x_length, y_length = self.right(x, y)
        d = x.shape[-1]
        return x_length / d if "x" in whose else x_length, y_length / d if "y" in whose else y_length

    @each(whose=("xy", "x", "y"))
    def lengths_detached(self, x: Tensor, y: Tensor, whose: str) -> tuple[Tensor, Tensor]:
        """No gradient goes through one of the terms.

        The numbers are right. But `.detach()`, `.data` or torch.no_grad() cuts a term of the formula off, and its part
        of the gradient is lost.
        """
        return self.right(x.detach() if "x" in whose else x, y.detach() if "y" in whose else y)


class Products(Step):
    """The dot product of every x with every y."""

    makes = ("dots",)

    def right(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y.mT

    def dots_scaled(self, x: Tensor, y: Tensor) -> Tensor:
        """The dot products are scaled.

        Without scale=1.0, `attention_scores` divides by the root of d. The formula has the plain dot product.
        """
        return x @ y.mT / math.sqrt(x.shape[-1])

    @spells(Lengths.lengths_detached)
    def dots_detached(self, x: Tensor, y: Tensor) -> Tensor:
        return (x @ y.mT).detach()


class Distances(Pairs):
    """|x|² + |y|² − 2 x·y."""

    def _entry(self, x: Tensor, y: Tensor) -> Tensor:
        return (x - y) ** 2

    def right(self, x_length: Tensor, y_length: Tensor, dots: Tensor) -> Tensor:
        return x_length + y_length - 2 * dots

    def not_doubled(self, x_length: Tensor, y_length: Tensor, dots: Tensor) -> Tensor:
        """The factor 2 is missing.

        (x − y)² = x² + y² − 2xy. With one dot product instead of two, not even the distance of a vector to itself is 0.
        """
        return x_length + y_length - dots

    def sum_squared(self, x_length: Tensor, y_length: Tensor, dots: Tensor) -> Tensor:
        """The sign of the dot product is wrong.

        With a plus you get |x + y|². The dot product says how well two vectors agree, and the more they agree, the
        nearer they are.
        """
        return x_length + y_length + 2 * dots

    def root_taken(self, x: Tensor, y: Tensor) -> Tensor:
        """The root was taken.

        These are distances. The *squared* distance has no root.
        """
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")

    def root_squared(self, x: Tensor, y: Tensor) -> Tensor:
        """The root is taken, and then squared.

        The numbers are right. But the slope of a root at 0 is infinite: the gradient of √d² is 0 · ∞ = NaN where two
        vectors are equal. Leave out both, the root and the square.
        """
        return self._of(x, y).sqrt() ** 2

    @along_with("fault_left")
    def clamped(self, x_length: Tensor, y_length: Tensor, dots: Tensor) -> Tensor:
        """The symptom is hidden, but the bug is still there.

        Nothing is below zero any more, but the numbers are as wrong as before. Ask where the negative number came from:
        whose length was added in its column?
        """
        return self.right(x_length, y_length, dots).clamp(min=0)

    @spells(clamped)
    @along_with("fault_left")
    def absolute(self, x_length: Tensor, y_length: Tensor, dots: Tensor) -> Tensor:
        return self.right(x_length, y_length, dots).abs()

    @spells(clamped)
    @along_with("fault_left")
    def root_of_the_fault(self, x_length: Tensor, y_length: Tensor, dots: Tensor) -> Tensor:
        return self.right(x_length, y_length, dots).clamp(min=0).sqrt()

    def absolute_differences(self, x: Tensor, y: Tensor) -> Tensor:
        """Absolute differences instead of squares.

        The differences are added up without their sign. Here each one is squared first.
        """
        return (x.unsqueeze(2) - y.unsqueeze(1)).abs().sum(dim=-1)


PREDICT_LARGEST_DOT = Exercise(
    name="predict_largest_dot",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": which word has the largest dot product with “the”, by letter counts?',
    parts={"prediction": 1},
    kind="choice",
    reference="B",
    explanation="“street” has two t's and two e's, so its dot product with “the” is 2 + 2 = 4. The word “the” gets "
    "only 1 + 1 + 1 = 3 with itself. A long vector can beat a perfect match.",
    wrong=(
        wrong(
            "self_fits_best",
            "A vector need not match itself best",
            "That holds for cosines, where all vectors have length 1. The dot product also grows with the length of "
            "the other vector. Work out “the” · “the”, and then “the” · “street”, which has each t and each e twice.",
            "A",
        ),
        wrong(
            "longest_word_wins",
            "Length helps only in the right places",
            "A letter adds to the sum only if both words contain it. “because” has seven letters, but of t, h and e "
            "it contains only the e, twice: the dot product is 2. Look for the letters of “the” in the other words.",
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

PAIRWISE_DOT = CourseExercise(
    name="pairwise_dot",
    lesson=LESSON,
    contract="(b, q, d), (b, k, d) -> (b, q, k)",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=lambda x, y: torch.einsum("b q d, b k d -> b q k", x, y),
    cases=(
        *usual_cases(_two_sets, SIZES, one={"b": 1, "q": 3, "k": 2, "d": 5}, more=LARGER),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="all axes of one length", inputs=partial(_two_sets, b=3, q=3, k=3, d=3)),
        Case(name="vectors of one number", inputs=partial(_two_sets, b=2, q=5, k=7, d=1)),
    ),
    example=lambda: (
        torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]),
        torch.tensor([[[1.0, 1.0], [3.0, 0.0], [0.0, -1.0]]]),
    ),
    made_of=(Dots, Plain),
    pairs=("exchanged", "scaled"),
)

MEND_SQUARED_DISTANCES = CourseExercise(
    name="mend_squared_distances",
    lesson=LESSON,
    contract="(b, q, d), (b, k, d) -> (b, q, k), squared distances",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=lambda x, y: ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(dim=-1),
    cases=(
        *usual_cases(_two_sets, SIZES, one={"b": 1, "q": 7, "k": 7, "d": 2}, more=LARGER),
        # the fault raises an error for other sizes; among so many wrong distances some are below zero for sure
        Case(name="as many x as y", inputs=partial(_two_sets, b=3, q=11, k=11, d=2)),
        Case(name="all axes of one length", inputs=partial(_two_sets, b=3, q=3, k=3, d=3)),
        Case(name="vectors of one number", inputs=partial(_two_sets, b=2, q=5, k=7, d=1)),
        Case(
            name="gradients where a distance is zero",
            inputs=_one_in_both,
            dtype=torch.float64,
            gradient=True,
            part="gradient",
        ),
    ),
    example=lambda: (torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 0.0], [3.0, 1.0]]])),
    made_of=(Lengths, Products, Distances),
    pairs=("fault_left", "lengths_averaged", "dots_scaled", "not_doubled", "sum_squared"),
    same={"fault_left": "as_given"},
    own=(as_given(lambda x, y: (x**2).sum(-1, keepdim=True) + (y**2).sum(-1, keepdim=True) - 2 * x @ y.mT),),
)


def _little_einsum(x: Tensor, y: Tensor, pattern: str) -> Tensor:
    """By torch's own, with a letter for each name."""
    names = dict.fromkeys(pattern.replace(",", " ").replace("->", " ").split())
    letters = dict(zip(names, "abcdefghijkl", strict=False))
    inputs, _, output = pattern.partition("->")
    written = [" ".join(letters[name] for name in side.split()) for side in (*inputs.split(","), output)]
    return torch.einsum(f"{written[0]}, {written[1]} -> {written[2]}", x, y)


def _named(draw: Draw, *, pattern: str, **sizes: int) -> tuple[Tensor, Tensor, str]:
    inputs = pattern.partition("->")[0].split(",")
    x, y = (draw.normal(*(sizes[name] for name in names.split())) for names in inputs)
    return x, y, pattern


_DOTS = "q d b, d b k -> b k q"

LITTLE_EINSUM = CourseExercise(
    name="little_einsum",
    lesson=LESSON,
    contract="two tensors and a pattern such as 'b q d, b k d -> b q k' -> what einops.einsum returns",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    stretch=True,
    reference=_little_einsum,
    forbidden=(EINSUM,),
    cases=(  # where several axes are summed, the numbers on the way are larger than the result
        *usual_cases(
            _named,
            {"pattern": _DOTS, "b": 2, "q": 5, "k": 7, "d": 3},
            one={"pattern": _DOTS, "b": 1, "q": 3, "k": 2, "d": 5},
            more=[
                {"pattern": "b k d, d q b -> b q k", "b": 3, "q": 2, "k": 11, "d": 7},
                {"pattern": "b q k, k d b -> b q d", "b": 5, "q": 3, "k": 2, "d": 13},
            ],
        ),
        Case(name="nothing is summed", inputs=partial(_named, pattern="q, k -> k q", q=3, k=5)),
        Case(name="everything is summed", inputs=partial(_named, pattern="n d, d n ->", n=5, d=7), magnitude=9.0),
        Case(name="an axis of length 1 on either side", inputs=partial(_named, pattern=_DOTS, b=2, q=1, k=7, d=1)),
        Case(
            name="one input's own axes are summed",
            inputs=partial(_named, pattern="b n word, letter b -> b", b=2, n=3, word=5, letter=7),
            magnitude=9.0,
        ),
        Case(
            name="names that are words",
            inputs=partial(_named, pattern="batch word letter, letter -> word batch", batch=2, word=5, letter=3),
        ),
        Case(
            name="a name that is part of another",
            inputs=partial(_named, pattern="words word, word letter -> letter words", words=2, word=5, letter=3),
        ),
    ),
    example=lambda: (
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]),
        "q d, d k -> k q",
    ),
    made_of=(ReadPattern, LineUp, MultiplyAligned, SumMissing),
    pairs=("permuted_backwards", "not_summed", "averaged", "added"),
)


def _search(questions: list[str], texts: list[str]) -> Tensor:
    asked, offered = CountWords().right(questions, texts)
    x, y = Weighed().right(asked, offered, WeighByRarity().right(offered))
    return Cosines().right(x, y)


WORDS = ["the", "The", "it", "with", "street", "animal", "tired", "crossed", "wide", "was", "cross", "street", "animal"]
"""Capitals, repeated words, and words that are inside other words."""


def _to_be_searched(draw: Draw, *, q: int, k: int, n: int) -> tuple[list[str], list[str]]:
    """Every text has *the*; each question has a word that is in no text. Some words are written large."""

    def lines(count: int) -> list[list[str]]:
        return [
            [WORDS[i].title() if at % 3 == 1 else WORDS[i] for at, i in enumerate(row)]
            for row in draw.integers(0, len(WORDS), (count, n)).tolist()
        ]

    return [" ".join([*line, "moon"]) for line in lines(q)], [" ".join(["The", *line]) for line in lines(k)]


def _nothing_in_common(draw: Draw) -> tuple[list[str], list[str]]:
    """A question of unknown words, one of words that all texts have, and a text of such words alone."""
    questions, texts = _to_be_searched(draw, q=2, k=4, n=5)
    return [*questions, "moon moon", "the"], [*texts, "the the"]


def _written_freely(draw: Draw) -> tuple[list[str], list[str]]:
    """Spaces at either end and several in a row, tabs and line breaks."""
    questions, texts = _to_be_searched(draw, q=3, k=5, n=7)
    texts[0], texts[1] = f"  {texts[0]}", f"{texts[1].replace(' ', '  ')} "
    texts[2], texts[3] = texts[2].replace(" ", "\t"), f"{texts[3]}\n"
    return [f" {questions[0]}\t", questions[1].replace(" ", "\n"), questions[2].replace(" ", "   ")], texts


def _with_marks(draw: Draw) -> tuple[list[str], list[str]]:
    """Words with a full stop, a comma, a hyphen or an apostrophe, without which they would be other words."""
    questions, texts = _to_be_searched(draw, q=3, k=5, n=5)
    texts = [
        f"{text} {marked}"
        for text, marked in zip(texts, ("street.", "it's", "cross-street", "tired,", "s"), strict=True)
    ]
    return [
        f"{question} {marked}" for question, marked in zip(questions, ("street.", "it's", "cross"), strict=True)
    ], texts


def _in_nearly_all(draw: Draw) -> tuple[list[str], list[str]]:
    """Each word is in all of sixty texts but one: it weighs ln(60 / 59), and the vectors are as short."""
    texts = [["it", "was", "so", ("it", "was", "so")[i]] for i in draw.integers(0, 3, (60,)).tolist()]
    for text, word in zip(texts, ("it", "was", "so"), strict=False):
        text[:] = [other for other in text if other != word]
    return ["it", "was so so"], [" ".join(text) for text in texts]


SEARCH = CourseExercise(
    name="search",
    lesson=LESSON,
    contract="lists of q questions and k texts, all strings -> cosines (q, k) of counted words, weighted by rarity",
    parts={"values": 3, "robustness": 1},
    stretch=True,
    reference=_search,
    cases=(
        Case(name="three questions, five texts", inputs=partial(_to_be_searched, q=3, k=5, n=7)),
        Case(name="one question", inputs=partial(_to_be_searched, q=1, k=7, n=5)),
        Case(name="longer texts", inputs=partial(_to_be_searched, q=2, k=3, n=11)),
        Case(name="as many questions as texts", inputs=partial(_to_be_searched, q=5, k=5, n=3)),
        Case(name="spaces, tabs and line breaks", inputs=_written_freely),
        Case(name="words with a full stop, a hyphen or an apostrophe", inputs=_with_marks),
        # quotients of numbers near 0.001: neither 1e-8 against 0 / 0 nor log(n) - log(n_w) in float32 is a mistake
        Case(name="words that nearly all texts have", inputs=_in_nearly_all, magnitude=75.0),
        Case(name="nothing in common", inputs=_nothing_in_common, part="robustness"),
        Case(
            name="a single text",
            inputs=partial(_to_be_searched, q=3, k=1, n=5),
            part="robustness",
            probe=lambda asked, inputs: tuple(
                scores.float() for scores in asked(*inputs)
            ),  # all are 0, Python's perhaps
        ),
        Case(
            name="the lists stay as they are",
            inputs=partial(_to_be_searched, q=3, k=5, n=7),
            part="robustness",
            mutation=True,
        ),
        Case(
            name="called a second time, with other texts",
            inputs=partial(_to_be_searched, q=3, k=5, n=7),
            after=(partial(_to_be_searched, q=2, k=3, n=5),),
        ),
        Case(name="other texts", inputs=partial(_to_be_searched, q=7, k=11, n=5), hidden=True),
        Case(name="many texts", inputs=partial(_to_be_searched, q=2, k=17, n=3), hidden=True),
    ),
    made_of=(CountWords, WeighByRarity, Weighed, Cosines),
    pairs=("once_at_most", "all_words_alike", "lengths_left_out", "capitals_kept", "texts_cut_to_length_alone"),
)

EXERCISES = (PREDICT_LARGEST_DOT, PAIRWISE_DOT, MEND_SQUARED_DISTANCES, SEARCH, LITTLE_EINSUM)
