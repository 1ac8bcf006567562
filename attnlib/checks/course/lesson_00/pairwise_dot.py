"""The exercise `pairwise_dot` of lesson 00."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.course.lesson_00.slips import slips, slips_with_floats
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


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
    cases=(
        *usual_cases(
            two_sets,
            {"b": 2, "q": 5, "k": 7, "d": 3},
            one={"b": 1, "q": 3, "k": 2, "d": 5},
            more=[
                {"b": 3, "q": 2, "k": 11, "d": 7},
                {"b": 5, "q": 13, "k": 3, "d": 2},
                {"b": 3, "q": 7, "k": 7, "d": 7},
            ],
        ),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="all axes of one length", inputs=partial(two_sets, b=3, q=3, k=3, d=3)),
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
        *(
            wrong(
                f"normalised_{name}",
                f"Only the vectors of {name} are brought to length 1",
                f"Each vector of {name} was divided by its length first. The dot product is wanted as it is: long "
                "vectors may speak louder.",
                implementation,
            )
            for name, implementation in (
                ("x", lambda x, y: F.normalize(x, dim=-1) @ y.mT),
                ("y", lambda x, y: x @ F.normalize(y, dim=-1).mT),
            )
        ),
        wrong(
            "smaller_taken",
            "The smaller number is taken, not the product",
            "The smaller of each two numbers is added up, as if things were counted that both have in common. A dot "
            "product multiplies entry by entry, and then adds.",
            lambda x, y: torch.minimum(x.unsqueeze(2), y.unsqueeze(1)).sum(dim=-1),
        ),
        wrong(
            "products_squared",
            "The products are squared",
            "A dot product adds up the products as they are, with their signs: no square.",
            lambda x, y: ((x.unsqueeze(2) * y.unsqueeze(1)) ** 2).sum(dim=-1),
        ),
        wrong(
            "last_batch_only",
            "Only the last batch entry of y is used",
            "Every x is compared with y[-1], whichever batch entry it belongs to: a loop that overwrites its result, "
            "or an index that is left over from it. Each entry of the batch has vectors of its own.",
            lambda x, y: x @ y[-1].mT,
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
            "same_set_of_y",
            "y is compared with itself",
            "The first set of vectors is never used: the result holds the dot products of y with y, of shape (b, k, "
            "k).",
            lambda x, y: y @ y.mT,
        ),
        wrong(
            "summed_apart",
            "Both are summed before they are multiplied",
            "Each vector has become a single number, the sum of its entries, and these were multiplied. Multiply entry "
            "by entry first, and add the products: in einsum, both inputs share the letter d.",
            lambda x, y: x.sum(dim=-1).unsqueeze(2) * y.sum(dim=-1).unsqueeze(1),
        ),
        wrong(
            "added",
            "The numbers are added, not multiplied",
            "A dot product multiplies entry by entry, and then adds up the products: x * y, not x + y.",
            lambda x, y: (x.unsqueeze(2) + y.unsqueeze(1)).sum(dim=-1),
        ),
        wrong(
            "last_entry_left_out",
            "The last number of each vector is left out",
            "range(n) ends at n - 1 already. A loop over all numbers of a vector is `for i in range(x.shape[-1])`.",
            lambda x, y: x[..., :-1] @ y[..., :-1].mT,
        ),
        wrong(
            "first_entry_left_out",
            "The first number of each vector is left out",
            "The first place has the number 0. A loop over all numbers of a vector is `for i in range(x.shape[-1])`.",
            lambda x, y: x[..., 1:] @ y[..., 1:].mT,
        ),
        wrong(
            "without_sign",
            "The signs are dropped",
            "Two vectors that point in opposite directions have a negative dot product. It is wanted as it is.",
            lambda x, y: (x @ y.mT).abs(),
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
        wrong(
            "first_axes_exchanged",
            "The batch was exchanged, not the last two axes",
            "`transpose(0, 1)` makes (k, b, d) of (b, k, d). Those two are the axes to count from the front; the ones "
            "to exchange are the last: y.transpose(-2, -1), or y.mT.",
            lambda x, y: x @ y.transpose(0, 1),
        ),
        wrong(
            "not_transposed",
            "The transpose is missing",
            "`x @ y` multiplies the rows of x with the *columns* of y. The vectors of y are its rows: x @ y.mT, or "
            "einsum with d in both inputs.",
            lambda x, y: x @ y,
        ),
        wrong(
            "batch_added_up",
            "The batch is added up",
            "The letter b is missing after the arrow, so the tables of all sequences are added into one. Every "
            "sequence keeps a table of its own: (b, q, k).",
            lambda x, y: torch.einsum("b q d, b k d -> q k", x, y),
        ),
        wrong(
            "all_sequences_added_up",
            "The batches are mixed, and added up",
            "Every sequence of x met every sequence of y, and all of their tables were added into one. Sequence 0 "
            "meets sequence 0 alone, and keeps a table of its own: the letter b has to stand in both inputs and in "
            "the output.",
            lambda x, y: torch.einsum("b q d, c k d -> q k", x, y),
        ),
        wrong(
            "every_pair_of_sequences",
            "Every sequence meets every other",
            "The result has a fourth axis: each sequence of x was compared with each sequence of y. Sequence 0 meets "
            "sequence 0 alone, so both inputs have to share the letter b.",
            lambda x, y: torch.einsum("b q d, c k d -> b c q k", x, y),
        ),
        wrong(
            "every_pair_by_tensordot",
            "Every sequence meets every other",
            "`tensordot` sums over d, and keeps all other axes of both: (b, q, b, k). Sequence 0 meets sequence 0 "
            "alone: `@` and einsum can keep a batch in step.",
            lambda x, y: torch.tensordot(x, y, dims=([2], [2])),
        ),
        wrong(
            "sequences_joined",
            "The sequences run into one another",
            "The batch and the positions were made one axis, and every word met the words of all sequences. Keep the "
            "batch: (b, q, k).",
            lambda x, y: x.flatten(0, 1) @ y.flatten(0, 1).T,
        ),
        wrong(
            "same_position_only",
            "Each x meets one y only",
            "`(x * y).sum(-1)` pairs x[i] with y[i]. All pairs are asked for: every x with every y, a table of (q, k).",
            lambda x, y: (x * y).sum(dim=-1),
        ),
        wrong(
            "summed_over_queries",
            "Summed over the queries instead of d",
            "The products were added up along q. The sum of a dot product runs over the numbers inside the vectors, d, "
            "the last axis.",
            lambda x, y: (x.unsqueeze(2) * y.unsqueeze(1)).sum(dim=1),
        ),
        wrong(
            "summed_over_keys",
            "Summed over the vectors of y instead of d",
            "The products were added up along k. The sum of a dot product runs over the numbers inside the vectors, d, "
            "the last axis.",
            lambda x, y: (x.unsqueeze(2) * y.unsqueeze(1)).sum(dim=2),
        ),
        wrong(
            "axis_of_one_left",
            "An axis of length 1 is left over",
            "`keepdim=True` keeps the axis that was summed over: (b, q, k, 1). Leave it out here.",
            lambda x, y: (x @ y.mT).unsqueeze(-1),
        ),
        wrong(
            "one_length_only",
            "It works only for as many y as x",
            "The number of vectors in x stands in for that in y: the result is (b, q, q), or an index is too large. "
            "Take it from y.shape.",
            lambda x, y: torch.stack([(x * y[:, [j]]).sum(dim=-1) for j in range(x.shape[1])], dim=-1),
        ),
        wrong(
            "softmax_taken",
            "The softmax is taken already",
            "The rows add up to 1: these are weights. Here the plain dot products are wanted; the softmax comes in "
            "lesson 02.",
            lambda x, y: torch.softmax(x @ y.mT, dim=-1),
        ),
        wrong(
            "distances_with_root",
            "Distances instead of dot products",
            "The result is the distance between each pair, small where vectors are alike. The dot product is large "
            "where they are alike: multiply entry by entry, then add.",
            lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
        ),
        wrong(
            "exchanged_and_scaled",
            "Rows and columns are exchanged, and the result is scaled",
            "Two things at once: the rows have to belong to x, (b, q, k), and the root of d has no place here yet.",
            lambda x, y: y @ x.mT / x.shape[-1] ** 0.5,
        ),
        *slips(_pairwise_dot),
        *slips_with_floats(_pairwise_dot),
        *usual_misconceptions(_pairwise_dot, example=_small_sets),
    ),
)
