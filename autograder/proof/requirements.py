"""The requirements on the checks, and whether each holds."""

from dataclasses import dataclass
from statistics import median

from attnlib.checks.asking.time_limits import slowness
from autograder.proof.counts import Proof

MEDIAN_MS, MOST_MS = 300.0, 1000.0  # on the machine for which they were chosen; in proportion on a slower one


@dataclass(frozen=True)
class Requirement:
    """One requirement on the checks, the finding, and whether that is enough."""

    asked: str
    found: str
    holds: bool


def requirements(proof: Proof) -> list[Requirement]:
    """Return each requirement with its finding."""
    costs = sorted(cost.cpu for cost in proof.costs)
    middle, most = (slowness() * limit for limit in (MEDIAN_MS, MOST_MS))
    unsteady = proof.unsteady()
    seeds = len({v.seed for v in proof.verdicts})
    return [
        Requirement("every misconception is rejected", str(proof.rejected), proof.rejected.share == 1),
        Requirement("98 % are named rightly", str(proof.named_rightly), proof.named_rightly.share >= 0.98),
        Requirement("nothing is named wrongly", str(proof.named_wrongly), proof.named_wrongly.hits == 0),
        Requirement("every right answer is accepted", str(proof.accepted), proof.accepted.share == 1),
        Requirement("no mutant survives without a reason", f"{len(proof.surviving)} survive", not proof.surviving),
        Requirement("no reason is out of date", f"{len(proof.stale)} are", not proof.stale),
        Requirement("of a dropped slip as much is said", f"not of {len(proof.missed)}", not proof.missed),
        Requirement(
            "another seed changes no verdict and no name",
            f"{len(unsteady)} answers differ over {seeds} {'seed' if seeds == 1 else 'seeds'}",
            not unsteady,
        ),
        Requirement(
            f"a visible check takes {middle:.0f} ms at the median, {most:.0f} ms at the most",
            f"{median(costs):.0f} ms, {costs[-1]:.0f} ms of processor time" if costs else "not measured",
            not costs or (median(costs) <= middle and costs[-1] <= most),
        ),
    ]
