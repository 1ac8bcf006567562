"""Where no misconception fits, the report says which property is off."""

import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks import Report, exercises, run
from attnlib.checks.asking.observe import observe
from attnlib.checks.naming.isolate import Trait, isolate, traits, values_wrong
from attnlib.checks.trial.compare import Aspect, Difference, How
from attnlib.checks.trial.trial import Trial
from attnlib.checks.verdict.judge import cases_of

pytestmark = pytest.mark.slow

SENTENCES = ("What this looks like", "What your result shows")


def what_it_looks_like(report: Report) -> list[str]:
    """The sentences about properties: those that have a name stand in a heading."""
    told = [f"{section.heading}. {section.body}" for section in report.sections]
    found = " ".join(text for text in told if text.startswith(SENTENCES))
    return [said.strip().rstrip(".") for said in re.split(r"[.:] (?=[A-Z`])", found)]


def sentences(said: str) -> list[str]:
    return [each.rstrip(".") for each in said.split(". ")]


def is_a_misconception(report: Report) -> bool:
    return report.diagnosis in {m.id for m in exercises()[report.exercise].misconceptions}


class ShiftedMask(nn.Module):
    """The block of lesson 06, whose key mask is off by one word."""

    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        shifted = None if key_mask is None else key_mask.roll(1, dims=-1)
        x = x + self.attn(self.norm1(x), key_mask=shifted)
        return x + self.mlp(self.norm2(x))


class ShiftedMaskDetached(ShiftedMask):
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        return super().forward(x, key_mask) if key_mask is not None else super().forward(x).detach()


