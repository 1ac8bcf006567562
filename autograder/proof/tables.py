"""The tables that `checks` prints: a line for each exercise, and one for all."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from autograder.proof.counts import WAYS, Proof, Rate
from autograder.proof.requirements import requirements

ALL = "all"


def with_total(proofs: Mapping[str, Proof]) -> dict[str, Proof]:
    """Return the proofs, with their total at the end."""
    return {**proofs, ALL: Proof.total(proofs.values())}


def span(rate: Rate) -> str:
    """The 95 % interval in percent, to a tenth where it is narrow.

    >>> span(Rate(58, 58)), span(Rate(1000, 1000))
    ('94–100', '99.6–100')
    """
    low, high = (100 * end for end in rate.interval)
    digits = 0 if high - low > 3 else 1
    return "–".join(f"{end:.{digits}f}".removesuffix(".0") for end in (low, high))


def wrong_table(proofs: Mapping[str, Proof]) -> Table:
    """Misconceptions rejected and named; each visible and hidden, and with each seed."""
    table = _table("Wrong answers", "rejected", "95 %", "named\nrightly", "95 %", "named\nwrong", "no\nname")
    for name, proof in with_total(proofs).items():
        rejected, named = proof.rejected, proof.named_rightly
        others = str(proof.named_wrongly.hits), str(proof.not_recognised.hits)
        _add(table, name, _counts(rejected), span(rejected), _counts(named), span(named), *others)
    return table


def right_table(proofs: Mapping[str, Proof]) -> Table:
    """Tabulate the right answers accepted, and the fate of their mutants."""
    table = _table("Right answers and their mutants", "accepted", "95 %", "killed", "95 %", "equal", "left")
    for name, proof in with_total(proofs).items():
        accepted, killed = proof.accepted, proof.killed
        others = str(len(proof.equivalent)), str(len(proof.surviving))
        _add(table, name, _counts(accepted), span(accepted), _counts(killed), span(killed), *others)
    return table


def told_table(proofs: Mapping[str, Proof]) -> Table:
    """Tabulate what students are told of unlisted wrong answers (some of the mutants), and what that check cost."""
    table = _table("Mutants, as they are told", "tried", "name", "change", "symptom", "error", "none", "ms")
    for name, proof in with_total(proofs).items():
        if proof.told:
            ways = (str(proof.told_by(way).hits) for way in WAYS)
            _add(table, name, str(len(proof.told)), *ways, f"{max(f.cpu_ms for f in proof.told):.0f}")
    return table


def slips_table(proofs: Mapping[str, Proof]) -> Table:
    """Tabulate how many slips would be explained without a catalogue; the page has both texts side by side."""
    table = _table("Slips, were they on no list", "slips", "change\nor symptom", "neither", "dropped")
    for name, proof in with_total(proofs).items():
        said = [bool(withheld.instead) for withheld in proof.withheld]
        _add(table, name, str(len(said)), str(sum(said)), str(len(said) - sum(said)), str(len(proof.dropped)))
    return table


def beside_table(proofs: Mapping[str, Proof]) -> Table:
    """The text of each slip beside what would be said of it without a catalogue."""
    table = Table(title="Slips, and what would be said without them", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("slip", "without it"):
        table.add_column(heading, ratio=1, overflow="fold")
    for proof in proofs.values():
        for slip in proof.withheld:
            table.add_row(f"{slip.id}: {slip.said}", "\n".join(slip.instead) or "(nothing)", end_section=True)
        for slip in proof.dropped:
            table.add_row(f"dropped: {slip.id}", "\n".join(slip.instead) or "(nothing)", end_section=True)
    return table


def cost_table(proofs: Mapping[str, Proof]) -> Table:
    """Tabulate the cost of a visible check, in processor and wall time: right answers and one wrong one in ten."""
    table = _table("One visible check, in ms", "checks", "processor:\nmedian", "most", "wall:\nmedian", "most")
    for name, proof in with_total(proofs).items():
        if proof.costs:
            figures = [f"{figure(clock):.0f}" for clock in zip(*proof.costs, strict=True) for figure in (median, max)]
            _add(table, name, str(len(proof.costs)), *figures)
    return table


def requirement_table(total: Proof) -> Table:
    """Tabulate the requirements, and whether each holds."""
    table = Table(title="Required", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("", "what", "found"):
        table.add_column(heading)
    for one in requirements(total):
        table.add_row(Text("✓", style="green") if one.holds else Text("✗", style="red"), one.asked, one.found)
    return table


def _table(title: str, *headings: str) -> Table:
    tight: Any = {"padding": 0, "pad_edge": False}  # to fit into a terminal of 80 columns
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, **tight)
    table.add_column("exercise", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _counts(rate: Rate) -> str:
    return f"{rate.hits}/{rate.tried}"


def _add(table: Table, name: str, *cells: str) -> None:
    if name == ALL:
        table.add_section()
    table.add_row(name, *cells, style="bold" if name == ALL else None)
