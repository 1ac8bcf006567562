"""The one small change that makes a wrong answer right: where no misconception fits, it is searched for in the source.

An answer with a single mistake differs from a right one in a single place, in whatever way it is written. So each
place of its syntax tree is changed in the ways in which slips change it, until what comes out passes all that was
checked. What is told is then true by construction: the place, and what kind of change it needs; not the change itself,
unless something only has to be left out. Repairing programs by such edits: C. Le Goues et al., "GenProg: a generic
method for automatic software repair", IEEE Transactions on Software Engineering 38 (2012).
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from attnlib.checks.asking.attempt import Attempt, Local
from attnlib.checks.asking.clock import Clock, Patience
from attnlib.checks.asking.limits import quiet
from attnlib.checks.asking.observe import observe
from attnlib.checks.asking.time_limits import TimeLimits, here
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.one_change.bench import Bench
from attnlib.checks.naming.one_change.repair import OLD, Repair
from attnlib.checks.naming.one_change.repairs import repairs
from attnlib.checks.naming.one_change.replacements import changed
from attnlib.checks.naming.one_change.sites import Site, sites
from attnlib.checks.naming.one_change.written import Written, source_of
from attnlib.checks.trial.compare import first_difference
from attnlib.checks.trial.trial import Trial

MOST = {"function": 800, "module": 400}  # changes that are tried: a count, so that the name depends on no clock

CHANGES = {
    kind: Misconception(
        id=f"one_change_{kind}",
        title=title,
        explanation="With one change in one place, the answer would pass all that was checked.",
        implementation=None,
        heading="One change away",
    )
    for kind, title in {
        "in_place": "A change in place",
        "branch": "One special case too many",
        "always": "One condition too many",
        "function": "Another function is needed",
        "removal": "One step too many",
        "operator": "Another operator is needed",
        "condition": "Another condition is needed",
        "axis": "Another axis is needed",
        "number": "Another number is needed",
        "reduction": "One step too many",
        "order": "Another order is needed",
        "dtype": "A dtype is missing, or is the wrong one",
        "addition": "Something is missing",
        "exchange": "Two variables have changed places",
        "pattern": "Another pattern is needed",
        "name": "Another variable is needed",
        "variable": "A variable is needed in place of a number",
        "squeeze": "One axis too many",
        "step": "A step is missing",
    }.items()
}
"""What is told of each kind of change; those of which there are few, and which say much, are tried first.

