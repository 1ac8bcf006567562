"""The proof as one HTML page that needs no network and runs no script."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from autograder.proof.counts import WAYS, Proof
from autograder.proof.requirements import requirements
from autograder.proof.tables import ALL, span, with_total
from autograder.showing.pages import fill_in


def page(proofs: Mapping[str, Proof]) -> str:
    """The page's HTML."""
    total = Proof.total(proofs.values())
    return fill_in(
        Path(__file__).with_name("page.html"),
        {"span": span, "median": median},
        proofs=with_total(proofs),
        all=ALL,
        ways=WAYS,
        total=total,
        requirements=requirements(total),
        reasons={name: _by_reason(proof) for name, proof in proofs.items() if proof.equivalent},
        seeds=len({v.seed for v in total.verdicts}),
    )


def _by_reason(proof: Proof) -> dict[str, list[tuple[str, str]]]:
    """Group the equivalent mutants, as (before, after), by their common reason."""
    found: dict[str, list[tuple[str, str]]] = {}
    for fate in proof.equivalent:
        before, after = fate.shown.split(" → ")
        found.setdefault(fate.reason, []).append((before, after))
    return found
