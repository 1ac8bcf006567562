"""An attempt, and the one change that is found for it, whatever the speed of the machine."""

from typing import Any

import torch
from notebook_cells import run_cell
from torch import Tensor

from attnlib.checks import exercises
from attnlib.checks.asking.observation import Asking
from attnlib.checks.asking.time_limits import TimeLimits
from attnlib.checks.naming.one_change.search import one_change
from attnlib.checks.verdict.judge import cases_of, try_case


def turned(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("bqd,bkd->bqk", x, y).roll(1, dims=0)


def of_a_cell(source: str, name: str, **names: Any) -> Any:
    return run_cell(source, {"torch": torch, **names})[name]


PATIENT = TimeLimits(search_case_cpu=600.0, search_cpu=6000.0, search_wall=60_000.0)
"""Whether a search finds something must not depend on the speed of the machine on which it is tested."""


def the_change(name: str, attempt: Any, limits: TimeLimits = PATIENT) -> Any:
    exercise = exercises()[name]
    trials = [try_case(exercise, attempt, case) for case in cases_of(exercise, hidden=False)]
    return one_change(exercise, attempt, trials, Asking(limits=limits))
