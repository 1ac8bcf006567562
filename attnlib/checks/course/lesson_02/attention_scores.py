"""The exercise `attention_scores` of lesson 02."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.lesson_00.slips import fixed_scales, slips, slips_with_floats
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


def _queries_keys(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    d = draw.d_head(d)
    return draw.normal(*lead, q, d), draw.normal(*lead, k, d)


def _small_queries_keys() -> tuple[Tensor, Tensor]:
    return torch.tensor([[2.0, 0, 0, 0], [0, 2.0, 0, 2.0]]), torch.tensor(
        [[3.0, 0, 0, 0], [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 4.0]]
    )


def scaled(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


def _three_axes_unpacked(q: Tensor, k: Tensor) -> Tensor:
    _batch, _length, d = q.shape
    return q @ k.mT / d**0.5


def _four_axes_unpacked(q: Tensor, k: Tensor) -> Tensor:
    _batch, _heads, _length, d = q.shape
    return q @ k.mT / d**0.5


def _two_axes_unpacked(q: Tensor, k: Tensor) -> Tensor:
    _length, d = q.shape
    return q @ k.mT / d**0.5


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)


ATTENTION_SCORES = Exercise(
    name="attention_scores",
    lesson="02_scaled_dot_product_attention",
    contract="(…, q, d), (…, k, d) -> (…, q, k), scaled by 1/√d",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.attention_scores,
    forbidden=("attnlib.attention_scores", ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _queries_keys,
            {"lead": (2,), "q": 5, "k": 7, "d": 3},
            one={"lead": (1, 7), "q": 3, "k": 2, "d": 5},
            more=[
                {"lead": (2, 3), "q": 5, "k": 11, "d": 7},
                {"lead": (), "q": 13, "k": 3, "d": 11},
                {"lead": (3,), "q": 7, "k": 7, "d": 7},
                {"lead": (2, 1, 3), "q": 1, "k": 5, "d": 2},
            ],
        ),
        Case(name="no leading axis", inputs=partial(_queries_keys, lead=(), q=5, k=7, d=3)),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="all axes of one length", inputs=partial(_queries_keys, lead=(3,), q=3, k=3, d=3)),
    ),
    example=_small_queries_keys,
    misconceptions=(
        wrong(
            "no_scale",
            "The scale is missing",
            "The dot products are right, but not divided by √d. A sum of d products grows with √d, and the softmax "
            "that follows would give nearly all the weight to one key, with hardly a gradient for the others.",
            lambda q, k: q @ k.mT,
        ),
        wrong(
            "scaled_by_d",
            "Divided by d instead of √d",
            "The *variance* of a dot product grows with d, its standard deviation with √d. Dividing by d makes the "
            "scores too small: every key would get nearly the same weight.",
            lambda q, k: q @ k.mT / q.shape[-1],
        ),
        wrong(
            "scaled_twice",
            "Scaled twice",
            "The result is divided by √d two times over (or each of q and k by √d): that is d in all. If you scale "
            "both, each gets the fourth root.",
            lambda q, k: (q / q.shape[-1] ** 0.5) @ (k / k.shape[-1] ** 0.5).mT,
            same_as="scaled_by_d",
        ),
        wrong(
            "multiplied_by_root_d",
            "Multiplied by √d instead of divided",
            "The scores have become larger where they should become smaller. The scale is 1/√d.",
            lambda q, k: q @ k.mT * q.shape[-1] ** 0.5,
        ),
        wrong(
            "scaled_by_root_k",
            "Divided by the root of the number of keys",
            "The scale depends on the *width* d of the vectors, the length of the sum in one dot product. How many "
            "keys there are does not matter: q.shape[-1], not k.shape[-2].",
            lambda q, k: q @ k.mT / k.shape[-2] ** 0.5,
        ),
        wrong(
            "scaled_by_root_q",
            "Divided by the root of the number of queries",
            "The scale depends on the *width* d of the vectors, the last axis: q.shape[-1], not q.shape[-2].",
            lambda q, k: q @ k.mT / q.shape[-2] ** 0.5,
        ),
        wrong(
            "exchanged",
            "Rows and columns are exchanged",
            "Row i belongs to query i: (q, k). Yours has the keys as rows. With as many queries as keys, nothing but "
            "the numbers would tell.",
            lambda q, k: k @ q.mT / q.shape[-1] ** 0.5,
        ),
        wrong(
            "reshaped",
            "reshape where a transpose was needed",
            "`reshape` (or `view`) keeps the numbers in their order in memory, so that the columns are no longer the "
            "keys. To exchange the last two axes, use `.mT` or `transpose(-2, -1)`.",
            lambda q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / q.shape[-1] ** 0.5,
        ),
        *(
            wrong(
                f"same_set_of_{name}",
                f"{name} is compared with itself",
                f"The other set of vectors is never used: the result has the shape (…, {name}, {name}). Every query "
                "meets every key: q @ k.mT.",
                implementation,
            )
            for name, implementation in (("q", lambda q, k: scaled(q, q)), ("k", lambda q, k: scaled(k, k)))
        ),
        wrong(
            "not_summed",
            "The products are not added up",
            "Each pair still has d products instead of one number: the result has one axis too many, d. In einsum, a "
            "letter that is missing after the arrow is summed over.",
            lambda q, k: q.unsqueeze(-2) * k.unsqueeze(-3) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "leading_axes_added_up",
            "The leading axes are added up",
            "Without `...` after the arrow, einsum adds the tables of all sequences and heads into one. Each keeps a "
            "table of its own: '... q d, ... k d -> ... q k'.",
            lambda q, k: scaled(q, k).sum(dim=tuple(range(q.dim() - 2))) if q.dim() > 2 else scaled(q, k),
        ),
        wrong(
            "first_entry_alone",
            "Only the first entry of the batch comes back",
            "`q[0]` is one sequence, or one vector where there is no batch. `@` takes all leading axes along.",
            lambda q, k: q[0] @ k[0].mT / q.shape[-1] ** 0.5,
        ),
        wrong(
            "cosine",
            "Cosine similarity instead of the dot product",
            "The vectors are brought to length 1 first. The dot product is wanted as it is: a long key may speak "
            "louder.",
            lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT,
        ),
        wrong(
            "softmax_already",
            "The softmax is taken already",
            "The rows add up to 1: these are weights, not scores. The softmax is the next exercise.",
            lambda q, k: (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1),
        ),
        wrong(
            "all_axes_reversed",
            "`.T` on a tensor with a batch",
            "`.T` reverses *all* axes, the batch among them. `.mT` or `transpose(-2, -1)` exchanges the last two only.",
            lambda q, k: q @ k.permute(*range(k.dim() - 1, -1, -1)) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "first_batch_only",
            "All queries meet the keys of the first batch entry",
            "With a batch of one nobody notices. Each entry of the batch has its own keys.",
            lambda q, k: q @ (k[:1] if k.dim() > 2 else k).mT / q.shape[-1] ** 0.5,
        ),
        wrong(
            "three_axes_only",
            "Right for three axes only",
            "Axis 1 and axis 2 are the last two of (b, k, d), but not of (b, h, k, d). Count from the end: "
            "k.transpose(-2, -1), or k.mT.",
            lambda q, k: scaled(q, k.transpose(1, 2).mT),
        ),
        wrong(
            "bmm_only",
            "It works for three axes only",
            "torch.bmm wants exactly three axes, and there may be any number of leading ones, or none: use `@`.",
            lambda q, k: torch.bmm(q, k.mT) / q.shape[-1] ** 0.5,
        ),
        *(
            wrong(
                f"three_axes_{how}",
                "It works for three axes only",
                f"`{call}` names the axes of (b, k, d) from the front, and there may be any number of leading axes, or "
                "none. Count from the end: k.transpose(-2, -1), or k.mT.",
                implementation,
            )
            for how, call, implementation in (
                ("permuted", "permute(0, 2, 1)", lambda q, k: q @ k.permute(0, 2, 1) / q.shape[-1] ** 0.5),
                (
                    "exchanged_for_bmm",
                    "transpose(1, 2)",
                    lambda q, k: torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5,
                ),
            )
        ),
        wrong(
            "three_letters_only",
            "It works for three axes only",
            "An einsum with its letters spelled out wants exactly as many axes. `...` stands for any leading axes: "
            "'... q d, ... k d -> ... q k'.",
            lambda q, k: torch.einsum("bqd,bkd->bqk", q, k) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "three_sizes_unpacked",
            "It works for three axes only",
            "`b, n, d = q.shape` fails for two axes and for four. Take what you need from the end: d = q.shape[-1].",
            _three_axes_unpacked,
        ),
        wrong(
            "four_sizes_unpacked",
            "It works for a batch with heads only",
            "`b, h, n, d = q.shape` fails for two axes and for three. Take what you need from the end: d = "
            "q.shape[-1].",
            _four_axes_unpacked,
        ),
        wrong(
            "two_sizes_unpacked",
            "It works without leading axes only",
            "`n, d = q.shape` fails where there is a batch. Take what you need from the end: d = q.shape[-1].",
            _two_axes_unpacked,
        ),
        wrong(
            "mm_only",
            "It works without leading axes only",
            "`torch.mm` wants exactly two axes, and there may be any number of leading ones. `@` takes them along: "
            "q @ k.mT.",
            lambda q, k: torch.mm(q, k.mT) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "two_letters_only",
            "It works without leading axes only",
            "An einsum with two letters for each tensor takes no batch. `...` stands for any leading axes: "
            "'... q d, ... k d -> ... q k'.",
            lambda q, k: torch.einsum("qd,kd->qk", q, k) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "four_letters_only",
            "It works for a batch with heads only",
            "An einsum with four letters for each tensor wants exactly (b, h, n, d). `...` stands for any leading "
            "axes: '... q d, ... k d -> ... q k'.",
            lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "first_axes_exchanged",
            "The first two axes are exchanged, not the last two",
            "`transpose(0, 1)` is right for a single matrix. Where there is a batch, it moves the batch. Count from "
            "the end: k.transpose(-2, -1), or k.mT.",
            lambda q, k: q @ k.transpose(0, 1) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "not_transposed",
            "The transpose is missing",
            "`q @ k` multiplies the rows of q with the *columns* of k. The keys are its rows: q @ k.mT.",
            lambda q, k: q @ k / q.shape[-1] ** 0.5,
        ),
        *fixed_scales(lambda factor: lambda q, k: q @ k.mT * factor),
        wrong(
            "scaled_by_axis_one",
            "Divided by the root of another axis",
            "q.shape[1] is the width only where there are no leading axes. It is the last axis: q.shape[-1].",
            lambda q, k: q @ k.mT / q.shape[1] ** 0.5,
        ),
        wrong(
            "scaled_by_axis_zero",
            "Divided by the root of the first axis",
            "len(q), or q.shape[0], is the batch, or the number of queries. The width is the last axis: q.shape[-1].",
            lambda q, k: q @ k.mT / q.shape[0] ** 0.5,
        ),
        wrong(
            "divided_by_twice_d",
            "Divided by 2·d instead of √d",
            "`d ** 1/2` is (d ** 1) / 2 in Python, because powers come before division. Write d ** 0.5.",
            lambda q, k: q @ k.mT / q.shape[-1] ** 1 / 2,
        ),
        wrong(
            "divided_by_half_d",
            "Divided by d/2 instead of √d",
            "`d ** 1/2` is (d ** 1) / 2 in Python, because powers come before division. Write d ** 0.5.",
            lambda q, k: q @ k.mT / (q.shape[-1] ** 1 / 2),
        ),
        wrong(
            "rounded_down",
            "The scores are rounded down",
            "`//` divides and drops what is behind the point, which leaves no gradient. Divide with `/`.",
            lambda q, k: q @ k.mT // q.shape[-1] ** 0.5,
        ),
        wrong(
            "root_rounded_down",
            "The root is rounded down",
            "`int`, `//` and math.isqrt make a whole number of the root: 2 in place of 2.24 for d = 5. Leave it as it "
            "is: d ** 0.5.",
            lambda q, k: q @ k.mT / int(q.shape[-1] ** 0.5),
        ),
        wrong(
            "sign_turned",
            "The sign is turned",
            "A good fit has a large score. Yours is small where vectors are alike: there is no minus in the formula.",
            lambda q, k: -scaled(q, k),
        ),
        wrong(
            "fourth_root",
            "Divided by the fourth root of d",
            "If only one of q and k is divided by d ** 0.25, half of the scale is missing: divide both, or the product "
            "by d ** 0.5.",
            lambda q, k: q @ k.mT / q.shape[-1] ** 0.25,
        ),
        wrong(
            "divided_by_d_squared",
            "Divided by d² instead of √d",
            "The root is d ** 0.5. With d ** 2 the scores become far too small.",
            lambda q, k: q @ k.mT / q.shape[-1] ** 2,
        ),
        wrong(
            "root_of_the_score",
            "The root is taken of the score",
            "The root belongs to d alone. Of a negative score it is NaN: q @ k.mT / d ** 0.5.",
            lambda q, k: (q @ k.mT / q.shape[-1]) ** 0.5,
        ),
        wrong(
            "cosine_scaled",
            "Cosine similarity instead of the dot product",
            "The vectors are brought to length 1, and then divided by √d as well. The dot product is wanted, over √d.",
            lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT / q.shape[-1] ** 0.5,
        ),
        wrong(
            "exchanged_unscaled",
            "Rows and columns are exchanged, and the scale is missing",
            "Two things at once: row i belongs to query i, (q, k), and the scores are divided by √d.",
            lambda q, k: k @ q.mT,
        ),
        *(
            wrong(
                f"exchanged_{how}",
                f"Rows and columns are exchanged, and {also}",
                "Two things at once: row i belongs to query i, (q, k), and the scores are divided by √d, the root of "
                "the last axis.",
                implementation,
            )
            for how, also, implementation in (
                ("by_d", "the scores are divided by d", lambda q, k: k @ q.mT / q.shape[-1]),
                ("multiplied", "the scores are multiplied by √d", lambda q, k: k @ q.mT * q.shape[-1] ** 0.5),
                (
                    "by_root_k",
                    "the scores are scaled by the number of keys",
                    lambda q, k: k @ q.mT / k.shape[-2] ** 0.5,
                ),
                (
                    "by_root_q",
                    "the scores are scaled by the number of queries",
                    lambda q, k: k @ q.mT / q.shape[-2] ** 0.5,
                ),
            )
        ),
        *(
            wrong(
                f"normalised_{whose}{how}",
                f"Only the {whose} are brought to length 1",
                f"The {whose} were divided by their lengths first. The dot product is wanted, over √d: a long vector "
                "may speak louder.",
                implementation,
            )
            for whose, how, implementation in (
                ("queries", "", lambda q, k: scaled(F.normalize(q, dim=-1), k)),
                ("keys", "", lambda q, k: scaled(q, F.normalize(k, dim=-1))),
                ("queries", "_unscaled", lambda q, k: F.normalize(q, dim=-1) @ k.mT),
                ("keys", "_unscaled", lambda q, k: q @ F.normalize(k, dim=-1).mT),
            )
        ),
        wrong(
            "softmax_unscaled",
            "The softmax is taken already, and the scale is missing",
            "Two things at once: the scores are divided by √d, and the softmax is the next exercise.",
            lambda q, k: (q @ k.mT).softmax(dim=-1),
        ),
        wrong(
            "maximum_subtracted",
            "The largest score is subtracted already",
            "That is the first step of a softmax that does not break, and belongs to the next exercise.",
            lambda q, k: scaled(q, k) - scaled(q, k).amax(dim=-1, keepdim=True),
        ),
        wrong(
            "causal",
            "Later keys are hidden",
            "A causal mask comes in lesson 05. Here every query meets every key.",
            lambda q, k: causal(scaled(q, k)),
        ),
        wrong(
            "one_length_only",
            "It works only for as many keys as queries",
            "The number of queries stands in for the number of keys: the result is (…, q, q), or an index is too "
            "large. Take it from k.shape.",
            lambda q, k: torch.stack([(scaled(q, k[..., j, :].unsqueeze(-2)))[..., 0] for j in range(q.shape[-2])], -1),
        ),
        *slips(scaled, batch=False),
        *slips_with_floats(scaled),
        *usual_misconceptions(scaled, example=_small_queries_keys),
    ),
)
