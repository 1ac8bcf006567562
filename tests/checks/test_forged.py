"""Whatever a sandbox answers in the place of a child, there is a verdict, and no point."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlib.checks import Report
from attnlib.checks.verdict.judge import run_exercise
from autograder.proof.observed import Observed
from autograder.sandbox.remote import RemoteAttempt
from autograder.sandbox.template import Died

pytestmark = pytest.mark.slow

ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


class Forger:
    """In the place of a child: answers with tensors of other shapes, dtypes and places, or with anything else."""

    def __init__(self, data, outputs: int) -> None:
        self.data, self.outputs, self.given = data, outputs, 0

    def ask(self, request, cpu_seconds=None):
        what = self.data.draw(st.sampled_from(["tensors"] * 8 + ["nothing", "failure", "junk", "died"]))
        if what == "died":
            raise Died("forged")
        if what == "junk":
            return {"tensors": self.data.draw(ANYTHING), "printed": self.data.draw(ANYTHING), "devices_mixed": 1}
        if what == "failure":
            kind = self.data.draw(st.sampled_from(["raised", "time", "type", "parameters", "forbidden", "died", "x"]))
            return {"failure": {"kind": kind, "text": self.data.draw(st.text(max_size=30)), "place": "line 1"}}
        if request["do"] in ("build", "load", "train") or what == "nothing":
            return {}
        self.given = len(request.get("inputs", [])) or self.given
        count = self.outputs if request["do"] == "call" else self.given
        return {
            "tensors": [self.tensor(request) for _ in range(count)],
            "printed": "",
            "touched": self.data.draw(st.booleans()),
        }

    def tensor(self, request):
        shapes = [t.shape for t in request.get("inputs", []) if isinstance(t, torch.Tensor)] + [
            (),
            (0,),
            (2, 3),
            (1,) * 6,
        ]
        shape = tuple(self.data.draw(st.sampled_from(shapes)))
        if self.data.draw(st.booleans()):
            shape = (*shape[:-1], self.data.draw(st.sampled_from([0, 1, 2, 5, 7])))
        dtype = self.data.draw(
            st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.bool, torch.int64])
        )
        if self.data.draw(st.integers(0, 9)) == 0:
            return torch.empty(10**6, 10**5, dtype=dtype, device="meta")
        fill = self.data.draw(st.sampled_from([0.0, 1.0, float("nan"), float("inf")]))
        found = torch.full(shape, fill if dtype.is_floating_point else 1, dtype=dtype)
        return found.requires_grad_(dtype.is_floating_point and self.data.draw(st.booleans()))


FUZZ = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@settings(FUZZ, max_examples=3)
@given(data=st.data())
def test_forged_replies_get_a_verdict_and_no_point(table: Observed, data: st.DataObject) -> None:
    report = _judged(table, data)
    assert report.score == 0
    assert isinstance(report.message, str)


@pytest.mark.again
@settings(FUZZ, max_examples=12)
@given(data=st.data())
def test_more_forged_replies_get_a_verdict_and_no_point(table: Observed, data: st.DataObject) -> None:
    report = _judged(table, data)
    assert report.score == 0
    assert isinstance(report.message, str)


def _judged(table: Observed, data: st.DataObject) -> Report:
    forger = Forger(data, len(table.exercise.outputs))
    return run_exercise(table.exercise, RemoteAttempt(forger, None), table.asking, hidden=True)
