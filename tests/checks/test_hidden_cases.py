"""What a report says of the grader's own cases: which parts fail there, and nothing else."""

import pytest
import torch

from attnlib.checks import run


def test_hidden_cases_do_not_show_their_numbers() -> None:
    def right_on_the_visible_sizes(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores + 1 if k.shape[-2] == 11 else scores

    assert run("attention_scores", right_on_the_visible_sizes).passed
    report = run("attention_scores", right_on_the_visible_sizes, hidden=True)
    assert not report.passed
    assert "one of the grader's own" in " ".join(report.message.split())
    assert "expected" not in report.message


class WrongOnHiddenInputs:
    """Right on the visible sizes, and on others what it is told to do; it has no source that could be searched."""

    def __init__(self, otherwise):
        self.otherwise = otherwise

    def __call__(self, x, y):
        return self.otherwise(x, y) if x.shape[0] > 4 else x @ y.mT


def raises(error):
    def otherwise(x, y):
        raise error

    return otherwise


@pytest.mark.parametrize(
    "otherwise",
    [
        lambda x, y: x.new_zeros(0, 4711, x.shape[-1]),
        lambda x, y: (x @ y.mT).half(),
        lambda x, y: (x @ y.mT).to_sparse(),
        lambda x, y: x @ y.mT * float("nan"),
        lambda x, y: None,
        lambda x, y: "4711",
        lambda x, y: (x,) * 4711,
        lambda x, y: [print("4711"), 2 * x @ y.mT][1],
        raises(KeyError(4711)),
        raises(NotImplementedError("4711")),
        raises(NotImplementedError()),
        raises(SystemExit(4711)),
        raises(type("Input4711", (Exception,), {})()),
    ],
)
def test_whatever_an_answer_does_with_hidden_inputs_the_report_is_the_same(otherwise):
    merely_wrong = run("pairwise_dot", WrongOnHiddenInputs(lambda x, y: 1.5 * x @ y.mT), hidden=True)
    assert "one of the grader's own" in merely_wrong.message
    report = run("pairwise_dot", WrongOnHiddenInputs(otherwise), hidden=True)
    assert report.message == merely_wrong.message
    assert report.as_record() == merely_wrong.as_record()


def test_a_part_that_fails_on_hidden_inputs_alone_is_named_beside_what_is_seen():
    def detached_and_wrong_elsewhere(x, y):
        return (x @ y.mT).detach() * (1.5 if x.shape[0] > 4 else 1)

    report = run("pairwise_dot", detached_and_wrong_elsewhere, hidden=True)
    assert report.points == 0
    assert "no gradient flows back" in " ".join(report.message.split())
    assert "In a case of the grader's own (values)" in " ".join(report.message.split())


def test_every_part_that_hidden_inputs_alone_take_is_named_where_the_first_one_is_right() -> None:
    class CutOffAndChanged:
        """Right on the visible sizes; on others without a gradient, and in float64 not as exact as it should be."""

        def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            elsewhere = x.shape[0] > 4 and x.dtype == torch.float64
            return (x @ y.mT).float().to(x.dtype) if elsewhere else x @ y.mT

    report = run("pairwise_dot", CutOffAndChanged(), hidden=True)
    assert [part for part, earned in report.parts.items() if not earned] == ["gradient", "robustness"]
    assert "In a case of the grader's own (gradient, robustness)" in report.message