Before all others that may change a number, one way out of two is taken in every case. Where that helps, many a change
further up would do so by chance: a number that makes the condition never hold, say.
"""

MOVES = ("in_place", "function", "removal", "dtype", "addition", "step")
"""Kinds of change that bring a tensor to another device, and no other size or number."""

KEPT_STATE = Misconception(
    id="kept_state",
    title="Something is left over from earlier calls",
    explanation="Run afresh, the same code passes all that was checked. A cache, a counter or a global that was filled "
    "before makes it wrong now. Compute everything from the arguments.",
    implementation=None,
    heading="What your result shows",
)


@dataclass(frozen=True)
class Edit:
    """The same repair in one place or in several that look alike."""

    places: tuple[tuple[Site, ast.AST], ...]
    repair: Repair

    def leaves_layers(self, written: Written) -> bool:
        """Whether it lies in methods of a module other than its `__init__`."""
        return all(id(site.statement) in written.behind_init for site, _ in self.places)


def one_change(
    exercise: Exercise,
    attempt: Any,
    trials: Sequence[Trial],
    *,
    seed: int,
    device: str,
    limits: TimeLimits | None = None,
) -> Misconception | None:
    """The first change after which the attempt passes all trials; None without one, or without the source.

    The verdict is known before, and does not depend on it: where the search runs out of time there is one hint less.
    """
    written = source_of(attempt)
    if written is None or not written.can_restart or written.is_long() or written.reaches_outside():
        return None
    order = sorted(trials, key=lambda t: (t.difference is None, t.case.other_device))
    try:
        edits = _edits(written, {t.difference.aspect for t in trials if t.difference is not None})
    except RecursionError:
        return None  # a sum of some hundred terms, say
    limits = limits or here()
    bench = Bench(replace(limits, case_cpu=limits.search_case_cpu))
    clock = Clock(limits.search_cpu, Patience(limits.search_wall, limits.search_wall))
    with clock.running(), quiet():  # Python warns of much that is tried here
        try:
            if _agrees_afresh(exercise, written, bench.limits, (order, trials), seed, device):
                return KEPT_STATE
            for edit in edits[: MOST[exercise.kind]]:
                if _mends(exercise, written, edit, bench, (order, trials), seed, device):
                    return _told(written, edit)
                clock.tick()
                if clock.is_over():
                    return None
        except TimeoutError:
            return None  # what takes so long cannot be tried hundreds of times
    return None


def _mends(
    exercise: Exercise,
    written: Written,
    edit: Edit,
    bench: Bench,
    orders: tuple[Sequence[Trial], Sequence[Trial]],
    seed: int,
    device: str,
) -> bool:
    """Whether the answer with this edit passes all trials; the first of them is tried on the bench if it can be."""
    first = orders[0][0]
    for site, node in edit.places:
        known = hasattr(node, "lineno")  # a piece of the answer itself stays where it is written
        site.put(ast.fix_missing_locations(node if known else ast.copy_location(node, site.node)))
    try:
        if edit.leaves_layers(written) and not first.case.other_device:
            bench.names = written.run()
            bench.target = bench.names.get(written.name)
            unfit = Local(bench.target).unfit_reason(exercise.kind) is not None
            if unfit or not _agrees(exercise, bench, first, seed, device):
                return False
        return _agrees_afresh(exercise, written, bench.limits, orders, seed, device)
    finally:
        for site, _ in edit.places:
            site.put(site.node)


def _agrees_afresh(
    exercise: Exercise,
    written: Written,
    limits: TimeLimits,
    orders: tuple[Sequence[Trial], Sequence[Trial]],
    seed: int,
    device: str,
) -> bool:
    """Whether the answer, as it is written now and run anew, passes all trials: telling ones first, then in order."""
    for trials in orders:
        answer = Local(written.run().get(written.name), limits)
        if answer.unfit_reason(exercise.kind) is not None:
            return False
        if not all(_agrees(exercise, answer, trial, seed, device) for trial in trials):
            return False
    return True


def _agrees(exercise: Exercise, attempt: Attempt, trial: Trial, seed: int, device: str) -> bool:
    got = observe(exercise, attempt, trial.case, seed=seed, device=device, watched=isinstance(attempt, Local))
    if got.failure is not None and got.failure.kind == "time":
        raise TimeoutError
    return first_difference(exercise, trial.case, trial.expected, got, device=device) is None


def _edits(written: Written, aspects: set[str]) -> list[Edit]:
    """All edits, the likely ones first: of one place, and of all places that look the same."""
    tree = written.tree
    found: list[Edit] = []
    alike: dict[str, list[tuple[Site, list[Repair]]]] = {}
    for site in list(sites(tree)):
        ways = list(repairs(site, aspects))
        found += [Edit(((site, way.node),), way) for way in ways]
        for look in _looks(site):
            alike.setdefault(look, []).append((site, ways))
    for group in {tuple(id(s) for s, _ in g): g for g in alike.values() if len(g) > 1}.values():
        for same in zip(*(ways for _, ways in group), strict=False):
            if len({way.kind for way in same}) == 1:
                places = tuple((site, way.node) for (site, _), way in zip(group, same, strict=True))
                found.append(Edit(places, same[0]))
    found += _exchanges(tree)
    if aspects == {"device"}:  # any other change may keep a tensor off the other device by chance
        found = [edit for edit in found if edit.repair.kind in MOVES]
    rank = {kind: place for place, kind in enumerate(CHANGES)}
    built = bool(written.behind_init) and bool(aspects & {"values", "shape", "mutation", "gradient"})
    return sorted(found, key=lambda edit: (built and not edit.leaves_layers(written), rank[edit.repair.kind]))


def _looks(site: Site) -> Iterator[str]:
    """What places have to share in order to be changed together: a slip is made wherever one writes the same."""
    node = site.node
    if isinstance(node, ast.AugAssign):
        yield f"{ast.unparse(node.target)} {type(node.op).__name__}="
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield f"[{ast.unparse(node.targets[0].slice)}] = {ast.unparse(node.value)}"
    if isinstance(node, ast.stmt):
        return
    yield ast.dump(node)
    if isinstance(node, ast.Constant):
        around = site.parent
        yield f"{getattr(around, 'arg', '') or getattr(getattr(around, 'func', None), 'attr', '')} {node.value!r}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield f"{node.func.attr}({[ast.dump(a) for a in node.args]}, {[ast.dump(k) for k in node.keywords]})"
        yield f"{node.func.attr}({len(node.args)}, {[k.arg for k in node.keywords]})"
    if isinstance(node, ast.Attribute):
        yield f".{node.attr}"
    if isinstance(node, ast.BinOp):
        yield f"{type(node.op).__name__} of {type(node.left).__name__} and {type(node.right).__name__}"


def _exchanges(tree: ast.Module) -> Iterator[Edit]:
    """Two variables, or two of the object's own, that have taken each other's place throughout."""
    places: dict[str, list[Site]] = {}
    for site in sites(tree):
        if isinstance(site.node, ast.Name) and site.node.id in site.scope.names:
            places.setdefault(site.node.id, []).append(site)
        elif isinstance(site.node, ast.Attribute) and ast.unparse(site.node.value) == "self":
            places.setdefault(f"self.{site.node.attr}", []).append(site)
    for one, other in combinations(places, 2):
        a, b = places[one][0].node, places[other][0].node
        if type(a) is type(b):
            put = [(s, _named(s.node, b)) for s in places[one]] + [(s, _named(s.node, a)) for s in places[other]]
            yield Edit(tuple(put), Repair(put[0][1], "exchange", f"`{other}` and `{one}` in each other's place, as in"))


def _named(node: Any, other: Any) -> Any:
    return changed(node, id=other.id) if isinstance(node, ast.Name) else changed(node, attr=other.attr)


def _is_method(node: ast.AST) -> bool:
    """Whether it is a method of a tensor, and no function of a module."""
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("torch", "F", "nn", "math", "einops")


def _ordinal(line: str, old: str, node: ast.AST) -> str:
    """Which of several pieces of a line that look the same is meant; empty where there is only one."""
    starts = [len(line[: m.start()].encode()) for m in re.finditer(rf"(?<!\w){re.escape(old)}(?!\w)", line)]
    at = getattr(node, "col_offset", None)
    if len(starts) < 2 or at not in starts:
        return ""
    place = starts.index(at)
    return f"the {('first', 'second', 'third', 'fourth')[place]} " if place < 4 else ""


def _told(written: Written, edit: Edit) -> Misconception:
    (site, new), repair = edit.places[0], edit.repair
    number = getattr(repair.at or site.node, "lineno", site.statement.lineno)
    old = ast.unparse(site.node).split("\n")[0]
    lines = sorted({number, *(getattr(s.node, "lineno", s.statement.lineno) for s, _ in edit.places[1:])})
    places = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    others = len(edit.places) - 1
    which = "second such place" if others == 1 else f"{others} other such places"
    several = f" (and likewise at the {which})" if others else ""
    line = written.lines[number - 1]
    text = line.strip()
    which_one = f"{'' if others or repair.at else _ordinal(line, old, site.node)}`{old}`"
    if isinstance(new, ast.Pass):
        way = "without these lines" if hasattr(site.node, "body") else "without this line"
    elif isinstance(new, ast.If) and isinstance(new.test, ast.Constant):
        way = f"if the lines below {'it' if new.test.value else '`else`'} always ran"
    elif isinstance(site.node, ast.IfExp) and repair.kind == "branch":
        way = f"with `{ast.unparse(new)}` in every case"
    elif repair.kind == "operator" and isinstance(site.node, ast.BinOp):
        sign = ast.unparse(ast.BinOp(ast.Name("a"), site.node.op, ast.Name("b")))[2:-2]
        way = f"with another operator in place of `{sign}` before `{ast.unparse(site.node.right)}`"
    elif repair.clause:
        way = repair.clause.replace(OLD, which_one)
    elif repair.kind == "function" and _is_method(site.node):
        way = f"with another method in place of `.{site.node.attr}`"  # type: ignore[attr-defined]
    elif repair.what:
        way = f"with {repair.what} {which_one}"
    elif isinstance(site.node, ast.Call) and isinstance(new, ast.Call) and new.func is site.node.func:
        given = [*site.node.args, *site.node.keywords]
        left_out = next(a for a in given if not any(a is kept for kept in (*new.args, *new.keywords)))
        way = f"without `{ast.unparse(left_out)}`"
    else:
        way = f"with `{ast.unparse(new)}` in place of {which_one}"
    told = f"In {places} (`{text}`): {way}{several}, the answer would pass all that was checked."
    return replace(CHANGES[repair.kind], explanation=told)
