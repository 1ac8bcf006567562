"""The parts of an exercise that an attempt has earned, and nothing else."""

from collections.abc import Collection, Iterable, Mapping

from attnlib.checks.exercise import Case


def earned(parts: Mapping[str, int], cases: Iterable[Case], right: Collection[str]) -> dict[str, bool]:
    """Say for each part whether it counts: all of its cases are right, and so are all of the first part's.

    `cases` are all that were to be tried, hidden ones included, and `right` names those that were tried and differ in
    nothing. Whatever ends a trial early only takes names out of `right`, so it never earns more than going on would.

    >>> cases = [Case(name="a", inputs=lambda draw: ()), Case(name="b", inputs=lambda draw: (), part="gradient")]
    >>> earned({"values": 2, "gradient": 1}, cases, right=["a"])
    {'values': True, 'gradient': False}
    """
    lost = {case.part for case in cases if case.name not in right}
    condition = next(iter(parts))
    return {part: lost.isdisjoint((condition, part)) for part in parts}


def still_open(parts: Mapping[str, int], lost: Collection[str]) -> set[str]:
    """The parts that can count although these are lost, by the rule of `earned`.

    >>> still_open({"values": 2, "gradient": 1}, lost=["gradient"])
    {'values'}
    """
    cases = [Case(name=part, inputs=lambda _draw: (), part=part) for part in parts]
    return {part for part, counts in earned(parts, cases, {*parts} - {*lost}).items() if counts}