def dots(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.mT


def wrong_strides_and_gradient(x: Tensor, y: Tensor) -> Tensor:
    return dots(0.5 * x + 0.5 * x.detach(), y) if x.is_contiguous() else dots(x, y).cos()


def half_of_the_gradient(x: Tensor, y: Tensor) -> Tensor:
    return dots(0.5 * x + 0.5 * x.detach(), y)


def rounded_on_the_way(x: Tensor, y: Tensor) -> Tensor:
    return dots(x.float(), y.float()).to(x.dtype)


def first_entry_apart(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([dots(x, y)[:1], dots(x, y)[1:].cos()])


def lonely_batch(x: Tensor, y: Tensor) -> Tensor:
    return dots(x, y).cos() if x.shape[0] == 1 else dots(x, y)


class Counting(nn.Module):
    """A second call is answered otherwise."""

    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.w_q, self.w_k = nn.Linear(d_model, d_k, bias), nn.Linear(d_model, d_k, bias)
        self.w_v = nn.Linear(d_model, d_v, bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.before = [*getattr(self, "before", ()), x.shape]
        layers = self.w_q, self.w_k, self.w_v
        return tuple(layer(x).cos() if self.is_off() else layer(x) for layer in layers)

    def is_off(self) -> bool:
        return len(self.before) > 1


class OffAtTheSameSizes(Counting):
    def is_off(self) -> bool:
        return len(self.before) > 1 and all(sizes == self.before[-1] for sizes in self.before)


class OffAfterOtherSizes(Counting):
    def is_off(self) -> bool:
        return self.before[0] != self.before[-1]


def sharper_weights(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights**2


def large_scores_cut(scores: Tensor) -> Tensor:
    grown = (scores - scores.amax(-1, keepdim=True)).clamp(min=-20).exp()
    return (grown / grown.sum(-1, keepdim=True)).where(scores.abs().amax() < 50, grown.sin())


def all_wrong(x: Tensor, y: Tensor) -> Tensor:
    return dots(x, y).cos()


@pytest.mark.parametrize(
    ("name", "attempt", "said"),
    [
        ("EncoderBlock", ShiftedMask, "Right without a mask; wrong as soon as one is given."),
        ("pairwise_dot", half_of_the_gradient, "The values are right; the gradient is not."),
        ("pairwise_dot", first_entry_apart, "Right for a batch of one; wrong for a larger batch."),
        ("pairwise_dot", lonely_batch, "Right for larger batches; wrong for a batch of one."),
        ("QKVProjection", Counting, "Right at the first call; wrong at the second."),
        ("QKVProjection", OffAtTheSameSizes, "Right at the first call; wrong at a second one of the same sizes."),
        (
            "QKVProjection",
            OffAfterOtherSizes,
            "Right if all calls are of the same sizes; wrong after a call with others.",
        ),
        ("scaled_dot_product_attention", sharper_weights, "Right: output. Wrong: weights."),
        ("softmax", large_scores_cut, "Only “large scores” is wrong; everything else that was tried is right."),
    ],
)
def test_one_property_is_isolated(name: str, attempt: object, said: str) -> None:
    report = run(name, attempt)
    assert not is_a_misconception(report)
    assert set(sentences(said)) <= set(what_it_looks_like(report))


@pytest.mark.parametrize(
    ("name", "attempt", "said"),
    [
        (
            "pairwise_dot",
            wrong_strides_and_gradient,
            "Wrong: the gradient; and the result for a transposed input, whose memory is not contiguous."
            " Everything else that was tried is right.",
        ),
        (
            "EncoderBlock",
            ShiftedMaskDetached,
            "Wrong: the gradient; and the result when a mask is given. Everything else that was tried is right.",
        ),
    ],
)
def test_two_mistakes_are_told_in_one_sentence_that_is_true_of_both(name: str, attempt: object, said: str) -> None:
    report = run(name, attempt)
    assert not is_a_misconception(report)
    assert said in " ".join(report.message.split())
    assert "The values are right" not in report.message


def trials_of(name: str) -> list[Trial]:
    """The visible cases, all of them right."""
    exercise = exercises()[name]
    cases = cases_of(exercise, hidden=False)
    seen = [observe(exercise, exercise.reference, case, exact=True) for case in cases]
    return [Trial(case, it, it, None) for case, it in zip(cases, seen, strict=True)]


def wrong_as(trait: Trait, trial: Trial) -> Trial:
    """The trial, wrong in a way that shows the trait."""
    ways: tuple[tuple[Aspect, How], ...] = (("values", ""), ("device", ""), ("mutation", ""), ("gradient", ""))
    tried = (replace(trial, difference=Difference(*way)) for way in (*ways, ("mutation", "untouched")))
    return next(t for t in tried if trait.has(t) and trait.shown(t))


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
def test_a_trait_is_told_only_where_the_cases_separate_it_from_every_other(name: str) -> None:
    right = trials_of(name)
    told: dict[frozenset[str], str] = {}
    for trait in traits(exercises()[name], right):
        trials = [wrong_as(trait, t) if trait.has(t) else t for t in right]
        wrong = frozenset(t.case.name for t in trials if t.difference is not None)
        found = isolate(exercises()[name], trials).traits
        if not wrong or not found:
            continue
        assert [t.id for t in found] == [trait.id]
        if trait.shown is values_wrong:  # for the others, the way in which they are wrong says which it is
            assert wrong not in told, f"{told[wrong]} has the cases of {trait.id}"
            told[wrong] = trait.id


def test_axes_are_not_blamed_where_the_only_such_case_is_the_only_square_one() -> None:
    def wrong_where_it_is_square(scores: Tensor) -> Tensor:
        grown = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = grown / grown.sum(-1, keepdim=True)
        return weights.cos() if scores.shape[-1] == scores.shape[-2] else weights

    assert [t.case.name for t in trials_of("softmax") if t.expected.inputs[0].dim() == 2] == ["as many rows as columns"]
    assert " axes" not in run("softmax", wrong_where_it_is_square).message


def test_what_is_only_a_part_counts_the_errors_that_are_asked_for() -> None:
    exercise = exercises()["MultiHeadSelfAttention"]
    trials = [
        replace(t, difference=Difference("values", "")) if t.case.part in ("options", "error") else t
        for t in trials_of(exercise.name)
    ]
    assert not isolate(exercise, trials).part
    only = [replace(t, difference=None) if t.case.part == "error" else t for t in trials]
    assert isolate(exercise, only).part == "options"


def test_an_input_that_is_changed_is_not_called_a_matter_of_float64() -> None:
    def changed(x: Tensor, y: Tensor) -> Tensor:
        result = dots(x, y)
        return result if x.requires_grad else (x.mul_(1.5), result)[1]

    assert run("pairwise_dot", changed).diagnosis not in ("in_float32_only", None)


def test_a_difference_in_the_last_digits_is_seen() -> None:
    without_source = eval("lambda x, y: rounded(x, y)", {"rounded": rounded_on_the_way})  # no change can be tried
    report = run("pairwise_dot", without_source)
    assert {"The numbers agree to 7 digits or so", "Right in float32; wrong in float64"} <= set(
        what_it_looks_like(report)
    )
    shown = re.search(r"expected (\S+), got (\S+);", " ".join(report.message.split()))
    assert shown is not None
    assert shown[1] != shown[2]


def test_where_everything_is_wrong_nothing_is_isolated() -> None:
    report = run("pairwise_dot", all_wrong)
    assert not any(said.startswith(("Right", "All")) for said in what_it_looks_like(report))


def test_errors_that_are_asked_for_are_no_right_values() -> None:
    def wrong_but_for_the_error(x: Tensor, num_heads: int) -> Tensor:
        if x.shape[-1] % num_heads:
            raise ValueError(f"{num_heads} heads cannot share {x.shape[-1]} columns")
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).cos()

    report = run("split_heads", wrong_but_for_the_error)
    assert not report.passed
    assert "Wrong: " not in report.message


def test_right_cases_are_listed_where_they_have_nothing_in_common() -> None:
    def sometimes(x: Tensor, y: Tensor) -> Tensor:
        return dots(x, y) if x.dtype == torch.float64 or x.shape[0] == 1 else dots(x, y).cos()

    message = " ".join(run("pairwise_dot", sometimes).message.split())
    assert "Right in: “a batch of one”, " in message


def test_wrong_cases_are_listed_where_they_are_fewer() -> None:
    message = " ".join(run("pairwise_dot", lambda x, y: dots(x, y).squeeze()).message.split())
    wrong = "“a batch of one”, “one entry of the batch”, “one query and one key”"
    assert f"Wrong in: {wrong}. Everything else that was tried is right." in message


def test_a_number_of_heads_that_is_written_into_the_code_is_told() -> None:
    def always_three(x: Tensor, num_heads: int) -> Tensor:
        if x.shape[-1] % num_heads:
            raise ValueError(f"{num_heads} heads cannot share {x.shape[-1]} columns")
        return x.unflatten(-1, (3, -1)).transpose(1, 2)

    without_source = eval("lambda x, h: f(x, h)", {"f": always_three})  # no change can be tried
    for hidden in (False, True):
        report = run("split_heads", without_source, hidden=hidden)
        assert report.diagnosis == "for_one_value_only"
        assert "Right as long as num_heads is 3; wrong for 2 or 5" in report.message


def test_what_only_some_cases_are_given_is_told_where_no_other_case_is_wrong() -> None:
    right = exercises()["DecoderBlock"].reference

    class Louder(right):
        def forward(self, x, memory=None):
            found = super().forward(x, memory)
            return found if memory is None else 1.5 * found + 0.1 * x.sin()

    class LouderThroughout(right):
        def forward(self, x, memory=None):
            return 1.5 * super().forward(x, memory) + 0.1 * x.sin()

    assert "Everything without a memory is right." in run("DecoderBlock", Louder).message
    assert "without a memory" not in run("DecoderBlock", LouderThroughout).message
