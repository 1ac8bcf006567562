"""Rates with their 95 % intervals, and the counts that an exercise's proof consists of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from autograder.report.statistics import wilson


@dataclass(frozen=True)
class Rate:
    """`hits` of `tried`, as a share with its 95 % interval.

    >>> str(Rate(98, 100))
    '98/100 (98.0 %, 93.0 to 99.4 %)'
    """

    hits: int
    tried: int

    @property
    def share(self) -> float:
        """The share of hits; 1 where nothing was tried."""
        return self.hits / self.tried if self.tried else 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95 % interval; 0 and 1 where nothing was tried."""
        return wilson(self.hits, self.tried) if self.tried else (0.0, 1.0)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.hits}/{self.tried} ({100 * self.share:.1f} %, {100 * low:.1f} to {100 * high:.1f} %)"


class Cost(NamedTuple):
    """The cost of one check, in milliseconds of processor time and by the clock on the wall."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Judgement:
    """The check's verdict on an answer of a known kind: `misconception` is its name, None for a right answer."""

    answer: str
    misconception: str | None
    hidden: bool
    seed: int
    passed: bool
    diagnosis: str | None
    cost: Cost | None = None


WAYS = ("misconception", "change", "symptom", "exception", "nothing")
"""The ways to tell what is wrong: the name of a misconception, the one change that fixes it, what the result
shows, the words of the exception it ends with; or only the first wrong number."""


@dataclass(frozen=True)
class Withheld:
    """The report on a slip, and what it would say if the slip were on no list.

    Of a dropped slip, `id` is the title that it had, and `said` a piece of what has to be said instead.
    """

    exercise: str
    id: str
    said: str
    instead: tuple[str, ...]


@dataclass(frozen=True)
class Fate:
    """The fate of a mutant: the cases that killed it ("visible", "hidden"), or "" and the reason why it is right.

    For some of those that the visible check kills: the way in `WAYS` the student is told, and the cost of that check.
    """

    key: str
    shown: str
    killed_by: str
    reason: str = ""
    told_by: str = ""
    cpu_ms: float = 0.0


@dataclass(frozen=True)
class Proof:
    """All trials of one exercise, or of several."""

    verdicts: tuple[Judgement, ...] = ()
    fates: tuple[Fate, ...] = ()
    stale: tuple[str, ...] = ()
    """Mutants listed as equivalent that aren't mutants, or are killed."""
    withheld: tuple[Withheld, ...] = ()
    dropped: tuple[Withheld, ...] = ()

    @staticmethod
    def total(proofs: "Iterable[Proof]") -> "Proof":
        """Merge several proofs into one."""
        listed = list(proofs)
        return Proof(
            tuple(v for p in listed for v in p.verdicts),
            tuple(f for p in listed for f in p.fates),
            tuple(s for p in listed for s in p.stale),
            tuple(w for p in listed for w in p.withheld),
            tuple(d for p in listed for d in p.dropped),
        )

    @property
    def wrong(self) -> list[Judgement]:
        """The verdicts on misconceptions."""
        return [v for v in self.verdicts if v.misconception is not None]

    @property
    def rejected(self) -> Rate:
        """Misconceptions that did not pass."""
        return Rate(sum(not v.passed for v in self.wrong), len(self.wrong))

    @property
    def named_rightly(self) -> Rate:
        """Misconceptions reported under their own name."""
        return Rate(sum(v.diagnosis == v.misconception for v in self.wrong), len(self.wrong))

    @property
    def named_wrongly(self) -> Rate:
        """Misconceptions reported under another name, and right answers reported under any."""
        return Rate(sum(v.diagnosis not in (None, v.misconception) for v in self.verdicts), len(self.verdicts))

    @property
    def not_recognised(self) -> Rate:
        """Misconceptions reported without a name."""
        return Rate(sum(v.diagnosis is None for v in self.wrong), len(self.wrong))

    @property
    def accepted(self) -> Rate:
        """Right answers that passed."""
        right = [v for v in self.verdicts if v.misconception is None]
        return Rate(sum(v.passed for v in right), len(right))

    @property
    def killed(self) -> Rate:
        """Wrong mutants that did not pass; mutants shown to be right don't count."""
        wrong = [f for f in self.fates if not f.reason]
        return Rate(sum(bool(f.killed_by) for f in wrong), len(wrong))

    @property
    def killed_by_the_visible_check(self) -> int:
        """Mutants the student hears of at once; only the grader's own cases catch the others."""
        return sum(f.killed_by == "visible" for f in self.fates)

    @property
    def told(self) -> list[Fate]:
        """Mutants whose report was noted: wrong answers that are on no list."""
        return [f for f in self.fates if f.told_by]

    def told_by(self, way: str) -> Rate:
        """The rate of mutants that are reported in one of `WAYS`."""
        return Rate(sum(f.told_by == way for f in self.told), len(self.told))

    @property
    def equivalent(self) -> list[Fate]:
        """Mutants that are right answers, each with its reason."""
        return [f for f in self.fates if f.reason]

    @property
    def surviving(self) -> list[Fate]:
        """Mutants that passed for no known reason."""
        return [f for f in self.fates if not f.killed_by and not f.reason]

    @property
    def missed(self) -> list[Withheld]:
        """Dropped slips of which something else is said than was relied on, or nothing."""
        return [d for d in self.dropped if not any(d.said in finding for finding in d.instead)]

    @property
    def costs(self) -> list[Cost]:
        """The costs of those visible checks that were timed."""
        return [v.cost for v in self.verdicts if v.cost is not None]

    def unsteady(self) -> list[str]:
        """The answers whose verdict depends on the seed."""
        said: dict[tuple[str, bool], set[tuple[bool, str | None]]] = {}
        for v in self.verdicts:
            said.setdefault((v.answer, v.hidden), set()).add((v.passed, v.diagnosis))
        return sorted({answer for (answer, _), different in said.items() if len(different) > 1})
